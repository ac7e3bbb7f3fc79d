//! Links in plain text: where they begin and where they end. Whether one leads anywhere is not asked here.

use std::ops::Range;

/// What ends a link besides white space and control characters: quotes, and the punctuation of scripts that set no
/// space after it.
const ENDS: [char; 28] = [
    '<', '>', '"', '`', '«', '»', '‹', '›', '“', '”', '„', '‟', '。', '、', '，', '；', '：', '！',
    '？', '「', '」', '『', '』', '（', '）', '【', '】', '\u{feff}',
];

/// The places of all links in a text, in their order.
///
/// A link begins with `http://` or `https://`, in any case, at the start of a word or after a character that is no
/// letter and no digit of ASCII. It ends before white space, before a quote, before a bracket that was not opened in
/// it, and before punctuation that ends a sentence. Bare hosts such as `www.example.org` are no links.
///
/// ```
/// use hapax_intake::link::links;
///
/// let text = "See (https://example.org/tea_(drink)), or HTTP://example.net.";
/// let found: Vec<&str> = links(text).map(|place| &text[place]).collect();
/// assert_eq!(found, ["https://example.org/tea_(drink)", "HTTP://example.net"]);
/// assert_eq!(links("www.example.org, ftp://example.org, http://").count(), 0);
/// ```
pub fn links(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        // Each round begins behind what the last one looked at, so that no part of the text is read twice.
        while let Some(found) = text[from..].find("://") {
            let colon = from + found;
            let behind = colon + "://".len();
            let floor = from;
            from = behind;
            let Some(start) = scheme_start(text, floor, colon) else {
                continue;
            };
            let length = length(&text[behind..]);
            if length > 0 {
                from = behind + length;
                return Some(start..from);
            }
        }
        None
    })
}

/// Where the `http` or `https` before `colon` begins, if that is what stands there.
fn scheme_start(text: &str, floor: usize, colon: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    ["https", "http"].into_iter().find_map(|scheme| {
        let start = colon
            .checked_sub(scheme.len())
            .filter(|start| *start >= floor)?;
        let said = bytes[start..colon].eq_ignore_ascii_case(scheme.as_bytes());
        let apart = start == 0 || !bytes[start - 1].is_ascii_alphanumeric();
        (said && apart).then_some(start)
    })
}

/// How many bytes of `rest` belong to the link.
fn length(rest: &str) -> usize {
    let mut open = [0_usize; 3];
    let mut end = rest.len();
    for (at, c) in rest.char_indices() {
        let opened = "([{".find(c);
        let closed = ")]}".find(c);
        if let Some(kind) = opened {
            open[kind] += 1;
        }
        let stray = closed.is_some_and(|kind| open[kind] == 0);
        if stray || c.is_whitespace() || c.is_control() || ENDS.contains(&c) {
            end = at;
            break;
        }
        if let Some(kind) = closed {
            open[kind] -= 1;
        }
    }
    rest[..end].trim_end_matches(is_closing).len()
}

/// What ends a sentence or an emphasis rather than a link.
fn is_closing(c: char) -> bool {
    matches!(
        c,
        '.' | ','
            | ';'
            | ':'
            | '!'
            | '?'
            | '\''
            | '’'
            | '…'
            | '*'
            | '_'
            | '~'
            | '|'
            | '('
            | '['
            | '{'
    )
}
