//! Closed lists of words with the other ways people write them. An unknown word is never passed on.

/// A word and the other ways to write it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// The word that goes to the gateway.
    pub value: String,
    /// What else means it.
    pub also: Vec<String>,
}

/// The words that a member may have.
///
/// Capitals, spaces, hyphens and underscores do not count.
///
/// ```
/// use hapax_intake::intent::Words;
///
/// let statuses = Words::statuses();
/// assert_eq!(statuses.find("in_progress"), Some("In Progress"));
/// assert_eq!(statuses.find("DONE"), Some("Done"));
/// assert_eq!(statuses.find("perhaps"), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words(Vec<Word>);

impl Words {
    /// A list in the order in which it is offered.
    #[must_use]
    pub fn new(words: Vec<Word>) -> Self {
        Self(words)
    }

    /// Low, Medium, High, Urgent.
    #[must_use]
    pub fn priorities() -> Self {
        Self::of(&[
            ("Low", &["p3", "minor", "lowest"]),
            ("Medium", &["p2", "med", "normal", "default"]),
            ("High", &["p1", "important"]),
            ("Urgent", &["p0", "critical", "asap", "highest"]),
        ])
    }

    /// Todo, In Progress, Waiting, Done, Cancelled.
    #[must_use]
    pub fn statuses() -> Self {
        Self::of(&[
            ("Todo", &["open", "new", "backlog", "not started"]),
            ("In Progress", &["doing", "started", "active", "wip"]),
            ("Waiting", &["blocked", "on hold", "paused"]),
            ("Done", &["complete", "completed", "finished", "closed"]),
            ("Cancelled", &["canceled", "dropped", "wont do"]),
        ])
    }

    /// The word that `text` means.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<&str> {
        let asked = folded(text);
        self.0
            .iter()
            .find(|word| {
                folded(&word.value) == asked || word.also.iter().any(|also| folded(also) == asked)
            })
            .map(|word| word.value.as_str())
    }

    /// The words themselves.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|word| word.value.as_str())
    }

    fn of(words: &[(&str, &[&str])]) -> Self {
        Self(
            words
                .iter()
                .map(|(value, also)| Word {
                    value: (*value).to_owned(),
                    also: also.iter().map(|word| (*word).to_owned()).collect(),
                })
                .collect(),
        )
    }
}

fn folded(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '-' | '_' | '\''))
        .flat_map(char::to_lowercase)
        .collect()
}
