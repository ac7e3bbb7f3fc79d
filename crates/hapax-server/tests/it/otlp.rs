//! Traces: a collector that speaks OTLP over HTTP gets a span per request, and nothing that is private.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::fixture::{Server, refused};

/// A collector that hands on every document it gets.
fn collector() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, documents) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = Vec::new();
            let mut piece = [0; 4096];
            let document = loop {
                let length = stream.read(&mut piece).unwrap();
                bytes.extend_from_slice(&piece[..length]);
                let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
                let body = end.map_or(&[][..], |end| &bytes[end + 4..]);
                if let Ok(document) = serde_json::from_slice(body) {
                    break document;
                }
                assert!(length > 0, "the request ended early");
            };
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
            if sender.send(document).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}/v1/traces"), documents)
}

#[test]
fn a_request_becomes_a_span_of_its_callers_trace_without_anything_private() {
    let (endpoint, documents) = collector();
    let server = Server::start_with(|command| {
        command.env("HAPAX_OTLP_ENDPOINT", &endpoint);
    });
    let bearer = format!("Bearer {}", server.token());
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let headers = [
        ("authorization", bearer.as_str()),
        (
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
    ];
    let answer = server.send(
        "POST",
        "/v1/echo?query=planted",
        &headers,
        br#"{"name":"planted"}"#,
    );
    assert_eq!(answer.status, 200);

    let found = loop {
        let document = documents.recv_timeout(Duration::from_secs(30)).unwrap();
        let spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"].clone();
        assert!(!document.to_string().contains("planted"), "{document}");
        assert!(!document.to_string().contains(&server.token()));
        let spans = spans.as_array().unwrap().clone();
        if let Some(span) = spans.into_iter().find(|span| span["traceId"] == trace) {
            break span;
        }
    };
    assert_eq!(found["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(found["name"], "POST /v1/echo");
    assert_eq!(found["kind"], 2);
    assert_eq!(found["spanId"].as_str().unwrap().len(), 16);
    let nanos = |name: &str| found[name].as_str().unwrap().parse::<u128>().unwrap();
    assert!(nanos("startTimeUnixNano") < nanos("endTimeUnixNano"));
}

#[test]
fn a_collector_that_is_not_there_is_no_reason_to_fail() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_OTLP_ENDPOINT", "http://127.0.0.1:1/v1/traces");
    });
    assert_eq!(server.owner("POST", "/v1/echo", "{}").status, 200);
    let (code, _, _) = server.stop();
    assert_eq!(code, Some(0));
}

#[test]
fn an_endpoint_that_is_no_url_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    std::fs::write(&file, "otlp_endpoint = 'collector:4318'").unwrap();
    let said = refused(&["serve", "--config", crate::fixture::path(&file)], 2);
    assert!(said.contains("otlp_endpoint"), "{said}");
}
