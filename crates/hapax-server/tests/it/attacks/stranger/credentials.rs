//! A stranger who knows the key of somebody's payment and tries it first, with no credential or a wrong one.

use serde_json::json;

use crate::both::{self, Store, on_both_stores};
use crate::fixture::{path, refused};
use crate::http::Answer;
use crate::proxy::{Proxied, is_replay};

/// Routes that would like to keep every refusal, and trust no retry.
const GREEDY: &str =
    "[[routes]]\npattern = '*:*'\nstore_statuses = ['2xx', '3xx', '4xx']\non_lost = 'hold'\n";

fn pay(proxied: &Proxied, at: &str, authorization: Option<&str>) -> Answer {
    let mut headers = vec![("idempotency-key", "order-7")];
    headers.extend(authorization.map(|value| ("authorization", value)));
    proxied.send("POST", at, &headers, br#"{"amount":10}"#)
}

fn a_strangers_refused_try_does_not_take_the_key(store: Store) {
    for config in ["", GREEDY] {
        let proxied = Proxied::on(config, store.database());
        for (credential, status) in [
            (Some("Bearer wrong"), 401),
            (Some("Bearer poor"), 403),
            (None, 407),
        ] {
            for _ in 0..2 {
                let refused = pay(&proxied, "/guarded", credential);
                assert_eq!(refused.status, status, "{}", refused.text());
                assert!(!is_replay(&refused), "each try is passed on");
            }
        }
        let before = proxied.upstream.count();
        assert_eq!(before, 6);
        let paid = pay(&proxied, "/guarded", Some("Bearer good"));
        assert_eq!((paid.status, paid.text().as_str()), (201, "call 7"));
        assert!(!is_replay(&paid));
        assert!(is_replay(&pay(&proxied, "/guarded", Some("Bearer good"))));
        // Now the key is hers, and the stranger learns nothing of it.
        let late = pay(&proxied, "/guarded", Some("Bearer wrong"));
        assert_eq!(late.refusal(), (409, "IDEMPOTENCY_CONFLICT".to_owned()));
        assert!(!late.text().contains("call"));
        assert_eq!(proxied.upstream.count(), 7);
    }
}

fn a_refusal_that_grpc_says_beside_a_200_does_not_take_the_key(store: Store) {
    for at in ["/guarded-grpc", "/guarded-grpc-stream"] {
        let proxied = Proxied::on(GREEDY, store.database());
        for (number, credential) in [Some("Bearer wrong"), Some("Bearer poor"), None]
            .into_iter()
            .enumerate()
        {
            let refused = pay(&proxied, at, credential);
            assert_eq!((refused.status, is_replay(&refused)), (200, false), "{at}");
            assert_eq!(
                proxied.upstream.count(),
                number + 1,
                "each try is passed on"
            );
        }
        let paid = pay(&proxied, at, Some("Bearer good"));
        assert_eq!((paid.status, paid.text().as_str()), (200, "call 4"), "{at}");
        assert!(is_replay(&pay(&proxied, at, Some("Bearer good"))));
        assert_eq!(proxied.upstream.count(), 4);
    }
}

fn a_strangers_try_in_flight_leaves_no_mark(store: Store) {
    let proxied = Proxied::on(GREEDY, store.database());
    let address = proxied.address();
    let stranger = std::thread::spawn(move || {
        let headers = [
            ("idempotency-key", "order-7"),
            ("authorization", "Bearer wrong"),
        ];
        crate::http::try_request(address, "POST", "/guarded-late", &headers, b"{}")
    });
    proxied.upstream.until_calls(1);
    // Nothing is final yet, so she is told to come again, whatever the stranger has sent.
    let meanwhile = pay(&proxied, "/guarded-late", Some("Bearer good"));
    assert_eq!(
        meanwhile.refusal(),
        (409, "IDEMPOTENCY_IN_PROGRESS".to_owned())
    );
    assert_eq!(meanwhile.header("retry-after"), Some("1"));
    proxied.upstream.open();
    assert_eq!(stranger.join().unwrap().unwrap().status, 401);
    let paid = pay(&proxied, "/guarded-late", Some("Bearer good"));
    assert_eq!((paid.status, paid.text().as_str()), (201, "call 2"));
    assert!(is_replay(&pay(
        &proxied,
        "/guarded-late",
        Some("Bearer good")
    )));
}

fn who_may_wait_is_served_once_a_strangers_try_is_refused(store: Store) {
    let patient = format!("{GREEDY}wait_ms = 30000\n");
    let proxied = Proxied::on(&patient, store.database());
    let address = proxied.address();
    let send = |credential: &'static str, body: &'static [u8]| {
        std::thread::spawn(move || {
            let headers = [
                ("idempotency-key", "order-7"),
                ("authorization", credential),
            ];
            crate::http::try_request(address, "POST", "/guarded-late", &headers, body)
        })
    };
    let stranger = send("Bearer wrong", b"{}");
    proxied.upstream.until_calls(1);
    let owner = send("Bearer good", br#"{"amount":10}"#);
    // Until she is told something, or waits: either way the stranger is refused next.
    std::thread::yield_now();
    proxied.upstream.open();
    assert_eq!(stranger.join().unwrap().unwrap().status, 401);
    let paid = owner.join().unwrap().unwrap();
    assert_eq!((paid.status, paid.text().as_str()), (201, "call 2"));
}

fn a_caller_gets_through_with_a_new_token_after_a_401(store: Store) {
    let proxied = Proxied::on("", store.database());
    assert_eq!(pay(&proxied, "/guarded", Some("Bearer old")).status, 401);
    let paid = pay(&proxied, "/guarded", Some("Bearer good"));
    assert_eq!((paid.status, is_replay(&paid)), (201, false));
}

fn a_refused_credential_frees_the_key_of_a_claim(store: Store) {
    let server = store.serve(GREEDY);
    for (number, status) in [401, 403, 407].into_iter().enumerate() {
        let claim =
            json!({"key": format!("k{number}"), "method": "POST", "path": "/pay", "body": {}});
        for stored in [true, false] {
            let granted = both::claim(&server, &claim);
            assert_eq!(granted["action"], "process", "{status}");
            let refused = json!({"token": granted["token"], "status": status, "body": "no", "stored": stored});
            let done = both::post(&server, &granted["id"], "complete", &refused);
            assert_eq!(done.json()["state"], "released", "{}", done.text());
        }
        let paid = both::completed(&server, &claim, &json!({"paid": true}));
        assert_eq!(both::claim(&server, &claim)["id"], paid);
        assert_eq!(both::claim(&server, &claim)["action"], "replay");
    }
    // A person who settles a key by hand knows what came of it.
    let lost =
        json!({"key": "by-hand", "method": "POST", "path": "/pay", "body": {}, "lease_seconds": 0});
    let granted = both::claim(&server, &lost);
    let by_hand = json!({"status": 403, "body": "no"});
    let settled = both::post(&server, &granted["id"], "settle", &by_hand);
    assert_eq!(settled.status, 200, "{}", settled.text());
    let replay = both::claim(&server, &lost);
    assert_eq!(
        (&replay["action"], &replay["response"]["status"]),
        (&json!("replay"), &json!(403))
    );
}

on_both_stores!(
    a_strangers_refused_try_does_not_take_the_key,
    a_refusal_that_grpc_says_beside_a_200_does_not_take_the_key,
    a_strangers_try_in_flight_leaves_no_mark,
    who_may_wait_is_served_once_a_strangers_try_is_refused,
    a_caller_gets_through_with_a_new_token_after_a_401,
    a_refused_credential_frees_the_key_of_a_claim,
);

#[test]
fn a_table_that_would_keep_a_refused_credential_does_not_start() {
    for status in ["401", "403", "'407'"] {
        let folder = tempfile::tempdir().unwrap();
        let (file, data) = (folder.path().join("c.toml"), folder.path().join("data"));
        let table =
            format!("[[routes]]\npattern = 'POST:pay'\nstore_statuses = ['2xx', {status}]\n");
        std::fs::write(&file, table).unwrap();
        let why = refused(
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--data",
                path(&data),
                "--config",
                path(&file),
            ],
            2,
        );
        let words = ["POST:pay", "store_statuses", "never final"];
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
        assert!(!data.exists(), "nothing is left behind");
    }
}
