//! How long the proxy waits for an answer to begin: `head_timeout_ms` is all of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{Proxied, start};
use crate::http::{connect, parse, request};

const HALF: &str = "[proxy]\nhead_timeout_ms = 500\n";

/// Long enough for a busy machine, and far below connecting and the head in a row.
const SOON: Duration = Duration::from_millis(2500);

#[test]
fn the_time_for_the_head_is_all_the_time_there_is() {
    let proxied = Proxied::with(HALF);
    for key in ["k", "l"] {
        let started = Instant::now();
        let answer = proxied.post("/gate", key, "{}");
        let took = started.elapsed();
        assert_eq!(answer.refusal(), (504, "downstream_timeout".to_owned()));
        assert!(took >= Duration::from_millis(500), "{took:?}");
        assert!(took < SOON, "connecting is not counted apart: {took:?}");
    }
}

/// An address whose backlog is full: no further connection is accepted.
struct Full {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
    _listener: tokio::net::TcpListener,
    _waiting: Vec<TcpStream>,
}

fn full() -> Full {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().build().unwrap();
    let entered = runtime.enter();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    drop(entered);
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(300));
    let waiting: Vec<_> = (0..4).map_while(|at| connect(at).ok()).collect();
    assert!(waiting.len() < 4, "the backlog is never full");
    Full {
        address,
        _runtime: runtime,
        _listener: listener,
        _waiting: waiting,
    }
}

#[test]
fn what_was_never_connected_is_a_504_in_time_and_frees_the_key() {
    let full = full();
    let url = format!("http://{}", full.address);
    let proxy = start(tempfile::tempdir().unwrap(), &url, HALF, None);
    for _ in 0..2 {
        let started = Instant::now();
        let headers = [("idempotency-key", "k")];
        let answer = request(proxy.address, "POST", "/a", &headers, b"{}");
        let took = started.elapsed();
        assert_eq!(answer.refusal(), (504, "downstream_timeout".to_owned()));
        let error = &answer.json()["error"];
        assert_eq!(error["details"]["reason"], "unreachable", "{error}");
        assert!(took < SOON, "{took:?}");
    }
}

#[test]
fn an_upload_may_take_longer_than_the_head_while_it_goes_on() {
    let proxied = Proxied::with(HALF);
    let mut client = connect(proxied.address());
    client
        .write_all(
            b"POST /echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 5\r\n\r\n",
        )
        .unwrap();
    for byte in b"hello" {
        // Shorter than the time for the head, and all together longer.
        std::thread::sleep(Duration::from_millis(200));
        client.write_all(&[*byte]).unwrap();
    }
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    let answer = parse(&answer).unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
}
