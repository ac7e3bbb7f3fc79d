//! A service that knows nothing of keys: it counts its calls, and does what the path says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Far beyond what any test needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    fn path(&self) -> &str {
        let target = self.line.split(' ').nth(1).unwrap();
        target.split('?').next().unwrap()
    }
}

#[derive(Default)]
struct Seen {
    calls: Mutex<Vec<Call>>,
    open: Mutex<bool>,
    changed: Condvar,
}

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &seen));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.seen.calls.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.calls.lock().unwrap().len()
    }

    /// Waits until this many calls have arrived.
    pub(crate) fn until_calls(&self, count: usize) {
        let calls = self.seen.calls.lock().unwrap();
        let enough = |calls: &mut Vec<Call>| calls.len() < count;
        let (calls, waited) = self
            .seen
            .changed
            .wait_timeout_while(calls, PATIENCE, enough)
            .unwrap();
        assert!(!waited.timed_out(), "{} of {count} calls came", calls.len());
    }

    /// Lets what waits at a gate go on.
    pub(crate) fn open(&self) {
        *self.seen.open.lock().unwrap() = true;
        self.seen.changed.notify_all();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.open();
    }
}

impl Seen {
    fn gate(&self) {
        let open = self.open.lock().unwrap();
        drop(
            self.changed
                .wait_timeout_while(open, PATIENCE, |open| !*open)
                .unwrap(),
        );
    }
}

/// Serves a connection until it ends.
fn serve(stream: TcpStream, seen: &Seen) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(call) = read(&mut reader) {
        let number = {
            let mut calls = seen.calls.lock().unwrap();
            calls.push(call.clone());
            seen.changed.notify_all();
            calls.len()
        };
        if answer(&call, number, &mut stream, &mut reader, seen).is_none() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Call> {
    let line = text_line(reader)?;
    let mut headers = Vec::new();
    loop {
        let header = text_line(reader)?;
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut call = Call {
        line,
        headers,
        body: Vec::new(),
    };
    if let Some(length) = call.header("content-length") {
        call.body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut call.body).ok()?;
    } else if call.header("transfer-encoding").is_some() {
        loop {
            let size = usize::from_str_radix(&text_line(reader)?, 16).unwrap();
            let at = call.body.len();
            call.body.resize(at + size, 0);
            reader.read_exact(&mut call.body[at..]).ok()?;
            text_line(reader)?;
            if size == 0 {
                break;
            }
        }
    }
    Some(call)
}

fn text_line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let length = reader.read_line(&mut line).ok()?;
    (length > 0).then(|| line.trim_end().to_owned())
}

/// Where answers take their time, or end in a way of their own.
const GOES_ON: [&str; 6] = [
    "/events",
    "/events-broken",
    "/events-whole",
    "/trailers",
    "/late",
    "/late-chunked",
];

/// Answers at one of [`GOES_ON`]. `None` ends the connection.
fn go_on(path: &str, stream: &mut TcpStream, seen: &Seen) -> Option<()> {
    let mut send = |bytes: &[u8]| stream.write_all(bytes).ok();
    match path {
        "/events" => {
            send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n")?;
            seen.gate();
            send(b"data: 2\n\n")?;
            None
        }
        // One event, then silence and a connection that breaks in the middle of a chunk.
        "/events-broken" => {
            send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")?;
            seen.gate();
            send(b"9\r\ndat")?;
            None
        }
        "/events-whole" => {
            send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")?;
            seen.gate();
            send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")
        }
        "/trailers" => send(
            b"HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n",
        ),
        // The head, and the body when the gate opens.
        "/late" => {
            send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")?;
            seen.gate();
            send(b"hello")
        }
        "/late-chunked" => {
            send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            seen.gate();
            send(b"5\r\nhello\r\n0\r\n\r\n")
        }
        other => unreachable!("{other} is on the list"),
    }
}

