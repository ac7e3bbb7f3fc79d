//! A server on loopback that answers by script, one step per request, and keeps what it was sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// What the server does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Answers: status, header lines, body.
    Say(u16, String, String),
    /// Closes the connection without a word.
    Close,
    /// Closes the connection in the middle of a 201.
    Cut,
    /// Sends a body in chunks, without saying how long it will be.
    Stream(usize),
    /// Never answers.
    Hang,
}

impl Step {
    pub(crate) fn say(status: u16, body: &str) -> Self {
        Self::Say(status, String::new(), body.to_owned())
    }

    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        match self {
            Self::Say(status, headers, body) => {
                Self::Say(status, format!("{headers}{name}: {value}\r\n"), body)
            }
            other => other,
        }
    }

    /// A refusal in the envelope of the contract.
    pub(crate) fn refuse(status: u16, code: &str, details: &serde_json::Value) -> Self {
        let error = serde_json::json!({"code": code, "message": "no", "details": details});
        let body = serde_json::json!({"error": error, "trace_id": "t1"});
        Self::say(status, &body.to_string())
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    /// The value of a header that came at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(have, _)| have == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} came twice");
        value
    }

    pub(crate) fn key(&self) -> &str {
        self.header("idempotency-key")
            .expect("every request carries its key")
    }
}

#[derive(Default)]
struct Shared {
    steps: Mutex<VecDeque<Step>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
}

pub(crate) struct Server {
    pub(crate) url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(steps: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            steps: Mutex::new(steps.into_iter().collect()),
            ..Shared::default()
        });
        let task = tokio::spawn(serve(listener, shared.clone()));
        Self { url, shared, task }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// How many connections were made, told to whoever holds the function.
    pub(crate) fn connections(&self) -> impl Fn() -> usize + Send + 'static {
        let shared = self.shared.clone();
        move || shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(answer(stream, shared.clone()));
    }
}

async fn answer(mut stream: TcpStream, shared: Arc<Shared>) {
    let Some((bytes, head)) = read_request(&mut stream).await else {
        return;
    };
    shared.seen.lock().unwrap().push(parse(&bytes, head));
    let step = shared.steps.lock().unwrap().pop_front();
    let response = match step.unwrap_or_else(|| Step::say(418, "not in the script")) {
        Step::Say(status, headers, body) => {
            let length = body.len();
            format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
            )
        }
        Step::Close => return,
        Step::Cut => "HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"half\":".to_owned(),
        Step::Stream(chunks) => {
            let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
            format!("{head}{}0\r\n\r\n", chunk.repeat(chunks))
        }
        Step::Hang => return std::future::pending().await,
    };
    let _gone = stream.write_all(response.as_bytes()).await;
    let _gone = stream.shutdown().await;
}

/// One request and the length of its head, or nothing if the caller went away.
pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(head) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            let seen = parse(&bytes, head + 4);
            let length = seen
                .header("content-length")
                .map_or(0, |text| text.parse().unwrap());
            if bytes.len() >= head + 4 + length {
                return Some((bytes, head + 4));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn parse(bytes: &[u8], head: usize) -> Seen {
    let text = std::str::from_utf8(&bytes[..head]).unwrap();
    let mut lines = text.trim_end().split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    Seen {
        line,
        headers: lines.map(header).collect(),
        body: String::from_utf8_lossy(&bytes[head..]).into_owned(),
    }
}
