//! A body on its way from its connection to its part: what has come is written while more comes. A part that gets long
//! is made durable beside that.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout, timeout_at};

use super::ask::{Answer, trouble};
use super::error::{Code, Error};
use super::lane::Lane;
use super::pour::{Frame, Inlet, Last, Pour};
use super::sink::{Sink, Writer};
use super::stream::{Fetched, Progress, off};

/// How much of a body is gathered before it is written, if it comes faster than that.
const GATHER_BYTES: u64 = 512 << 10;

/// How many pieces of a body are gathered: a sender may make them as small as it likes.
const GATHER_CHUNKS: usize = 1024;
/// How long the first bytes wait for the rest, so that a small body is written whole.
const FIRST_WAIT: Duration = Duration::from_millis(5);
/// How many times the span between two syncs may be written and not synced, on a disk that is slower than the source.
const UNSYNCED_MAX: u64 = 4;

/// How a body ended.
#[allow(clippy::large_enum_variant, reason = "one per body, moved a few times")]
pub(super) enum Ended {
    Whole(Fetched),
    /// With what there is of it, if anything.
    Broken(Option<Writer>, Error),
}

/// One body.
pub(super) struct Pump<'a> {
    frame: Arc<Frame>,
    lane: &'a Lane,
    progress: Progress<'a>,
    /// How many bytes there will be, if that is known.
    total: Option<u64>,
    /// Where the body has to end, and how far that is.
    end: Option<u64>,
    left: Option<u64>,
    /// What makes the part durable beside all this.
    syncing: Option<JoinHandle<io::Result<u64>>>,
}

impl<'a> Pump<'a> {
    pub(super) fn new(
        frame: Frame,
        (lane, progress): (&'a Lane, Progress<'a>),
        end: Option<u64>,
    ) -> Self {
        Self {
            frame: Arc::new(frame),
            lane,
            progress,
            total: None,
            end,
            left: None,
            syncing: None,
        }
    }

    /// Writes the body to its end, or to where it breaks. It never writes past its end.
    pub(super) async fn run(mut self, answer: Answer, inlet: Inlet) -> Result<Ended, Error> {
        let length = inlet.length();
        self.total = inlet.total();
        self.left = self.end.map(|end| end.saturating_sub(length));
        // What was there before is told first, so that it does not count as fetched.
        (self.progress)(length, self.total);
        let ended = self.pump(answer, inlet).await;
        // Nobody else may write the note before this is over.
        let is_synced = self.wait_for_sync().await;
        ended.and_then(|ended| is_synced.map(|_| ended))
    }

    async fn pump(&mut self, mut answer: Answer, mut inlet: Inlet) -> Result<Ended, Error> {
        let idle = self.frame.limits.idle_time;
        let mut gathered = Gathered::first(&mut answer, idle).await;
        loop {
            if self.left.is_some_and(|left| gathered.length > left) && inlet.is_plain() {
                self.wait_for_sync().await?;
                off(|| inlet.throw_away()).await??;
                let text = "the server sent more than it had announced";
                return Err(Error::retryable(Code::SizeMismatch, text));
            }
            self.left = self.left.map(|left| left.saturating_sub(gathered.length));
            metrics::counter!("hapax_download_bytes_total").increment(gathered.length);
            match gathered.ending.take() {
                None => {
                    let sink;
                    (sink, gathered) = self.write_and_gather(inlet, gathered, &mut answer).await?;
                    inlet = Inlet::Open(sink);
                }
                Some(Ok(())) => {
                    // The host's turn is over; somebody else may ask it.
                    drop(answer);
                    self.wait_for_sync().await?;
                    return self.write_last(inlet, gathered).await;
                }
                Some(Err(error)) if gathered.bytes.is_empty() => {
                    return Ok(Ended::Broken(inlet.into_writer(), error));
                }
                Some(Err(error)) => {
                    let pour = self.pour(inlet, gathered);
                    let sink = off(move || pour.more()).await??;
                    self.tell(&sink);
                    return Ok(Ended::Broken(Some(sink.into_writer()), error));
                }
            }
        }
    }