/// Answers at a path for which a credential is needed: `Bearer good` may, the others are told so.
fn guard(call: &Call, number: usize, stream: &mut TcpStream, seen: &Seen) -> Option<()> {
    let mut send = |bytes: &[u8]| stream.write_all(bytes).ok();
    let credential = call.header("authorization");
    let done = format!("call {number}");
    if !call.path().starts_with("/guarded-grpc") {
        let status = match credential {
            Some("Bearer good") => 201,
            Some("Bearer poor") => 403,
            Some(_) => 401,
            None => 407,
        };
        if status != 201 && call.path() == "/guarded-late" {
            seen.gate();
        }
        return send(&whole(status, "", done.as_bytes()));
    }
    let status = match credential {
        Some("Bearer good") => 0,
        Some("Bearer poor") => 7,
        Some(_) | None => 16,
    };
    let headers = format!("content-type: application/grpc\r\ngrpc-status: {status}\r\n");
    if status == 0 {
        return send(&whole(200, &headers, done.as_bytes()));
    }
    if call.path() == "/guarded-grpc" {
        return send(&whole(200, &headers, b""));
    }
    // Behind the messages.
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ntransfer-encoding: chunked\r\ntrailer: grpc-status\r\n\r\n";
    send(format!("{head}1\r\nx\r\n0\r\ngrpc-status: {status}\r\n\r\n").as_bytes())
}

/// Answers as the path says. `None` ends the connection.
fn answer(
    call: &Call,
    number: usize,
    stream: &mut TcpStream,
    reader: &mut BufReader<TcpStream>,
    seen: &Seen,
) -> Option<()> {
    if GOES_ON.contains(&call.path()) {
        return go_on(call.path(), stream, seen);
    }
    if call.path().starts_with("/guarded") {
        return guard(call, number, stream, seen);
    }
    let mut send = |bytes: &[u8]| stream.write_all(bytes).ok();
    match call.path() {
        "/gate" => {
            seen.gate();
            send(&whole(201, "content-type: text/plain\r\n", format!("call {number}").as_bytes()))
        }
        "/echo" => send(&whole(200, "content-type: application/octet-stream\r\n", &call.body)),
        "/binary" => send(&whole(200, "content-type: image/png\r\n", &binary())),
        "/empty" => send(b"HTTP/1.1 204 No Content\r\n\r\n"),
        "/gzip" => send(&whole(200, "content-encoding: gzip\r\ncontent-type: text/plain\r\n", &[0x1f, 0x8b, 8, 0, 255, 0])),
        "/chunked" => send(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/plain\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        ),
        "/large" => {
            send(format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE_BYTES}\r\n\r\n").as_bytes())?;
            let piece: Vec<u8> = binary().repeat(256);
            (0..LARGE_BYTES / piece.len()).try_for_each(|_| send(&piece))
        }
        "/cookie" => send(&whole(
            201,
            "set-cookie: session=secret\r\nlocation: /things/7\r\netag: \"v1\"\r\nx-own: 1\r\n",
            b"made",
        )),
        "/hop" => send(&whole(
            200,
            "connection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\nproxy-authenticate: Basic\r\ntrailer: x\r\nx-kept: 1\r\n",
            b"hop",
        )),
        "/upgrade" => {
            send(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: yes\r\n\r\n")?;
            let mut piece = [0; 1024];
            loop {
                match reader.read(&mut piece) {
                    Ok(0) | Err(_) => return None,
                    Ok(length) => send(&piece[..length])?,
                }
            }
        }
        // As a service that pages on another host may call.
        "/cors" if call.line.starts_with("OPTIONS ") => send(
            b"HTTP/1.1 204 No Content\r\naccess-control-allow-origin: https://shop.example\r\n\
              access-control-allow-methods: POST\r\naccess-control-allow-headers: Content-Type, Idempotency-Key\r\n\r\n",
        ),
        "/cors" => {
            let exposed = EXPOSED.join(", ");
            let headers = format!(
                "access-control-allow-origin: https://shop.example\r\naccess-control-expose-headers: {exposed}\r\n"
            );
            send(&whole(201, &headers, b"made"))
        }
        "/break" => None,
        "/half" => {
            send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this")?;
            None
        }
        path => {
            let status = path.strip_prefix("/s").and_then(|status| status.parse().ok());
            send(&whole(status.unwrap_or(201), "", format!("call {number}").as_bytes()))
        }
    }
}

/// Every header of hapax's own that a page may want to read; docs/guides/cors.md names the same.
pub(crate) const EXPOSED: [&str; 7] = [
    "Idempotency-Replayed",
    "Idempotency-Expires",
    "X-Idempotency-Replay",
    "X-Idempotency-Conflict",
    "X-Idempotency-Expired",
    "X-Trace-Id",
    "Retry-After",
];

pub(crate) const LARGE_BYTES: usize = 50 << 20;

/// Every byte there is, in an order that is no text.
pub(crate) fn binary() -> Vec<u8> {
    (0..=255u8)
        .rev()
        .chain([0, 255, 0, 10, 13, 13, 10, 0])
        .chain([1; 248])
        .collect()
}

fn whole(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Waits until `done` is true.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
