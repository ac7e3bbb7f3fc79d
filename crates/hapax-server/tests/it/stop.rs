//! Stopping: what is in flight is finished, what is not there is not waited for.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::fixture::Server;
use crate::http::{connect, parse};

/// Waits until the server takes no new connections.
fn until_refused(server: &Server) {
    let started = std::time::Instant::now();
    loop {
        assert!(
            started.elapsed().as_secs() < 20,
            "it still takes connections"
        );
        match TcpStream::connect(server.address) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            Ok(_) | Err(_) => std::thread::yield_now(),
        }
    }
}

/// Sends a request but for the last byte of its body.
fn begun(server: &Server) -> TcpStream {
    let mut stream = connect(server.address);
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {}\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n",
        server.token()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server asks for the body: the request is being handled.
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{").unwrap();
    stream
}

#[test]
fn sigterm_finishes_what_is_in_flight_and_exits_0() {
    for signal in ["TERM", "INT"] {
        let server = Server::start();
        let mut stream = begun(&server);
        server.signal(signal);
        until_refused(&server);
        stream.write_all(b"}").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(parse(&answer).unwrap().status, 200, "{signal}");
        assert_eq!(server.wait().0, Some(0), "{signal}");
    }
}

#[test]
fn an_idle_connection_does_not_hold_a_stop_up() {
    let server = Server::start_with(|command| {
        command
            .env("HAPAX_SHUTDOWN_MS", "600000")
            .env("HAPAX_HEADER_TIMEOUT_MS", "600000");
    });
    let mut idle = connect(server.address);
    idle.write_all(b"GET /health HTTP/1.1\r\nhost: h\r\n\r\n")
        .unwrap();
    let mut some = [0; 12];
    idle.read_exact(&mut some).unwrap();
    let silent = connect(server.address);
    let (code, _, _) = server.stop();
    assert_eq!(code, Some(0));
    drop(silent);
}

#[test]
fn a_request_that_does_not_end_is_cut_off() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_SHUTDOWN_MS", "50");
    });
    let _stream = begun(&server);
    let (code, _, _) = server.stop();
    assert_eq!(code, Some(0));
}

#[test]
fn a_second_signal_stops_at_once() {
    let server = Server::start_with(|command| {
        command
            .env("HAPAX_SHUTDOWN_MS", "600000")
            .env("HAPAX_BODY_IDLE_TIMEOUT_MS", "600000");
    });
    let _stream = begun(&server);
    server.signal("TERM");
    until_refused(&server);
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(1));
}
