//! Input that no good client sends: a documented 4xx, never a 500, and the server lives on.

use std::io::{Read, Write};

use crate::fixture::Server;
use crate::http::{connect, parse, raw};

fn healthy(server: &Server) {
    assert_eq!(server.send("GET", "/health", &[], b"").status, 200);
    assert_eq!(server.owner("POST", "/v1/echo", "{}").status, 200);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn json_that_breaks_a_rule_is_refused_with_its_reason_and_place() {
    let server = Server::start();
    let bearer = format!("Bearer {}", server.token());
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let deep_objects = r#"{"a":"#.repeat(100_000);
    for (number, (body, reason, offset)) in [
        (&br#"{"a":1,"a":2}"#[..], "duplicate_key", Some(7)),
        (br#"{"a":1,"\u0061":2}"#, "duplicate_key", Some(7)),
        (br#"["\ud800"]"#, "lone_surrogate", None),
        (br#"["\udc00\ud800"]"#, "lone_surrogate", None),
        (b"[1e400]", "number_out_of_range", Some(1)),
        (b"[\"\xff\"]", "invalid_utf8", None),
        (b"\xef\xbb\xbf{}", "syntax", Some(0)),
        (b"", "syntax", Some(0)),
        (b"{", "syntax", None),
        (b"[NaN]", "syntax", Some(1)),
        (b"{} {}", "syntax", Some(3)),
        (b"[\"\x00\"]", "syntax", Some(2)),
        (deep.as_bytes(), "too_deep", None),
        (deep_objects.as_bytes(), "too_deep", None),
    ]
    .into_iter()
    .enumerate()
    {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        for path in ["/v1/echo", "/v1/keys/claim"] {
            let answer = server.send("POST", path, &[("authorization", &bearer)], body);
            assert_eq!(answer.refusal(), (400, "bad_json".to_owned()), "{shown}");
            let details = &answer.json()["error"]["details"];
            assert_eq!(details["reason"], reason, "{shown}");
            match offset {
                Some(offset) => assert_eq!(details["offset"], offset, "{shown}"),
                None => assert!(details["offset"].is_u64(), "{shown}"),
            }
        }
        // Under a key the same: the layer refuses nothing itself, and what is recorded replays.
        let key = format!("bad-{number}");
        let keyed = [
            ("authorization", bearer.as_str()),
            ("idempotency-key", &key),
        ];
        let first = server.send("POST", "/v1/echo", &keyed, body);
        assert_eq!(first.status, 400, "{shown}");
        assert_eq!(
            server.send("POST", "/v1/echo", &keyed, body).status / 100,
            4,
            "{shown}"
        );
    }
    healthy(&server);
}

#[test]
fn an_escaped_nul_is_returned_as_sent() {
    let server = Server::start();
    let bearer = format!("Bearer {}", server.token());
    let keyed = [
        ("authorization", bearer.as_str()),
        ("idempotency-key", "nul"),
    ];
    for _ in 0..2 {
        let answer = server.send("POST", "/v1/echo", &keyed, br#"{"a\u0000":"\u0000"}"#);
        assert_eq!(answer.status, 200);
        assert!(
            answer
                .text()
                .starts_with(r#"{"echo":{"a\u0000":"\u0000"},"#),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn a_body_of_20_mb_is_refused_and_the_client_gets_to_read_it() {
    let server = Server::start();
    let body = vec![b' '; 20_000_000];
    for key in ["", "idempotency-key: k\r\n"] {
        let head = format!(
            "POST /v1/echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {}\r\n{key}content-length: {}\r\n\r\n",
            server.token(),
            body.len()
        );
        // A plain client: it sends everything, and only then looks for an answer.
        let mut stream = connect(server.address);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let refusal = parse(&answer).unwrap().refusal();
        assert_eq!(refusal, (413, "payload_too_large".to_owned()));
    }
    healthy(&server);
}

#[test]
fn a_chunked_body_is_counted_while_it_arrives() {
    let server = Server::start();
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {}\r\ntransfer-encoding: chunked\r\n\r\n",
        server.token()
    );
    let mut bytes = head.into_bytes();
    for _ in 0..32 {
        bytes.extend_from_slice(b"10000\r\n");
        bytes.resize(bytes.len() + 0x10000, b' ');
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    let answer = parse(&raw(server.address, &bytes)).unwrap();
    assert_eq!(answer.refusal(), (413, "payload_too_large".to_owned()));
    healthy(&server);
}

#[test]
fn a_client_that_asks_first_is_refused_before_it_sends() {
    let server = Server::start();
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {}\r\nexpect: 100-continue\r\ncontent-length: 999999999\r\n\r\n",
        server.token()
    );
    let answer = parse(&raw(server.address, head.as_bytes())).unwrap();
    assert_eq!(answer.refusal(), (413, "payload_too_large".to_owned()));
}

#[test]
fn a_body_that_ends_early_is_refused() {
    let server = Server::start();
    let mut stream = connect(server.address);
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {}\r\ncontent-length: 100\r\n\r\n{{",
        server.token()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    if let Some(answer) = parse(&answer) {
        assert_eq!(answer.status, 400);
    }
    healthy(&server);
}

#[test]
fn a_silent_client_is_given_up() {
    let server = Server::start_with(|command| {
        command
            .env("HAPAX_BODY_IDLE_TIMEOUT_MS", "100")
            .env("HAPAX_HEADER_TIMEOUT_MS", "100");
    });
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {}\r\ncontent-length: 100\r\n\r\n{{",
        server.token()
    );
    let answer = parse(&raw(server.address, head.as_bytes())).unwrap();
    assert_eq!(answer.refusal(), (408, "request_timeout".to_owned()));
    // Half a head, and nothing at all: the connection is closed.
    for start in [&b"GET /health HT"[..], b"", b"PRI * HTTP/2.0\r\n"] {
        raw(server.address, start);
    }
    healthy(&server);
}

#[test]
fn odd_heads_are_refused_or_harmless() {
    let server = Server::start();
    let many = "x-one-more: v\r\n".repeat(200);
    let long = format!("x-long: {}\r\n", "v".repeat(100_000));
    for (head, expected) in [
        ("GET /health HTTP/1.1\r\nhost: h\r\nx\x00y: v\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nhost: h\r\nx: a\x00b\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nhost: h\r\nx y: v\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nhost: h\r\n: v\r\n\r\n", 400),
        ("GET /health HTTP/9.9\r\nhost: h\r\n\r\n", 400),
        ("G\x07T /health HTTP/1.1\r\nhost: h\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", 400),
        (
            "GET /health HTTP/1.1\r\nhost: h\r\ncontent-length: x\r\n\r\n",
            400,
        ),
        (
            "GET /health HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            400,
        ),
        (
            "GET /health HTTP/1.1\r\nhost: h\r\ntransfer-encoding: gzip\r\n\r\n",
            400,
        ),
        (
            &format!("GET /health HTTP/1.1\r\nhost: h\r\n{many}\r\n"),
            431,
        ),
        (
            &format!("GET /health HTTP/1.1\r\nhost: h\r\n{long}\r\n"),
            431,
        ),
        (
            &format!("GET /{} HTTP/1.1\r\nhost: h\r\n\r\n", "a".repeat(70_000)),
            414,
        ),
    ] {
        let shown = &head[..head.len().min(60)];
        let answer = parse(&raw(server.address, head.as_bytes()));
        let status = answer
            .unwrap_or_else(|| panic!("no answer to {shown:?}"))
            .status;
        assert!(
            status == expected || (400..500).contains(&status),
            "{status} for {shown:?}"
        );
    }
    healthy(&server);
}

#[test]
fn odd_values_in_our_headers_are_refused_by_name() {
    let server = Server::start();
    let token = server.token();
    for key in [
        &b"two words"[..],
        b"",
        b"\xff\xfe",
        b"\"open",
        b"a\tb",
        &[b'k'; 256],
    ] {
        let mut head = format!(
            "POST /v1/echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {token}\r\ncontent-length: 2\r\nidempotency-key: "
        )
        .into_bytes();
        head.extend_from_slice(key);
        head.extend_from_slice(b"\r\n\r\n{}");
        let answer = parse(&raw(server.address, &head)).unwrap();
        assert_eq!(
            answer.refusal(),
            (400, "idempotency_key_invalid".to_owned()),
            "{key:?}"
        );
    }
    let head = b"GET /v1/keys HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer \xff\xfe\r\n\r\n";
    assert_eq!(
        parse(&raw(server.address, head)).unwrap().refusal(),
        (401, "unauthorized".to_owned())
    );
    healthy(&server);
}

/// Two lengths for one body: refused before hyper sees it, and the connection ends, so that what follows is
/// never taken for a second request.
#[test]
fn a_length_beside_chunks_cannot_smuggle_a_request() {
    let server = Server::start();
    let token = server.token();
    for order in [
        "content-length: 6\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 6",
    ] {
        let smuggled = "GET /version HTTP/1.1\r\nhost: h\r\n\r\n";
        let head = format!(
            "POST /v1/echo HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\n{order}\r\n\r\n0\r\n\r\n{smuggled}"
        );
        let answer = raw(server.address, head.as_bytes());
        let refused = (400, "ambiguous_framing".to_owned());
        assert_eq!(parse(&answer).unwrap().refusal(), refused);
        let answers = String::from_utf8_lossy(&answer)
            .matches("HTTP/1.1 ")
            .count();
        assert_eq!(answers, 1, "{}", String::from_utf8_lossy(&answer));
    }
    healthy(&server);
}

#[test]
fn odd_targets_are_harmless() {
    let server = Server::start();
    for line in [
        "OPTIONS * HTTP/1.1",
        "CONNECT evil.example:443 HTTP/1.1",
        "GET http://evil.example/v1/keys HTTP/1.1",
        "GET //v1//keys HTTP/1.1",
        "GET /v1/../v1/keys HTTP/1.1",
        "GET /%00%0d%0a HTTP/1.1",
        "GET ?x HTTP/1.1",
    ] {
        let head = format!("{line}\r\nhost: h\r\nconnection: close\r\n\r\n");
        let status = parse(&raw(server.address, head.as_bytes())).unwrap().status;
        assert!([400, 401].contains(&status), "{status} for {line}");
    }
    healthy(&server);
}

#[test]
fn random_bytes_do_not_hurt() {
    let server = Server::start();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..100 {
        let mut bytes = Vec::new();
        for _ in 0..round * 8 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bytes.push(random.to_le_bytes()[0]);
        }
        bytes.extend_from_slice(b"\r\n\r\n");
        let answer = raw(server.address, &bytes);
        let refused = parse(&answer).is_none_or(|answer| (400..500).contains(&answer.status));
        assert!(refused, "{}", String::from_utf8_lossy(&answer));
    }
    healthy(&server);
}

#[test]
fn over_the_cap_connections_wait_and_are_served() {
    let server = Server::start_with(|command| {
        command
            .env("HAPAX_CONNECTIONS_MAX", "1")
            .env("HAPAX_HEADER_TIMEOUT_MS", "100");
    });
    // This one says nothing and holds the only place until it is given up.
    let silent = connect(server.address);
    assert_eq!(server.send("GET", "/health", &[], b"").status, 200);
    drop(silent);
}

#[test]
fn a_path_cannot_forge_a_log_line() {
    let server = Server::start();
    server.send("GET", "/%0a{\"level\":\"error\"}", &[], b"");
    server.send("GET", "/\u{1b}[2J", &[("x", "y")], b"");
    healthy(&server);
    for line in server.log().lines() {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok_and(|line| line["level"] != "error"), "{line}");
    }
}
