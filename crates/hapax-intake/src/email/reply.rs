//! What in a mail's text is somebody else's: quotations, the mail below, a signature. It finds them by their marks, in
//! one pass, and never takes the whole text away.

use std::ops::Range;

use super::attribution::{self, Ending};
use super::footer::{self, is_blank};
use super::phrase::{self, Field};

/// How many lines an attribution may be folded into.
const ATTRIBUTION_LINES_MAX: usize = 3;
/// How many lines of fields a block may have.
const BLOCK_LINES_MAX: usize = 12;
const LINE_BYTES_MAX: usize = 1_000;

/// By what a text shows that it answers another mail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Evidence {
    /// "On Monday Ada wrote:" with quoted lines below.
    Attribution,
    /// Quoted lines beside own ones.
    Quotation,
    /// `-----Original Message-----`.
    OriginalMessage,
    /// The fields From, Sent, To and Subject of the mail below.
    HeaderBlock,
}

impl Evidence {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Attribution => "attribution",
            Self::Quotation => "quotation",
            Self::OriginalMessage => "original_message",
            Self::HeaderBlock => "header_block",
        }
    }
}

/// A mark that the mail of somebody else follows.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Mark {
    /// The lines of an attribution, and whether quoted lines follow it.
    Attribution {
        lines: Range<usize>,
        is_quoted: bool,
    },
    /// A line over quoted lines that is an attribution if the text is known to be an answer.
    Vague(usize),
    Original(usize),
    Block(Range<usize>),
    /// The mark of a forwarded mail and the fields below it.
    Forward(Range<usize>),
}

impl Mark {
    fn lines(&self) -> Range<usize> {
        match self {
            Self::Attribution { lines, .. } | Self::Block(lines) | Self::Forward(lines) => {
                lines.clone()
            }
            Self::Original(at) | Self::Vague(at) => *at..*at + 1,
        }
    }
}

/// A text with the marks that were found in it.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    lines: Vec<&'a str>,
    marks: Vec<Mark>,
}

impl<'a> Reply<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut marks = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            let mark = mark_at(&lines, at);
            at = mark.as_ref().map_or(at + 1, |mark| mark.lines().end);
            marks.extend(mark);
        }
        Self { lines, marks }
    }

    /// The strongest sign that the text is an answer; the mark of a forwarded mail is none. One quoted line alone is a
    /// sign only if the subject is one of an answer.
    pub(super) fn evidence(&self, is_answer_subject: bool) -> Option<Evidence> {
        let forward = self.forward().map_or(self.lines.len(), |lines| lines.start);
        let marked = self.marks.iter().find_map(|mark| match mark {
            Mark::Attribution {
                is_quoted: true, ..
            } => Some(Evidence::Attribution),
            Mark::Original(_) => Some(Evidence::OriginalMessage),
            Mark::Block(_) => Some(Evidence::HeaderBlock),
            Mark::Attribution {
                is_quoted: false, ..
            }
            | Mark::Vague(_)
            | Mark::Forward(_) => None,
        });
        let own = &self.lines[..forward];
        let has_own = || {
            own.iter()
                .any(|line| !is_quote(line) && !line.trim().is_empty())
        };
        let is_quotation = || has_quotation(own, is_answer_subject) && has_own();
        marked.or_else(|| is_quotation().then_some(Evidence::Quotation))
    }

    /// The lines of the first mark of a forwarded mail.
    fn forward(&self) -> Option<Range<usize>> {
        self.marks.iter().find_map(|mark| match mark {
            Mark::Forward(lines) => Some(lines.clone()),
            Mark::Attribution { .. } | Mark::Vague(_) | Mark::Original(_) | Mark::Block(_) => None,
        })
    }

    /// What the fields below the mark of a forwarded mail say: from, sent and subject.
    pub(super) fn forwarded(&self) -> Option<[Option<&'a str>; 3]> {
        let lines = self.forward()?;
        let said = |wanted: Field| {
            self.lines[lines.clone()]
                .iter()
                .filter_map(|line| phrase::field(bare(line)))
                .find(|(field, value)| *field == wanted && !value.is_empty())
                .map(|(_, value)| super::cut(value, LINE_BYTES_MAX))
        };
        Some([
            said(Field::From),
            said(Field::Date).or_else(|| said(Field::Sent)),
            said(Field::Subject),
        ])
    }

    /// The writer's own lines: quotations and their marks gone, and whatever follows the mark of a mail below. A
    /// forwarded mail stays, without its mark. If that leaves nothing, it is the whole text.
    pub(super) fn own(&self, takes_quotes: bool) -> String {
        let mut kept: Vec<&str> = Vec::new();
        let mut forwarded: &[&str] = &[];
        let mut marks = self.marks.iter().peekable();
        let mut at = 0;
        while at < self.lines.len() {
            let Some(mark) = marks.next_if(|mark| mark.lines().start == at) else {
                let line = self.lines[at];
                if !(takes_quotes && is_quote(line)) {
                    kept.push(line);
                }
                at += 1;
                continue;
            };
            at = mark.lines().end;
            match mark {
                Mark::Forward(_) => {
                    forwarded = &self.lines[at..];
                    break;
                }
                _ if !takes_quotes => kept.extend(&self.lines[mark.lines()]),
                Mark::Attribution {
                    is_quoted: true, ..
                }
                | Mark::Vague(_) => {}
                Mark::Attribution {
                    is_quoted: false, ..
                }
                | Mark::Original(_)
                | Mark::Block(_) => {
                    if !is_blank(&kept) {
                        break;
                    }
                    kept.extend(&self.lines[mark.lines()]);
                }
            }
        }
        let own = footer::without(&kept, !takes_quotes);
        let parts = [own, forwarded];
        let parts = parts
            .iter()
            .filter(|lines| !is_blank(lines))
            .map(|lines| lines.join("\n"));
        let text = parts.collect::<Vec<_>>().join("\n\n");
        if text.is_empty() {
            self.lines.join("\n")
        } else {
            text
        }
    }
}

