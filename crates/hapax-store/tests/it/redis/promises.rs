//! What only the ledger in Redis promises: it waits for replicas or says that it does not know, and it is not opened
//! where keys are thrown away.

use std::sync::Arc;

use hapax_core::{
    Claim, Fingerprint, Key, Kind, Ledger, Move, Outcome, Owner, Record, Scope, Swap, Tenant,
    Version,
};
use hapax_store::conformance::Subject;
use hapax_store::redis::{BesideDatabase, RedisLedger, RedisOptions, Target};
use hapax_store::{Clock, MemoryLedger};

use super::server::Server;

fn granted(ledger: &RedisLedger, key: &str) -> Record {
    let scope = Scope::new(Tenant::DEFAULT, "POST:test").unwrap();
    let key = Key::new(key).unwrap();
    let claim = Claim::new(scope, key, Fingerprint::of(b"a"), Owner::from_u128(1));
    Record::granted(&claim, Version::seeded(ledger.now()), ledger.now())
}

#[tokio::test]
async fn a_write_that_too_few_replicas_have_is_not_acknowledged() {
    let primary = Server::start(&[]);
    let target = Target::parse(&format!("{}?wait=1&wait_ms=100", primary.url())).unwrap();
    let ledger = RedisLedger::open(target, RedisOptions::default())
        .await
        .unwrap();
    let record = granted(&ledger, "k");
    let error = ledger
        .swap(vec![Move::inserting(record.clone())])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");
    assert!(error.is_transient(), "a retry may find a replica");
    assert!(ledger.check().await.is_err(), "it is not ready");

    let port = primary.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while ledger.check().await.is_err() {
        assert!(
            std::time::Instant::now() < patience,
            "the replica did not connect"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    // A busy machine may take longer than the write waits; another key is then another try.
    for number in 0.. {
        let other = granted(&ledger, &format!("other-{number}"));
        match ledger.swap(vec![Move::inserting(other)]).await {
            Ok(swaps) => {
                assert_eq!(swaps, [Swap::Written]);
                break;
            }
            Err(error) => assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}"),
        }
        assert!(
            std::time::Instant::now() < patience,
            "the replica never has a write in time"
        );
    }
    let copy = RedisLedger::open(
        Target::parse(&replica.url()).unwrap(),
        RedisOptions::default(),
    )
    .await;
    assert!(copy.is_err(), "a replica takes no writes");
    let client = redis::Client::open(replica.url()).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    let size: i64 = redis::cmd("DBSIZE").query_async(&mut raw).await.unwrap();
    assert!(size >= 2, "the replica has what was acknowledged, {size}");
}

#[tokio::test]
async fn an_outcome_that_something_else_wrote_is_an_error_and_never_a_replay() {
    let server = Server::start(&[]);
    let options = |secret| RedisOptions {
        secret: Some([secret; 32]),
        ..RedisOptions::default()
    };
    let target = || Target::parse(&server.url()).unwrap();
    let ledger = RedisLedger::open(target(), options(7)).await.unwrap();
    let held = granted(&ledger, "k");
    let swapped = ledger.swap(vec![Move::inserting(held.clone())]).await;
    assert_eq!(swapped.unwrap(), [Swap::Written]);
    let record = held.settled(Outcome::text(201, "paid"), ledger.now());
    let settle = Move::replacing(&held, record.clone());
    assert_eq!(ledger.swap(vec![settle]).await.unwrap(), [Swap::Written]);
    let (tenant, id) = (Tenant::DEFAULT, record.id);
    assert_eq!(ledger.find(tenant, id).await.unwrap(), Some(record.clone()));

    let client = redis::Client::open(server.url()).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    let mut ask = redis::cmd("KEYS");
    let names: Vec<String> = ask.arg("*").query_async(&mut raw).await.unwrap();
    let member = id.as_uuid().simple().to_string();
    let is_record = |name: &&String| name.ends_with(&member) || name.contains(&member);
    let name = names.iter().find(is_record).expect("it is there").clone();
    for (field, planted) in [
        ("response_body", &b"\0planted"[..]),
        ("response_status_code", b"200"),
        ("fingerprint", &[1; 32]),
        ("version", b"1"),
        ("mac", b"x"),
    ] {
        let mut get = redis::cmd("HGET");
        let before: Vec<u8> = get
            .arg(&name)
            .arg(field)
            .query_async(&mut raw)
            .await
            .unwrap();
        for (value, is_ours) in [(planted, false), (&before, true)] {
            let mut set = redis::cmd("HSET");
            let set = set.arg(&name).arg(field).arg(value);
            set.exec_async(&mut raw).await.unwrap();
            let found = ledger.find(tenant, id).await;
            let claimed = ledger.swap(vec![Move::inserting(held.clone())]).await;
            if is_ours {
                assert_eq!(found.unwrap(), Some(record.clone()), "{field}");
                let stored = Some(Box::new(record.clone()));
                assert_eq!(claimed.unwrap(), [Swap::Stale(stored)]);
            } else {
                assert_eq!(found.unwrap_err().kind(), Kind::Corrupt, "{field}");
                assert_eq!(claimed.unwrap_err().kind(), Kind::Corrupt, "{field}");
            }
        }
    }
    let other = RedisLedger::open(target(), options(8)).await.unwrap();
    let error = other.find(tenant, id).await.unwrap_err();
    assert!(error.to_string().contains("mark_invalid"), "{error}");
}

#[tokio::test]
async fn a_server_that_throws_keys_away_is_refused() {
    let server = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let opened = RedisLedger::open(
        Target::parse(&server.url()).unwrap(),
        RedisOptions::default(),
    )
    .await;
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), Kind::Unsafe);
    assert!(error.to_string().contains("noeviction"), "{error}");
}

