//! Memory: what a client can make the program hold, with a token, without one, and through the proxy.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;

use crate::fixture::Server;
use crate::http::{self, Answer, connect};
use crate::proxy::upstream::Upstream;

const CONNECTIONS: usize = 16;
const STREAMS: usize = 64;
/// What each stream sends before it falls silent; all of them send more than the process may have.
const PIECES: usize = 28;
const PIECE: &[u8] = &[b' '; 16 << 10];
const RESIDENT_KIB_MAX: u64 = 400 << 10;

type Pieces = tokio::sync::mpsc::Receiver<Result<Frame<Bytes>, std::io::Error>>;

/// A client that is patient, so that nothing it holds is given back for its silence.
fn patient(command: &mut std::process::Command) {
    command
        .env("HAPAX_BODY_IDLE_TIMEOUT_MS", "300000")
        .env("HAPAX_REQUEST_TIMEOUT_MS", "300000");
}

/// One stream: it sends its pieces, and waits for an answer without ending its body. It says when all is sent, or refused.
async fn drips(
    mut client: hyper::client::conn::http2::SendRequest<StreamBody<ReceiverStream>>,
    head: hyper::http::request::Builder,
    done: tokio::sync::mpsc::UnboundedSender<()>,
) {
    let (send, receive) = tokio::sync::mpsc::channel(1);
    let body = StreamBody::new(ReceiverStream(receive));
    let answered = tokio::spawn(client.send_request(head.body(body).unwrap()));
    for _ in 0..PIECES {
        let piece = Frame::data(Bytes::from_static(PIECE));
        if send.send(Ok(piece)).await.is_err() {
            break;
        }
    }
    drop(done);
    // The body goes on for ever.
    let _ = answered.await;
    drop(send);
}

struct ReceiverStream(Pieces);

