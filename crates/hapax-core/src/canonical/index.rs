//! The one validating pass over a JSON text: it refuses what the input rules refuse and notes
//! where containers end and how shuffled objects are sorted. It builds no values.
//!
//! A container whose text is already in hcj-1 form is *clean*: it is later copied as one slice,
//! so nothing beneath it is kept. Only objects with keys out of order have their members noted, and of those the
//! ones in hcj-1 form are copied as one slice too.

use std::cmp::Ordering;

use super::reject::{Reason, Reject};
use super::scan::{self, Unit, byte};
use super::{number, order};

/// One member of a shuffled object.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// How the key begins.
    start: u64,
    /// Offset of the key's opening quote.
    pub(super) key: u32,
    /// Offset of the value.
    pub(super) value: u32,
    /// Number of the first container that starts at or after the value.
    pub(super) container: u32,
    /// Offset after the value if the member stands in hcj-1 form, else 0.
    pub(super) end: u32,
}

impl Member {
    /// The key: where it stands and how it begins.
    const fn named(&self) -> (usize, u64) {
        (self.key as usize, self.start)
    }
}

/// One container; they are numbered in the order in which they start.
#[derive(Clone, Copy)]
pub(super) struct Container {
    /// Offset after the closing bracket.
    pub(super) end: u32,
    /// Number of the first container after this one and all that it holds.
    pub(super) next: u32,
    members: u32,
    count_and_clean: u32,
}

const CLEAN: u32 = 1 << 31;

/// For texts from here on, room for what they may hold is asked for beforehand.
const LARGE_BYTES: usize = 64 * 1024;

impl Container {
    /// Whether the text of the container is already its hcj-1 form.
    pub(super) const fn is_clean(&self) -> bool {
        self.count_and_clean & CLEAN != 0
    }
}

/// What the pass leaves behind.
pub(super) struct Index {
    /// Offset of the value.
    pub(super) root: usize,
    containers: Vec<Container>,
    members: Vec<Member>,
}

impl Index {
    /// Checks `text` and indexes it. With `keep_all`, clean containers keep their insides
    /// too: the diff walks them.
    pub(super) fn build(text: &str, keep_all: bool, depth_max: usize) -> Result<Self, Reject> {
        // What is asked for and not used is never touched; what grows is copied, and its memory is cleared again each time.
        let likely = if text.len() < LARGE_BYTES {
            0
        } else {
            text.len()
        };
        let mut pass = Pass {
            text,
            bytes: text.as_bytes(),
            keep_all,
            depth_max,
            clean: true,
            containers: Vec::with_capacity(likely / 128),
            members: Vec::with_capacity(likely / 32),
            pending: Vec::new(),
        };
        let root = scan::skip_blanks(pass.bytes, 0);
        let end = pass.value(root, 0)?;
        let rest = scan::skip_blanks(pass.bytes, end);
        if rest < text.len() {
            return Err(Reject::syntax(rest, "more text after the value"));
        }
        Ok(Self {
            root,
            containers: pass.containers,
            members: pass.members,
        })
    }

    pub(super) fn container(&self, number: u32) -> &Container {
        &self.containers[number as usize]
    }

    /// The members of a shuffled object in key order; nothing for one whose text is in order.
    pub(super) fn members(&self, container: &Container) -> &[Member] {
        let start = container.members as usize;
        let count = (container.count_and_clean & !CLEAN) as usize;
        &self.members[start..start + count]
    }
}

struct Pass<'a> {
    text: &'a str,
    bytes: &'a [u8],
    keep_all: bool,
    depth_max: usize,
    /// Whether everything since the innermost open bracket is in hcj-1 form.
    clean: bool,
    containers: Vec<Container>,
    members: Vec<Member>,
    /// Members of the objects that are still open.
    pending: Vec<Member>,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "texts of 4 GiB and more were refused before"
)]
const fn short(offset: usize) -> u32 {
    offset as u32
}

