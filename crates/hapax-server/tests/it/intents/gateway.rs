//! A gateway that notes every call by its key, and answers as it is told.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// How the next calls are answered; after them all with 200.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mood {
    Refuse(u16),
    /// It does what it is asked, and says so too late.
    Late(Duration),
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    moods: Vec<Mood>,
    pace: Duration,
}

/// The gateway. It ends with the test's process.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Gateway {
    pub(crate) fn start(moods: &[Mood]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            moods: moods.iter().rev().copied().collect(),
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || {
                    // A caller that was killed is what this is for.
                    let _ = serve(&stream, &state);
                });
            }
        });
        Self { address, state }
    }

    /// Takes this long for every call from now on.
    pub(crate) fn pace(&self, pace: Duration) {
        self.state.lock().unwrap().pace = pace;
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    /// How often each key came.
    pub(crate) fn keys(&self) -> BTreeMap<String, usize> {
        let mut keys = BTreeMap::new();
        for call in self.calls() {
            let key = call.body["idempotency_key"].as_str().unwrap().to_owned();
            *keys.entry(key).or_default() += 1;
        }
        keys
    }
}

fn serve(mut stream: &TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if lines.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let length = head
        .lines()
        .find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then_some(value)
        })
        .and_then(|length| length.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    lines.read_exact(&mut body)?;
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let call = Call {
        path,
        head,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    let (mood, pace) = {
        let mut state = state.lock().unwrap();
        state.calls.push(call);
        (state.moods.pop(), state.pace)
    };
    std::thread::sleep(pace);
    let status = match mood {
        Some(Mood::Refuse(status)) => status,
        Some(Mood::Late(late)) => {
            std::thread::sleep(late);
            200
        }
        None => 200,
    };
    let answer = r#"{"ok":true,"notion_page_id":"p-1"}"#;
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
        answer.len()
    )
}
