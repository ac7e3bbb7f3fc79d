//! Answers that go on: passed on as they come, recorded meanwhile, and replayed whole.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::upstream::until;
use super::{Proxied, is_replay};
use crate::http::connect;

/// A keyed POST whose answer is read piece by piece.
fn begun(proxied: &Proxied, path: &str) -> TcpStream {
    let mut client = connect(proxied.address());
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\nte: trailers\r\nidempotency-key: k\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    client.write_all(head.as_bytes()).unwrap();
    client
}

/// Reads until `text` was seen.
fn read_to(client: &mut TcpStream, text: &str) -> String {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let mut piece = [0; 1024];
        let length = client.read(&mut piece).unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..length]);
    }
    String::from_utf8(seen).unwrap()
}

fn rest(client: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    // A connection that is reset has ended too.
    let _ = client.read_to_end(&mut rest);
    String::from_utf8(rest).unwrap()
}

fn events_under_a_key(proxied: &Proxied) {
    let mut client = begun(proxied, "/events-whole");
    let seen = read_to(&mut client, "data: 1");
    assert!(!seen.contains("data: 2"), "the first comes before the end");
    let meanwhile = proxied.post("/events-whole", "k", "{}");
    let progress = (409, "IDEMPOTENCY_IN_PROGRESS".to_owned());
    assert_eq!(meanwhile.refusal(), progress);
    proxied.upstream.open();
    assert!(rest(&mut client).contains("data: 2"));
    let again = proxied.post("/events-whole", "k", "{}");
    assert!(is_replay(&again));
    assert_eq!(again.text(), "data: 1\n\ndata: 2\n\n");
    assert_eq!(again.header("content-type"), Some("text/event-stream"));
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn events_under_a_key_arrive_one_by_one_and_are_replayed_whole() {
    events_under_a_key(&Proxied::plain());
}

#[test]
fn events_under_a_key_are_replayed_whole_on_postgres() {
    let database = crate::postgres::database();
    events_under_a_key(&Proxied::on("", Some(database)));
}

#[test]
fn events_that_break_off_are_in_doubt_also_under_retry() {
    let proxied = Proxied::with("[[routes]]\npattern = '*:*'\non_lost = 'retry'\n");
    let mut client = begun(&proxied, "/events-broken");
    read_to(&mut client, "data: 1");
    proxied.upstream.open();
    let rest = rest(&mut client);
    assert!(
        !rest.ends_with("0\r\n\r\n"),
        "its end is not made up: {rest:?}"
    );
    let again = proxied.post("/events-broken", "k", "{}");
    assert_eq!(again.refusal(), (409, "IDEMPOTENCY_IN_DOUBT".to_owned()));
    assert_eq!(
        again.json()["error"]["details"]["reason"],
        "outcome_unknown"
    );
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn events_whose_client_leaves_are_read_on_and_replayed() {
    let proxied = Proxied::plain();
    let mut client = begun(&proxied, "/events-whole");
    read_to(&mut client, "data: 1");
    drop(client);
    proxied.upstream.open();
    let mut last = None;
    until("it is never recorded", || {
        let again = proxied.post("/events-whole", "k", "{}");
        let recorded = again.status == 200;
        last = Some(again);
        recorded
    });
    let again = last.unwrap();
    assert!(is_replay(&again));
    assert_eq!(again.text(), "data: 1\n\ndata: 2\n\n");
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn a_chunked_answer_that_takes_its_time_is_passed_on_and_replayed() {
    let proxied = Proxied::plain();
    let mut client = begun(&proxied, "/late-chunked");
    let head = read_to(&mut client, "\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    proxied.upstream.open();
    assert!(rest(&mut client).contains("hello"));
    let again = proxied.post("/late-chunked", "k", "{}");
    assert!(is_replay(&again));
    assert_eq!(again.text(), "hello");
}

#[test]
fn trailers_are_passed_on_and_a_replay_says_that_it_cannot_give_them() {
    let proxied = Proxied::plain();
    let unkeyed = "GET /trailers HTTP/1.1\r\nhost: h\r\nconnection: close\r\nte: trailers\r\n\r\n";
    let mut client = connect(proxied.address());
    client.write_all(unkeyed.as_bytes()).unwrap();
    for answer in [rest(&mut client), rest(&mut begun(&proxied, "/trailers"))] {
        let answer = answer.to_ascii_lowercase();
        assert!(answer.contains("\r\ntrailer: x-sum\r\n"), "{answer}");
        assert!(answer.ends_with("0\r\nx-sum: 7\r\n\r\n"), "{answer}");
    }
    let again = proxied.post("/trailers", "k", "{}");
    assert_eq!(again.refusal(), (409, "IDEMPOTENCY_IN_DOUBT".to_owned()));
    let error = &again.json()["error"];
    assert_eq!(error["details"]["reason"], "response_not_stored");
    assert_eq!(error["details"]["why"], "trailers");
    assert!(error["message"].to_string().contains("trailers"), "{error}");
}
