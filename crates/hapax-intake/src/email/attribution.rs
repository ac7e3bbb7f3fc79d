//! The line over a quotation that says who wrote it, in the languages that mail programs speak. It looks at the line
//! alone; whether a quotation follows is not its business.

/// Verbs of "On Monday Ada wrote:", each as one word.
const WROTE: [&str; 20] = [
    "wrote",
    "writes",
    "schrieb",
    "écrit",
    "escribió",
    "escreveu",
    "scritto",
    "scrive",
    "schreef",
    "skrev",
    "kirjoitti",
    "написал",
    "написала",
    "пишет",
    "пише",
    "napisał",
    "napisała",
    "napsal",
    "yazdı",
    "写道",
];

/// Verbs of saying. Stories have them, too, so that they prove nothing.
const SAID: [&str; 2] = ["said", "mentioned"];

/// Words that stand between a name and its verb.
const AUXILIARIES: [&str; 4] = ["a", "ha", "has", "had"];

/// Words that stand where a name does and name nobody.
const NOBODY: [&str; 6] = ["someone", "somebody", "anyone", "everyone", "nobody", "who"];

const OPENINGS: [&str; 12] = [
    "on ", "am ", "le ", "el ", "il ", "em ", "op ", "den ", "dnia ", "w dniu ", "no dia ", "в ",
];

/// How many words a name has that follows its verb.
const NAME_WORDS_MAX: usize = 4;

/// How an attribution ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// With a verb of writing, and it says who or when.
    Verb,
    /// With a date and an address, and without a verb.
    Address,
    /// With a verb, and it is only clear in a conversation that somebody in it is meant.
    Vague,
}

/// Whether a line, with those before it that belong to it, says who wrote: a verb of writing with a beginning like
/// "On", a date or an address, or with a name right before it; or a date and an address without a verb.
pub(super) fn ending(lines: &str) -> Option<Ending> {
    let lines = lines.trim();
    let lines = lines
        .strip_suffix(':')
        .or_else(|| lines.strip_suffix('：'))?
        .trim_end();
    let words: Vec<&str> = lines.split_whitespace().collect();
    let verb = words.iter().rposition(|word| is_verb(word));
    let is_written = |verb: usize| {
        opens(lines)
            || is_dated(lines)
            || lines.contains('@')
            || is_written_by(&words[..verb], &words[verb + 1..])
    };
    let is_last = || {
        words
            .last()
            .is_some_and(|word| is_verb(word) || SAID.contains(&bare(word).to_lowercase().as_str()))
    };
    if verb.is_some_and(is_written) {
        Some(Ending::Verb)
    } else if verb.is_none()
        && lines.ends_with('>')
        && lines.contains('@')
        && lines.contains(|c: char| c.is_ascii_digit())
    {
        Some(Ending::Address)
    } else if is_last() {
        Some(Ending::Vague)
    } else {
        None
    }
}

/// Whether a line begins like an attribution: with "On", or with a number.
pub(super) fn opens(line: &str) -> bool {
    let line = super::cut(line.trim_start(), 20).to_lowercase();
    OPENINGS.iter().any(|opening| line.starts_with(opening))
        || line.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a line has numbers enough to say when it was.
pub(super) fn is_dated(line: &str) -> bool {
    line.bytes().filter(u8::is_ascii_digit).count() >= 3
}

fn is_verb(word: &str) -> bool {
    let word = bare(word).to_lowercase();
    let word = ["(a", "(а"]
        .iter()
        .find_map(|form| word.strip_suffix(form))
        .unwrap_or(&word);
    // Chinese puts no space before it.
    WROTE.contains(&word) || word.ends_with("写道")
}

/// A name right before the verb that ends the line, or right after the one that begins it.
fn is_written_by(before: &[&str], after: &[&str]) -> bool {
    let before = match before {
        [names @ .., last] if AUXILIARIES.contains(last) => names,
        names => names,
    };
    // What is in brackets behind a name belongs to it.
    let before = match before.last() {
        Some(last) if last.ends_with(')') => {
            let open = before.iter().rposition(|word| word.starts_with('('));
            open.map_or(before, |open| &before[..open])
        }
        Some(_) | None => before,
    };
    match (before.last(), after) {
        (Some(last), []) => is_name(last),
        (None, names) => {
            (1..=NAME_WORDS_MAX).contains(&names.len()) && names.iter().all(|name| is_name(name))
        }
        (Some(_), _) => false,
    }
}

/// A word that begins with a capital, or in a writing that has none.
fn is_name(word: &str) -> bool {
    let word = bare(word);
    word.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase())
        && !NOBODY.contains(&word.to_lowercase().as_str())
}

fn bare(word: &str) -> &str {
    word.trim_matches([',', '.', ';', ':', '"', '\'', '*', '_', '(', ')', '<', '>'])
}
