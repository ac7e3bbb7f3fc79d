//! The line that begins a message in a mailbox file.

use crate::text::lines;

/// The longest line that can begin a message, in bytes.
pub(super) const LINE_BYTES_MAX: usize = 2_048;

/// What the `From ` line says: who delivered the message, and when. Neither is the mail's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The sender by the transport.
    pub sender: String,
    /// When it was put into the mailbox, as it stands there.
    pub date: String,
}

/// Reads a line as one that begins a message. It is bare of quotes, has a date, and is not endless.
pub(super) fn read(line: &[u8]) -> Option<Envelope> {
    let rest = line.strip_prefix(b"From ")?;
    if line.len() >= LINE_BYTES_MAX {
        return None;
    }
    let text = String::from_utf8_lossy(rest);
    let words: Vec<&str> = text.split_whitespace().collect();
    let start = (0..words.len()).find(|at| is_date(&words[*at..]))?;
    Some(Envelope {
        sender: words[..start].join(" "),
        date: words[start..].join(" "),
    })
}

/// Whether the line is blank.
pub(super) fn blank(line: &[u8]) -> bool {
    matches!(line, b"\n" | b"\r\n")
}

/// Whether a text holds a line that would begin a message if the text stood in a mailbox file.
pub(super) fn within(raw: &[u8]) -> bool {
    let mut after_blank = false;
    lines(raw).any(|line| {
        let found = after_blank && read(line).is_some();
        after_blank = blank(line);
        found
    })
}

/// `Thu Aug 22 12:36:23 2002`; there may be no seconds, and a zone or two before the year.
fn is_date(words: &[&str]) -> bool {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let [day, month, number, clock, rest @ ..] = words else {
        return false;
    };
    let is_one_of =
        |word: &str, names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name));
    let is_year = |word: &&str| word.len() == 4 && digits(word);
    is_one_of(day.trim_end_matches(','), &DAYS)
        && is_one_of(month, &MONTHS)
        && number.len() <= 2
        && digits(number)
        && is_clock(clock)
        && rest.iter().take(3).any(is_year)
}

fn is_clock(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    matches!(parts.len(), 2 | 3) && parts.iter().all(|part| part.len() <= 2 && digits(part))
}

fn digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}
