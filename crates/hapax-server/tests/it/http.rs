//! The smallest HTTP/1.1 client: it can send what a good client never would.

use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|why| panic!("{why} in {}: {}", self.status, self.text()))
    }

    /// The code of the error envelope, which must be whole.
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        assert!(body["error"]["message"].is_string(), "{body}");
        assert!(body["error"]["details"].is_object(), "{body}");
        assert_eq!(
            body["trace_id"].as_str(),
            self.header("x-trace-id"),
            "{body}"
        );
        body["error"]["code"].as_str().unwrap().to_owned()
    }

    /// Status and code in one, as tests compare them.
    pub(crate) fn refusal(&self) -> (u16, String) {
        (self.status, self.code())
    }
}

/// A request on a connection of its own.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let answer = raw(address, &message(address, method, path, headers, body));
    parse(&answer).unwrap_or_else(|| panic!("no answer to {method} {path}: {answer:?}"))
}

/// The same to a server that may die meanwhile: the answer, if all of it came.
pub(crate) fn try_request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .ok()?;
    stream
        .write_all(&message(address, method, path, headers, body))
        .ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = parse(&answer)?;
    let length = answer.header("content-length").map(str::parse::<usize>);
    let whole = length.is_none_or(|length| length == Ok(answer.body.len()));
    whole.then_some(answer)
}

fn message(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let named: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let named = named.concat();
    let length = match body.len() {
        0 => String::new(),
        length => format!("content-length: {length}\r\n"),
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{named}{length}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Sends these bytes and reads until the server closes.
pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    let mut writer = stream.try_clone().unwrap();
    let bytes = bytes.to_vec();
    // Beside the reading: a server may answer, and stop reading, before all is sent.
    let written = std::thread::spawn(move || {
        let _ = writer.write_all(&bytes);
    });
    let mut answer = Vec::new();
    let mut piece = [0; 16_384];
    loop {
        match stream.read(&mut piece) {
            // A reset after the answer, or instead of one: the caller looks at what came.
            Ok(0) | Err(_) => break,
            Ok(length) => answer.extend_from_slice(&piece[..length]),
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    written.join().unwrap();
    answer
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    // Far beyond what any test needs: a hang fails instead of blocking the suite.
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream
}

/// The first final answer in these bytes.
pub(crate) fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    if status == 100 {
        return parse(&bytes[end + 4..]);
    }
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    });
    Some(Answer {
        status,
        headers: headers.collect(),
        body: bytes[end + 4..].to_vec(),
    })
}
