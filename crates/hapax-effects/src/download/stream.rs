//! The step that fetches. A connection that breaks is continued from where it broke, and so is the part of a
//! runner that died, but only if the source says for sure that it is still the same version.
//!
//! Dropping the future leaves the part with everything that was written; the next run continues it.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, IF_RANGE, RANGE, TRANSFER_ENCODING};
use serde::{Deserialize, Serialize};

use super::ask::{Answer, Asker};
use super::error::{Code, Error};
use super::folder::Folder;
use super::hash::ContentHash;
use super::head::Head;
use super::headers::Encoding;
use super::lane::Lane;
use super::part::{InHand, Owner, Part, Version};
use super::pour::{self, Frame, Inlet, wrong_size};
use super::pump::{Ended, Pump};
use super::sink::{Sink, Writer};
use super::weigh::{Asked, Verdict, weigh};

/// How long to wait for a lock that a dropped run of the same lease still has.
const LOCK_WAITS: (u32, Duration) = (40, Duration::from_millis(50));

/// What is wanted: where it is, and what is known of it beforehand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Where it is.
    pub url: String,
    /// The sha256 that it must have.
    pub sha256: Option<ContentHash>,
    /// The size in bytes that it must have.
    pub size: Option<u64>,
}

impl Wanted {
    /// Whatever is at `url`.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            sha256: None,
            size: None,
        }
    }
}

/// What was fetched. It lies in a part of its job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Streamed {
    /// The sha256 of the content.
    pub sha256: ContentHash,
    /// The size of the content in bytes.
    pub size: u64,
    /// The media type.
    pub content_type: Option<String>,
    /// The entity tag.
    pub etag: Option<String>,
    /// The URL that answered, after redirects.
    pub final_url: String,
    /// How many bytes were there before this run. It is not part of the record: the content is the same.
    #[serde(skip)]
    pub resumed_from: u64,
}

/// What was fetched, and its part.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) streamed: Streamed,
    pub(super) part: InHand,
}

/// Who is told how far it is: bytes so far, and how many there will be if that is known.
pub type Progress<'a> = &'a (dyn Fn(u64, Option<u64>) + Send + Sync);

/// One run of the step.
pub(super) struct Run<'a> {
    pub(super) asker: &'a Asker,
    pub(super) lane: &'a Lane,
    pub(super) folder: &'a Folder,
    pub(super) owner: &'a Owner,
    pub(super) wanted: &'a Wanted,
    /// What the source told before, to notice a body that ends early without saying so.
    pub(super) head: Option<&'a Head>,
    /// Whether there is no part of the job for sure.
    pub(super) is_new: bool,
    pub(super) progress: Progress<'a>,
}

