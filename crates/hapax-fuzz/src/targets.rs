//! What is promised of each parser, whatever it is given.

use std::hash::{DefaultHasher, Hash, Hasher};

use data_encoding::HEXLOWER;
use hapax_core::canonical::{self, Profile};
use hapax_core::{Key, diff as differ};
use hapax_effects::enrich::OutputLine;
use hapax_intake::mbox::{Item, Reader, Variant};
use hapax_intake::url::Tracking;
use hapax_intake::{date as dates, email, subject as subjects, url as urls};
use sha2::{Digest, Sha256};

/// The kind of thing that these words stand for.
pub(crate) fn kind(words: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

/// How large something is, roughly.
fn size(length: usize) -> u32 {
    usize::BITS - length.leading_zeros()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Canonical bytes are their own canonical form, the hash is of them, and the check agrees.
pub(crate) fn canonical(bytes: &[u8]) -> u64 {
    let first = canonical::canonical(bytes, Profile::Hcj1);
    assert_eq!(first.is_ok(), canonical::hash(bytes, Profile::Hcj1).is_ok());
    match first {
        Ok(form) => {
            canonical::check(bytes).expect("what has a canonical form is fine");
            let again =
                canonical::canonical(&form, Profile::Hcj1).expect("a canonical form is JSON");
            assert_eq!(text(&again), text(&form), "the form of a form is itself");
            let hash = canonical::hash(bytes, Profile::Hcj1).expect("it has a form");
            assert_eq!(hash, HEXLOWER.encode(&Sha256::digest(&form)));
            let shape: Vec<u8> = form
                .iter()
                .copied()
                .filter(|byte| b"{}[]\\.e-".contains(byte))
                .take(12)
                .collect();
            kind((0, size(form.len()), shape))
        }
        Err(reject) => kind((1, format!("{:?}", reject.reason))),
    }
}

/// A key is 1 to 255 visible ASCII characters, and nothing else is.
pub(crate) fn key(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let is_key =
        (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    match Key::new(&text) {
        Ok(key) => {
            assert!(is_key, "{text:?} is taken");
            assert_eq!(key.as_str(), text);
            kind((0, size(text.len())))
        }
        Err(why) => {
            assert!(!is_key, "{text:?} is refused: {why}");
            kind((1, why.to_string()))
        }
    }
}

/// A canonical address is its own, has no fragment, credential or tracking parameter, and is one of http.
pub(crate) fn url(bytes: &[u8]) -> u64 {
    let tracking = Tracking::default();
    match urls::canonical(&text(bytes), &tracking) {
        Ok(address) => {
            let again =
                urls::canonical(&address.canonical, &tracking).expect("a canonical address is one");
            assert_eq!(again.canonical, address.canonical);
            assert!(!again.credentials_removed, "{address:?}");
            assert!(!address.canonical.contains('#'), "{address:?}");
            let rest = address.canonical.split_once("://");
            let (scheme, rest) = rest.expect("it has a scheme");
            assert!(matches!(scheme, "http" | "https"), "{address:?}");
            let marks: Vec<char> = rest
                .chars()
                .filter(|mark| "/?&%=:[].".contains(*mark))
                .take(10)
                .collect();
            kind((0, address.credentials_removed, marks))
        }
        Err(unfit) => kind((1, unfit.to_string())),
    }
}

/// The base of a base is itself.
pub(crate) fn subject(bytes: &[u8]) -> u64 {
    let subject = text(bytes);
    let base = subjects::base(&subject);
    assert_eq!(subjects::base(&base), base, "of {subject:?}");
    assert!(!base.contains("  ") && base.trim() == base, "{base:?}");
    kind((
        size(subject.len()),
        size(subject.len().saturating_sub(base.len())),
        base.is_empty(),
    ))
}

/// Whatever has a time has a day.
pub(crate) fn date(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let (time, day) = (dates::time(&text), dates::day_bucket(&text));
    if time.is_some() {
        assert!(day.is_some(), "{text:?} has a time and no day");
    }
    if let Some(day) = &day {
        assert_eq!(
            day.split('-').count() - usize::from(day.starts_with('-')),
            3,
            "{day:?}"
        );
    }
    kind((time.is_some(), day.is_some(), size(text.len())))
}

/// Messages come in order and within the file, and reading on from any of them gives the same rest.
pub(crate) fn mbox(bytes: &[u8]) -> u64 {
    let variants = [
        Variant::Auto,
        Variant::Mboxrd,
        Variant::Mboxo,
        Variant::Mboxcl,
        Variant::Mboxcl2,
    ];
    let (variant, bytes) = match bytes.split_first() {
        Some((first, rest)) => (variants[usize::from(*first) % variants.len()], rest),
        None => (Variant::Auto, bytes),
    };
    let items: Vec<Item> = Reader::new(bytes, variant)
        .map(|item| item.expect("memory can be read"))
        .collect();
    let mut at = 0;
    let mut kinds = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let (from, to, word) = match item {
            Item::Message(message) => (message.offset, message.end_offset, 0),
            Item::Oversized {
                offset, end_offset, ..
            } => (*offset, *end_offset, 1),
            Item::Stray { offset, end_offset } => (*offset, *end_offset, 2),
        };
        assert!(
            from >= at && to > from && to <= bytes.len() as u64,
            "{item:?} after {at}"
        );
        at = to;
        kinds.push(word);
        // What a killed import does: it goes on behind the last item it has kept.
        let next = usize::try_from(to).expect("it is in memory");
        let index = items[..=place]
            .iter()
            .filter(|item| !matches!(item, Item::Stray { .. }))
            .count() as u64;
        if place == items.len() / 2 && variant != Variant::Auto {
            let rest: Vec<Item> = Reader::resume(&bytes[next..], variant, index, to)
                .map(|item| item.expect("memory can be read"))
                .collect();
            assert_eq!(rest, items[place + 1..], "from {to} on");
        }
    }
    kinds.truncate(8);
    kind((variant as u8, kinds))
}

/// A message is an entry or a fault, the same each time.
pub(crate) fn mime(bytes: &[u8]) -> u64 {
    let first = email::message(bytes, "fuzz");
    assert_eq!(
        format!("{first:?}"),
        format!("{:?}", email::message(bytes, "fuzz"))
    );
    match first {
        Ok(fields) => {
            let fields = fields.into_json();
            let filled: Vec<bool> = fields.values().map(|value| !value.is_null()).collect();
            kind((0, filled))
        }
        Err(fault) => kind((
            1,
            fault
                .to_string()
                .chars()
                .filter(char::is_ascii_alphabetic)
                .collect::<String>(),
        )),
    }
}

/// Equal documents do not differ, and those that differ say where, within limits.
pub(crate) fn diff(bytes: &[u8]) -> u64 {
    let place = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len() / 2);
    let (old, new) = (&bytes[..place], bytes.get(place + 1..).unwrap_or_default());
    let options = differ::Options::default();
    let changes = differ::diff(old, new, &options);
    assert!(
        changes.len() <= options.changes_max + 1,
        "{} changes",
        changes.len()
    );
    assert_eq!(differ::diff(old, old, &options), []);
    let forms = [old, new].map(|side| canonical::canonical(side, Profile::Hcj1));
    if let [Ok(old), Ok(new)] = &forms {
        assert_eq!(
            changes.is_empty(),
            old == new,
            "{} and {}",
            text(old),
            text(new)
        );
    }
    kind((changes.len(), forms.map(|form| form.is_ok())))
}

/// A line of an answer is read or broken, and one broken line breaks no other.
pub(crate) fn batch_lines(bytes: &[u8]) -> u64 {
    let lines: Vec<_> = OutputLine::all(bytes).collect();
    let read = lines.iter().filter(|line| line.is_ok()).count();
    let more = [bytes, b"\n{\"custom_id\": 7}\nnot json\n"].concat();
    let with_broken = OutputLine::all(&more).flatten().count();
    assert_eq!(with_broken, read, "broken lines were added");
    let words: Vec<String> = lines
        .iter()
        .take(4)
        .map(|line| match line {
            Ok(line) => format!("{line:?}")
                .chars()
                .filter(char::is_ascii_uppercase)
                .take(6)
                .collect(),
            Err(broken) => broken.to_string().chars().take(24).collect(),
        })
        .collect();
    kind((read, words))
}
