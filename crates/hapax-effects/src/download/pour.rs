//! What has come of a body goes into its part, away from the threads that wait for sockets: it is decoded, hashed,
//! written, and when it was the last of it, checked and noted as whole. It asks nobody for more.

use std::sync::Arc;

use bytes::Bytes;

use super::error::{Code, Error};
use super::folder::Folder;
use super::hash::ContentHash;
use super::headers::Encoding;
use super::limits::Limits;
use super::part::{Owner, Part, Version};
use super::sink::{Sink, Writer};
use super::stream::{Fetched, Streamed, Wanted};

/// Whose part it is, and what it has to become.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) folder: Folder,
    pub(super) owner: Owner,
    pub(super) wanted: Wanted,
    pub(super) limits: Limits,
}

impl Frame {
    /// Writes the bytes. A part that cannot become what is wanted goes.
    fn push(&self, mut sink: Sink, bytes: &[Bytes]) -> Result<Sink, Error> {
        let pushed = bytes.iter().try_for_each(|bytes| sink.push(bytes));
        let length = sink.writer().part.length();
        let over = match (pushed, self.wanted.size) {
            (Ok(()), Some(size)) if length > size => wrong_size(size, length),
            (Ok(()), _) => return Ok(sink),
            (Err(error), _) => error,
        };
        Err(given_up(sink.into_writer(), over))
    }
}

/// Where a body goes: into a part that is there, or into one that is made with its first bytes.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one per body, moved a few times")]
pub(super) enum Inlet {
    Open(Sink),
    New(Version, Encoding),
}

impl Inlet {
    /// How many bytes are there.
    pub(super) fn length(&self) -> u64 {
        match self {
            Inlet::Open(sink) => sink.writer().part.length(),
            Inlet::New(..) => 0,
        }
    }

    /// How many there will be, if that is known.
    pub(super) fn total(&self) -> Option<u64> {
        match self {
            Inlet::Open(sink) => sink.writer().part.version().length,
            Inlet::New(version, _) => version.length,
        }
    }

    /// Whether the bytes are written as they come.
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Inlet::Open(sink) => sink.is_plain(),
            Inlet::New(_, encoding) => *encoding == Encoding::Identity,
        }
    }

    /// The writer, if there is one yet.
    pub(super) fn into_writer(self) -> Option<Writer> {
        match self {
            Inlet::Open(sink) => Some(sink.into_writer()),
            Inlet::New(..) => None,
        }
    }

    /// Removes what is there: it is of no use.
    pub(super) fn throw_away(self) -> Result<(), Error> {
        self.into_writer().map_or(Ok(()), discard)
    }

    fn open(self, frame: &Frame) -> Result<Sink, Error> {
        match self {
            Inlet::Open(sink) => Ok(sink),
            Inlet::New(version, encoding) => {
                let part = Part::begin(&frame.folder, &frame.owner, version)
                    .map_err(|error| Error::disk("starting a part", &error))?;
                let writer = Writer::new(part, &frame.limits);
                Ok(Sink::new(writer, encoding, &frame.limits))
            }
        }
    }
}

/// Some of a body.
#[derive(Debug)]
pub(super) struct Pour {
    pub(super) frame: Arc<Frame>,
    pub(super) inlet: Inlet,
    pub(super) bytes: Vec<Bytes>,
}

/// What came of the last of a body.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one per body, moved a few times")]
pub(super) enum Last {
    Whole(Fetched),
    /// The body is over, and something is missing.
    Short(Writer, Error),
}

impl Pour {
    /// Takes the bytes in; more will come. A part that cannot become what is wanted goes.
    pub(super) fn more(self) -> Result<Sink, Error> {
        let mut sink = self.inlet.open(&self.frame)?;
        // The note first: bytes that a crash leaves without one are fetched again.
        noted(sink.writer_mut())?;
        self.frame.push(sink, &self.bytes)
    }

    /// Takes the bytes in that are the last, which should have been at `end`, and checks what there is then.
    pub(super) fn last(self, end: Option<u64>) -> Result<Last, Error> {
        let sink = self.inlet.open(&self.frame)?;
        let mut sink = self.frame.push(sink, &self.bytes)?;
        let missing = match sink.finish() {
            Ok(()) => short(&sink, end),
            Err(error) if error.is_retryable() => Some(error),
            Err(error) => return Err(given_up(sink.into_writer(), error)),
        };
        let mut writer = sink.into_writer();
        match missing {
            None => settle(writer, &self.frame.wanted).map(Last::Whole),
            Some(error) => {
                noted(&mut writer)?;
                Ok(Last::Short(writer, error))
            }
        }
    }
}

/// Checks a whole part and notes that it is whole. What is not wanted goes.
pub(super) fn settle(writer: Writer, wanted: &Wanted) -> Result<Fetched, Error> {
    let size = writer.part.length();
    let sha256 = ContentHash::of(&writer.digest());
    if let Some(error) = unwanted(wanted, size, &sha256) {
        discard(writer)?;
        return Err(error);
    }
    let version = writer.part.version().clone();
    let streamed = Streamed {
        sha256: sha256.clone(),
        size,
        content_type: version.content_type,
        etag: version.etag,
        final_url: version.final_url,
        resumed_from: 0,
    };
    let finished = writer.part.finish(sha256);
    let part = finished.map_err(|error| Error::disk("noting that the part is whole", &error))?;
    Ok(Fetched { streamed, part })
}

pub(super) fn wrong_size(wanted: u64, found: u64) -> Error {
    let text = format!("the content has {found} bytes or more, expected were {wanted}");
    Error::fatal(Code::SizeMismatch, text)
}

fn unwanted(wanted: &Wanted, size: u64, sha256: &ContentHash) -> Option<Error> {
    if let Some(wanted) = wanted.size.filter(|wanted| *wanted != size) {
        return Some(wrong_size(wanted, size));
    }
    let wanted = wanted.sha256.as_ref().filter(|wanted| *wanted != sha256)?;
    let text = format!("the content has the sha256 {sha256}, expected was {wanted}");
    Some(Error::fatal(Code::HashMismatch, text))
}

/// Why a body that ended well is not all of it.
fn short(sink: &Sink, end: Option<u64>) -> Option<Error> {
    let length = sink.writer().part.length();
    let whole = sink.writer().part.version().length.or(end)?;
    (sink.is_plain() && length < whole).then(|| {
        let text = format!("the body ended after {length} of {whole} bytes");
        Error::retryable(Code::Network, text)
    })
}

fn noted(writer: &mut Writer) -> Result<(), Error> {
    let noted = writer.part.note();
    noted.map_err(|error| Error::disk("writing the part", &error))
}

/// The error that ends the run. A part that no later run can use goes first.
fn given_up(mut writer: Writer, error: Error) -> Error {
    if !error.is_retryable() {
        return discard(writer).err().unwrap_or(error);
    }
    if let Err(why) = noted(&mut writer) {
        // Without its note a later run makes the part anew.
        tracing::debug!(%why, "a part that is given up could not be noted");
    }
    error
}

fn discard(writer: Writer) -> Result<(), Error> {
    let discarded = writer.part.discard();
    discarded.map_err(|error| Error::disk("removing a part", &error))
}
