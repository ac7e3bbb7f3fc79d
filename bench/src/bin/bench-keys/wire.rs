//! One kept-alive HTTP/1.1 connection that costs little: it writes a request made beforehand and reads the
//! head of the answer only as far as the bench needs it.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No answer is longer than this.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Longer than any answer takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection and what was read from it last.
pub(crate) struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
    filled: usize,
}

/// What came back.
pub(crate) struct Answer<'w> {
    pub(crate) status: u16,
    /// Whether a header says that it was recorded earlier.
    pub(crate) replayed: bool,
    pub(crate) body: &'w [u8],
}

/// What a head says.
struct Head {
    status: u16,
    replayed: bool,
    body_bytes: usize,
}

impl Wire {
    /// Opens a connection.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            read: vec![0; 4096],
            filled: 0,
        })
    }

    /// Sends a whole request and reads its whole answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        let asked = async {
            self.stream.write_all(request).await?;
            self.filled = 0;
            self.answer().await
        };
        let (head, body) = tokio::time::timeout(PATIENCE, asked)
            .await
            .context("the server did not answer in time")??;
        Ok(Answer {
            status: head.status,
            replayed: head.replayed,
            body: &self.read[body],
        })
    }

    async fn answer(&mut self) -> Result<(Head, Range<usize>)> {
        let (head, start) = loop {
            self.fill().await?;
            if let Some(end) = end_of_head(&self.read[..self.filled]) {
                break (Head::parse(&self.read[..end])?, end);
            }
        };
        let end = start + head.body_bytes;
        while self.filled < end {
            self.fill().await?;
        }
        anyhow::ensure!(
            self.filled == end,
            "the server sent more than its answer's length"
        );
        Ok((head, start..end))
    }

    async fn fill(&mut self) -> Result<()> {
        if self.filled == self.read.len() {
            anyhow::ensure!(
                self.filled < ANSWER_BYTES_MAX,
                "the answer has no end in sight"
            );
            self.read.resize(self.filled * 2, 0);
        }
        match self.stream.read(&mut self.read[self.filled..]).await? {
            0 => bail!("the server closed the connection"),
            count => self.filled += count,
        }
        Ok(())
    }
}

impl Head {
    fn parse(head: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(head).context("the head is not text")?;
        let mut lines = text.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .and_then(|status| status.parse().ok())
            .context("the answer has no status")?;
        let mut parsed = Self {
            status,
            replayed: false,
            body_bytes: 0,
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                parsed.body_bytes = value.trim().parse().context("a length is no number")?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                bail!("the answer comes in chunks, which this bench does not read");
            } else {
                parsed.replayed |= marks_replay(name);
            }
        }
        Ok(parsed)
    }
}

/// Whether a header of this name says that the answer is a replay, in the words of hapax or of a peer.
fn marks_replay(name: &str) -> bool {
    name.eq_ignore_ascii_case("idempotency-replayed")
        || name.eq_ignore_ascii_case("idempotent-replayed")
}

/// Where the body begins, once the head is there.
fn end_of_head(read: &[u8]) -> Option<usize> {
    read.windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_status_length_and_replay() {
        let head =
            b"HTTP/1.1 201 Created\r\ncontent-length: 12\r\nIdempotency-Replayed: true\r\n\r\n";
        assert_eq!(end_of_head(head), Some(head.len()));
        let head = Head::parse(head).unwrap();
        assert_eq!(
            (head.status, head.body_bytes, head.replayed),
            (201, 12, true)
        );
    }

    #[test]
    fn an_answer_in_chunks_is_refused_rather_than_misread() {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert!(Head::parse(head).is_err());
    }
}
