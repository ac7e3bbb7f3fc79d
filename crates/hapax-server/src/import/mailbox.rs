//! A mailbox file as a stream, compressed or not, from any place in it. It does not look for messages.
//!
//! It remembers what it gave last, so that every place can be marked by a hash of the bytes just before it. A file that
//! was changed since does not have the same bytes there.
//!
//! A compressed file that is damaged ends where the damage begins: what was decoded before is handed on first.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use data_encoding::HEXLOWER;
use flate2::read::MultiGzDecoder;
use hapax_core::entry::Cursor;
use sha2::{Digest, Sha256};

/// How many bytes before a place are marked.
const MARKED_BYTES: u64 = 4096;
/// How much is remembered: what a reader may be ahead of the place that it has come to, a message of the largest size.
const REMEMBERED_BYTES_MAX: usize = hapax_intake::mbox::MESSAGE_BYTES_MAX + (1 << 20);
/// How many times its size a compressed file may become, beside the first bytes, for which that says nothing.
const RATIO_MAX: u64 = 100;
const RATIO_FREE_BYTES: u64 = 64 << 20;
/// How a gzip file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A reading as others see it: how far it is, and that nobody wants it any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    is_stopped: Arc<AtomicBool>,
    /// How many bytes of the file were read, compressed ones of a compressed file.
    read_bytes: Arc<AtomicU64>,
}

impl Watched {
    /// Has the reading end with an error at its next step.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The word for another reading, which is not stopped. Who asks how far it is hears of the last that read.
    pub(crate) fn renewed(&self) -> Self {
        Self {
            is_stopped: Arc::default(),
            read_bytes: Arc::clone(&self.read_bytes),
        }
    }

    /// How far in the file the reading is.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }
}

/// Why a mailbox cannot be read from a place on.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// It is not the file that it was.
    Changed,
    /// The compressed file ends early, or makes no sense from here on.
    Damaged(io::Error),
    /// The file system failed.
    Io(io::Error),
}

/// A mailbox file that was opened.
#[derive(Debug)]
pub(crate) struct Mailbox {
    file: File,
    file_bytes: u64,
    is_compressed: bool,
}

impl Mailbox {
    /// Looks at how the file begins.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn of(file: File) -> io::Result<Self> {
        let file_bytes = file.metadata()?.len();
        let mut head = [0; GZIP.len()];
        let is_compressed = file_bytes >= GZIP.len() as u64 && {
            file.read_exact_at(&mut head, 0)?;
            head == GZIP
        };
        Ok(Self {
            file,
            file_bytes,
            is_compressed,
        })
    }

    /// How large the file is on disk.
    pub(crate) const fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// How much there is to read, if that is known.
    pub(crate) fn bytes(&self) -> Option<u64> {
        (!self.is_compressed).then_some(self.file_bytes)
    }

    /// The bytes from `cursor` on.
    ///
    /// # Errors
    /// [`Unreadable`]; above all if what is before the cursor is not what it was.
    pub(crate) fn read_from(
        mut self,
        cursor: &Cursor,
        watched: &Watched,
    ) -> Result<Stream, Unreadable> {
        let before = cursor.offset.saturating_sub(MARKED_BYTES);
        let at = if self.is_compressed {
            0
        } else {
            before.min(self.file_bytes)
        };
        self.file
            .seek(SeekFrom::Start(at))
            .map_err(Unreadable::Io)?;
        let file = Counted {
            file: self.file,
            read_bytes: at,
            watched: watched.clone(),
        };
        let inner = if self.is_compressed {
            Inner::Gzip(MultiGzDecoder::new(file))
        } else {
            Inner::Plain(file)
        };
        let mut stream = Stream {
            inner,
            given_bytes: at,
            trail: Trail::from(at),
        };
        stream.skip_to(before)?;
        stream.skip_to(cursor.offset)?;
        let is_same = cursor.mark.is_none() || stream.trail.mark(cursor.offset) == cursor.mark;
        if is_same {
            Ok(stream)
        } else {
            Err(Unreadable::Changed)
        }
    }
}

/// What is read of a mailbox.
pub(crate) struct Stream {
    inner: Inner,
    given_bytes: u64,
    trail: Trail,
}

enum Inner {
    Plain(Counted),
    Gzip(MultiGzDecoder<Counted>),
}

impl Stream {
    /// What was given last. It stays up to date.
    pub(crate) fn trail(&self) -> Trail {
        self.trail.clone()
    }

