//! A first call and its replay, over HTTP/1.1 and HTTP/2.

use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::fixture::Server;

#[test]
fn a_repeated_call_is_answered_from_the_ledger() {
    let server = Server::start();
    let bearer = format!("Bearer {}", server.token());
    let call = |key: &str, body: &str| {
        let headers = [
            ("authorization", bearer.as_str()),
            ("idempotency-key", key),
            ("content-type", "application/json"),
        ];
        server.send("POST", "/v1/echo", &headers, body.as_bytes())
    };
    let first = call("k", r#"{"hello":"world","n":1.0}"#);
    assert_eq!(first.status, 200);
    assert_eq!(first.json()["echo"]["hello"], "world");
    assert_eq!(first.header("idempotency-replayed"), None);

    let again = call("k", r#"{ "n": 1, "hello": "world" }"#);
    assert_eq!(
        (again.status, &again.body),
        (200, &first.body),
        "the same request in another spelling"
    );
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.header("x-idempotency-replay"), Some("true"));
    assert_ne!(again.header("x-trace-id"), first.header("x-trace-id"));

    let other = call("k", r#"{"hello":"moon"}"#);
    assert_eq!(other.refusal(), (409, "IDEMPOTENCY_CONFLICT".to_owned()));
    assert_eq!(
        other.header("x-idempotency-conflict"),
        Some("body-mismatch")
    );

    let unkeyed = || server.owner("POST", "/v1/echo", "{}").json()["id"].clone();
    assert_ne!(unkeyed(), unkeyed(), "without a key each call runs");
}

#[test]
fn a_replay_survives_a_kill() {
    let server = Server::start();
    let bearer = format!("Bearer {}", server.token());
    let headers = [
        ("authorization", bearer.as_str()),
        ("idempotency-key", "durable"),
    ];
    let first = server.send("POST", "/v1/echo", &headers, b"{}");
    server.signal("KILL");
    let (code, _, folder) = server.wait();
    assert_eq!(code, None, "killed by a signal");
    let server = Server::start_in(folder, |_| {});
    let again = server.send("POST", "/v1/echo", &headers, b"{}");
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_is_spoken_with_prior_knowledge() {
    let server = Server::start();
    let stream = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let driver = tokio::spawn(connection);
    let request = |path: &str, body: &'static str| {
        hyper::Request::post(format!("http://{}{path}", server.address))
            .header("authorization", format!("Bearer {}", server.token()))
            .body(Full::new(bytes::Bytes::from(body)))
            .unwrap()
    };
    let (one, two) = tokio::join!(
        sender
            .clone()
            .send_request(request("/v1/echo", r#"{"n":1}"#)),
        sender.send_request(request("/v1/nothing", "{}"))
    );
    let one = one.unwrap();
    assert_eq!(
        (one.status(), one.version()),
        (http::StatusCode::OK, http::Version::HTTP_2)
    );
    let body = one.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(br#"{"echo":{"n":1},"#));
    assert_eq!(two.unwrap().status(), 404);
    drop(sender);
    driver.await.unwrap().unwrap();
}
