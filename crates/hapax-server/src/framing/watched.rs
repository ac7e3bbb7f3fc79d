//! A connection whose request heads are looked at before they are passed on.
//! It passes bodies on as they come, and HTTP/2 and upgraded connections untouched.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::chunks::{Chunks, Progress};
use super::end_to_end::EndToEnd;
use super::head::{self, Follows};
use crate::busy::Busy;

/// What hyper gets instead of a head that was refused: a request for the service to answer with the refusal.
const STAND_IN: &[u8] = b"GET / HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
/// How a client with prior knowledge of HTTP/2 begins.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// What the service of a connection is told of its heads.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The number of the head that was refused, counted from 0.
    refused_at: AtomicU64,
    why: OnceLock<&'static str>,
    open: AtomicBool,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            refused_at: AtomicU64::new(u64::MAX),
            why: OnceLock::new(),
            open: AtomicBool::new(false),
        }
    }
}

impl Watch {
    /// Why the request with this number, or one before it, was refused, if it was.
    pub(crate) fn refused(&self, number: u64) -> Option<&'static str> {
        let refused = number >= self.refused_at.load(Ordering::Acquire);
        refused.then(|| self.why.get().copied().unwrap_or("the head was refused"))
    }

    /// From now on everything passes: the connection speaks another protocol.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    fn refuse(&self, number: u64, why: &'static str) {
        let _ = self.why.set(why);
        self.refused_at.store(number, Ordering::Release);
    }
}

/// A connection that is watched.
#[derive(Debug)]
pub(crate) struct Watched<I> {
    io: I,
    watch: Arc<Watch>,
    state: State,
    /// How many heads were passed on.
    heads: u64,
    head_bytes_max: usize,
    /// Bytes that are not judged yet; up to `seen` they hold no end of a head.
    held: BytesMut,
    seen: usize,
    /// Bytes that may be passed on.
    passed: BytesMut,
    patience: Option<Patience>,
    end_to_end: Arc<EndToEnd>,
}

/// How long the end of what a client sends is kept from hyper while the client waits for an answer. Hyper takes the end
/// for a client that has gone, and drops the request; but one that has sent all it wants to send may still listen.
#[derive(Debug)]
struct Patience {
    busy: Arc<Busy>,
    lasts: Duration,
    /// Set once the end was seen.
    over: Option<Pin<Box<Sleep>>>,
    /// How many pieces of answers were taken when it was set.
    pieces: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    Bytes(u64),
    Chunks(Chunks),
    /// Nothing is looked at any more.
    Open,
    /// A head was refused: what follows it is thrown away.
    Refused,
}

impl<I> Watched<I> {
    /// Heads over `head_bytes_max` are hyper's to refuse.
    pub(crate) fn new(io: I, watch: Arc<Watch>, head_bytes_max: usize) -> Self {
        Self {
            io,
            watch,
            state: State::Head,
            heads: 0,
            head_bytes_max,
            held: BytesMut::new(),
            seen: 0,
            passed: BytesMut::new(),
            patience: None,
            end_to_end: Arc::default(),
        }
    }

    /// The same, where these headers are for the whole way.
    pub(crate) fn guarding(self, end_to_end: Arc<EndToEnd>) -> Self {
        Self { end_to_end, ..self }
    }

    /// The same, where a client that has stopped sending is answered for so long. One that has gone is noticed as late.
    pub(crate) fn patient(mut self, busy: Arc<Busy>, lasts: Duration) -> Self {
        self.patience = Some(Patience {
            busy,
            lasts,
            over: None,
            pieces: 0,
        });
        self
    }

    /// Judges what is held, and passes on what is clear.
    fn judge(&mut self) {
        while !self.held.is_empty() {
            match self.state {
                State::Head => {
                    if !self.judge_head() {
                        return;
                    }
                }
                State::Bytes(left) => {
                    let here = self
                        .held
                        .len()
                        .min(usize::try_from(left).unwrap_or(usize::MAX));
                    self.pass(here);
                    self.state = after_bytes(left - here as u64);
                }
                State::Chunks(mut chunks) => {
                    let (here, state) = after_chunks(&mut chunks, &self.held);
                    if matches!(state, State::Open) {
                        self.watch
                            .refuse(self.heads, "a body is not chunked as it says");
                    }
                    self.pass(here);
                    self.state = state;
                }
                State::Open => self.pass(self.held.len()),
                State::Refused => self.held.clear(),
            }
        }
    }

    /// Judges the head that is held. Answers false while it has no end.
    fn judge_head(&mut self) -> bool {
        // Empty lines before a request line do not count.
        let blank = self
            .held
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        self.held.advance(blank);
        self.seen = self.seen.saturating_sub(blank);
        let Some(end) = head::end(&self.held, self.seen) else {
            let hopeless = self.held[self.seen..].iter().any(|byte| is_odd(*byte));
            self.seen = self.held.len();
            if hopeless || self.seen > self.head_bytes_max {
                // Hyper says what is wrong. Should it not, the request is refused all the same.
                let why = "the head is too long, or holds what no head does";
                self.watch.refuse(self.heads, why);
                self.state = State::Open;
                return true;
            }
            return false;
        };
        self.seen = 0;
        if self.heads == 0 && &self.held[..end] == HTTP2_PREFACE {
            self.state = State::Open;
            return true;
        }
        match head::judge(&self.held[..end], &self.end_to_end) {
            Ok(follows) => {
                self.pass(end);
                self.heads += 1;
                self.state = match follows {
                    Follows::Bytes(bytes) => after_bytes(bytes),
                    Follows::Chunks => State::Chunks(Chunks::Start),
                };
            }
            Err(why) => {
                self.watch.refuse(self.heads, why);
                self.passed.extend_from_slice(STAND_IN);
                self.state = State::Refused;
            }
        }
        true
    }

