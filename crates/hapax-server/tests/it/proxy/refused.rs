//! What never gets to the upstream: requests that could be read in two ways, or that name another server.

use super::Proxied;
use crate::http::{connect, parse, raw};

const AMBIGUOUS: [&str; 16] = [
    "content-length: 5\r\ntransfer-encoding: chunked",
    "transfer-encoding: chunked\r\ncontent-length: 5",
    "Content-Length: 0\r\nTransfer-Encoding: chunked",
    "content-length: 5\r\ncontent-length: 6",
    "content-length: 5, 5",
    "content-length: +5",
    "content-length: 5x",
    "transfer-encoding: gzip",
    "transfer-encoding: gzip, chunked",
    "transfer-encoding: chunked, gzip",
    "transfer-encoding: chunked\r\ntransfer-encoding: identity",
    "transfer-encoding: identity",
    "transfer-encoding : chunked",
    "transfer-encoding:\r\n chunked",
    "transfer_encoding: chunked\r\ncontent-length: 5",
    "x: y\r\n content-length: 5",
];

const SMUGGLED: &str = "0\r\n\r\nGET /admin HTTP/1.1\r\nhost: h\r\n\r\n";

#[test]
fn a_request_that_can_be_read_in_two_ways_is_refused_and_ends_the_connection() {
    let proxied = Proxied::plain();
    for framing in AMBIGUOUS {
        for (start, key) in [
            ("POST /a", ""),
            ("POST /a", "idempotency-key: k\r\n"),
            ("GET /a", ""),
        ] {
            let request =
                format!("{start} HTTP/1.1\r\nhost: h\r\n{key}{framing}\r\n\r\n{SMUGGLED}");
            let bytes = raw(proxied.address(), request.as_bytes());
            let answer = parse(&bytes).unwrap_or_else(|| panic!("no answer to {framing:?}"));
            assert_eq!(
                answer.refusal(),
                (400, "ambiguous_framing".to_owned()),
                "{framing:?}"
            );
            assert_eq!(answer.header("connection"), Some("close"), "{framing:?}");
            let answers = String::from_utf8_lossy(&bytes).matches("HTTP/1.1 ").count();
            assert_eq!(answers, 1, "{framing:?}");
        }
    }
    let old = format!("POST /a HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n{SMUGGLED}");
    let answer = parse(&raw(proxied.address(), old.as_bytes())).unwrap();
    assert_eq!(answer.refusal(), (400, "ambiguous_framing".to_owned()));
    assert_eq!(proxied.upstream.count(), 0);
}

#[test]
fn a_later_request_on_a_connection_is_looked_at_as_the_first_is() {
    let proxied = Proxied::plain();
    for before in [
        "GET /a HTTP/1.1\r\nhost: h\r\n\r\n",
        "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}",
        "PUT /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nx-t: 1\r\n\r\n",
    ] {
        let called = proxied.upstream.count();
        let bad = format!(
            "POST /a HTTP/1.1\r\nhost: h\r\n{}\r\n\r\n{SMUGGLED}",
            AMBIGUOUS[0]
        );
        let answers = raw(proxied.address(), format!("{before}{bad}").as_bytes());
        let text = String::from_utf8_lossy(&answers);
        assert_eq!(text.matches("HTTP/1.1 201").count(), 1, "{text}");
        assert_eq!(text.matches("HTTP/1.1 400").count(), 1, "{text}");
        assert!(text.contains("ambiguous_framing"), "{text}");
        assert_eq!(proxied.upstream.count(), called + 1);
    }
}

#[test]
fn two_equal_lengths_are_one() {
    let proxied = Proxied::plain();
    let request = b"POST /echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(
        parse(&raw(proxied.address(), request)).unwrap().text(),
        "hello"
    );
    let lengths = proxied.upstream.calls()[0]
        .headers
        .iter()
        .filter(|(name, _)| name == "content-length")
        .count();
    assert_eq!(lengths, 1);
}

#[test]
fn a_body_that_is_not_chunked_as_it_says_reaches_nobody_twice() {
    let proxied = Proxied::plain();
    let request = "POST /echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhelloXXGET /admin HTTP/1.1\r\nhost: h\r\n\r\n";
    raw(proxied.address(), request.as_bytes());
    assert!(
        proxied
            .upstream
            .calls()
            .iter()
            .all(|call| !call.line.contains("admin"))
    );
}

