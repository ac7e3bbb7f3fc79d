//! A server whose files misbehave, each in its own way, and which notes every request. Content is computed, not kept.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest, Sha256};

/// How much is written at a time.
const CHUNK: u64 = 256 << 10;

/// How a file misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Temper {
    Honest,
    /// 500 to the first two requests.
    Broken,
    /// 429 with Retry-After to the first.
    Busy,
    /// 302 to where it is.
    Moved,
    /// The first three bodies end in the middle.
    Cut,
    /// The first body ends in the middle, and then it is another version.
    Changes,
    /// The first body is shorter than its Content-Length says.
    Short,
    /// 405 to HEAD.
    NoHead,
    /// Ranges are not known, and the first body ends in the middle.
    NoRanges,
    /// Every connection brings at most this much of it, and all of it takes about this long.
    Large(u64, Duration),
}

/// One file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) temper: Temper,
    pub(crate) seed: u64,
    pub(crate) size: u64,
}

impl Page {
    fn at(&self, version: u64, block: u64) -> [u8; 8] {
        let mut x = (self.seed ^ version.rotate_left(32))
            .wrapping_add(block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)).to_le_bytes()
    }

    /// Bytes of a version from `from`, at most `most`, to the end of the file.
    fn bytes(&self, version: u64, from: u64, most: u64) -> Vec<u8> {
        let end = self.size.min(from + most);
        let blocks = from / 8..end.div_ceil(8);
        let bytes: Vec<u8> = blocks.flat_map(|block| self.at(version, block)).collect();
        let skip = usize::try_from(from % 8).unwrap();
        bytes[skip..skip + usize::try_from(end.saturating_sub(from)).unwrap()].to_vec()
    }

    /// The version that a download must end with.
    fn last_version(&self) -> u64 {
        u64::from(self.temper == Temper::Changes)
    }

    /// The sha256 that a download must end with.
    pub(crate) fn sha256(&self) -> String {
        let mut hasher = Sha256::new();
        let mut at = 0;
        while at < self.size {
            let some = self.bytes(self.last_version(), at, 1 << 20);
            at += some.len() as u64;
            hasher.update(&some);
        }
        data_encoding::HEXLOWER.encode(&hasher.finalize())
    }
}

/// One GET: where its body began, and how much of it was written to the socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Get {
    pub(crate) from: u64,
}

#[derive(Default)]
struct Seen {
    requests: HashMap<String, u64>,
    bodies: HashMap<String, u64>,
    gets: HashMap<String, Vec<Get>>,
}

/// The server. It ends with the test's process.
pub(crate) struct Hostile {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Hostile {
    pub(crate) fn start(pages: HashMap<String, Page>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (pages, seen) = (Arc::new(pages), Arc::new(Mutex::new(Seen::default())));
        let noted = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (pages, seen) = (Arc::clone(&pages), Arc::clone(&noted));
                std::thread::spawn(move || {
                    // A client that was killed is what this is for.
                    let _ = serve(&stream, &pages, &seen);
                });
            }
        });
        Self { address, seen }
    }

    /// The GETs of a path so far.
    pub(crate) fn gets(&self, path: &str) -> Vec<Get> {
        self.seen
            .lock()
            .unwrap()
            .gets
            .get(path)
            .cloned()
            .unwrap_or_default()
    }
}

#[expect(clippy::too_many_lines, reason = "one place for every misbehaviour")]
fn serve(
    mut stream: &TcpStream,
    pages: &HashMap<String, Page>,
    seen: &Mutex<Seen>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let Some(first) = head.first() else {
        return Ok(());
    };
    let mut words = first.split(' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let header = |name: &str| {
        head.iter()
            .find_map(|line| {
                line.split_once(':')
                    .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            })
            .map(|(_, value)| value.trim().to_owned())
    };
    let real = path.strip_prefix("/moved").unwrap_or(path);
    let Some(page) = pages.get(real) else {
        return write!(
            stream,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    };
    let number = {
        let mut seen = seen.lock().unwrap();
        let number = seen.requests.entry(path.to_owned()).or_default();
        *number += 1;
        *number
    };
    let refuse = |status: &str, more: &str| {
        format!("HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n")
    };
    let refusal = match page.temper {
        Temper::Broken if number <= 2 => Some(refuse("500 Internal Server Error", "")),
        Temper::Busy if number == 1 => Some(refuse("429 Too Many Requests", "Retry-After: 1\r\n")),
        Temper::Moved if real == path => {
            Some(refuse("302 Found", &format!("Location: /moved{path}\r\n")))
        }
        Temper::NoHead if method == "HEAD" => Some(refuse("405 Method Not Allowed", "")),
        _ => None,
    };
    if let Some(refusal) = refusal {
        return stream.write_all(refusal.as_bytes());
    }
    let bodies = {
        let mut seen = seen.lock().unwrap();
        let bodies = seen.bodies.entry(real.to_owned()).or_default();
        *bodies += u64::from(method == "GET");
        *bodies
    };
    let version = u64::from(page.temper == Temper::Changes && bodies > 1);
    let etag = format!("\"{}-{version}\"", page.seed);
    let asked = header("range").and_then(|range| {
        range
            .strip_prefix("bytes=")?
            .split('-')
            .next()?
            .parse::<u64>()
            .ok()
    });
    let is_same = header("if-range").is_none_or(|tag| tag == etag);
    let ranges = page.temper != Temper::NoRanges;
    let from = asked
        .filter(|from| is_same && ranges && *from < page.size)
        .unwrap_or(0);
    let status = if from > 0 {
        format!(
            "206 Partial Content\r\nContent-Range: bytes {from}-{}/{}",
            page.size - 1,
            page.size
        )
    } else {
        "200 OK".to_owned()
    };
    let accepts = if ranges {
        "Accept-Ranges: bytes\r\n"
    } else {
        ""
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nETag: {etag}\r\n{accepts}Content-Length: {}\r\nConnection: close\r\n\r\n",
        page.size - from
    )?;
    if method == "HEAD" {
        return Ok(());
    }
    seen.lock()
        .unwrap()
        .gets
        .entry(real.to_owned())
        .or_default()
        .push(Get { from });
    let most = match page.temper {
        Temper::Cut if bodies <= 3 => page.size / 4,
        Temper::Changes | Temper::NoRanges if bodies == 1 => page.size / 2,
        Temper::Short if bodies == 1 => page.size - from - 1,
        Temper::Large(most, _) => most,
        _ => u64::MAX / 2,
    };
    let end = page.size.min(from + most);
    let mut at = from;
    while at < end {
        let some = page.bytes(version, at, (end - at).min(CHUNK));
        stream.write_all(&some)?;
        at += some.len() as u64;
        if let Temper::Large(_, whole) = page.temper {
            let chunks = u32::try_from(page.size.div_ceil(CHUNK)).unwrap();
            std::thread::sleep(whole / chunks);
        }
    }
    Ok(())
}