impl Run<'_> {
    /// Fetches, within the time of one try.
    pub(super) async fn stream(&self) -> Result<Fetched, Error> {
        let limit = self.asker.limits().try_time;
        let attempt = tokio::time::timeout(limit, self.attempt());
        attempt.await.unwrap_or_else(|_| {
            let text = format!("it took longer than {} s", limit.as_secs());
            Err(Error::retryable(Code::TimedOut, text))
        })
    }

    async fn attempt(&self) -> Result<Fetched, Error> {
        let mut writer = self.take().await?;
        let resumed_from = writer.as_ref().map_or(0, |writer| writer.part.length());
        let whole = |mut fetched: Fetched| {
            fetched.streamed.resumed_from = resumed_from;
            fetched
        };
        let mut tries = Tries::new(self.asker, resumed_from);
        let mut trusts_ranges = true;
        loop {
            if let Some(there) = writer.take_if(|writer| writer.part.is_whole()) {
                return self.settle(there).await.map(whole);
            }
            let asked = writer.as_ref().filter(|_| trusts_ranges).and_then(asked);
            let verdict = match self.ask(asked.as_ref()).await {
                Ok((answer, verdict)) => verdict.map(|verdict| (answer, verdict)),
                Err(error) => Err(error),
            };
            let (answer, verdict) = match verdict {
                Ok(found) => found,
                Err(error) => {
                    tries.fruitless(error).await?;
                    continue;
                }
            };
            let (inlet, end) = match verdict {
                Verdict::Append { until } => {
                    let Some(writer) = writer.take() else {
                        continue;
                    };
                    let sink = Sink::new(writer, Encoding::Identity, self.asker.limits());
                    (Inlet::Open(sink), Some(until))
                }
                Verdict::Fresh(mut version, encoding) => {
                    if encoding == Encoding::Identity && ends_with_connection(&answer) {
                        version.length = self.told_length(&version);
                    }
                    self.fits(version.length)?;
                    let end = version.length;
                    (self.fresh(writer.take(), version, encoding).await?, end)
                }
                Verdict::Whole => match writer.take() {
                    Some(writer) => return self.settle(writer).await.map(whole),
                    None => continue,
                },
                Verdict::Distrust(why) => {
                    trusts_ranges = false;
                    tries
                        .fruitless(Error::retryable(Code::Network, why))
                        .await?;
                    continue;
                }
            };
            match self.pump(answer, inlet, end).await? {
                Ended::Whole(fetched) => return Ok(whole(fetched)),
                Ended::Broken(cut, error) => {
                    let length = cut.as_ref().map_or(0, |writer| writer.part.length());
                    tries.broken(length, error).await?;
                    writer = cut;
                }
            }
        }
    }

    /// What an earlier run left, its bytes hashed.
    async fn take(&self) -> Result<Option<Writer>, Error> {
        if self.is_new {
            return Ok(None);
        }
        for _wait in 0..LOCK_WAITS.0 {
            let (folder, owner) = (self.folder.clone(), self.owner.clone());
            let limits = self.asker.limits().clone();
            let url = self.wanted.url.clone();
            let taken = off(move || match Part::take(&folder, &owner)? {
                Some(part) if part.version().url == url => Writer::on(part, &limits).map(Some),
                Some(part) => part.discard().map(|()| None),
                None => Ok(None),
            })
            .await?;
            match taken {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(LOCK_WAITS.1).await;
                }
                taken => return taken.map_err(|error| Error::disk("taking the part over", &error)),
            }
        }
        let text = "somebody else writes the part of this lease";
        Err(Error::retryable(Code::PartBusy, text))
    }

    async fn ask(&self, asked: Option<&Asked>) -> Result<(Answer, Result<Verdict, Error>), Error> {
        let mut headers = HeaderMap::new();
        if let Some(asked) = asked {
            let range = format!("bytes={}-", asked.from);
            let value = |text: &str| {
                HeaderValue::from_str(text)
                    .map_err(|_| Error::retryable(Code::Network, "a header cannot be sent back"))
            };
            headers.insert(RANGE, value(&range)?);
            headers.insert(IF_RANGE, value(&asked.if_range)?);
        }
        let answer = self
            .asker
            .ask(&Method::GET, &self.wanted.url, &headers)
            .await?;
        let refused = || self.asker.refused(&answer.response);
        let verdict = weigh(
            &self.wanted.url,
            answer.url.as_str(),
            (answer.response.status(), answer.response.headers()),
            asked,
        );
        let verdict = verdict.and_then(|verdict| verdict.ok_or_else(refused));
        Ok((answer, verdict))
    }

    /// The length that was told before of this very version.
    fn told_length(&self, version: &Version) -> Option<u64> {
        let head = self.head?;
        let is_same = head.etag.is_some() && head.etag == version.etag;
        head.length.filter(|_| is_same)
    }

    /// Whether a length that was announced is one that is wanted.
    fn fits(&self, length: Option<u64>) -> Result<(), Error> {
        let Some(length) = length else { return Ok(()) };
        let most = self.asker.limits().size_bytes_max;
        if length > most {
            return Err(super::head::too_large(length, most));
        }
        match self.wanted.size {
            Some(size) if size != length => Err(wrong_size(size, length)),
            _ => Ok(()),
        }
    }

    /// An empty part for this version: in place of what there was, or made with the first bytes.
    async fn fresh(
        &self,
        writer: Option<Writer>,
        version: Version,
        encoding: Encoding,
    ) -> Result<Inlet, Error> {
        let Some(writer) = writer else {
            return Ok(Inlet::New(version, encoding));
        };
        let limits = self.asker.limits().clone();
        let started = off(move || {
            let part = writer.part.start_over(version)?;
            let sink = Sink::new(Writer::new(part, &limits), encoding, &limits);
            Ok(Inlet::Open(sink))
        });
        started
            .await?
            .map_err(|error: std::io::Error| Error::disk("starting a part", &error))
    }

    /// Writes the body to its end, or to where it breaks. It never writes past `end`.
    async fn pump(&self, answer: Answer, inlet: Inlet, end: Option<u64>) -> Result<Ended, Error> {
        let pump = Pump::new(self.frame(), (self.lane, self.progress), end);
        pump.run(answer, inlet).await
    }

    async fn settle(&self, writer: Writer) -> Result<Fetched, Error> {
        let wanted = self.wanted.clone();
        let fetched = off(move || pour::settle(writer, &wanted)).await??;
        let size = fetched.streamed.size;
        (self.progress)(size, Some(size));
        Ok(fetched)
    }

    fn frame(&self) -> Frame {
        Frame {
            folder: self.folder.clone(),
            owner: self.owner.clone(),
            wanted: self.wanted.clone(),
            limits: self.asker.limits().clone(),
        }
    }
}

