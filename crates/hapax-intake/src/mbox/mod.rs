//! A mailbox file, one message at a time. It reads a stream, opens nothing, and does not look into the messages.
//!
//! A message begins with a line `From sender date`, at the start of the file or after a blank line, whose date looks
//! like `Thu Aug 22 12:36:23 2002`. A line of a text that merely begins with `From ` begins no message. The blank line
//! before the next message, or before the end, is the mailbox's and not the message's.
//!
//! Every byte of the file belongs to one [`Item`]; each ends where the next begins, and a [`Reader`] that is
//! [resumed](Reader::resume) there gives the same items. Offsets are bytes of the stream that is read.
//!
//! ```
//! use hapax_intake::mbox::{Item, Reader, Variant};
//!
//! let mailbox = b"From ada Thu Aug 22 12:36:23 2002\nSubject: one\n\n>From here on\n\n\
//!                 From bob Thu Aug 22 12:36:24 2002\nSubject: two\n\nFrom the text\n";
//! let mut reader = Reader::new(&mailbox[..], Variant::Auto);
//! let Some(Ok(Item::Message(one))) = reader.next() else { unreachable!() };
//! assert_eq!(one.bytes, b"Subject: one\n\nFrom here on\n");
//!
//! let rest = &mailbox[usize::try_from(one.end_offset)?..];
//! let mut resumed = Reader::resume(rest, Variant::Auto, 1, one.end_offset);
//! let Some(Ok(Item::Message(two))) = resumed.next() else { unreachable!() };
//! assert_eq!((two.index, two.bytes.as_slice()), (1, &b"Subject: two\n\nFrom the text\n"[..]));
//!
//! // What is no mailbox has no message.
//! let mut none = Reader::new(&b"Dear Ada,\n"[..], Variant::Auto);
//! assert!(matches!(none.next(), Some(Ok(Item::Stray { offset: 0, end_offset: 10 }))));
//! # Ok::<(), std::num::TryFromIntError>(())
//! ```

mod separator;
mod variant;
mod window;

use std::io::{self, Read};

pub use separator::Envelope;
pub use variant::Variant;

use separator::blank;
use window::Window;

/// The largest message that a reader gives unless it is told otherwise, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 50 * 1024 * 1024;

/// How much of a message is searched for its Content-Length, in bytes.
const HEADERS_BYTES_MAX: usize = 256 * 1024;

/// A stretch of a mailbox file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// A message.
    Message(Message),
    /// A message over the limit. It was passed over and never held.
    Oversized {
        /// Which message of the file it is, from 0.
        index: u64,
        /// Where its `From ` line begins.
        offset: u64,
        /// Where it ends.
        end_offset: u64,
    },
    /// Bytes before the first message, or, after a resume, before the next one. They are no message.
    Stray {
        /// Where they begin.
        offset: u64,
        /// Where they end.
        end_offset: u64,
    },
}

/// One message of a mailbox file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Which message of the file it is, from 0. Those over the limit count too.
    pub index: u64,
    /// Where its `From ` line begins.
    pub offset: u64,
    /// Where it ends: the next one's offset, or the length of the file.
    pub end_offset: u64,
    /// What its `From ` line says. The date there is the delivery's, not the mail's.
    pub envelope: Envelope,
    /// By which rule its end was found and its text was restored; never [`Variant::Auto`].
    pub variant: Variant,
    /// The message as it was before it was put into the file.
    pub bytes: Vec<u8>,
}

/// Reads a mailbox file. It holds one message and a buffer of fixed size, and as much of the file beyond as a
/// Content-Length below the limit reaches over.
#[derive(Debug)]
pub struct Reader<R> {
    window: Window<R>,
    asked: Variant,
    bytes_max: usize,
    next_index: u64,
    given: u64,
    by_length: u64,
    bare: u64,
    at_start: bool,
    done: bool,
}

impl<R: Read> Reader<R> {
    /// Reads from the start of a file.
    pub fn new(read: R, variant: Variant) -> Self {
        let mut reader = Self::resume(read, variant, 0, 0);
        reader.at_start = true;
        reader
    }

    /// Reads on from a message's [`offset`](Message::offset) or `end_offset`, where `read` stands. The message there
    /// has this index. If no message begins there, the file is not the same any more: the first item is then
    /// [`Item::Stray`].
    pub fn resume(read: R, variant: Variant, index: u64, offset: u64) -> Self {
        Self {
            window: Window::new(read, offset),
            asked: variant,
            bytes_max: MESSAGE_BYTES_MAX,
            next_index: index,
            given: 0,
            by_length: 0,
            bare: 0,
            at_start: false,
            done: false,
        }
    }

