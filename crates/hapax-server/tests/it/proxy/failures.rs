//! When something breaks: nothing goes upstream twice without a person, unless the route says that it may.

use std::io::Write;
use std::net::TcpListener;

use super::upstream::until;
use super::{Proxied, is_replay, start};
use crate::fixture::json;
use crate::http::{Answer, connect, request};

const SHORT: &str = "[[routes]]\npattern = '*:*'\nlease_seconds = 1\n";
const AGAIN: &str = "[[routes]]\npattern = '*:*'\nlease_seconds = 1\non_lost = 'retry'\n";

fn code(answer: &Answer) -> (u16, String) {
    answer.refusal()
}

fn doubted() -> (u16, String) {
    (409, "IDEMPOTENCY_IN_DOUBT".to_owned())
}

/// The answer once nobody seems to be working on the key any more.
fn after_the_lease(proxied: &Proxied, path: &str) -> Answer {
    let mut last = None;
    until("the lease never ends", || {
        let answer = proxied.post(path, "k", "{}");
        let busy = answer.status == 409 && answer.code() == "IDEMPOTENCY_IN_PROGRESS";
        last = Some(answer);
        !busy
    });
    last.unwrap()
}

fn killed_under_hold(mut proxied: Proxied) {
    let asked = proxied.post_beside("/gate", "k");
    proxied.upstream.until_calls(1);
    proxied.crash();
    assert!(asked.join().unwrap().is_none(), "the client got no answer");
    proxied.upstream.open();
    for _ in 0..3 {
        assert_eq!(code(&after_the_lease(&proxied, "/gate")), doubted());
    }
    assert_eq!(proxied.upstream.count(), 1, "it is never sent again");
}

#[test]
fn kill_9_under_hold_leaves_the_key_in_doubt_and_sends_nothing_again() {
    killed_under_hold(Proxied::with(SHORT));
}

#[test]
fn kill_9_under_hold_leaves_the_key_in_doubt_on_postgres() {
    killed_under_hold(Proxied::on(SHORT, Some(crate::postgres::database())));
}

#[test]
fn kill_9_under_retry_sends_it_once_more_after_the_lease() {
    let mut proxied = Proxied::with(AGAIN);
    let asked = proxied.post_beside("/gate", "k");
    proxied.upstream.until_calls(1);
    proxied.crash();
    assert!(asked.join().unwrap().is_none());
    proxied.upstream.open();
    let answer = after_the_lease(&proxied, "/gate");
    assert_eq!((answer.status, answer.text().as_str()), (201, "call 2"));
    assert!(is_replay(&proxied.post("/gate", "k", "{}")));
    assert_eq!(proxied.upstream.count(), 2);
}

#[test]
fn an_upstream_that_is_down_is_a_502_and_the_key_is_free_again() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    drop(held);
    // Even where the route keeps 5xx: this one is not the upstream's.
    for config in [
        "",
        "[[routes]]\npattern = '*:*'\nstore_statuses = ['2xx', '5xx']\n",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let proxy = start(folder, &format!("http://{address}"), config, None);
        for _ in 0..2 {
            let answer = request(
                proxy.address,
                "POST",
                "/a",
                &[("idempotency-key", "k")],
                b"{}",
            );
            assert_eq!(answer.refusal(), (502, "downstream_failed".to_owned()));
            assert_eq!(answer.json()["error"]["details"]["reason"], "unreachable");
        }
        let data = proxy.data();
        let kept = json(&["keys", "list", "--data", crate::fixture::path(&data)]);
        let held = kept["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|key| key["state"] != "free");
        assert!(!held, "{kept}");
    }
}

#[test]
fn an_upstream_that_does_not_speak_tls_is_a_502_and_the_key_is_free_again() {
    let proxied = Proxied::plain();
    let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/proxy/ca.pem");
    let url = format!("https://{}", proxied.upstream.address);
    let config = format!("[proxy]\nupstream_ca = '{ca}'\n");
    let proxy = start(tempfile::tempdir().unwrap(), &url, &config, None);
    for _ in 0..2 {
        let answer = request(
            proxy.address,
            "POST",
            "/a",
            &[("idempotency-key", "k")],
            b"{}",
        );
        assert_eq!(answer.refusal(), (502, "downstream_failed".to_owned()));
    }
}

