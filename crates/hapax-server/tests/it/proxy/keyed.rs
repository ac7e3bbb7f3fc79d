//! Requests under a key: the upstream sees each operation once, whoever asks again.

use serde_json::json;

use super::upstream::{LARGE_BYTES, binary};
use super::{Proxied, is_replay};

const WAITING: &str = "[[routes]]\npattern = '*:*'\nwait_ms = 30000\n";

fn fifty_with_wait(proxied: &Proxied) {
    let asked: Vec<_> = (0..50).map(|_| proxied.post_beside("/gate", "k")).collect();
    proxied.upstream.until_calls(1);
    proxied.upstream.open();
    for answer in asked {
        let answer = answer.join().unwrap().unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (201, "call 1"));
    }
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn fifty_equal_requests_at_once_are_one_call_and_one_answer() {
    fifty_with_wait(&Proxied::with(WAITING));
}

#[test]
fn fifty_equal_requests_at_once_are_one_call_on_postgres() {
    fifty_with_wait(&Proxied::on(WAITING, Some(crate::postgres::database())));
}

#[test]
fn two_proxies_on_one_postgres_are_one_to_the_upstream() {
    let database = crate::postgres::database();
    let proxied = Proxied::on(WAITING, Some(database.clone()));
    let folder = tempfile::tempdir().unwrap();
    let url = proxied.upstream.url();
    let other = super::start(folder, &url, WAITING, Some(&database));
    let beside = other.address;
    let asked: Vec<_> = (0..20)
        .map(|number| match number % 2 {
            0 => proxied.post_beside("/gate", "k"),
            _ => std::thread::spawn(move || {
                let headers = [("idempotency-key", "k")];
                crate::http::try_request(beside, "POST", "/gate", &headers, b"{}")
            }),
        })
        .collect();
    proxied.upstream.until_calls(1);
    proxied.upstream.open();
    for answer in asked {
        let answer = answer.join().unwrap().unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (201, "call 1"));
    }
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn without_waiting_the_others_are_told_to_come_back() {
    let proxied = Proxied::plain();
    let first = proxied.post_beside("/gate", "k");
    proxied.upstream.until_calls(1);
    for _ in 0..49 {
        let answer = proxied.post("/gate", "k", "{}");
        assert_eq!(
            answer.refusal(),
            (409, "IDEMPOTENCY_IN_PROGRESS".to_owned())
        );
        assert!(answer.header("retry-after").is_some());
    }
    proxied.upstream.open();
    assert_eq!(first.join().unwrap().unwrap().status, 201);
    assert!(is_replay(&proxied.post("/gate", "k", "{}")));
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn a_201_is_replayed_as_a_201_without_its_cookie() {
    let proxied = Proxied::plain();
    let first = proxied.post("/cookie", "k", "{}");
    let again = proxied.post("/cookie", "k", "{}");
    assert_eq!(first.header("set-cookie"), Some("session=secret"));
    assert!(first.header("x-trace-id").is_some() && !is_replay(&first));
    assert_eq!((again.status, again.text().as_str()), (201, "made"));
    assert!(is_replay(&again));
    assert_eq!(
        (again.header("location"), again.header("etag")),
        (Some("/things/7"), Some("\"v1\""))
    );
    assert_eq!(
        (again.header("set-cookie"), again.header("x-own")),
        (None, None)
    );
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn answers_of_every_kind_are_replayed_byte_by_byte() {
    let proxied = Proxied::plain();
    for (path, status, body) in [
        ("/binary", 200, binary()),
        ("/chunked", 200, b"hello world".to_vec()),
        ("/empty", 204, Vec::new()),
        ("/gzip", 200, vec![0x1f, 0x8b, 8, 0, 255, 0]),
    ] {
        let before = proxied.upstream.count();
        let (first, again) = (proxied.post(path, "k", ""), proxied.post(path, "k", ""));
        assert_eq!((first.status, &first.body), (status, &body), "{path}");
        assert_eq!((again.status, &again.body), (status, &body), "{path}");
        assert!(is_replay(&again) && !is_replay(&first), "{path}");
        for name in ["content-type", "content-encoding"] {
            assert_eq!(first.header(name), again.header(name), "{path}");
        }
        assert_eq!(proxied.upstream.count(), before + 1, "{path}");
    }
}

#[test]
fn an_answer_too_large_to_keep_goes_through_and_is_not_asked_for_again() {
    let proxied = Proxied::plain();
    let first = proxied.post("/large", "k", "");
    assert_eq!((first.status, first.body.len()), (200, LARGE_BYTES));
    assert_eq!(first.body[..512], binary()[..]);
    assert!(first.body.ends_with(&binary()));
    let again = proxied.post("/large", "k", "");
    assert_eq!(again.refusal(), (409, "IDEMPOTENCY_IN_DOUBT".to_owned()));
    assert_eq!(
        again.json()["error"]["details"]["reason"],
        "response_not_stored"
    );
    assert_eq!(again.json()["error"]["details"]["why"], "too_large");
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn what_says_try_again_is_not_frozen() {
    let proxied = Proxied::plain();
    for status in [500, 502, 503, 504, 401, 403, 407, 408, 425, 429] {
        let (path, before) = (format!("/s{status}"), proxied.upstream.count());
        for _ in 0..2 {
            let answer = proxied.post(&path, "k", "{}");
            assert_eq!(answer.status, status);
            assert!(!is_replay(&answer), "{status}");
        }
        assert_eq!(proxied.upstream.count(), before + 2, "{status}");
    }
    for status in [200, 302, 400, 404, 409, 422] {
        let path = format!("/s{status}");
        proxied.post(&path, "k", "{}");
        assert!(is_replay(&proxied.post(&path, "k", "{}")), "{status}");
    }
}

#[test]
fn another_body_is_a_conflict_and_another_route_another_operation() {
    let proxied = Proxied::plain();
    assert_eq!(proxied.post("/a", "k", r#"{"amount":1}"#).text(), "call 1");
    let other = proxied.post("/a", "k", r#"{"amount":2}"#);
    assert_eq!(other.refusal(), (409, "IDEMPOTENCY_CONFLICT".to_owned()));
    assert_eq!(
        other.json()["error"]["details"]["diff_summary"][0],
        "amount: '1' → '2'"
    );
    assert_eq!(proxied.post("/b", "k", r#"{"amount":1}"#).text(), "call 2");
    assert_eq!(
        proxied.post("/a?x=1", "k", r#"{"amount":1}"#).status,
        409,
        "another query"
    );
    assert_eq!(proxied.upstream.count(), 2);
}

#[test]
fn a_replay_and_a_diff_are_given_to_the_same_principal_only() {
    let proxied = Proxied::plain();
    let ask = |who: &str, body: &str| {
        let headers = [("idempotency-key", "k"), ("authorization", who)];
        proxied.send("POST", "/a", &headers, body.as_bytes())
    };
    assert_eq!(ask("Bearer alice", r#"{"pin":1}"#).status, 201);
    assert_eq!(
        proxied.upstream.calls()[0].header("authorization"),
        Some("Bearer alice")
    );
    for stranger in [
        ask("Bearer bob", r#"{"pin":1}"#),
        ask("Bearer bob", "{}"),
        proxied.post("/a", "k", r#"{"pin":1}"#),
    ] {
        assert_eq!(stranger.refusal(), (409, "IDEMPOTENCY_CONFLICT".to_owned()));
        let details = &stranger.json()["error"]["details"];
        assert_eq!(
            details["diff_summary"].as_array().unwrap().len(),
            0,
            "{details}"
        );
        assert!(details["original_hash"].is_null() && !stranger.text().contains("call"));
        assert_eq!(
            details["differs"],
            json!(["principal"]),
            "also of another body"
        );
        let message = stranger.json()["error"]["message"].to_string();
        assert!(
            message.contains("the request's principal differs"),
            "{message}"
        );
    }
    assert!(is_replay(&ask("Bearer alice", r#"{"pin":1}"#)));
    // Without Authorization everybody is the same nobody.
    assert_eq!(proxied.post("/b", "k", "{}").status, 201);
    assert!(is_replay(&proxied.post("/b", "k", "{}")));
    assert_eq!(proxied.upstream.count(), 2);
}

#[test]
fn a_tenant_from_a_header_has_keys_of_its_own() {
    let proxied = Proxied::with("[proxy]\ntenant_header = 'x-tenant-id'\n");
    let ask = |tenant: &str| {
        let headers = [("idempotency-key", "k"), ("x-tenant-id", tenant)];
        proxied.send("POST", "/a", &headers, b"{}")
    };
    let (one, two) = (
        "11111111-1111-4111-8111-111111111111",
        "22222222-2222-4222-8222-222222222222",
    );
    assert_eq!(
        (ask(one).text(), ask(two).text()),
        ("call 1".to_owned(), "call 2".to_owned())
    );
    assert!(is_replay(&ask(one)) && is_replay(&ask(two)));
    for wrong in ["default", "", "1111", "x"] {
        assert_eq!(
            ask(wrong).refusal(),
            (400, "tenant_required".to_owned()),
            "{wrong:?}"
        );
    }
    assert_eq!(
        proxied.post("/a", "k", "{}").refusal(),
        (400, "tenant_required".to_owned())
    );
    assert_eq!(
        proxied.send("GET", "/a", &[], b"").status,
        201,
        "reading needs no tenant"
    );
    assert_eq!(proxied.upstream.count(), 3);
}

#[test]
fn a_keyed_body_has_a_limit() {
    let proxied = Proxied::plain();
    let large = vec![b'x'; (8 << 20) + 1];
    let answer = proxied.send("POST", "/echo", &[("idempotency-key", "k")], &large);
    assert_eq!(answer.refusal(), (413, "payload_too_large".to_owned()));
    assert_eq!(proxied.upstream.count(), 0);
}

#[test]
fn a_form_with_another_boundary_and_a_body_compressed_anew_are_the_same_request() {
    let proxied = Proxied::plain();
    let form = |boundary: &str| {
        let content_type = format!("multipart/form-data; boundary={boundary}");
        let headers = [
            ("idempotency-key", "form"),
            ("content-type", content_type.as_str()),
        ];
        let body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--{boundary}--\r\n"
        );
        let answer = proxied.send("POST", "/echo", &headers, body.as_bytes());
        (answer, body)
    };
    let (first, body) = form("one");
    assert_eq!((first.status, first.text()), (200, body.clone()));
    let (again, _) = form("two");
    assert!(is_replay(&again));
    assert_eq!(again.text(), body, "what the first one was answered");

    let gzip = |level| {
        let mut encoder =
            flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
        std::io::Write::write_all(&mut encoder, br#"{"a":1}"#).unwrap();
        let headers = [
            ("idempotency-key", "gzip"),
            ("content-type", "application/json"),
            ("content-encoding", "gzip"),
        ];
        let body = encoder.finish().unwrap();
        (proxied.send("POST", "/echo", &headers, &body), body)
    };
    let (first, body) = gzip(0);
    assert_eq!(first.body, body, "the upstream gets it as it came");
    assert!(is_replay(&gzip(9).0));
    assert_eq!(proxied.upstream.count(), 2);
}
