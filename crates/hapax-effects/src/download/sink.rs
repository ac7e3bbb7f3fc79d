//! Where the bytes of a body go: through a decoder if the server encoded them, into the hash, into the part.
//! It stops at the limits, so that a small body cannot become a large file.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use sha2::{Digest, Sha256};

use super::error::{Code, Error};
use super::headers::Encoding;
use super::limits::Limits;
use super::part::Part;

/// Up to here the ratio of decoded to encoded bytes does not matter.
const RATIO_FREE_BYTES: u64 = 1 << 20;
/// How much of an encoded body is decoded at once. Deflate makes at most 1032 bytes of one, so this bounds memory.
const SLICE_BYTES: usize = 1 << 10;

/// A part and the hash of what it holds.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) part: Part,
    hasher: Sha256,
    size_bytes_max: u64,
    /// How long the part may get by what was decoded so far; no limit if nothing is decoded.
    decoded_bytes_max: Option<u64>,
}

impl Writer {
    /// Writes on in `part`, whose bytes are hashed first. It reads the whole part, so it is slow.
    pub(super) fn on(part: Part, limits: &Limits) -> io::Result<Self> {
        Ok(Self {
            hasher: part.hasher()?,
            ..Self::new(part, limits)
        })
    }

    /// Writes to `part`, which is empty.
    pub(super) fn new(part: Part, limits: &Limits) -> Self {
        Self {
            hasher: Sha256::new(),
            part,
            size_bytes_max: limits.size_bytes_max,
            decoded_bytes_max: None,
        }
    }

    /// The sha256 of what the part holds.
    pub(super) fn digest(&self) -> Vec<u8> {
        self.hasher.clone().finalize().to_vec()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some(over) = self.limit(self.part.length() + bytes.len() as u64) {
            return Err(over);
        }
        self.append(bytes)
            .map_err(|error| Error::disk("writing the part", &error))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.part.append(bytes)?;
        self.hasher.update(bytes);
        Ok(())
    }

    fn limit(&self, length: u64) -> Option<Error> {
        if self.decoded_bytes_max.is_some_and(|most| length > most) {
            let text = format!(
                "a compressed body has more than {} bytes",
                self.decoded_bytes_max.unwrap_or_default()
            );
            return Some(Error::fatal(Code::DecompressedTooLarge, text));
        }
        let most = self.size_bytes_max;
        (length > most).then(|| {
            let text = format!("the content has more than {most} bytes");
            Error::fatal(Code::TooLarge, text)
        })
    }
}

/// A writer, behind a decoder if the body needs one.
#[derive(Debug)]
pub(super) struct Sink {
    writer: Writer,
    decoder: Option<Decoder>,
    encoded_bytes: u64,
    size_bytes_max: u64,
    ratio_max: u64,
}

/// A decoder and what it has decoded since it was last emptied.
#[derive(Debug)]
enum Decoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// Whether it has a zlib wrapper is known with the first byte: servers do both.
    Unknown,
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    Bare(Box<DeflateDecoder<Vec<u8>>>),
}

impl Decoder {
    fn push(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if let (Decoder::Unknown, Some(first)) = (&self, bytes.first()) {
            *self = if first & 0x8f == 8 {
                Decoder::Zlib(Box::new(ZlibDecoder::new(Vec::new())))
            } else {
                Decoder::Bare(Box::new(DeflateDecoder::new(Vec::new())))
            };
        }
        match self {
            Decoder::Gzip(decoder) => decoder.write_all(bytes)?,
            Decoder::Zlib(decoder) => decoder.write_all(bytes)?,
            Decoder::Bare(decoder) => decoder.write_all(bytes)?,
            Decoder::Unknown => {}
        }
        Ok(self.emptied())
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Decoder::Gzip(decoder) => decoder.try_finish()?,
            Decoder::Zlib(decoder) => decoder.try_finish()?,
            Decoder::Bare(decoder) => decoder.try_finish()?,
            Decoder::Unknown => {}
        }
        Ok(self.emptied())
    }

    fn emptied(&mut self) -> Vec<u8> {
        match self {
            Decoder::Gzip(decoder) => std::mem::take(decoder.get_mut()),
            Decoder::Zlib(decoder) => std::mem::take(decoder.get_mut()),
            Decoder::Bare(decoder) => std::mem::take(decoder.get_mut()),
            Decoder::Unknown => Vec::new(),
        }
    }
}

impl Sink {
    pub(super) fn new(writer: Writer, encoding: Encoding, limits: &Limits) -> Self {
        let decoder = match encoding {
            Encoding::Identity => None,
            Encoding::Gzip => Some(Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
            Encoding::Deflate => Some(Decoder::Unknown),
        };
        Self {
            writer,
            decoder,
            encoded_bytes: 0,
            size_bytes_max: limits.size_bytes_max,
            ratio_max: limits.ratio_max,
        }
    }

    pub(super) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(super) fn writer_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Whether the bytes are written as they come.
    pub(super) fn is_plain(&self) -> bool {
        self.decoder.is_none()
    }

    /// The writer, without whatever a decoder still holds back.
    pub(super) fn into_writer(self) -> Writer {
        self.writer
    }

    /// Takes in some of the body. It decodes, hashes and writes, so it is slow.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(decoder) = &mut self.decoder else {
            return self.writer.write(bytes);
        };
        for slice in bytes.chunks(SLICE_BYTES) {
            self.encoded_bytes += slice.len() as u64;
            let most = (self.encoded_bytes.saturating_mul(self.ratio_max)).max(RATIO_FREE_BYTES);
            self.writer.decoded_bytes_max = Some(most.min(self.size_bytes_max));
            let plain = decoder.push(slice).map_err(|error| undecodable(&error))?;
            self.writer.write(&plain)?;
        }
        Ok(())
    }

    /// The body is over: what the decoder still holds is written.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(());
        };
        let plain = decoder.finish().map_err(|error| undecodable(&error))?;
        self.writer.write(&plain)
    }
}

fn undecodable(error: &io::Error) -> Error {
    let text = format!("the compressed body cannot be decoded: {error}");
    Error::retryable(Code::Network, text)
}
