//! Clients that mean harm, over raw sockets, against the program itself: serving, and standing in front of a service.
//! Afterwards it is healthy, serves an honest client, has passed nothing on that nobody sent, and has not grown.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;

use crate::fixture::Server;
use crate::http;
use crate::proxy::upstream::Upstream;

/// Once around, so that what grows only at first has grown; then so often.
const ROUNDS: usize = 4;
/// What a process may grow by from round to round, and in one round never does.
const GROWTH_KIB_MAX: u64 = 96 * 1024;
/// Slow clients at once.
const SLOW: usize = 60;

/// The program in one of its two forms.
struct Victim {
    server: Server,
    upstream: Option<Upstream>,
}

impl Victim {
    /// It gives clients little time, so that the test takes little.
    fn hurry(command: &mut Command) {
        command
            .env("HAPAX_HEADER_TIMEOUT_MS", "400")
            .env("HAPAX_BODY_IDLE_TIMEOUT_MS", "400")
            .env("HAPAX_REQUEST_TIMEOUT_MS", "2000");
    }

    fn serving() -> Self {
        Self {
            server: Server::start_with(Self::hurry),
            upstream: None,
        }
    }

    fn proxying() -> Self {
        let upstream = Upstream::start();
        let server = Server::proxy_in(tempfile::tempdir().unwrap(), |command| {
            command.args(["--upstream", &upstream.url()]);
            Self::hurry(command);
        });
        Self {
            server,
            upstream: Some(upstream),
        }
    }

    fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// A request that gets an answer in either form.
    fn plain(&self) -> &'static str {
        match self.upstream {
            Some(_) => "GET /echo HTTP/1.1\r\nhost: h\r\n\r\n",
            None => "GET /health HTTP/1.1\r\nhost: h\r\n\r\n",
        }
    }

    /// An honest client is served.
    fn is_well(&self) {
        if self.upstream.is_some() {
            let headers = [
                ("idempotency-key", "honest"),
                ("content-type", "application/json"),
            ];
            let answer = http::request(self.address(), "POST", "/echo", &headers, b"{\"a\":1}");
            assert_eq!((answer.status, answer.text().as_str()), (200, "{\"a\":1}"));
        } else {
            // Clients are given little time here, and a busy machine may need more of it than one has: it tries again.
            let ask = |_| http::try_request(self.address(), "GET", "/health", &[], b"");
            let health = (0..5).find_map(ask).unwrap();
            assert_eq!(health.json()["status"], "ok", "{}", health.text());
            assert_eq!(
                self.server.owner("POST", "/v1/echo", "{\"a\":1}").status,
                200
            );
        }
    }

    /// Nothing that was hidden in another request reached the service.
    fn was_not_fooled(&self) {
        for call in self.upstream.iter().flat_map(Upstream::calls) {
            assert!(!call.line.contains("smuggled"), "{call:?}");
        }
    }
}

/// Heads and bodies that two servers could read in two ways, each with a request hidden in it.
fn smuggle(address: SocketAddr) {
    let hidden = "GET /smuggled HTTP/1.1\r\nhost: h\r\n\r\n";
    for head in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
        "content-length: 0\r\ncontent-length: 44\r\n",
        "content-length: 44\r\ncontent-length: 0\r\n",
        "content-length: 0, 44\r\n",
        "content-length: +0\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding : chunked\r\n",
        "transfer-encoding:\x0bchunked\r\n",
        "transfer-encoding:\r\n chunked\r\n",
        "x: y\r\n transfer-encoding: chunked\r\n",
        "x: y\rtransfer-encoding: chunked\r\n",
        "content_length: 44\r\n",
    ] {
        let request = format!("POST /echo HTTP/1.1\r\nhost: h\r\n{head}\r\n0\r\n\r\n{hidden}");
        let answer = http::raw(address, request.as_bytes());
        let said = String::from_utf8_lossy(&answer);
        // `content_length` is no header of HTTP: what follows is then an honest second request, or none.
        if head.starts_with("content_length") {
            continue;
        }
        assert!(said.starts_with("HTTP/1.1 400"), "{head:?}: {said}");
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{head:?}: {said}");
    }
}