    /// Reads on to `offset`, which is not before where it stands. A file that ends earlier was longer once, or is damaged.
    fn skip_to(&mut self, offset: u64) -> Result<(), Unreadable> {
        let mut buffer = vec![0; 64 << 10];
        while self.given_bytes < offset {
            let left = usize::try_from(offset - self.given_bytes).unwrap_or(usize::MAX);
            let most = buffer.len().min(left);
            match self.read(&mut buffer[..most]) {
                Ok(0) => {
                    let damage = self.trail.damage();
                    return Err(damage.map_or(Unreadable::Changed, Unreadable::Damaged));
                }
                Ok(_) => self.trail.forget_before(self.given_bytes),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(Unreadable::Io(why)),
            }
        }
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.inner {
            Inner::Plain(file) => file.read(buffer)?,
            Inner::Gzip(_) if self.trail.is_damaged() => 0,
            Inner::Gzip(decoder) => match decoded(decoder, buffer, self.given_bytes) {
                Err(why) if is_damage(&why) => {
                    self.trail.ends_by(why);
                    0
                }
                count => count?,
            },
        };
        self.given_bytes += count as u64;
        self.trail.keep(&buffer[..count]);
        Ok(count)
    }
}

/// Decodes on, after `given_bytes` that came out before.
fn decoded(
    decoder: &mut MultiGzDecoder<Counted>,
    buffer: &mut [u8],
    given_bytes: u64,
) -> io::Result<usize> {
    let count = decoder.read(buffer)?;
    let most = decoder.get_ref().read_bytes.saturating_mul(RATIO_MAX);
    if given_bytes > most.saturating_add(RATIO_FREE_BYTES) {
        let why = format!("it becomes more than {RATIO_MAX} times its size");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(count)
}

/// Whether decoding failed by what is in the file, and not by the disk.
fn is_damage(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

/// The file, counted, and stopped when nobody wants it any more.
struct Counted {
    file: File,
    read_bytes: u64,
    watched: Watched,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.watched.is_stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("nobody reads it any more"));
        }
        let count = self.file.read(buffer)?;
        self.read_bytes += count as u64;
        self.watched
            .read_bytes
            .store(self.read_bytes, Ordering::Relaxed);
        Ok(count)
    }
}

/// The bytes that a stream gave last, up to those that its reader is ahead, and why it gives no more.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    kept: Rc<RefCell<Kept>>,
}

#[derive(Debug)]
struct Kept {
    /// Where the first of the bytes is.
    offset: u64,
    bytes: VecDeque<u8>,
    damage: Option<io::Error>,
}

impl Kept {
    fn forget(&mut self, count: usize) {
        let count = count.min(self.bytes.len());
        self.bytes.drain(..count);
        self.offset += count as u64;
    }
}

impl Trail {
    fn from(offset: u64) -> Self {
        let kept = Kept {
            offset,
            bytes: VecDeque::new(),
            damage: None,
        };
        Self {
            kept: Rc::new(RefCell::new(kept)),
        }
    }

    fn ends_by(&self, damage: io::Error) {
        self.kept.borrow_mut().damage = Some(damage);
    }

    /// Whether the stream has ended by damage.
    pub(crate) fn is_damaged(&self) -> bool {
        self.kept.borrow().damage.is_some()
    }

    /// Whether what ends at `offset` may go on in the whole file: the stream has ended there by damage.
    pub(crate) fn is_cut_at(&self, offset: u64) -> bool {
        let kept = self.kept.borrow();
        kept.damage.is_some() && kept.offset + kept.bytes.len() as u64 == offset
    }

    /// The damage that the stream has ended by, if it has, in its own words.
    pub(crate) fn damage(&self) -> Option<io::Error> {
        let kept = self.kept.borrow();
        let damage = kept.damage.as_ref()?;
        Some(io::Error::new(damage.kind(), damage.to_string()))
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.kept.borrow_mut();
        kept.bytes.extend(bytes);
        let over = kept.bytes.len().saturating_sub(REMEMBERED_BYTES_MAX);
        kept.forget(over);
    }

    /// Forgets what no mark at `offset` or later needs.
    pub(crate) fn forget_before(&self, offset: u64) {
        let mut kept = self.kept.borrow_mut();
        let needless = offset
            .saturating_sub(MARKED_BYTES)
            .saturating_sub(kept.offset);
        kept.forget(usize::try_from(needless).unwrap_or(usize::MAX));
        if kept.bytes.capacity() > (1 << 20) && kept.bytes.len() < (1 << 18) {
            kept.bytes.shrink_to(1 << 18);
        }
    }