#[test]
fn the_client_does_not_choose_the_server() {
    let proxied = Proxied::plain();
    for request in [
        "GET http://evil.example/a HTTP/1.1\r\nhost: evil.example",
        "GET http://127.0.0.1/a HTTP/1.1\r\nhost: 127.0.0.1",
        "CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443",
        "GET /a HTTP/1.1\r\nhost: a\r\nhost: b",
        "GET /a HTTP/1.1\r\nx: no host",
        "GET /a HTTP/1.1\r\nhost: me@evil.example",
        "POST * HTTP/1.1\r\nhost: h",
    ] {
        let request = format!("{request}\r\nconnection: close\r\n\r\n");
        let answer = parse(&raw(proxied.address(), request.as_bytes())).unwrap();
        assert_eq!(
            answer.refusal(),
            (400, "bad_target".to_owned()),
            "{request}"
        );
    }
    assert_eq!(proxied.upstream.count(), 0);
    // A path that looks like a server is a path.
    proxied.send("GET", "//evil.example/a", &[], b"");
    assert_eq!(
        proxied.upstream.calls()[0].line,
        "GET //evil.example/a HTTP/1.1"
    );
}

#[test]
fn other_hosts_are_refused_where_hosts_are_named() {
    let proxied = Proxied::with("[proxy]\nhosts = ['shop.example']\n");
    let get = |host: &str| {
        let request = format!("GET /a HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        parse(&raw(proxied.address(), request.as_bytes()))
            .unwrap()
            .status
    };
    assert_eq!((get("shop.example:80"), get("evil.example")), (201, 400));
}

#[test]
fn nobody_leaves_the_base_path() {
    let folder = tempfile::tempdir().unwrap();
    let proxied = Proxied::plain();
    let proxy = super::start(
        folder,
        &format!("{}/base/", proxied.upstream.url()),
        "",
        None,
    );
    let get = |path: &str| crate::http::request(proxy.address, "GET", path, &[], b"").status;
    assert_eq!(
        (get("/a"), get("/../admin"), get("/%2e%2e/admin")),
        (201, 400, 400)
    );
    assert_eq!(proxied.upstream.calls()[0].line, "GET /base/a HTTP/1.1");
    assert_eq!(proxied.upstream.count(), 1);
    for path in [
        "/a/../../admin",
        "/a/%2E%2e/%2e./admin",
        "/./../admin",
        "/..",
    ] {
        assert_eq!(get(path), 400, "{path}");
    }
    assert_eq!(proxied.upstream.count(), 1);
    // What is no step upwards goes on as it was written: the service decides what it means.
    for path in ["/a%2fb", "/a%00b", "//a", "/a/.hidden", "/...", "/a%252e"] {
        assert_eq!(get(path), 201, "{path}");
        let line = format!("GET /base{path} HTTP/1.1");
        assert_eq!(proxied.upstream.calls().last().unwrap().line, line);
    }
}

#[test]
fn an_unfinished_head_does_not_hold_a_stop_up() {
    let mut proxied = Proxied::plain();
    let mut client = connect(proxied.address());
    std::io::Write::write_all(&mut client, b"POST /a HTTP/1.1\r\nhost:").unwrap();
    assert_eq!(proxied.send("GET", "/a", &[], b"").status, 201);
    assert_eq!(proxied.proxy.take().unwrap().stop().0, Some(0));
}

#[test]
fn a_tenant_that_writes_too_often_is_told_to_wait_and_its_reads_pass() {
    let proxied = Proxied::with("tenant_requests_per_second = 2\n");
    let answers: Vec<_> = (0..40)
        .map(|_| proxied.send("POST", "/count", &[], b"{}"))
        .collect();
    let refused = answers.iter().filter(|answer| answer.status == 429);
    let refused = refused
        .inspect(|answer| assert_eq!(answer.refusal().1, "rate_limited"))
        .count();
    assert!(refused > 0, "nothing was refused");
    assert_eq!(
        proxied.upstream.calls().len(),
        40 - refused,
        "what is refused goes nowhere"
    );
    assert!((0..10).all(|_| proxied.send("GET", "/count", &[], b"").status != 429));
}