    fn pass(&mut self, bytes: usize) {
        let passed = self.held.split_to(bytes);
        if self.passed.is_empty() {
            self.passed = passed;
        } else {
            self.passed.extend_from_slice(&passed);
        }
    }

    /// The end of the connection: what is held will never be clear, and hyper may say so.
    fn ended(&mut self) {
        self.state = State::Open;
        self.judge();
    }
}

/// What came of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Got {
    /// Bytes that are clear, where they are wanted.
    Passed,
    /// Bytes that are held.
    Held,
    End,
}

/// What is in no request head.
fn is_odd(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r' | b'\n')
}

fn after_bytes(left: u64) -> State {
    if left == 0 {
        State::Head
    } else {
        State::Bytes(left)
    }
}

/// How many of `bytes` belong to the body, and what comes then.
fn after_chunks(chunks: &mut Chunks, bytes: &[u8]) -> (usize, State) {
    match chunks.advance(bytes) {
        Progress::More => (bytes.len(), State::Chunks(*chunks)),
        Progress::Done(end) => (end, State::Head),
        Progress::Broken => (bytes.len(), State::Open),
    }
}

impl Patience {
    /// Waits while an answer is on its way, and no longer than this lasts with none of it taken.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if !self.busy.is_answering() {
                return Poll::Ready(());
            }
            let (lasts, pieces) = (self.lasts, self.busy.pieces());
            let over = self.over.get_or_insert_with(|| {
                self.pieces = pieces;
                Box::pin(sleep(lasts))
            });
            ready!(over.as_mut().poll(cx));
            if self.pieces == pieces {
                return Poll::Ready(());
            }
            // The client has taken some of its answer meanwhile: it is there.
            self.over = None;
        }
    }
}

impl<I: AsyncRead + Unpin> Watched<I> {
    /// Reads some bytes. They stay where they are wanted if they are clear as they are, else they are held.
    fn poll_hold(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<Got>> {
        let before = buf.filled().len();
        if buf.remaining() == 0 {
            // Nothing read into no room is not the end.
            return Poll::Ready(Ok(Got::Passed));
        }
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        if read.is_empty() {
            return Poll::Ready(Ok(Got::End));
        }
        if let Some(left) = self.clear(read) {
            self.heads += 1;
            self.state = after_bytes(left);
            return Poll::Ready(Ok(Got::Passed));
        }
        self.held.extend_from_slice(read);
        buf.set_filled(before);
        Poll::Ready(Ok(Got::Held))
    }

    /// Whether `read` is one head and what follows it as far as it is here, as nearly every request is. Answers how many
    /// bytes of the body are still to come. Whatever is not as plain is held and judged.
    fn clear(&self, read: &[u8]) -> Option<u64> {
        let begins = matches!(self.state, State::Head) && self.held.is_empty();
        if !begins || matches!(read, [b'\r' | b'\n', ..]) {
            return None;
        }
        let end = head::end(read, 0)?;
        if self.heads == 0 && &read[..end] == HTTP2_PREFACE {
            return None;
        }
        match head::judge(&read[..end], &self.end_to_end) {
            Ok(Follows::Bytes(bytes)) => bytes.checked_sub((read.len() - end) as u64),
            Ok(Follows::Chunks) | Err(_) => None,
        }
    }

    /// Reads bytes of a body of known length straight to where they are wanted.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        left: u64,
    ) -> Poll<io::Result<()>> {
        let room = buf
            .remaining()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buf.advance(read);
        self.state = after_bytes(left - read as u64);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Watched<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.watch.open.load(Ordering::Acquire) && !matches!(this.state, State::Open) {
                this.ended();
            }
            if !this.passed.is_empty() {
                let here = this.passed.len().min(buf.remaining());
                buf.put_slice(&this.passed.split_to(here));
                return Poll::Ready(Ok(()));
            }
            match this.state {
                State::Open => return Pin::new(&mut this.io).poll_read(cx, buf),
                State::Bytes(left) => return this.poll_body(cx, buf, left),
                State::Head | State::Chunks(_) | State::Refused => {
                    match ready!(this.poll_hold(cx, buf))? {
                        Got::Passed => return Poll::Ready(Ok(())),
                        Got::Held => this.judge(),
                        Got::End => {
                            if let (State::Head, Some(patience)) = (this.state, &mut this.patience)
                            {
                                ready!(patience.poll_end(cx));
                            }
                            this.ended();
                            if this.passed.is_empty() {
                                return Poll::Ready(Ok(()));
                            }
                        }
                    }
                }
            }
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Watched<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