impl Pass<'_> {
    /// Returns the offset after the value.
    fn value(&mut self, at: usize, depth: usize) -> Result<usize, Reject> {
        match byte(self.bytes, at) {
            b'"' => self.string(at),
            b'{' => self.object(at, depth),
            b'[' => self.array(at, depth),
            b'-' | b'0'..=b'9' => self.number(at),
            _ => scan::word(self.bytes, at),
        }
    }

    fn object(&mut self, at: usize, depth: usize) -> Result<usize, Reject> {
        let outside = self.open(at, depth)?;
        let number = self.containers.len() - 1;
        let base = self.pending.len();
        let mut sorted = true;
        let mut end = self.blanks(at + 1);
        if byte(self.bytes, end) == b'}' {
            return Ok(self.close(number, depth, outside, &[], end + 1));
        }
        loop {
            let key = end;
            let others = std::mem::replace(&mut self.clean, true);
            if byte(self.bytes, key) != b'"' {
                return Err(Reject::syntax(key, "expected a key"));
            }
            end = self.string(key)?;
            let start = order::start(self.text, key);
            if sorted && let Some(before) = self.pending[base..].last() {
                match order::known_keys(self.text, before.named(), (key, start)) {
                    Ordering::Less => {}
                    Ordering::Equal => return Err(Reject::new(Reason::DuplicateKey, key)),
                    Ordering::Greater => sorted = false,
                }
            }
            end = self.blanks(end);
            if byte(self.bytes, end) != b':' {
                return Err(Reject::syntax(end, "expected a colon"));
            }
            end = self.blanks(end + 1);
            self.pending.push(Member {
                start,
                key: short(key),
                value: short(end),
                container: short(self.containers.len()),
                end: 0,
            });
            let member = self.pending.len() - 1;
            end = self.value(end, depth + 1)?;
            if self.clean {
                self.pending[member].end = short(end);
            }
            self.clean &= others;
            end = self.blanks(end);
            match byte(self.bytes, end) {
                b',' => end = self.blanks(end + 1),
                b'}' => break,
                _ => return Err(Reject::syntax(end, "expected a comma or a closing brace")),
            }
        }
        let mut pending = std::mem::take(&mut self.pending);
        let members = if sorted {
            &[]
        } else {
            self.sort(&mut pending[base..])?
        };
        let end = self.close(number, depth, outside, members, end + 1);
        pending.truncate(base);
        self.pending = pending;
        Ok(end)
    }

    fn sort<'m>(&self, members: &'m mut [Member]) -> Result<&'m [Member], Reject> {
        // Neighbours in the order were compared by whatever sorted them.
        let mut has_equals = false;
        members.sort_unstable_by(|a, b| {
            let order = order::known_keys(self.text, a.named(), b.named());
            has_equals |= order == Ordering::Equal;
            order
        });
        if has_equals {
            self.refuse_duplicates(members)?;
        }
        Ok(members)
    }

    #[cold]
    fn refuse_duplicates(&self, sorted: &[Member]) -> Result<(), Reject> {
        for pair in sorted.windows(2) {
            let (a, b) = (pair[0].named(), pair[1].named());
            if order::known_keys(self.text, a, b) == Ordering::Equal {
                return Err(Reject::new(Reason::DuplicateKey, a.0.max(b.0)));
            }
        }
        Ok(())
    }

    fn array(&mut self, at: usize, depth: usize) -> Result<usize, Reject> {
        let outside = self.open(at, depth)?;
        let number = self.containers.len() - 1;
        let mut end = self.blanks(at + 1);
        if byte(self.bytes, end) == b']' {
            return Ok(self.close(number, depth, outside, &[], end + 1));
        }
        loop {
            end = self.value(end, depth + 1)?;
            end = self.blanks(end);
            match byte(self.bytes, end) {
                b',' => end = self.blanks(end + 1),
                b']' => return Ok(self.close(number, depth, outside, &[], end + 1)),
                _ => return Err(Reject::syntax(end, "expected a comma or a closing bracket")),
            }
        }
    }

    /// Returns whether the surroundings were clean so far.
    fn open(&mut self, at: usize, depth: usize) -> Result<bool, Reject> {
        if depth == self.depth_max {
            return Err(Reject::new(Reason::TooDeep, at));
        }
        self.containers.push(Container {
            end: 0,
            next: 0,
            members: 0,
            count_and_clean: 0,
        });
        Ok(std::mem::replace(&mut self.clean, true))
    }

    fn close(
        &mut self,
        number: usize,
        depth: usize,
        outside: bool,
        members: &[Member],
        end: usize,
    ) -> usize {
        let clean = self.clean && members.is_empty();
        // The root keeps its children, so that excluded members can be stepped over.
        if clean && depth > 0 && !self.keep_all {
            self.containers.truncate(number + 1);
        }
        let start = self.members.len();
        self.members.extend_from_slice(members);
        self.containers[number] = Container {
            end: short(end),
            next: short(self.containers.len()),
            members: short(start),
            count_and_clean: short(members.len()) | if clean { CLEAN } else { 0 },
        };
        self.clean = outside && clean;
        end
    }

    /// Returns the offset after the closing quote of the string at `at`.
    #[inline]
    fn string(&mut self, at: usize) -> Result<usize, Reject> {
        let end = scan::plain_end(self.bytes, at + 1);
        if byte(self.bytes, end) == b'"' {
            Ok(end + 1)
        } else {
            self.escaped_string(end)
        }
    }

    fn escaped_string(&mut self, mut at: usize) -> Result<usize, Reject> {
        loop {
            match self.bytes.get(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\')
                    if matches!(byte(self.bytes, at + 1), b'n' | b'"' | b'\\' | b't' | b'r') =>
                {
                    // As hcj-1 writes them.
                    at = scan::plain_end(self.bytes, at + 2);
                }
                Some(b'\\') => {
                    let (unit, end) = scan::escape(self.bytes, at)?;
                    let Unit::Char(char) = unit else {
                        return Err(Reject::new(Reason::LoneSurrogate, at));
                    };
                    if scan::escaped(char, &mut [0; 6]) != &self.bytes[at..end] {
                        self.clean = false;
                    }
                    at = scan::plain_end(self.bytes, end);
                }
                Some(_) => return Err(Reject::syntax(at, "a control character in a string")),
                None => return Err(Reject::syntax(at, "a string without its closing quote")),
            }
        }
    }

    #[inline]
    fn number(&mut self, at: usize) -> Result<usize, Reject> {
        let shape = scan::number(self.bytes, at)?;
        let literal = &self.text[at..shape.end];
        if !number::is_canonical(literal, &shape) {
            self.clean = false;
            if number::overflows(literal, &shape) {
                return Err(Reject::new(Reason::NumberOutOfRange, at));
            }
        }
        Ok(shape.end)
    }

    #[inline]
    fn blanks(&mut self, at: usize) -> usize {
        if byte(self.bytes, at) > b' ' {
            return at;
        }
        let end = scan::skip_blanks(self.bytes, at);
        self.clean &= end == at;
        end
    }
}