/// The mark that begins at a line.
fn mark_at(lines: &[&str], at: usize) -> Option<Mark> {
    let line = lines[at];
    if line.len() > LINE_BYTES_MAX || line.trim().is_empty() {
        return None;
    }
    if phrase::is_original(line) {
        return Some(Mark::Original(at));
    }
    if phrase::is_forward(line) {
        let start = next_line(lines, at + 1);
        let end = block(lines, start).map_or(at + 1, |block| block.end);
        return Some(Mark::Forward(at..end));
    }
    if is_quote(line) {
        return None;
    }
    if let Some(block) = block(lines, at).filter(|block| is_outlook(&lines[block.clone()])) {
        return Some(Mark::Block(block));
    }
    attribution(lines, at)
}

/// "On Monday Ada wrote:", perhaps folded.
fn attribution(lines: &[&str], at: usize) -> Option<Mark> {
    let mut whole = String::new();
    for end in at..lines.len().min(at + ATTRIBUTION_LINES_MAX) {
        let line = lines[end].trim();
        if line.is_empty() || line.len() > LINE_BYTES_MAX || is_quote(line) {
            return None;
        }
        whole.push(' ');
        whole.push_str(line);
        if !line.ends_with([':', '：']) {
            continue;
        }
        let next = next_line(lines, end + 1);
        let is_quoted = lines.get(next).is_some_and(|line| is_quote(line));
        let found = attribution::ending(&whole)?;
        if found == Ending::Vague {
            return (end == at && is_quoted).then_some(Mark::Vague(at));
        }
        // Without quoted lines below it has to say when it was, and it has to begin like one.
        let is_dated =
            found == Ending::Verb && attribution::opens(lines[at]) && attribution::is_dated(&whole);
        // Lines above the one with the verb belong to it if they begin like one, and no later line does; or if they
        // begin a paragraph and the whole says who and when.
        let is_later = lines[at + 1..=end]
            .iter()
            .any(|line| attribution::opens(line));
        let is_paragraph = at == 0 || lines[at - 1].trim().is_empty();
        let is_full = is_paragraph && whole.contains('@') && attribution::is_dated(&whole);
        let is_whole = end == at || !is_later && (attribution::opens(lines[at]) || is_full);
        return (is_whole && (is_quoted || is_dated)).then_some(Mark::Attribution {
            lines: at..end + 1,
            is_quoted,
        });
    }
    None
}

/// Lines of fields that begin here, at least three of them.
fn block(lines: &[&str], at: usize) -> Option<Range<usize>> {
    let mut end = at;
    let mut fields = 0;
    for line in lines.get(at..)?.iter().take(BLOCK_LINES_MAX) {
        let line = bare(line);
        if line.trim().is_empty() {
            break;
        }
        match phrase::field(super::cut(line, LINE_BYTES_MAX)) {
            Some(_) => fields += 1,
            // A long list of receivers is folded.
            None if fields > 0 && line.len() < LINE_BYTES_MAX && line.contains(['@', ';']) => {}
            None => break,
        }
        end += 1;
    }
    (fields >= 3).then_some(at..end)
}

/// Whether fields begin with From, say when it was, and name a subject or someone. Digests of lists have a date and a
/// subject, too, so that with a date it takes both.
fn is_outlook(lines: &[&str]) -> bool {
    let fields: Vec<Field> = lines
        .iter()
        .filter_map(|line| Some(phrase::field(line)?.0))
        .collect();
    let [subject, to] = [Field::Subject, Field::To].map(|field| fields.contains(&field));
    fields.first() == Some(&Field::From)
        && (fields.contains(&Field::Sent) && (subject || to)
            || fields.contains(&Field::Date) && subject && to)
}

/// The next line that is not blank, at most two further on.
fn next_line(lines: &[&str], at: usize) -> usize {
    let blanks = lines
        .iter()
        .skip(at)
        .take(2)
        .take_while(|line| line.trim().is_empty())
        .count();
    at + blanks
}

/// Whether lines hold a quotation: two quoted lines in a row, or, if one is enough, one with words. Newsletters draw arrows with `>`, and break a link in brackets before its `>`.
fn has_quotation(lines: &[&str], is_one_enough: bool) -> bool {
    let mut before = "";
    lines.iter().any(|line| {
        let ends_link = before.rfind('<') > before.rfind('>');
        let is_alone = is_quote(line) && line.contains(char::is_alphanumeric);
        let in_row = is_quote(line)
            && is_quote(before)
            && !(bare(line).is_empty() && bare(before).is_empty());
        before = line;
        in_row || is_one_enough && is_alone && !ends_link
    })
}

fn is_quote(line: &str) -> bool {
    let start = line.trim_start_matches(' ');
    line.len() - start.len() <= 3 && start.starts_with('>')
}

/// A line without the `>` before it.
fn bare(line: &str) -> &str {
    line.trim_start_matches(['>', ' '])
}
