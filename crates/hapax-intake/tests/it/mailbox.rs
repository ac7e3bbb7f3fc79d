//! Mailbox files: where messages begin and end, what was escaped in them, and reading on after a stop.

use std::io::{self, Read};

use hapax_intake::mbox::{Item, Message, Reader, Variant};

fn items(bytes: &[u8], variant: Variant) -> Vec<Item> {
    Reader::new(bytes, variant).map(Result::unwrap).collect()
}

pub(crate) fn messages(bytes: &[u8], variant: Variant) -> Vec<Message> {
    let messages = items(bytes, variant)
        .into_iter()
        .filter_map(|item| match item {
            Item::Message(message) => Some(message),
            Item::Oversized { .. } | Item::Stray { .. } => None,
        });
    messages.collect()
}

fn bodies(bytes: &str) -> Vec<String> {
    let messages = messages(bytes.as_bytes(), Variant::Auto).into_iter();
    messages
        .map(|message| String::from_utf8(message.bytes).unwrap())
        .collect()
}

const FROM: &str = "From a@example.org Thu Aug 22 12:36:23 2002\n";

#[test]
fn only_a_dated_line_after_a_blank_one_begins_a_message() {
    assert_eq!(
        bodies(&format!("{FROM}A: 1\n\none\n\n{FROM}A: 2\n\ntwo\n\n")),
        ["A: 1\n\none\n", "A: 2\n\ntwo\n"]
    );
    assert_eq!(
        bodies(&format!("{FROM}A: 1\n\n\nFrom now on\n{FROM}end")),
        [format!("A: 1\n\n\nFrom now on\n{FROM}end")]
    );
    for line in [
        "From a@b Thu Aug 22 12:36:23 CEST 2002",
        "From a@b Thu Aug 22 12:36:23 2002 +0200",
        "From a@b Thu Aug 22 12:36:23 +0000 2002",
        "From a b Thu Aug  2 12:36 2002 remote from c",
        "From  Thu Aug 22 12:36:23 2002",
    ] {
        assert_eq!(
            bodies(&format!("{FROM}A: 1\n\n{line}\nA: 2\n")).len(),
            2,
            "{line}"
        );
    }
    for line in [
        "From a@b",
        "From a@b Thu Aug",
        "From a@b 2002-08-22",
        ">From a@b Thu Aug 22 12:36:23 2002",
        "from a Thu Aug 22 12:36:23 2002",
    ] {
        assert_eq!(
            bodies(&format!("{FROM}A: 1\n\n{line}\nA: 2\n")).len(),
            1,
            "{line}"
        );
    }
}

#[test]
fn the_envelope_is_read() {
    let message = messages(FROM.as_bytes(), Variant::Auto).remove(0);
    assert_eq!(message.envelope.sender, "a@example.org");
    assert_eq!(message.envelope.date, "Thu Aug 22 12:36:23 2002");
    assert_eq!(
        (message.index, message.offset, message.bytes.len()),
        (0, 0, 0)
    );
}

#[test]
fn each_variant_takes_back_its_own_escapes() {
    let raw = format!("{FROM}A: 1\n\n>From a\n>>From b\n> From c\n>Fromage\n");
    let restored =
        |variant| String::from_utf8(messages(raw.as_bytes(), variant).remove(0).bytes).unwrap();
    for variant in [Variant::Auto, Variant::Mboxrd] {
        assert_eq!(
            restored(variant),
            "A: 1\n\nFrom a\n>From b\n> From c\n>Fromage\n"
        );
    }
    for variant in [Variant::Mboxo, Variant::Mboxcl] {
        assert_eq!(
            restored(variant),
            "A: 1\n\nFrom a\n>>From b\n> From c\n>Fromage\n"
        );
    }
    assert_eq!(restored(Variant::Mboxcl2), &raw[FROM.len()..]);
}

#[test]
fn a_content_length_counts_only_if_it_lands() {
    let body = format!("one\n\n{FROM}inside\n");
    let right = format!(
        "{FROM}Content-Length: {}\n\n{body}\n{FROM}A: 2\n\ntwo\n",
        body.len()
    );
    let mut reader = Reader::new(right.as_bytes(), Variant::Auto);
    let found: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(reader.variant(), Variant::Mboxcl2);
    assert_eq!(
        messages(right.as_bytes(), Variant::Mboxrd).len(),
        3,
        "the length is another variant's"
    );
    for wrong in [body.len() - 1, body.len() + 2, 0, 99_999_999] {
        let raw = format!("{FROM}Content-Length: {wrong}\n\n{body}\n{FROM}A: 2\n\ntwo\n");
        assert_eq!(messages(raw.as_bytes(), Variant::Auto).len(), 3, "{wrong}");
    }
    let at_end = format!("{FROM}content-length: {}\n\n{body}", body.len());
    assert_eq!(messages(at_end.as_bytes(), Variant::Auto).len(), 1);
    let quoted = format!("{FROM}Content-Length: 7\n\n>From \n\n{FROM}Content-Length: 2\n\nx\n");
    let mut reader = Reader::new(quoted.as_bytes(), Variant::Auto);
    assert_eq!(reader.by_ref().count(), 2);
    assert_eq!(reader.variant(), Variant::Mboxcl);
}