/// Chunks that are none. At most the request itself is answered, and nothing after it.
fn break_chunks(address: SocketAddr) {
    for body in [
        "5\nhello\n0\n\n",
        "-1\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\n",
        "5\r\nhello0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5\r\nhel",
    ] {
        let request = format!(
            "POST /echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n{body}GET /smuggled HTTP/1.1\r\nhost: h\r\n\r\n"
        );
        let answer = http::raw(address, request.as_bytes());
        let said = String::from_utf8_lossy(&answer);
        assert!(said.matches("HTTP/1.1 ").count() <= 1, "{body:?}: {said}");
    }
}

/// Many clients that begin and do not go on; the server must end every one of them.
fn dawdle(address: SocketAddr, beginning: &str) {
    let mut clients: Vec<TcpStream> = (0..SLOW).map(|_| http::connect(address)).collect();
    for client in &mut clients {
        client.write_all(beginning.as_bytes()).unwrap();
    }
    for mut client in clients {
        let mut answer = Vec::new();
        // A reset is an end too.
        if let Err(why) = client.read_to_end(&mut answer) {
            assert_ne!(
                why.kind(),
                std::io::ErrorKind::WouldBlock,
                "it is kept for ever"
            );
        }
        let said = String::from_utf8_lossy(&answer);
        assert!(!said.starts_with("HTTP/1.1 2"), "{said}");
    }
}

/// Many requests in one packet are answered one after the other.
fn pipeline(victim: &Victim) {
    let mut client = http::connect(victim.address());
    let last = victim
        .plain()
        .replace("host: h", "host: h\r\nconnection: close");
    let requests = [victim.plain().repeat(99), last].concat();
    client.write_all(requests.as_bytes()).unwrap();
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    let answers = String::from_utf8_lossy(&answers);
    let served = answers.matches("HTTP/1.1 200").count();
    assert_eq!(served, 100, "{} bytes came", answers.len());
}

/// Heads that are too large, or of too many headers.
fn overload_heads(address: SocketAddr) {
    let large = format!("x: {}\r\n", "a".repeat(1 << 20));
    let many = (0..5000).fold(String::new(), |many, n| many + &format!("x-{n}: y\r\n"));
    let long_path = format!("/{}", "a".repeat(1 << 20));
    for (path, headers) in [
        ("/", large.as_str()),
        ("/", many.as_str()),
        (&long_path, ""),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n{headers}\r\n");
        let answer = http::raw(address, request.as_bytes());
        let status = http::parse(&answer).map(|answer| answer.status);
        assert!(
            status.is_none_or(|status| [400, 414, 431].contains(&status)),
            "{status:?}"
        );
    }
}

/// Clients that ask for much and read nothing, until the server has had enough.
fn never_read(victim: &Victim) {
    let request = match victim.upstream {
        Some(_) => victim.plain().to_owned(),
        None => "GET /openapi.json HTTP/1.1\r\nhost: h\r\n\r\n".to_owned(),
    };
    let clients: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut client = http::connect(victim.address());
            client
                .set_write_timeout(Some(std::time::Duration::from_millis(200)))
                .unwrap();
            // It stops taking them in when nobody reads; that is what is asked of it.
            let _ = client.write_all(request.repeat(200).as_bytes());
            client
        })
        .collect();
    victim.is_well();
    drop(clients);
}

/// Bytes that are no text where text is wanted.
fn mumble(address: SocketAddr) {
    for head in [
        &b"GET / HTTP/1.1\r\nhost: h\r\nidempotency-key: \xff\xfe\r\n\r\n"[..],
        b"POST /echo HTTP/1.1\r\nhost: h\r\nidempotency-key: a\x00b\r\ncontent-length: 0\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: \xff\r\n\r\n",
        b"\xff\xfe\x00\x01\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nho st: h\r\n\r\n",
    ] {
        let mut client = http::connect(address);
        client.write_all(head).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        let status = http::parse(&answer).map(|answer| answer.status);
        assert!(
            status.is_none_or(|status| status < 500 || status == 502),
            "{head:?}: {status:?}"
        );
    }
}

