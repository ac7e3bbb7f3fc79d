//! What carries no key passes as if nobody stood in between, but for what is between neighbours only.

use std::io::{Read, Write};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::Proxied;
use super::upstream::{LARGE_BYTES, binary, until};
use crate::http::{connect, parse, raw};

#[test]
fn a_request_without_a_key_is_sent_as_often_as_it_comes() {
    let proxied = Proxied::plain();
    for number in 1..=3 {
        let answer = proxied.send("POST", "/a", &[], b"{}");
        assert_eq!(
            (answer.status, answer.text()),
            (201, format!("call {number}"))
        );
        assert!(answer.header("x-trace-id").is_some());
    }
    assert_eq!(
        proxied
            .send("GET", "/a?b=c%20d&e", &[("idempotency-key", "k")], b"")
            .status,
        201
    );
    assert_eq!(
        proxied.upstream.calls()[3].line,
        "GET /a?b=c%20d&e HTTP/1.1"
    );
}

#[test]
fn bodies_stream_both_ways_without_a_limit() {
    let proxied = Proxied::plain();
    let large = binary().repeat(LARGE_BYTES / 512);
    let answer = proxied.send("POST", "/echo", &[], &large);
    assert_eq!(answer.status, 200);
    assert!(answer.body == large, "not a byte is changed");
    assert_eq!(
        proxied.send("GET", "/large", &[], b"").body.len(),
        LARGE_BYTES
    );
}

#[test]
fn chunks_and_empty_answers_keep_their_meaning() {
    let proxied = Proxied::plain();
    let chunked = b"PUT /echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(
        parse(&raw(proxied.address(), chunked)).unwrap().text(),
        "hello"
    );
    let get = b"GET /echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(parse(&raw(proxied.address(), get)).unwrap().text(), "hello");
    let answer = proxied.send("GET", "/chunked", &[], b"");
    assert!(answer.text().contains("hello") && answer.text().contains(" world"));
    assert_eq!(proxied.send("DELETE", "/empty", &[], b"").status, 204);
    let head = proxied.send("HEAD", "/binary", &[], b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("512"))
    );
}

#[test]
fn hop_by_hop_headers_end_at_the_proxy_in_both_directions() {
    let proxied = Proxied::plain();
    let sent = [
        ("connection", "x-secret"),
        ("x-secret", "1"),
        ("keep-alive", "timeout=5"),
        ("proxy-authorization", "Basic x"),
        ("proxy-connection", "keep-alive"),
        ("te", "gzip"),
        ("upgrade", "h2c"),
        ("x-forwarded-for", "10.1.2.3"),
        ("via", "1.0 edge"),
        ("x-kept", "1"),
    ];
    let answer = proxied.send("GET", "/hop", &sent, b"");
    for gone in ["x-hop", "keep-alive", "proxy-authenticate", "trailer"] {
        assert_eq!(answer.header(gone), None, "{gone}");
    }
    assert_eq!(
        (answer.header("x-kept"), answer.text().as_str()),
        (Some("1"), "hop")
    );
    let call = &proxied.upstream.calls()[0];
    for gone in [
        "x-secret",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "upgrade",
        "connection",
    ] {
        assert_eq!(call.header(gone), None, "{gone}");
    }
    let address = proxied.address().to_string();
    for (name, value) in [
        ("x-kept", "1"),
        ("x-forwarded-for", "10.1.2.3, 127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", &address),
        ("host", &address),
        ("via", "1.0 edge, 1.1 hapax"),
    ] {
        assert_eq!(call.header(name), Some(value), "{name}");
    }
}

#[test]
fn the_upstreams_own_host_is_sent_where_that_is_configured() {
    let proxied = Proxied::with("[proxy]\nhost = 'upstream'\n");
    proxied.send("GET", "/a", &[], b"");
    let upstream = proxied.upstream.address.to_string();
    assert_eq!(
        proxied.upstream.calls()[0].header("host"),
        Some(upstream.as_str())
    );
}

#[test]
fn a_client_that_asks_first_is_told_to_go_on() {
    let proxied = Proxied::plain();
    for key in ["", "idempotency-key: k\r\n"] {
        let mut client = connect(proxied.address());
        let head = format!(
            "POST /echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 5\r\nexpect: 100-continue\r\n{key}\r\n"
        );
        client.write_all(head.as_bytes()).unwrap();
        let mut asked = [0; 25];
        client.read_exact(&mut asked).unwrap();
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
        client.write_all(b"hello").unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(parse(&answer).unwrap().text(), "hello");
    }
    assert!(
        proxied
            .upstream
            .calls()
            .iter()
            .all(|call| call.header("expect").is_none())
    );
}

