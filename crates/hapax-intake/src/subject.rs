//! What a subject is about once the marks of replies, forwards and lists are gone. It decodes nothing.

/// The base of a subject: the part that stays the same when a mail is answered, forwarded or sent through a list.
///
/// `re:`, `fw:` and `fwd:` in any case, and a `[tag]`, are taken from the front until nothing changes; white space
/// becomes single spaces, letters become lower case. A tag ends at its first `]`. The colon follows its letters at
/// once: `Re : x` and `Re[2]: x` keep theirs, as do prefixes of other languages.
///
/// The base can be empty. Whoever makes a key of it has to refuse an empty one, or unrelated mails become one.
///
/// ```
/// use hapax_intake::subject;
///
/// assert_eq!(subject::base("Fwd: RE: [team]  Lunch   today"), "lunch today");
/// assert_eq!(subject::base("Lunch re: today"), "lunch re: today");
/// assert_eq!(subject::base("Re: [list] [PATCH 0/3]"), "");
/// ```
#[must_use]
pub fn base(subject: &str) -> String {
    let lower = subject.to_lowercase();
    let mut rest = lower.trim_start();
    while let Some(after) = after_mark(rest) {
        rest = after.trim_start();
    }
    let mut base = String::with_capacity(rest.len());
    for word in rest.split_whitespace() {
        if !base.is_empty() {
            base.push(' ');
        }
        base.push_str(word);
    }
    base
}

/// Whether a subject is one of an answer: `re:` stands at its front, behind nothing but tags.
pub(crate) fn is_answer(subject: &str) -> bool {
    let mut rest = subject.trim_start();
    while let Some((_, after)) = rest.strip_prefix('[').and_then(|tag| tag.split_once(']')) {
        rest = after.trim_start();
    }
    rest.get(..3)
        .is_some_and(|start| start.eq_ignore_ascii_case("re:"))
}

/// What follows one mark at the front of a text in lower case. It looks no further than the mark's end, and stops the
/// search when there is no end, so that all calls together read the text once.
fn after_mark(text: &str) -> Option<&str> {
    if text.starts_with('[') {
        return text.split_once(']').map(|(_, after)| after);
    }
    ["re:", "fw:", "fwd:"]
        .into_iter()
        .find_map(|mark| text.strip_prefix(mark))
}
