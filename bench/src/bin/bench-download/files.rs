//! The files that are downloaded, made of nothing but their number, and a server for them that does as little as it can:
//! HTTP/1.1 with connections that stay, entity tags and ranges.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use hapax_bench::chance::Chance;

/// The bytes of a large file are this block, again and again.
const BLOCK_BYTES: usize = 1 << 20;
/// The longest line of a request that is read.
const LINE_BYTES_MAX: u64 = 8 << 10;

/// How many files of which sizes there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) small: u64,
    pub(crate) large: u64,
    pub(crate) large_bytes: u64,
    /// How long each answer waits, as if the server were far away.
    pub(crate) delay_ms: u64,
}

/// A file, named by its path.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

impl Sizes {
    /// The small files: 4 to 64 KB each.
    pub(crate) fn small(self) -> Vec<Kept> {
        (0..self.small)
            .map(|number| Kept {
                path: format!("small/{number}"),
                bytes: 4_096 + Chance::new(number).next() % 61_440,
            })
            .collect()
    }

    /// The large ones.
    pub(crate) fn large(self) -> Vec<Kept> {
        (0..self.large)
            .map(|number| Kept {
                path: format!("large/{number}"),
                bytes: self.large_bytes,
            })
            .collect()
    }
}

/// Serves the files until the process is ended. Says where on its standard output.
///
/// # Errors
/// When no port can be had.
pub(crate) fn serve(sizes: Sizes) -> Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    println!("{}", listener.local_addr()?);
    let contents = Arc::new(Contents::of(sizes));
    for stream in listener.incoming() {
        let (stream, contents) = (
            stream.context("taking a connection")?,
            Arc::clone(&contents),
        );
        thread::spawn(move || {
            // A client that goes away ends its connection, and that is all.
            if let Err(gone) = answer(&stream, &contents) {
                eprintln!("a connection ended: {gone}");
            }
        });
    }
    Ok(())
}

struct Contents {
    sizes: Sizes,
    small: Vec<Vec<u8>>,
    blocks: Vec<Vec<u8>>,
}

impl Contents {
    fn of(sizes: Sizes) -> Self {
        let bytes = |seed: u64, length: u64| {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            Chance::new(seed).fill(&mut bytes);
            bytes
        };
        let small = sizes.small().into_iter().zip(1_000..);
        let large = sizes.large().into_iter().zip(1..);
        Self {
            sizes,
            small: small.map(|(kept, seed)| bytes(seed, kept.bytes)).collect(),
            blocks: large
                .map(|(_, seed)| bytes(seed, BLOCK_BYTES as u64))
                .collect(),
        }
    }

    /// The block that a file is made of, and its length.
    fn find(&self, path: &str) -> Option<(&[u8], u64)> {
        let (kind, number) = path.strip_prefix('/')?.split_once('/')?;
        let number: usize = number.parse().ok()?;
        match kind {
            "small" => self
                .small
                .get(number)
                .map(|bytes| (bytes.as_slice(), bytes.len() as u64)),
            "large" => self
                .blocks
                .get(number)
                .map(|block| (block.as_slice(), self.sizes.large_bytes)),
            _ => None,
        }
    }
}

/// What is read of a request.
struct Request {
    is_head: bool,
    path: String,
    from: Option<u64>,
    until: Option<u64>,
    stays: bool,
}

fn answer(stream: &TcpStream, contents: &Contents) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream);
    while let Some(request) = read(&mut lines)? {
        thread::sleep(Duration::from_millis(contents.sizes.delay_ms));
        let Some((block, length)) = contents.find(&request.path) else {
            (&*stream).write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
            continue;
        };
        let from = request.from.unwrap_or(0).min(length);
        let end = request
            .until
            .map_or(length, |until| (until + 1).min(length));
        let mut head = match request.from {
            Some(_) => format!(
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{length}\r\n",
                end.saturating_sub(1)
            ),
            None => "HTTP/1.1 200 OK\r\n".to_owned(),
        };
        let tag = request.path.trim_start_matches('/').replace('/', "-");
        let more = [
            "Content-Type: application/octet-stream",
            "Accept-Ranges: bytes",
            "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT",
            &format!("ETag: \"{tag}\""),
            &format!("Content-Length: {}", end - from),
        ];
        head.push_str(&more.join("\r\n"));
        head.push_str("\r\n\r\n");
        send(
            stream,
            head.into_bytes(),
            block,
            (from, end),
            request.is_head,
        )?;
        if !request.stays {
            break;
        }
    }
    Ok(())
}

/// Sends the head and what is asked for of the body: a small one in the same write.
fn send(
    mut stream: &TcpStream,
    mut head: Vec<u8>,
    block: &[u8],
    (from, end): (u64, u64),
    is_head: bool,
) -> Result<()> {
    if is_head {
        return Ok(stream.write_all(&head)?);
    }
    let mut at = from;
    while at < end {
        let start = usize::try_from(at % block.len() as u64)?;
        let most = usize::try_from(end - at)?.min(block.len() - start);
        let piece = &block[start..start + most];
        if head.is_empty() {
            stream.write_all(piece)?;
        } else {
            head.extend_from_slice(piece);
            stream.write_all(&head)?;
            head.clear();
        }
        at += most as u64;
    }
    Ok(stream.write_all(&head)?)
}

/// The next request of a connection; `None` at its end.
fn read(lines: &mut impl BufRead) -> Result<Option<Request>> {
    let mut line = String::new();
    if next(lines, &mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ');
    let is_head = words.next() == Some("HEAD");
    let path = words.next().context("a request names no path")?.to_owned();
    let mut request = Request {
        is_head,
        path,
        from: None,
        until: None,
        stays: true,
    };
    loop {
        next(lines, &mut line)?;
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            return Ok(Some(request));
        }
        if let Some(range) = header.strip_prefix("range: bytes=") {
            let (from, until) = range.split_once('-').context("a range has no end")?;
            request.from = from.parse().ok();
            request.until = until.parse().ok();
        }
        request.stays &= header != "connection: close";
    }
}

fn next(lines: &mut impl BufRead, line: &mut String) -> Result<usize> {
    line.clear();
    Ok(lines.by_ref().take(LINE_BYTES_MAX).read_line(line)?)
}