#[test]
fn an_upstream_that_breaks_off_leaves_the_key_in_doubt_under_hold() {
    let proxied = Proxied::plain();
    let answer = proxied.post("/break", "k", "{}");
    assert_eq!(code(&answer), (502, "downstream_failed".to_owned()));
    assert_eq!(
        answer.json()["error"]["details"]["reason"],
        "outcome_unknown"
    );
    assert_eq!(code(&proxied.post("/break", "k", "{}")), doubted());
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn an_upstream_that_breaks_off_frees_the_key_under_retry() {
    let proxied = Proxied::with(AGAIN);
    for _ in 0..2 {
        assert_eq!(proxied.post("/break", "k", "{}").status, 502);
    }
    assert_eq!(proxied.upstream.count(), 2);
}

#[test]
fn an_answer_that_breaks_off_is_not_recorded() {
    let proxied = Proxied::plain();
    let broken = proxied.post("/half", "k", "{}");
    assert_eq!(code(&broken), (502, "downstream_failed".to_owned()));
    assert_eq!(code(&proxied.post("/half", "k", "{}")), doubted());
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn an_upstream_that_hangs_is_a_504_and_in_doubt_under_hold() {
    let timed = "[proxy]\nhead_timeout_ms = 300\nconnect_timeout_ms = 300\n";
    let proxied = Proxied::with(timed);
    let answer = proxied.post("/gate", "k", "{}");
    assert_eq!(code(&answer), (504, "downstream_timeout".to_owned()));
    assert_eq!(code(&proxied.post("/gate", "k", "{}")), doubted());
    assert_eq!(proxied.upstream.count(), 1);
    let again = Proxied::with(&format!("{AGAIN}{timed}"));
    for _ in 0..2 {
        assert_eq!(again.post("/gate", "k", "{}").status, 504);
    }
    assert_eq!(again.upstream.count(), 2, "the route says that it may");
}

fn an_ambiguous_answer_is_held(proxied: &Proxied) {
    for status in [502, 504] {
        let (path, before) = (format!("/s{status}"), proxied.upstream.count());
        let answer = proxied.post(&path, "k", "{}");
        assert_eq!(
            (answer.status, answer.text()),
            (status, format!("call {}", before + 1)),
            "the upstream's own answer goes through"
        );
        let again = proxied.post(&path, "k", "{}");
        assert_eq!(code(&again), doubted());
        assert_eq!(
            again.json()["error"]["details"]["reason"],
            "outcome_unknown"
        );
        assert_eq!(
            proxied.upstream.count(),
            before + 1,
            "nothing is sent again"
        );
    }
    for status in [503, 401] {
        let (path, before) = (format!("/s{status}"), proxied.upstream.count());
        for _ in 0..2 {
            assert_eq!(proxied.post(&path, "k", "{}").status, status);
        }
        assert_eq!(
            proxied.upstream.count(),
            before + 2,
            "{status} frees the key"
        );
    }
}

const AMBIGUOUS: &str = "[[routes]]\npattern = '*:*'\non_status_hold = [502, 504]\non_lost = 'retry'\nlease_seconds = 1\n";

#[test]
fn an_ambiguous_answer_leaves_the_key_in_doubt_also_under_retry() {
    an_ambiguous_answer_is_held(&Proxied::with(AMBIGUOUS));
}

#[test]
fn an_ambiguous_answer_leaves_the_key_in_doubt_on_postgres() {
    let database = crate::postgres::database();
    an_ambiguous_answer_is_held(&Proxied::on(AMBIGUOUS, Some(database)));
}

#[test]
fn a_client_that_goes_away_does_not_stop_the_upstream_call() {
    let proxied = Proxied::plain();
    let mut client = connect(proxied.address());
    client
        .write_all(
            b"POST /gate HTTP/1.1\r\nhost: h\r\nidempotency-key: k\r\ncontent-length: 2\r\n\r\n{}",
        )
        .unwrap();
    proxied.upstream.until_calls(1);
    drop(client);
    proxied.upstream.open();
    let answer = after_the_lease(&proxied, "/gate");
    assert_eq!((answer.status, answer.text().as_str()), (201, "call 1"));
    assert!(is_replay(&answer));
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn a_stop_finishes_what_is_in_flight() {
    let mut proxied = Proxied::plain();
    let asked = proxied.post_beside("/gate", "k");
    proxied.upstream.until_calls(1);
    let proxy = proxied.proxy.take().unwrap();
    proxy.signal("TERM");
    proxied.upstream.open();
    assert_eq!(asked.join().unwrap().unwrap().status, 201);
    let (code, _, folder) = proxy.wait();
    assert_eq!(code, Some(0));
    proxied.begin(folder);
    assert!(is_replay(&proxied.post("/gate", "k", "{}")));
}