#[test]
fn events_arrive_one_by_one() {
    let proxied = Proxied::plain();
    let mut client = connect(proxied.address());
    client
        .write_all(b"GET /events HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut seen = Vec::new();
    while !seen.windows(7).any(|window| window == b"data: 1") {
        let mut piece = [0; 1024];
        let length = client.read(&mut piece).unwrap();
        assert!(length > 0, "{seen:?}");
        seen.extend_from_slice(&piece[..length]);
    }
    assert!(
        !String::from_utf8_lossy(&seen).contains("data: 2"),
        "the second is not there yet"
    );
    proxied.upstream.open();
    client.read_to_end(&mut seen).unwrap();
    assert!(String::from_utf8_lossy(&seen).contains("data: 2"));
}

#[test]
fn a_client_that_has_stopped_sending_gets_the_whole_answer_however_late_its_body_comes() {
    for path in ["/late", "/late-chunked"] {
        let proxied = Proxied::plain();
        let mut client = connect(proxied.address());
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut seen = Vec::new();
        while !seen.windows(4).any(|window| window == b"\r\n\r\n") {
            let mut piece = [0; 1024];
            let length = client.read(&mut piece).unwrap();
            assert!(length > 0, "{path}: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..length]);
        }
        proxied.upstream.open();
        client.read_to_end(&mut seen).unwrap();
        let text = String::from_utf8_lossy(&seen);
        assert!(text.contains("hello"), "{path}: {text}");
        // It has said that it is done: nobody waits for another request.
        assert!(
            text.trim_end()
                .ends_with(if path == "/late" { "hello" } else { "0" })
        );
    }
}

#[test]
fn a_silent_stream_outlives_the_time_for_a_head() {
    let proxied = Proxied::with("header_timeout_ms = 200\nrequest_timeout_ms = 100\n");
    let mut client = connect(proxied.address());
    client
        .write_all(b"GET /events HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
        .unwrap();
    proxied.upstream.until_calls(1);
    let started = std::time::Instant::now();
    until("time stands still", || started.elapsed().as_millis() > 1000);
    proxied.upstream.open();
    let mut seen = Vec::new();
    client.read_to_end(&mut seen).unwrap();
    assert!(String::from_utf8_lossy(&seen).contains("data: 2"));
}

#[test]
fn an_upgrade_joins_client_and_upstream() {
    let proxied = Proxied::plain();
    let mut client = connect(proxied.address());
    client
        .write_all(b"GET /upgrade HTTP/1.1\r\nhost: h\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n\r\n")
        .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let answer = parse(&head).unwrap();
    assert_eq!(
        (answer.status, answer.header("upgrade")),
        (101, Some("websocket"))
    );
    assert_eq!(answer.header("sec-websocket-accept"), Some("yes"));
    // Nothing that follows is taken for HTTP.
    for said in [
        &b"\x81\x05hello"[..],
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        &binary(),
    ] {
        client.write_all(said).unwrap();
        let mut echoed = vec![0; said.len()];
        client.read_exact(&mut echoed).unwrap();
        assert_eq!(echoed, said);
    }
    assert_eq!(proxied.upstream.count(), 1);
    // A tunnel does not hold a stop up.
    let mut proxied = proxied;
    assert_eq!(proxied.proxy.take().unwrap().stop().0, Some(0));
}

#[tokio::test]
async fn http2_comes_in_by_prior_knowledge() {
    let proxied = Proxied::plain();
    let stream = tokio::net::TcpStream::connect(proxied.address())
        .await
        .unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let ask = || {
        let request =
            hyper::Request::post("http://shop.example/cookie").header("idempotency-key", "k");
        request.body(Full::new(Bytes::from_static(b"{}"))).unwrap()
    };
    let first = client.send_request(ask()).await.unwrap();
    let again = client.send_request(ask()).await.unwrap();
    assert_eq!(
        (first.status(), again.status()),
        (hyper::StatusCode::CREATED, hyper::StatusCode::CREATED)
    );
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(
        again.into_body().collect().await.unwrap().to_bytes(),
        "made"
    );
    let foreign = hyper::Request::get("http://shop.example/a").header("host", "evil.example");
    let foreign = client
        .send_request(foreign.body(Full::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(foreign.status(), 400);
    let calls = proxied.upstream.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (calls[0].header("host"), calls[0].header("via")),
        (Some("shop.example"), Some("2 hapax"))
    );
}

#[test]
fn a_connection_serves_many_requests() {
    let proxied = Proxied::plain();
    let one = "POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\none";
    let two =
        "POST /echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n";
    let last =
        "POST /echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 3\r\n\r\nend";
    let answers = raw(
        proxied.address(),
        format!("{one}{two}{one}{last}").as_bytes(),
    );
    let text = String::from_utf8_lossy(&answers);
    let bodies =
        ["one", "two", "one", "end"].map(|body| text.matches(&format!("\r\n\r\n{body}")).count());
    assert_eq!(bodies, [2, 1, 2, 1], "{text}");
}

/// A service over HTTP/2 that answers with what it got, and with trailers.
async fn with_trailers() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = hyper::service::service_fn(
                |request: hyper::Request<hyper::body::Incoming>| async move {
                    let asks = request.headers().get("te").cloned();
                    let body = request.into_body().collect().await?.to_bytes();
                    let trailers = hyper::HeaderMap::from_iter([(
                        hyper::header::HeaderName::from_static("grpc-status"),
                        hyper::header::HeaderValue::from_static("0"),
                    )]);
                    let body =
                        Full::new(body).with_trailers(std::future::ready(Some(Ok(trailers))));
                    let mut response = hyper::Response::new(body);
                    if let Some(asks) = asks {
                        response.headers_mut().insert("x-te", asks);
                    }
                    Ok::<_, hyper::Error>(response)
                },
            );
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
        }
    });
    address
}

#[tokio::test]
async fn http2_goes_out_with_trailers_as_grpc_needs_them() {
    let upstream = format!("http://{}", with_trailers().await);
    let config = "[proxy]\nupstream_http2 = true\n";
    let proxy = super::start(tempfile::tempdir().unwrap(), &upstream, config, None);
    let stream = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    for key in [None, Some("k")] {
        let mut request = hyper::Request::post("http://shop.example/shop.Shop/Buy")
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Full::new(Bytes::from_static(b"\0\0\0\0\x01x")));
        let response = client.send_request(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-te"], "trailers");
        let collected = response.into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(collected.to_bytes().as_ref(), b"\0\0\0\0\x01x");
    }
}
