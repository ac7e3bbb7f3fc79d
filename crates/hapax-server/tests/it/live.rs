//! The stream of samples: what comes first, what comes next, how many may watch, and how it ends.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::both::{Store, on_both_stores};
use crate::fixture::{Server, path, succeed};

/// An open stream.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(server: &Server, token: &str) -> (u16, Self) {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let head = format!(
            "GET /v1/live HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n",
            server.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        (status, Self(reader))
    }

    /// The next event and its data; none at the end.
    fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(text) = line.strip_prefix("event: ") {
                text.trim().clone_into(&mut name);
            }
            if let Some(text) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(text).unwrap()));
            }
        }
    }
}

on_both_stores! {
    first_comes_the_series_then_samples_and_the_end_with_the_server,
    gauges_are_the_tenants_own_and_end_at_a_number,
}

fn echo(server: &Server, key: &str) {
    let bearer = format!("Bearer {}", server.token());
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", key)];
    assert_eq!(server.send("POST", "/v1/echo", &headers, b"{}").status, 200);
}

fn first_comes_the_series_then_samples_and_the_end_with_the_server(store: Store) {
    let server = store.serve("");
    let (status, mut stream) = Stream::open(&server, &server.token());
    assert_eq!(status, 200);
    let (name, data) = stream.next().unwrap();
    assert_eq!(name, "series");
    let samples = data["samples"].as_array().unwrap();
    assert!((1..=720).contains(&samples.len()));
    for key in ["a", "a", "a", "b"] {
        echo(&server, key);
    }
    let (mut requests, mut replays, mut looked_up) = (0.0, 0.0, 0);
    for _ in 0..3 {
        let (name, sample) = stream.next().unwrap();
        assert_eq!(name, "sample");
        requests += sample["requests"].as_f64().unwrap();
        replays += sample["replays"].as_f64().unwrap();
        looked_up = looked_up.max(sample["lookup_us_p99"].as_u64().unwrap());
        for gauge in [
            "in_doubt",
            "receipts_open",
            "imports_running",
            "batches_open",
        ] {
            assert_eq!(sample[gauge], 0, "{sample}");
        }
    }
    assert!(requests > replays && replays > 0.0 && looked_up > 0);
    let overview = server.owner("GET", "/v1/overview", "").json();
    assert!(overview["samples"].as_array().unwrap().len() >= 4);
    assert_eq!(
        overview["now"],
        *overview["samples"].as_array().unwrap().last().unwrap()
    );
    assert!(!overview["node"].as_str().unwrap().is_empty());

    let asked = Instant::now();
    server.signal("TERM");
    while stream.next().is_some() {}
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
}

fn gauges_are_the_tenants_own_and_end_at_a_number(store: Store) {
    let server = store.serve("");
    for part in 0..11 {
        let job = |number: usize| {
            let name = format!("{part}-{number}");
            json!({"kind": "mine", "work_id": name, "artifact_id": "a", "canonical_url": "https://example.org/"})
        };
        let jobs: Vec<Value> = (0..1000).map(job).collect();
        let planned = server.owner("POST", "/v1/jobs/batch", &json!({"jobs": jobs}).to_string());
        assert_eq!(planned.status, 200, "{}", planned.text());
    }
    let leased = json!({"owner": "me", "limit": 3, "kinds": ["mine"]}).to_string();
    assert_eq!(server.owner("POST", "/v1/jobs/lease", &leased).status, 200);
    let now = server.owner("GET", "/v1/overview", "").json()["now"].clone();
    assert_eq!(
        now["jobs"],
        json!({"ready": 10_001, "running": 3, "failed": 0, "dead": 0}),
        "{now}"
    );
    let stats = server.owner("GET", "/v1/jobs/stats", "").json();
    assert_eq!(
        (&stats["states"]["PLANNED"], &stats["held"]),
        (&json!(10_001), &json!(3))
    );
    let other = server.token_of("11111111-1111-1111-1111-111111111111", "viewer");
    let theirs = server.bearing(&other, "GET", "/v1/overview", "").json()["now"].clone();
    assert_eq!(theirs["jobs"]["ready"], 0);
}

#[test]
fn sixty_four_watch_at_once_and_one_more_is_told_to_wait() {
    let server = Server::start();
    let token = server.token();
    let streams: Vec<_> = (0..64).map(|_| Stream::open(&server, &token)).collect();
    assert!(streams.iter().all(|(status, _)| *status == 200));
    let refused = server.owner("GET", "/v1/live", "");
    assert_eq!(refused.refusal(), (503, "too_many_streams".to_owned()));
    assert!(refused.header("retry-after").is_some());
    drop(streams);
    let started = Instant::now();
    loop {
        // A seat is free when the server has noticed that its reader is gone.
        let (status, _stream) = Stream::open(&server, &token);
        if status == 200 {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "no seat became free"
        );
    }
}

#[test]
fn a_stream_ends_soon_after_its_token_is_revoked() {
    let server = Server::start();
    let (id, token) = server.mint("default", "viewer");
    let (status, mut stream) = Stream::open(&server, &token);
    assert_eq!(status, 200);
    succeed(&["token", "revoke", &id, "--data", path(&server.data())]);
    let started = Instant::now();
    while stream.next().is_some() {}
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}
