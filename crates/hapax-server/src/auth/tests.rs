//! How a caller is told from what a request carries, and how a token's name travels.

use hapax::Engine;
use hapax_core::{Claim, Fingerprint, Key, Ledger, NoteScan, Scope};
use hapax_store::MemoryLedger;

use super::*;

fn headers(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
}

#[test]
fn a_bearer_token_is_read_whatever_the_case_of_the_scheme() {
    for value in ["Bearer t", "bearer t", "BEARER   t "] {
        assert_eq!(bearer(&headers(value)), Some(&b"t"[..]), "{value}");
    }
    for value in ["", "t", "Bearer", "Bearer ", "Basic dDp0", "Bearert"] {
        assert_eq!(bearer(&headers(value)), None, "{value}");
    }
    let mut twice = headers("Bearer a");
    twice.append(AUTHORIZATION, "Bearer b".parse().unwrap());
    assert_eq!(bearer(&twice), None, "two credentials are none");
}

#[test]
fn only_loopback_names_are_local() {
    for local in [
        "localhost",
        "127.0.0.1:8088",
        "[::1]:8088",
        "http://localhost:3000",
        "127.9.9.9",
        "::1",
    ] {
        assert!(is_local_authority(local), "{local}");
    }
    for far in [
        "evil.example",
        "127.0.0.1.evil.example:80",
        "http://evil.example",
        "null",
        "https://a",
        "",
    ] {
        assert!(!is_local_authority(far), "{far}");
    }
}

#[tokio::test]
async fn the_name_of_a_token_travels_from_its_row_into_the_audit_trail_and_into_no_key() {
    let now = hapax_core::Time::from_ms(0);
    let mut token = token::mint(Tenant::DEFAULT, Role::Owner, now)
        .unwrap()
        .token;
    let nameless = Identity::of(&token).caller;
    token.name = Some("deploy bot".into());
    let named = Identity::of(&token).caller;
    assert_eq!(
        named.principal(),
        nameless.principal(),
        "a name is for people"
    );

    let ledger = Arc::new(MemoryLedger::new());
    let engine = Engine::new(ledger.clone());
    let actor_of = async |key: &str, caller: &Caller| {
        let scope = Scope::new(Tenant::DEFAULT, "POST:pay").unwrap();
        let asked = Fingerprint::of(b"asked");
        let claim = Claim::new(scope, Key::new(key).unwrap(), asked, Engine::owner());
        let id = claim.id();
        let _held = engine.claim(claim).await.unwrap();
        let actor = caller.to_string();
        let deleted = engine.delete(Tenant::DEFAULT, id, &actor).await;
        deleted.unwrap().unwrap();
        let scan = NoteScan {
            key_id: Some(id),
            ..NoteScan::of(Tenant::DEFAULT)
        };
        ledger.notes(scan).await.unwrap().notes[0].actor.clone()
    };
    let id = token.id;
    let told = actor_of("a", &named).await;
    assert_eq!(told, Some(format!("token {id} (deploy bot)")));
    assert_eq!(actor_of("b", &nameless).await, Some(format!("token {id}")));
}
