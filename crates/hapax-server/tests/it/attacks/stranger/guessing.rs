//! Guessing: what wrong tokens and questions about the store's health cost the store.

use std::time::Instant;

use crate::both::{Node, Store, on_both_stores};

on_both_stores! {
    wrong_tokens_of_one_peer_soon_reach_the_store_no_more,
    wrong_sessions_of_one_peer_soon_reach_the_store_no_more,
    however_many_ask_the_store_is_looked_at_once_a_second,
}

/// A counter without labels.
fn counted(server: &Node, name: &str) -> u64 {
    let metrics = server.send("GET", "/metrics", &[], b"").text();
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

fn wrong_tokens_of_one_peer_soon_reach_the_store_no_more(store: Store) {
    let server = store.serve("");
    let known = server.token_of("default", "viewer");
    assert_eq!(server.bearing(&known, "GET", "/v1/keys", "").status, 200);
    let before = counted(&server, "hapax_auth_lookups_total");
    for n in 0..150 {
        let guess = format!("hpx_{n:032x}_{}", "a".repeat(52));
        let refused = server.bearing(&guess, "GET", "/v1/keys", "");
        assert!([401, 429].contains(&refused.status), "{}", refused.text());
        if n > 100 {
            assert_eq!(refused.refusal(), (429, "rate_limited".to_owned()));
            assert!(refused.header("retry-after").is_some());
        }
    }
    let body = serde_json::json!({"token": format!("hpx_{}_x", "0".repeat(32))}).to_string();
    for _ in 0..20 {
        let headers = [("content-type", "application/json")];
        let refused = server.send("POST", "/session", &headers, body.as_bytes());
        assert_eq!(refused.status, 429);
    }
    let looked = counted(&server, "hapax_auth_lookups_total") - before;
    assert!((1..=64).contains(&looked), "{looked}");
    let answer = server.bearing(&known, "GET", "/v1/keys", "");
    assert_eq!(answer.status, 200, "who was known is not kept out");
}

fn wrong_sessions_of_one_peer_soon_reach_the_store_no_more(store: Store) {
    let server = store.serve("");
    let before = counted(&server, "hapax_auth_lookups_total");
    for n in 0..150 {
        let forged = format!(
            "hapax_session={n:032x}.4000000000.{n:032x}.{}",
            "0".repeat(64)
        );
        let refused = server.send("GET", "/v1/keys", &[("cookie", &forged)], b"");
        assert!([401, 429].contains(&refused.status), "{}", refused.text());
        let marked = [("cookie", forged.as_str()), ("x-hapax-csrf", "1")];
        // Past the limit nobody looks, so nobody says that it is over.
        let ended = server.send("DELETE", "/session", &marked, b"").status;
        assert!([204, 429].contains(&ended), "{ended}");
    }
    let looked = counted(&server, "hapax_auth_lookups_total") - before;
    assert!((1..=64).contains(&looked), "{looked}");
}

fn however_many_ask_the_store_is_looked_at_once_a_second(store: Store) {
    let server = store.serve("");
    let (before, started) = (counted(&server, "hapax_ready_looks_total"), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..40 {
                    assert_eq!(server.send("GET", "/ready", &[], b"").status, 200);
                }
            });
        }
    });
    let looks = counted(&server, "hapax_ready_looks_total") - before;
    assert!(
        (1..=started.elapsed().as_secs() + 2).contains(&looks),
        "{looks}"
    );
}