#[test]
fn files_of_other_shapes_are_read() {
    assert_eq!(items(b"", Variant::Auto), []);
    assert_eq!(
        items(b"no mailbox", Variant::Auto),
        [Item::Stray {
            offset: 0,
            end_offset: 10
        }]
    );
    let crlf = format!("{FROM}A: 1\n\none\n\n{FROM}A: 2\n\n>From two").replace('\n', "\r\n");
    assert_eq!(
        bodies(&crlf),
        ["A: 1\r\n\r\none\r\n", "A: 2\r\n\r\nFrom two"]
    );
    let strayed = format!("garbage\n\n{FROM}A: 1\n");
    let found = items(strayed.as_bytes(), Variant::Auto);
    assert_eq!(
        found[0],
        Item::Stray {
            offset: 0,
            end_offset: 9
        }
    );
    assert!(
        matches!(&found[1], Item::Message(message) if message.index == 0 && message.offset == 9)
    );
    let marked = format!("\u{feff}{FROM}A: 1\n");
    assert_eq!(items(marked.as_bytes(), Variant::Auto).len(), 2);
}

#[test]
fn a_message_over_the_limit_is_passed_over_and_counted() {
    let long = "a".repeat(300_000);
    let lines = "b\n".repeat(150_000);
    let raw = format!(
        "{FROM}A: 1\n\none\n\n{FROM}A: 2\n\n{long}\n\n{FROM}A: 3\n\n{lines}\n{FROM}A: 4\n\nfour\n"
    );
    let found: Vec<Item> = Reader::new(raw.as_bytes(), Variant::Auto)
        .with_bytes_max(100_000)
        .map(Result::unwrap)
        .collect();
    assert_eq!(found.len(), 4);
    assert!(matches!(found[1], Item::Oversized { index: 1, .. }));
    assert!(matches!(found[2], Item::Oversized { index: 2, .. }));
    assert!(
        matches!(&found[3], Item::Message(message) if message.index == 3 && message.bytes == b"A: 4\n\nfour\n")
    );
    assert_eq!(end_of(&found[3]), raw.len() as u64);
}

#[test]
fn a_message_of_the_limit_is_given_and_one_byte_more_is_not() {
    let raw = format!("{FROM}A: 1\n\none\n");
    let count = |max: usize| {
        let found: Vec<Item> = Reader::new(raw.as_bytes(), Variant::Auto)
            .with_bytes_max(max)
            .map(Result::unwrap)
            .collect();
        assert_eq!(found.len(), 1);
        matches!(found[0], Item::Message(_))
    };
    assert!(count(raw.len()));
    assert!(!count(raw.len() - 1));
}

fn end_of(item: &Item) -> u64 {
    match item {
        Item::Message(message) => message.end_offset,
        Item::Oversized { end_offset, .. } | Item::Stray { end_offset, .. } => *end_offset,
    }
}

/// Gives one endless line without ever holding it, and remembers the largest piece that was asked for.
struct Endless {
    head: &'static [u8],
    left: u64,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.head.is_empty() {
            return self.head.read(into);
        }
        let len = into
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX))
            .min(1 << 20);
        into[..len].fill(b'x');
        self.left -= len as u64;
        Ok(len)
    }
}

#[test]
fn a_line_without_end_is_passed_over() {
    let size = 256 << 20;
    for (head, index) in [
        (&b"From a Thu Aug 22 12:36:23 2002\n"[..], 1),
        (&b""[..], 0),
    ] {
        let mut reader =
            Reader::new(Endless { head, left: size }, Variant::Auto).with_bytes_max(1 << 20);
        let item = reader.next().unwrap().unwrap();
        assert_eq!(end_of(&item), size + head.len() as u64);
        assert_eq!(matches!(item, Item::Oversized { .. }), index == 1);
        assert!(reader.next().is_none());
    }
}

/// A reader that gives a byte at a time, and fails where it is told to.
struct Slow<'a> {
    bytes: &'a [u8],
    fails: bool,
}

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.bytes.split_first() {
            Some((byte, rest)) => {
                into[0] = *byte;
                self.bytes = rest;
                Ok(1)
            }
            None if self.fails => Err(io::Error::other("gone")),
            None => Ok(0),
        }
    }
}

#[test]
fn a_slow_stream_gives_the_same_and_a_broken_one_says_so() {
    let raw = format!("{FROM}A: 1\n\none\n\n{FROM}A: 2\n\ntwo\n");
    let slow = Slow {
        bytes: raw.as_bytes(),
        fails: false,
    };
    let found: Vec<Item> = Reader::new(slow, Variant::Auto)
        .map(Result::unwrap)
        .collect();
    assert_eq!(found, items(raw.as_bytes(), Variant::Auto));
    let mut broken = Reader::new(
        Slow {
            bytes: raw.as_bytes(),
            fails: true,
        },
        Variant::Auto,
    );
    assert!(broken.next().unwrap().is_err());
    assert!(broken.next().is_none());
}