#[tokio::test]
async fn a_frozen_server_leaves_the_outcome_unknown_and_a_gone_one_says_that_nothing_was_written() {
    let server = Server::start(&[]);
    let options = RedisOptions {
        answer_timeout: std::time::Duration::from_millis(200),
        connect_timeout: std::time::Duration::from_millis(500),
        ..RedisOptions::default()
    };
    let ledger = RedisLedger::open(Target::parse(&server.url()).unwrap(), options)
        .await
        .unwrap();
    // The server knows the script from now on.
    let first = ledger.swap(vec![Move::inserting(granted(&ledger, "first"))]);
    assert_eq!(first.await.unwrap(), [Swap::Written]);
    let record = granted(&ledger, "k");
    server.freeze();
    let error = ledger
        .swap(vec![Move::inserting(record.clone())])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");
    server.thaw();
    // What was sent did arrive, and the next claimant sees it.
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        match ledger
            .swap(vec![Move::inserting(granted(&ledger, "k"))])
            .await
        {
            Ok(swaps) => {
                assert!(matches!(&swaps[..], [Swap::Stale(Some(stored))] if **stored == record));
                break;
            }
            Err(error) => assert!(
                error.is_transient() && std::time::Instant::now() < patience,
                "{error}"
            ),
        }
    }
    drop(server);
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let error = ledger
            .swap(vec![Move::inserting(granted(&ledger, "j"))])
            .await
            .unwrap_err();
        if error.kind() == Kind::Unavailable {
            break;
        }
        assert!(std::time::Instant::now() < patience, "{error}");
    }
}

/// Keys in Redis and notes in a database pass the audit cases too.
async fn beside() -> Subject {
    let clock = Clock::system();
    let options = super::options(&clock);
    let keys = RedisLedger::open(super::single(), options).await.unwrap();
    let database = MemoryLedger::with_clock(clock.clone());
    Subject::new(
        Arc::new(BesideDatabase::new(keys, Arc::new(database))),
        clock,
    )
}

mod with_its_notes_in_a_database {
    use super::beside;
    use hapax_store::conformance::{audit, run};

    #[test]
    fn notes_follow_their_moves() {
        run(async {
            audit::a_move_that_is_written_leaves_its_note(&beside().await).await;
            audit::a_move_that_is_not_written_leaves_no_note(&beside().await).await;
            audit::notes_of_a_batch_go_to_their_own_tenants(&beside().await).await;
            audit::notes_page_newest_first_without_gap(&beside().await).await;
            audit::a_claim_can_be_noted(&beside().await).await;
        });
    }
}