/// Clients that stop sending half-way.
fn half_close(victim: &Victim) {
    for cut in [0, 1, 10, victim.plain().len() - 1, victim.plain().len()] {
        let mut client = http::connect(victim.address());
        client.write_all(&victim.plain().as_bytes()[..cut]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        let is_served = answer.starts_with(b"HTTP/1.1 200");
        assert_eq!(is_served, cut == victim.plain().len(), "cut at {cut}");
    }
}

/// A client that stops sending after its last request gets every answer, as one that goes on does.
fn half_close_after_many(victim: &Victim) {
    let mut client = http::connect(victim.address());
    client
        .write_all(victim.plain().repeat(100).as_bytes())
        .unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    let answers = String::from_utf8_lossy(&answers);
    let served = answers.matches("HTTP/1.1 200").count();
    assert_eq!(served, 100, "{} bytes came", answers.len());
}

/// A body past the limit, told and untold.
fn overload_bodies(address: SocketAddr) {
    let told = "POST /v1/echo HTTP/1.1\r\nhost: h\r\nidempotency-key: k\r\ncontent-type: application/json\r\n";
    let large = "a".repeat(9 << 20);
    let plain = format!("{told}content-length: {}\r\n\r\n{large}", large.len());
    let chunked = format!(
        "{told}transfer-encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );
    for request in [plain, chunked] {
        let answer = http::raw(address, request.as_bytes());
        let status = http::parse(&answer).map(|answer| answer.status);
        // Who it is comes before what it sends.
        assert!(
            status.is_none_or(|status| [401, 413].contains(&status)),
            "{status:?}"
        );
    }
}

fn attack(victim: &Victim) {
    let address = victim.address();
    smuggle(address);
    break_chunks(address);
    dawdle(address, "GET /health HTTP/1.1\r\nhost: h\r\nx: ");
    dawdle(
        address,
        "POST /v1/echo HTTP/1.1\r\nhost: h\r\nidempotency-key: k\r\ncontent-length: 1000\r\n\r\n{",
    );
    pipeline(victim);
    overload_heads(address);
    overload_bodies(address);
    half_close(victim);
    half_close_after_many(victim);
    mumble(address);
    never_read(victim);
    victim.is_well();
    victim.was_not_fooled();
}

fn withstand(victim: &Victim) {
    attack(victim);
    let before = victim.server.resident_kib();
    for _ in 1..ROUNDS {
        attack(victim);
    }
    let after = victim.server.resident_kib();
    println!(
        "{before} KiB before, {after} KiB after {} more rounds",
        ROUNDS - 1
    );
    assert!(
        after < before + GROWTH_KIB_MAX,
        "{before} KiB became {after} KiB"
    );
}

#[test]
fn a_server_withstands_hostile_clients_and_does_not_grow() {
    withstand(&Victim::serving());
}

#[test]
fn a_proxy_withstands_hostile_clients_and_does_not_grow() {
    withstand(&Victim::proxying());
}

/// Opens a connection that comes from this address of the loopback network.
pub(crate) async fn connect_from(
    from: [u8; 4],
    to: SocketAddr,
) -> std::io::Result<tokio::net::TcpStream> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

#[test]
fn one_address_cannot_take_every_connection() {
    const ALLOWED: usize = 50;
    let server = Server::start_with(|command| {
        command
            .env("HAPAX_CONNECTIONS_MAX", "100")
            .env("HAPAX_CONNECTIONS_PER_ADDRESS_MAX", ALLOWED.to_string())
            .env("HAPAX_HEADER_TIMEOUT_MS", "20000");
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (mut idle, mut refused) = (Vec::new(), 0);
    runtime.block_on(async {
        use tokio::io::AsyncReadExt;
        for _ in 0..10_000 {
            let mut client = connect_from([127, 0, 0, 2], server.address).await.unwrap();
            if idle.len() < ALLOWED {
                idle.push(client);
                continue;
            }
            let mut answer = Vec::new();
            // A reset says the same, to a client that was slow to look.
            let _ = client.read_to_end(&mut answer).await;
            let told = http::parse(&answer);
            assert!(
                told.as_ref()
                    .is_none_or(|told| told.refusal() == (429, "rate_limited".to_owned())),
                "{told:?}"
            );
            refused += usize::from(told.is_some());
        }
    });
    assert!(refused > 9000, "{refused} of 10 000 were told");
    // Another address is served at once, and the first again when it lets go.
    let health = server.send("GET", "/health", &[], b"");
    assert_eq!(health.json()["status"], "ok");
    drop(idle);
    let is_free_again = runtime.block_on(async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        for _ in 0..200 {
            let mut client = connect_from([127, 0, 0, 2], server.address).await.unwrap();
            let request = b"GET /health HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
            let _ = client.write_all(request).await;
            let mut answer = Vec::new();
            let _ = client.read_to_end(&mut answer).await;
            if answer.starts_with(b"HTTP/1.1 200") {
                return true;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        false
    });
    assert!(is_free_again, "the places of those who left are free again");
}
