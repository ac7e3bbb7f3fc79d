//! Turns paths and values into short printable text: cut, masked, control characters escaped.
//! It compares nothing.

use std::borrow::Cow;

use crate::canonical::{Document, Node, Path, Routes, descend, is_plain, quoted};

/// The path of the document itself.
pub(super) const BODY: &str = "body";

pub(super) const MASK: &str = "***";

/// A member whose lower-case name contains one of these is masked.
const TELLING: [&str; 15] = [
    "pass",
    "secret",
    "token",
    "card",
    "ssn",
    "iban",
    "authorization",
    "api_key",
    "apikey",
    "api-key",
    "private_key",
    "credential",
    "cookie",
    "cvv",
    "cvc",
];

/// Whether a name says that its value is nobody else's business.
pub(super) fn is_telling(name: &str) -> bool {
    let lower = name.to_lowercase();
    TELLING.iter().any(|part| lower.contains(part))
}

/// How much of a long common start is kept in front of the first difference.
const LEAD_CHARS: usize = 32;

/// One step from the document to a value.
pub(super) enum Place<'a> {
    Name(Cow<'a, str>),
    Index(usize),
}

/// Which values below a place are masked.
pub(super) struct Masks<'o> {
    routes: Routes<'o>,
    hide: bool,
}

impl<'o> Masks<'o> {
    pub(super) fn new(masked: &'o [Path]) -> Self {
        let routes: Vec<_> = masked.iter().map(Path::steps).collect();
        let hide = routes.iter().any(|route| route.is_empty());
        Self { routes, hide }
    }

    /// Whether the value here is masked, with all that is beneath it.
    pub(super) fn hide(&self) -> bool {
        self.hide
    }

    pub(super) fn member(&self, name: &str) -> Self {
        self.inner(
            is_telling(name),
            descend(&self.routes, |step| step.matches_name(name)),
        )
    }

    pub(super) fn element(&self, index: usize) -> Self {
        self.inner(
            false,
            descend(&self.routes, |step| step.matches_index(index)),
        )
    }

    fn inner(&self, telling: bool, routes: Routes<'o>) -> Self {
        let hide = self.hide || telling || routes.iter().any(|route| route.is_empty());
        Self { routes, hide }
    }
}

/// The path as the API shows it.
pub(super) fn path(places: &[Place<'_>], chars_max: usize) -> String {
    let mut line = Line::new(chars_max);
    for (depth, place) in places.iter().enumerate() {
        match place {
            Place::Index(index) => line.put(&format!("[{index}]")),
            Place::Name(name) if is_plain(name) => {
                line.put(if depth == 0 { "" } else { "." });
                line.put(name);
            }
            Place::Name(name) => line.put(&format!("[{}]", quoted(name))),
        }
    }
    if places.is_empty() {
        line.put(BODY);
    }
    line.finish()
}

type Side<'s, 'a> = Option<(&'s Document<'a>, Node)>;

/// Both sides of a change.
pub(super) fn sides(
    old: Side<'_, '_>,
    new: Side<'_, '_>,
    masks: &Masks<'_>,
    chars_max: usize,
) -> (Option<String>, Option<String>) {
    let show = |side: Side<'_, '_>, skip: usize, quote: bool| {
        side.map(|(document, node)| value(document, node, masks, skip, quote, chars_max))
    };
    let skip = if masks.hide() {
        0
    } else {
        common_start(old, new, chars_max)
    };
    let (shown_old, shown_new) = (show(old, skip, false), show(new, skip, false));
    if shown_old == shown_new && !masks.hide() {
        // A string and a number of the same digits, say: quotes tell them apart.
        return (show(old, skip, true), show(new, skip, true));
    }
    (shown_old, shown_new)
}

/// How many characters of two strings to leave out, so that the first difference is seen.
fn common_start(old: Side<'_, '_>, new: Side<'_, '_>, chars_max: usize) -> usize {
    let string = |side: Side<'_, '_>| {
        side.filter(|(document, node)| document.open(*node) == b'"')
            .map(|(document, node)| document.string(node).into_owned())
    };
    let (Some(old), Some(new)) = (string(old), string(new)) else {
        return 0;
    };
    let common = old
        .chars()
        .zip(new.chars())
        .take_while(|(a, b)| a == b)
        .count();
    if common + LEAD_CHARS < chars_max {
        0
    } else {
        common.saturating_sub(LEAD_CHARS)
    }
}

fn value(
    document: &Document<'_>,
    node: Node,
    masks: &Masks<'_>,
    skip: usize,
    quote: bool,
    chars_max: usize,
) -> String {
    let mut line = Line::new(chars_max);
    if masks.hide() {
        line.put(MASK);
    } else if document.open(node) == b'"' && !quote {
        let text = document.string(node);
        line.put(if skip > 0 { "…" } else { "" });
        text.chars().skip(skip).for_each(|char| line.char(char));
    } else {
        nested(document, node, masks, &mut line);
    }
    line.finish()
}

/// The hcj-1 text of a value with masked members hidden. Stops when the line is full.
fn nested(document: &Document<'_>, node: Node, masks: &Masks<'_>, line: &mut Line) {
    if line.cut {
        return;
    }
    match document.open(node) {
        _ if masks.hide() => line.put(&quoted(MASK)),
        b'{' => {
            let mut members = document.members(node);
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            line.put("{");
            for (place, (name, member)) in members.into_iter().enumerate() {
                line.put(if place == 0 { "" } else { "," });
                line.put(&quoted(&name));
                line.put(":");
                nested(document, member, &masks.member(&name), line);
                if line.cut {
                    return;
                }
            }
            line.put("}");
        }
        b'[' => {
            line.put("[");
            for (index, element) in document.elements(node).into_iter().enumerate() {
                line.put(if index == 0 { "" } else { "," });
                nested(document, element, &masks.element(index), line);
                if line.cut {
                    return;
                }
            }
            line.put("]");
        }
        _ => {
            let mut bytes = Vec::new();
            document.write_node(node, &Routes::new(), &mut bytes);
            line.put(&String::from_utf8_lossy(&bytes));
        }
    }
}

/// Printable text of limited length.
struct Line {
    text: String,
    chars: usize,
    chars_max: usize,
    cut: bool,
}

impl Line {
    fn new(chars_max: usize) -> Self {
        Self {
            text: String::new(),
            chars: 0,
            chars_max,
            cut: false,
        }
    }

    fn put(&mut self, text: &str) {
        for char in text.chars() {
            if self.cut {
                return;
            }
            self.char(char);
        }
    }

    fn char(&mut self, char: char) {
        if !is_unprintable(char) {
            self.raw(char);
            return;
        }
        match char {
            '\n' => "\\n".chars().for_each(|char| self.raw(char)),
            '\r' => "\\r".chars().for_each(|char| self.raw(char)),
            '\t' => "\\t".chars().for_each(|char| self.raw(char)),
            _ => format!("\\u{:04x}", char as u32)
                .chars()
                .for_each(|char| self.raw(char)),
        }
    }

    fn raw(&mut self, char: char) {
        if self.chars == self.chars_max {
            self.cut = true;
        } else {
            self.text.push(char);
            self.chars += 1;
        }
    }

    fn finish(mut self) -> String {
        if self.cut {
            self.text.pop();
            self.text.push('…');
        }
        self.text
    }
}

/// Control characters, line separators and the marks that turn the direction of text.
fn is_unprintable(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}