impl futures_util::Stream for ReceiverStream {
    type Item = Result<Frame<Bytes>, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

/// Drips bodies on many connections, while `pays` must be served. Fails when the process grows too large.
fn attack(
    server: &Server,
    head: impl Fn(usize) -> hyper::http::request::Builder,
    pays: impl Fn(usize) -> Answer,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (done, mut all_done) = tokio::sync::mpsc::unbounded_channel();
    let address: SocketAddr = server.address;
    runtime.block_on(async {
        for connection in 0..CONNECTIONS {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let (client, driven) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            tokio::spawn(driven);
            for stream in 0..STREAMS {
                let head = head(connection * STREAMS + stream);
                tokio::spawn(drips(client.clone(), head, done.clone()));
            }
        }
    });
    drop(done);
    let (started, mut paid, mut most) = (Instant::now(), 0, 0);
    loop {
        most = most.max(server.resident_kib());
        let answer = pays(paid);
        assert_eq!(answer.status, 200, "{}", answer.text());
        paid += 1;
        if matches!(
            all_done.try_recv(),
            Err(tokio::sync::mpsc::error::TryRecvError::Disconnected)
        ) {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(200),
            "it does not end"
        );
    }
    most = most.max(server.resident_kib());
    assert!(most < RESIDENT_KIB_MAX, "{most} KiB");
    assert_eq!(pays(paid).status, 200);
    runtime.shutdown_background();
}

fn post(path: &str) -> hyper::http::request::Builder {
    hyper::Request::post(format!("http://h{path}")).header("content-type", "application/json")
}

#[test]
fn dripping_bodies_of_a_caller_leave_room_for_a_paying_one() {
    let server = Server::start_with(patient);
    let bearer = format!("Bearer {}", server.token());
    attack(
        &server,
        |_| post("/v1/echo").header("authorization", &bearer),
        |n| {
            let key = format!("k{n}");
            let headers = [
                ("authorization", bearer.as_str()),
                ("idempotency-key", &key),
            ];
            server.send("POST", "/v1/echo", &headers, b"{}")
        },
    );
}

#[test]
fn dripping_bodies_of_strangers_are_not_kept() {
    let server = Server::start_with(patient);
    attack(
        &server,
        |_| post("/session"),
        |_| server.owner("POST", "/v1/echo", "{}"),
    );
}

#[test]
fn dripping_bodies_through_the_proxy_leave_room_for_a_paying_caller() {
    let upstream = Upstream::start();
    let proxy = Server::proxy_in(tempfile::tempdir().unwrap(), |command| {
        command.args(["--upstream", &upstream.url()]);
        patient(command);
    });
    attack(
        &proxy,
        |n| post("/echo").header("idempotency-key", format!("drip{n}")),
        |n| {
            let key = format!("k{n}");
            let headers = [("idempotency-key", key.as_str())];
            http::request(proxy.address, "POST", "/echo", &headers, b"{}")
        },
    );
}

/// Sends a head and the beginning of its body, and reads what is answered while the rest is kept back.
fn begins(server: &Server, head: &str, begun: usize) -> (std::net::TcpStream, Vec<u8>) {
    let mut stream = connect(server.address);
    let head = format!("{head}\r\nhost: h\r\ncontent-type: application/json\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b' '; begun]).unwrap();
    (stream, Vec::new())
}

#[test]
fn a_strangers_body_is_neither_kept_nor_waited_for() {
    let server = Server::start_with(patient);
    for (path, expected) in [("/v1/echo", 401), ("/health", 405), ("/session", 413)] {
        let started = Instant::now();
        let head = format!("POST {path} HTTP/1.1\r\ncontent-length: 1000000");
        let (mut stream, mut answer) = begins(&server, &head, 64 << 10);
        stream.read_to_end(&mut answer).ok();
        let answer = http::parse(&answer).unwrap();
        assert_eq!(answer.status, expected, "{path}: {}", answer.text());
        // It read on for five seconds.
        let took = started.elapsed();
        assert!(took < Duration::from_secs(4), "{path}: {took:?}");
    }
    let long = json!({"token": "x".repeat(9000)}).to_string();
    let headers = [("content-type", "application/json")];
    let refused = server.send("POST", "/session", &headers, long.as_bytes());
    assert_eq!(refused.refusal(), (413, "payload_too_large".to_owned()));
}

#[test]
fn past_the_budget_the_oldest_body_is_told_to_retry_and_binds_no_key() {
    let server = Server::start_with(|command| {
        patient(command);
        command.env("HAPAX_BUFFERED_BYTES_MAX", "100000");
    });
    let bearer = format!("Bearer {}", server.token());
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nauthorization: {bearer}\r\nidempotency-key: drips\r\ncontent-length: 70000"
    );
    let (mut stream, mut answer) = begins(&server, &head, 69_999);
    let body = format!("\"{}\"", "x".repeat(80_000));
    let pays = || server.owner("POST", "/v1/echo", &body);
    let started = Instant::now();
    let refused = loop {
        // The bytes of the other one may still be on their way, and this one is then the older.
        let paid = pays();
        assert!([200, 503].contains(&paid.status), "{}", paid.text());
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        stream.read_to_end(&mut answer).ok();
        if let Some(refused) = http::parse(&answer) {
            break refused;
        }
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "it is not told"
        );
    };
    assert_eq!(pays().status, 200);
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["error"]["code"], "overloaded");
    let headers = [
        ("authorization", bearer.as_str()),
        ("idempotency-key", "drips"),
    ];
    let again = server.send("POST", "/v1/echo", &headers, b"{}");
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(again.header("idempotency-replayed"), None);
    let never = format!("\"{}\"", "x".repeat(100_001));
    let refused = server.owner("POST", "/v1/echo", &never);
    assert_eq!(refused.refusal(), (413, "payload_too_large".to_owned()));
}

#[test]
fn a_connection_has_sixty_four_streams_and_a_small_window() {
    let server = Server::start();
    let mut stream = connect(server.address);
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        .unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[3], 4, "settings come first");
    let mut settings = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    stream.read_exact(&mut settings).unwrap();
    let of = |id: u8| {
        let mut each = settings.chunks(6);
        let found = each.find(|setting| setting[..2] == [0, id]).unwrap();
        u32::from_be_bytes(found[2..].try_into().unwrap())
    };
    assert_eq!(of(3), 64, "streams");
    assert!(of(4) <= 64 << 10, "the window of a stream");
    assert!(of(6) <= 64 << 10, "the list of headers");
}