/// How often nothing new came, and what the most was.
struct Tries<'a> {
    asker: &'a Asker,
    fruitless: u32,
    most: u64,
}

impl<'a> Tries<'a> {
    fn new(asker: &'a Asker, most: u64) -> Self {
        Self {
            asker,
            fruitless: 0,
            most,
        }
    }

    /// A connection broke after the part had `length` bytes: rests, or gives up if too many brought nothing.
    async fn broken(&mut self, length: u64, error: Error) -> Result<(), Error> {
        if length > self.most {
            self.most = length;
            self.fruitless = 0;
            tokio::time::sleep(self.asker.limits().rest).await;
            return Ok(());
        }
        self.fruitless(error).await
    }

    /// A request brought nothing: rests, or gives up.
    async fn fruitless(&mut self, error: Error) -> Result<(), Error> {
        self.fruitless += 1;
        let limits = self.asker.limits();
        let is_too_long = error.wait().is_some_and(|wait| wait > limits.patience);
        if !error.is_retryable() || is_too_long || self.fruitless >= limits.fruitless_max {
            return Err(error);
        }
        tracing::debug!(%error, fruitless = self.fruitless, "a download goes on after a rest");
        let doubled = limits.rest.saturating_mul(1 << self.fruitless.min(16));
        tokio::time::sleep(doubled.min(limits.patience)).await;
        Ok(())
    }
}

/// Whether only the end of the connection says that the body is over.
fn ends_with_connection(answer: &Answer) -> bool {
    let headers = answer.response.headers();
    answer.response.version() <= reqwest::Version::HTTP_11
        && !headers.contains_key(CONTENT_LENGTH)
        && !headers.contains_key(TRANSFER_ENCODING)
}

fn asked(writer: &Writer) -> Option<Asked> {
    let from = writer.part.length();
    let version = writer.part.version();
    let if_range = version.if_range.clone()?;
    (from > 0).then(|| Asked {
        from,
        if_range,
        version: version.clone(),
    })
}

/// Runs what is slow away from the threads that wait for sockets.
pub(super) async fn off<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::retryable(Code::Disk, format!("a worker thread ended: {error}")))
}