    /// The mark of the place at `offset`. Nothing at the beginning.
    pub(crate) fn mark(&self, offset: u64) -> Option<String> {
        if offset == 0 {
            return None;
        }
        let mut kept = self.kept.borrow_mut();
        let from = offset
            .saturating_sub(MARKED_BYTES)
            .saturating_sub(kept.offset);
        let to = offset.saturating_sub(kept.offset);
        let end = kept.bytes.len();
        let at = |offset: u64| usize::try_from(offset).unwrap_or(end).min(end);
        let (from, to) = (at(from), at(to));
        let bytes = &kept.bytes.make_contiguous()[from..to];
        Some(HEXLOWER.encode(&Sha256::digest(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> Mailbox {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Mailbox::of(file).unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn text() -> Vec<u8> {
        (0..20_000_u32)
            .flat_map(|line| format!("line {line}\n").into_bytes())
            .collect()
    }

    fn mark_at(mailbox: Mailbox, offset: usize) -> Option<String> {
        let mut stream = mailbox
            .read_from(&Cursor::default(), &Watched::default())
            .unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.trail().mark(offset as u64)
    }

    fn cursor(offset: usize, mark: Option<String>) -> Cursor {
        let offset = offset as u64;
        Cursor {
            index: 1,
            offset,
            mark,
        }
    }

    #[test]
    fn a_place_is_found_again_in_a_plain_and_in_a_compressed_file() {
        let text = text();
        let halves = [gzip(&text[..50_000]), gzip(&text[50_000..])].concat();
        for bytes in [text.clone(), gzip(&text), halves] {
            for offset in [0, 1, 4095, 4096, 4097, 123_456, text.len()] {
                let mark = mark_at(file_of(&bytes), offset);
                assert_eq!(mark.is_none(), offset == 0);
                let from = cursor(offset, mark);
                let mut stream = file_of(&bytes)
                    .read_from(&from, &Watched::default())
                    .unwrap();
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
                assert!(rest == text[offset..], "{offset}");
            }
        }
    }

    #[test]
    fn a_changed_or_shorter_file_is_noticed() {
        let text = text();
        let mark = mark_at(file_of(&text), 100_000);
        let mut changed = text.clone();
        changed[99_000] ^= 1;
        for bytes in [
            changed.clone(),
            gzip(&changed),
            text[..90_000].to_vec(),
            gzip(&text[..90_000]),
        ] {
            let from = cursor(100_000, mark.clone());
            let read = file_of(&bytes).read_from(&from, &Watched::default());
            assert!(matches!(read, Err(Unreadable::Changed)));
        }
    }

    #[test]
    fn nobody_waits_for_a_stopped_reading_or_a_bomb() {
        let watched = Watched::default();
        let mut stream = file_of(&text())
            .read_from(&Cursor::default(), &watched)
            .unwrap();
        watched.stop();
        assert!(stream.read(&mut [0; 10]).is_err());

        let bomb = gzip(&vec![b'a'; 80 << 20]);
        let mut stream = file_of(&bomb)
            .read_from(&Cursor::default(), &Watched::default())
            .unwrap();
        io::copy(&mut stream, &mut io::sink()).unwrap();
        let why = stream.trail().damage().unwrap();
        assert_eq!(why.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_damaged_file_gives_what_was_decoded_before_it_says_so() {
        let text = text();
        let whole = gzip(&text);
        for len in [whole.len() / 3, whole.len() - 4, 12, 2] {
            let torn = &whole[..len];
            let mut stream = file_of(torn)
                .read_from(&Cursor::default(), &Watched::default())
                .unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            assert!(text.starts_with(&all), "{len}");
            let trail = stream.trail();
            assert!(trail.is_damaged(), "{len}");
            assert!(trail.is_cut_at(all.len() as u64), "{len}");
            assert!(!trail.is_cut_at(all.len() as u64 + 1), "{len}");
            let after = cursor(all.len() + 1, Some("a mark".to_owned()));
            let read = file_of(torn).read_from(&after, &Watched::default());
            assert!(matches!(read, Err(Unreadable::Damaged(_))), "{len}");
        }
        let mut stream = file_of(&whole[..whole.len() - 4])
            .read_from(&Cursor::default(), &Watched::default())
            .unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all == text, "only the checksum is missing");
    }
}
