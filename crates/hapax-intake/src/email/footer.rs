//! The end of a mail's text that says nothing of its own: a signature, the footer of a list or a newsletter, the
//! telephone it was written on. A line that only divides a text ends nothing; what follows it has to look like a footer.

use std::ops::Range;

use super::phrase;

/// How many lines below its mark a signature or a footer may have.
const LINES_MAX: usize = 12;
/// How long a paragraph of a footer may be, in lines and bytes.
const PARAGRAPH_LINES_MAX: usize = 6;
const PARAGRAPH_BYTES_MAX: usize = 600;
/// How many words a line with an address in it may have in a block of addresses.
const ADDRESS_WORDS_MAX: usize = 4;
/// How many digits a telephone number has, and how many if nothing says that it is one: more than a date.
const PHONE_DIGITS_MIN: usize = 7;
const BARE_PHONE_DIGITS_MIN: usize = 9;

/// What footers say and stories seldom do.
const FOOTER: [&str; 37] = [
    "unsubscribe",
    "to subscribe",
    "subscription information",
    "your subscription",
    "mailing list",
    "mailing-list",
    "listinfo",
    "/mailman/",
    "yahoogroups",
    "yahoo! groups",
    "googlegroups",
    "google groups",
    "list archive",
    "you received this",
    "you are receiving",
    "you're receiving",
    "you are subscribed",
    "message was sent to",
    "email was sent to",
    "e-mail was sent to",
    "view this email in",
    "sent from my ",
    "sent from mail",
    "do you yahoo",
    "abmelden",
    "abbestellen",
    "austragen",
    "désabonner",
    "désinscrire",
    "darse de baja",
    "darte de baja",
    "descadastrar",
    "cancellare l'iscrizione",
    "disiscriver",
    "uitschrijven",
    "отписаться",
    "退订",
];

const PHONE: [&str; 7] = ["tel", "phone", "ph:", "fax", "mobile", "cell", "+"];

/// The lines without the signature, the footer and the mark of a device at their end; each is taken once, and never all
/// lines. In a letter `--` without its space is a signature's mark only if what follows looks like a footer; in a
/// conversation it is one.
pub(super) fn without<'l, 'a>(lines: &'l [&'a str], is_letter: bool) -> &'l [&'a str] {
    let mut rest = without_drawn_end(lines);
    // Only the last mark: what stands between two of them is a part of the text.
    let mut marks = last(rest, LINES_MAX).rev();
    let footer = marks.find(|at| is_rule(rest[*at]) || is_dashes(rest[*at]));
    rest = above(rest, footer.filter(|at| is_footer(&rest[at + 1..])));
    rest = without_device(rest);
    let signature = last(rest, LINES_MAX).find(|at| {
        let line = rest[*at];
        let is_marked = line.ends_with(' ') || !is_letter || is_footer(&rest[at + 1..]);
        is_dashes(line) && is_marked
    });
    rest = above(rest, signature);
    without_device(rest)
}

fn without_device<'l, 'a>(lines: &'l [&'a str]) -> &'l [&'a str] {
    let device = last(lines, 2).find(|at| phrase::is_device(lines[*at]));
    above(lines, device)
}

/// Where a mark can stand that has at most so many lines below it.
fn last(lines: &[&str], below_max: usize) -> Range<usize> {
    lines.len().saturating_sub(below_max + 1)..lines.len()
}

/// The lines above a mark, if there is one and anything above it.
fn above<'l, 'a>(lines: &'l [&'a str], mark: Option<usize>) -> &'l [&'a str] {
    match mark {
        Some(mark) if !is_blank(&lines[..mark]) => without_drawn_end(&lines[..mark]),
        Some(_) | None => lines,
    }
}

/// The lines without the blank and drawn ones at their end, unless there are no others.
fn without_drawn_end<'l, 'a>(lines: &'l [&'a str]) -> &'l [&'a str] {
    let is_drawn = |line: &&&str| line.bytes().all(|byte| b" \t-_=*".contains(&byte));
    let drawn = lines.iter().rev().take_while(is_drawn).count();
    if drawn == lines.len() {
        lines
    } else {
        &lines[..lines.len() - drawn]
    }
}

/// A line that is only underscores, as lists and Outlook draw it.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 10 && line.bytes().all(|byte| byte == b'_')
}

/// The mark of a signature, with its space or without.
fn is_dashes(line: &str) -> bool {
    line.len() <= 8 && matches!(line.trim_end(), "--" | "- --" | "—")
}

/// Whether every paragraph is one of a footer.
fn is_footer(lines: &[&str]) -> bool {
    let mut paragraphs = lines
        .split(|line| line.trim().is_empty())
        .filter(|paragraph| !paragraph.is_empty())
        .peekable();
    paragraphs.peek().is_some() && paragraphs.all(is_footer_paragraph)
}

fn is_footer_paragraph(lines: &[&str]) -> bool {
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    if lines.len() > PARAGRAPH_LINES_MAX || bytes > PARAGRAPH_BYTES_MAX {
        return false;
    }
    let lower = lines.join("\n").to_lowercase();
    FOOTER.iter().any(|words| lower.contains(words)) || is_contact(&lower)
}

/// Lines in lower case that say how to reach somebody, and tell no story.
fn is_contact(lower: &str) -> bool {
    let mut lines = lower.lines().map(str::trim);
    lines.clone().any(is_reach) && !lines.any(|line| line.ends_with(['.', '!', '?']))
}

/// A line with an address and little else, or a telephone number.
fn is_reach(line: &str) -> bool {
    let digits = || line.bytes().filter(u8::is_ascii_digit).count();
    line.contains('@') && line.split_whitespace().count() <= ADDRESS_WORDS_MAX
        || PHONE.iter().any(|start| line.starts_with(start)) && digits() >= PHONE_DIGITS_MIN
        || line.bytes().all(|byte| b"0123456789 -./()".contains(&byte))
            && digits() >= BARE_PHONE_DIGITS_MIN
}

pub(super) fn is_blank(lines: &[&str]) -> bool {
    lines.iter().all(|line| line.trim().is_empty())
}