    /// Takes another limit for a message, in bytes of the file.
    #[must_use]
    pub fn with_bytes_max(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Where the next item begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// The variant as it was asked for; of [`Variant::Auto`], what the messages read so far say: `mboxcl2` if one of
    /// them holds a line that would have begun a message, `mboxcl` if all of them end where their Content-Length says,
    /// else `mboxrd`.
    #[must_use]
    pub const fn variant(&self) -> Variant {
        match self.asked {
            Variant::Auto if self.bare > 0 => Variant::Mboxcl2,
            Variant::Auto if self.given > 0 && self.by_length == self.given => Variant::Mboxcl,
            Variant::Auto => Variant::Mboxrd,
            asked => asked,
        }
    }

    fn item(&mut self) -> io::Result<Option<Item>> {
        let offset = self.window.offset();
        if self.at_start {
            self.at_start = false;
            if self.window.fill(3)?.starts_with(b"\xef\xbb\xbf") {
                self.window.skip(3);
                return Ok(Some(stray(offset, self.window.offset())));
            }
        }
        if self.window.fill(1)?.is_empty() {
            return Ok(None);
        }
        let Some((envelope, headers)) = self.separator(0)? else {
            self.pass_over(0, true)?;
            return Ok(Some(stray(offset, self.window.offset())));
        };
        let index = self.next_index;
        self.next_index += 1;
        let end = match self.end_by_length(headers)? {
            Some(end) => Some(end),
            None => self.end_by_separator(headers)?,
        };
        Ok(Some(match end {
            Some(end) => Item::Message(self.message(index, envelope, headers, end)),
            None => Item::Oversized {
                index,
                offset,
                end_offset: self.window.offset(),
            },
        }))
    }

    /// The `From ` line at `at` in the window, and where the line after it begins.
    fn separator(&mut self, at: usize) -> io::Result<Option<(Envelope, usize)>> {
        let seen = self.window.fill(at + separator::LINE_BYTES_MAX)?;
        let line = &seen[at.min(seen.len())..seen.len().min(at + separator::LINE_BYTES_MAX)];
        let end = memchr::memchr(b'\n', line).map_or(line.len(), |end| end + 1);
        Ok(separator::read(&line[..end]).map(|envelope| (envelope, at + end)))
    }

    /// Where the message ends by its Content-Length: only if a message begins there, or the file ends.
    fn end_by_length(&mut self, headers: usize) -> io::Result<Option<End>> {
        if !self.asked.has_length() {
            return Ok(None);
        }
        let seen = self.window.fill(headers + HEADERS_BYTES_MAX)?;
        let Some((body, length)) = variant::content_length(&seen[headers..]) else {
            return Ok(None);
        };
        let Some(end) = (headers + body)
            .checked_add(length)
            .filter(|end| *end <= self.bytes_max)
        else {
            return Ok(None);
        };
        let seen = self.window.fill(end + 2)?;
        let Some(rest) = seen.get(end..) else {
            return Ok(None);
        };
        let at_line = length == 0 || seen[end - 1] == b'\n';
        let next = end
            + if rest.starts_with(b"\r\n") {
                2
            } else {
                usize::from(rest.starts_with(b"\n"))
            };
        let ends_here = self.window.fill(next + 1)?.len() == next;
        let lands = ends_here || (at_line || next > end) && self.separator(next)?.is_some();
        Ok(lands.then_some(End {
            text: end,
            next,
            by_length: true,
        }))
    }

    /// Where the message ends by the next separator, or by the end of the file. `None` if it is over the limit; it is
    /// then passed over already.
    fn end_by_separator(&mut self, headers: usize) -> io::Result<Option<End>> {
        let (mut at, mut is_whole) = (headers, true);
        loop {
            if at > self.bytes_max {
                self.pass_over(at, is_whole)?;
                return Ok(None);
            }
            let (len, is_blank) = match self.window.line(at, self.bytes_max + 1 - at)? {
                [] => break,
                line => {
                    is_whole = line.ends_with(b"\n");
                    (line.len(), blank(line))
                }
            };
            at += len;
            if is_blank && self.separator(at)?.is_some() {
                break;
            }
        }
        let text = headers + without_last_blank(&self.window.held()[headers..at]).len();
        Ok(Some(End {
            text,
            next: at,
            by_length: false,
        }))
    }

    /// Drops bytes up to the next separator after `at`, or the end of the file, holding no more than a buffer.
    fn pass_over(&mut self, at: usize, mut at_line: bool) -> io::Result<()> {
        self.window.skip(at);
        loop {
            let (len, is_blank, is_whole) = match self.window.line(0, window::CHUNK_BYTES)? {
                [] => return Ok(()),
                line => (line.len(), at_line && blank(line), line.ends_with(b"\n")),
            };
            self.window.skip(len);
            at_line = is_whole;
            if is_blank && self.separator(0)?.is_some() {
                return Ok(());
            }
        }
    }

    fn message(&mut self, index: u64, envelope: Envelope, headers: usize, end: End) -> Message {
        let offset = self.window.offset();
        let raw = &self.window.held()[headers..end.text];
        let variant = match self.asked {
            Variant::Auto if end.by_length && separator::within(raw) => Variant::Mboxcl2,
            Variant::Auto if end.by_length => Variant::Mboxcl,
            Variant::Auto => Variant::Mboxrd,
            asked => asked,
        };
        let bytes = variant.restored(raw);
        self.given += 1;
        self.by_length += u64::from(end.by_length);
        self.bare += u64::from(variant == Variant::Mboxcl2);
        self.window.skip(end.next);
        Message {
            index,
            offset,
            end_offset: self.window.offset(),
            envelope,
            variant,
            bytes,
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = io::Result<Item>;

    /// The next item. After an error there is none: resume at [`Reader::offset`] with the index of the next message.
    fn next(&mut self) -> Option<io::Result<Item>> {
        if self.done {
            return None;
        }
        let item = self.item().transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Where a message ends in the window, and how that was found.
#[derive(Clone, Copy)]
struct End {
    text: usize,
    next: usize,
    by_length: bool,
}

const fn stray(offset: u64, end_offset: u64) -> Item {
    Item::Stray { offset, end_offset }
}

/// The message without the blank line that the mailbox puts behind it.
fn without_last_blank(raw: &[u8]) -> &[u8] {
    let Some(rest) = raw.strip_suffix(b"\n") else {
        return raw;
    };
    let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
    if rest.is_empty() || rest.ends_with(b"\n") {
        rest
    } else {
        raw
    }
}
