//! A stretch of a stream that is held in memory and moves forward. It knows where it stands.

use std::fmt;
use std::io::{self, Read};

/// How much is read at once, in bytes.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

pub(super) struct Window<R> {
    read: R,
    data: Vec<u8>,
    head: usize,
    offset: u64,
    ended: bool,
}

impl<R: Read> Window<R> {
    pub(super) fn new(read: R, offset: u64) -> Self {
        Self {
            read,
            data: Vec::new(),
            head: 0,
            offset,
            ended: false,
        }
    }

    /// Where the held stretch begins in the stream.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn held(&self) -> &[u8] {
        &self.data[self.head..]
    }

    /// Holds at least `len` bytes, unless the stream ends before; gives what is held.
    pub(super) fn fill(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.held().len() < len && !self.ended {
            let chunk = self.read.by_ref().take(CHUNK_BYTES as u64);
            let got = { chunk }.read_to_end(&mut self.data)?;
            self.ended = got < CHUNK_BYTES;
        }
        Ok(self.held())
    }

    /// The line at `at`, its end included: what is there of it when the stream ends, or when it grows beyond
    /// `len_max` and a chunk.
    pub(super) fn line(&mut self, at: usize, len_max: usize) -> io::Result<&[u8]> {
        let mut seen = at;
        let end = loop {
            let held = self.fill(seen + 1)?;
            let len = held.len();
            if len <= seen {
                break len;
            }
            if let Some(found) = memchr::memchr(b'\n', &held[seen..]) {
                break seen + found + 1;
            }
            if len - at >= len_max {
                break len;
            }
            seen = len;
        };
        Ok(&self.held()[at.min(end)..end])
    }

    /// Lets go of the first `len` bytes.
    pub(super) fn skip(&mut self, len: usize) {
        self.head += len.min(self.held().len());
        self.offset += len as u64;
        // Each byte is moved at most once for each that was let go of.
        if self.head >= self.data.len() / 2 {
            self.data.drain(..self.head);
            self.head = 0;
            if self.data.capacity() > 8 * CHUNK_BYTES && self.data.len() < self.data.capacity() / 4
            {
                self.data.shrink_to(2 * self.data.len() + CHUNK_BYTES);
            }
        }
    }
}

impl<R> fmt::Debug for Window<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("offset", &self.offset)
            .field("held_bytes", &(self.data.len() - self.head))
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