    /// Writes what has come, while more comes.
    async fn write_and_gather(
        &mut self,
        inlet: Inlet,
        gathered: Gathered,
        answer: &mut Answer,
    ) -> Result<(Sink, Gathered), Error> {
        let idle = self.frame.limits.idle_time;
        let pour = self.pour(inlet, gathered);
        let writing = off(move || pour.more());
        tokio::pin!(writing);
        let mut more = Gathered::default();
        let mut sink = loop {
            tokio::select! {
                biased;
                sink = &mut writing => break sink??,
                () = more.chunk(answer, idle), if !more.is_full() => {}
            }
        };
        self.tell(&sink);
        self.sync_beside(&mut sink).await?;
        if more.bytes.is_empty() && more.ending.is_none() {
            more.chunk(answer, idle).await;
        }
        Ok((sink, more))
    }

    async fn write_last(&mut self, inlet: Inlet, gathered: Gathered) -> Result<Ended, Error> {
        // What is decoded may become much more than was gathered, and take long.
        let is_short = inlet.is_plain();
        let (pour, end) = (self.pour(inlet, gathered), self.end);
        let last = move || pour.last(end);
        let poured = if is_short {
            self.lane.run(last).await?
        } else {
            off(last).await?
        };
        Ok(match poured? {
            Last::Whole(fetched) => {
                let size = fetched.streamed.size;
                (self.progress)(size, Some(size));
                Ended::Whole(fetched)
            }
            Last::Short(writer, error) => Ended::Broken(Some(writer), error),
        })
    }

    fn pour(&self, inlet: Inlet, gathered: Gathered) -> Pour {
        Pour {
            frame: Arc::clone(&self.frame),
            inlet,
            bytes: gathered.bytes,
        }
    }

    fn tell(&self, sink: &Sink) {
        (self.progress)(sink.writer().part.length(), self.total);
    }

    /// Makes the part durable each time it has become so much longer, beside what is written meanwhile.
    async fn sync_beside(&mut self, sink: &mut Sink) -> Result<(), Error> {
        let part = &mut sink.writer_mut().part;
        let every = self.frame.limits.sync_bytes;
        let unsynced = part.length() - part.synced();
        let is_done = self.syncing.as_ref().is_some_and(JoinHandle::is_finished);
        if (is_done || unsynced >= every.saturating_mul(UNSYNCED_MAX))
            && let Some(synced) = self.wait_for_sync().await?
        {
            part.was_synced(synced);
        }
        if self.syncing.is_none() && part.length() - part.synced() >= every {
            let work = part.syncing().map_err(|error| not_synced(&error))?;
            self.syncing = Some(tokio::task::spawn_blocking(work));
        }
        Ok(())
    }

    async fn wait_for_sync(&mut self) -> Result<Option<u64>, Error> {
        match self.syncing.take() {
            Some(syncing) => synced(syncing.await).map(Some),
            None => Ok(None),
        }
    }
}

fn synced(ended: Result<io::Result<u64>, JoinError>) -> Result<u64, Error> {
    let ended = ended.map_err(io::Error::other).and_then(|synced| synced);
    ended.map_err(|error| not_synced(&error))
}

fn not_synced(error: &io::Error) -> Error {
    Error::disk("making the part durable", error)
}

/// What has come of a body and is not written yet.
#[derive(Default)]
struct Gathered {
    bytes: Vec<Bytes>,
    length: u64,
    /// How the body ended, if it did.
    ending: Option<Result<(), Error>>,
}

impl Gathered {
    /// The first of a body, and what comes right behind it.
    async fn first(answer: &mut Answer, idle: Duration) -> Self {
        let mut gathered = Self::default();
        gathered.chunk(answer, idle).await;
        let until = Instant::now() + FIRST_WAIT;
        while !gathered.is_full() {
            if timeout_at(until, gathered.chunk(answer, idle))
                .await
                .is_err()
            {
                break;
            }
        }
        gathered
    }

    fn is_full(&self) -> bool {
        self.ending.is_some() || self.length >= GATHER_BYTES || self.bytes.len() >= GATHER_CHUNKS
    }

    /// Waits for the next bytes, or for the end. Dropping the future loses nothing.
    async fn chunk(&mut self, answer: &mut Answer, idle: Duration) {
        match timeout(idle, answer.response.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                self.length += bytes.len() as u64;
                self.bytes.push(bytes);
            }
            Ok(Ok(None)) => self.ending = Some(Ok(())),
            Ok(Err(error)) => self.ending = Some(Err(trouble(&error))),
            Err(_) => {
                let text = format!("no byte came for {} ms", idle.as_millis());
                self.ending = Some(Err(Error::retryable(Code::TimedOut, text)));
            }
        }
    }
}
