//! Heads that have two servers in a row see different requests.

use std::io::{Read, Write};

use crate::fixture::Server;
use crate::http::{connect, parse, raw};
use crate::proxy::Proxied;

/// `Connection` headers that take something off the way to the upstream.
const TAKING: [&str; 26] = [
    "connection: authorization",
    "connection: Host",
    "connection: cookie",
    "connection: content-type",
    "connection: Content-Length",
    "connection: content-encoding",
    "connection: content-anything",
    "connection: idempotency-key",
    "connection: forwarded",
    "connection: x-forwarded-for",
    "connection: x-forwarded-host",
    "connection: x-forwarded-anything",
    "connection: x-tenant",
    "CONNECTION: X-Tenant",
    "Connection:AUTHORIZATION",
    "connection: close,,\t cookie\t,",
    "connection: keep-alive\r\nconnection: close, idempotency-key",
    "connection: close\r\nx: y\r\nconnection: x_tenant",
    "connection: idempotency-key;q=1",
    "connection: \"idempotency-key\"",
    "connection: close idempotency-key",
    "proxy-connection: cookie",
    "proxy_connection: cookie",
    "connection : cookie",
    "connection: x-user",
    "connection: x-route-user",
];

const CONFIG: &str = "[proxy]\ntenant_header = 'x-tenant'\nprincipal_headers = ['x-user']\n\
    [[routes]]\npattern = 'POST:orders'\nprincipal_headers = ['x-route-user']\n";

/// Everything that the headers above name.
const NAMED: &str = "authorization: Bearer t\r\ncookie: sid=1\r\ncontent-type: application/json\r\n\
    idempotency-key: k\r\nforwarded: for=192.0.2.1\r\nx-forwarded-for: 192.0.2.1\r\n\
    x-tenant: 11111111-1111-1111-1111-111111111111\r\ncontent-length: 2";

#[test]
fn no_connection_header_takes_what_says_who_asks_off_the_way() {
    let proxied = Proxied::with(CONFIG);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    std::fs::write(&file, CONFIG).unwrap();
    let server = Server::start_with(|command| {
        command.arg("--config").arg(&file);
    });
    for address in [proxied.address(), server.address] {
        for taking in TAKING {
            for version in ["1.1", "1.0"] {
                let head = format!(
                    "POST /v1/echo HTTP/{version}\r\nhost: h\r\n{NAMED}\r\n{taking}\r\n\r\n{{}}"
                );
                let bytes = raw(address, head.as_bytes());
                let answer = parse(&bytes).unwrap_or_else(|| panic!("no answer to {taking:?}"));
                let refused = (400, "ambiguous_framing".to_owned());
                assert_eq!(answer.refusal(), refused, "{taking:?}");
                assert_eq!(answer.header("connection"), Some("close"), "{taking:?}");
            }
        }
    }
    assert_eq!(proxied.upstream.count(), 0);
}

#[test]
fn what_is_between_neighbours_still_ends_at_the_proxy() {
    let proxied = Proxied::with(CONFIG);
    let head = format!(
        "POST /a HTTP/1.1\r\nhost: h\r\n{NAMED}\r\nx-hop: 1\r\nconnection: X-Hop, TE , close\r\n\
         te: trailers\r\nproxy-connection: keep-alive\r\n\r\n{{}}"
    );
    let answer = parse(&raw(proxied.address(), head.as_bytes())).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    let calls = proxied.upstream.calls();
    let call = &calls[0];
    assert_eq!(
        (call.header("x-hop"), call.header("connection")),
        (None, None)
    );
    for kept in [
        "authorization",
        "cookie",
        "forwarded",
        "x-tenant",
        "idempotency-key",
    ] {
        assert!(call.header(kept).is_some(), "{kept} went on: {call:?}");
    }
}

/// A later request of a connection is no other, and neither is one that comes byte by byte.
#[test]
fn a_connection_header_of_a_later_request_is_looked_at_too() {
    let proxied = Proxied::plain();
    let first = "GET /a HTTP/1.1\r\nhost: h\r\n\r\n";
    let second =
        "POST /a HTTP/1.1\r\nhost: h\r\nconnection: x-forwarded-for\r\ncontent-length: 0\r\n\r\n";
    let mut client = connect(proxied.address());
    for byte in format!("{first}{second}").bytes() {
        client.write_all(&[byte]).unwrap();
    }
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    let text = String::from_utf8_lossy(&answers);
    assert_eq!(text.matches("HTTP/1.1 400").count(), 1, "{text}");
    assert!(text.contains("ambiguous_framing"), "{text}");
    assert_eq!(proxied.upstream.count(), 1);
}

/// HTTP/2 has no such header: its library resets the stream.
#[test]
fn over_http2_a_connection_header_reaches_nobody() {
    let proxied = Proxied::plain();
    let mut client = connect(proxied.address());
    // GET http / with `authority` h and `connection: cookie`, each name and value as it is.
    let mut block = vec![0x82, 0x86, 0x84, 0x41, 1, b'h'];
    for (name, value) in [("connection", "cookie"), ("cookie", "sid=1")] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    // The preface, empty SETTINGS, and HEADERS that end stream 1.
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    sent.extend_from_slice(&[
        b'\0',
        0,
        u8::try_from(block.len()).unwrap(),
        1,
        5,
        0,
        0,
        0,
        1,
    ]);
    sent.extend_from_slice(&block);
    client.write_all(&sent).unwrap();
    let mut head = [0; 9];
    let reset = loop {
        client.read_exact(&mut head).unwrap();
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        client.read_exact(&mut payload).unwrap();
        // HEADERS would be an answer; RST_STREAM and GOAWAY are none.
        assert_ne!(head[3], 1, "it was answered");
        if head[3] == 3 || head[3] == 7 {
            break payload;
        }
    };
    assert_eq!(reset.last(), Some(&1), "PROTOCOL_ERROR: {reset:?}");
    assert_eq!(proxied.upstream.count(), 0);
}
