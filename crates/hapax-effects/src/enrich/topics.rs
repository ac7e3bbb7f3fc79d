//! The controlled list of topics. A model may choose from it and may not add to it.

use super::Invalid;

/// How many topics a list may hold: all of them stand in every prompt.
pub const TOPICS_MAX: usize = 256;
/// How long the name of a topic may be.
pub const TOPIC_CHARS_MAX: usize = 64;

const BROAD: [&str; 60] = [
    "technology",
    "software",
    "programming",
    "databases",
    "ai",
    "security",
    "networks",
    "hardware",
    "data",
    "open-source",
    "web",
    "mobile",
    "engineering",
    "science",
    "mathematics",
    "physics",
    "biology",
    "medicine",
    "health",
    "fitness",
    "psychology",
    "philosophy",
    "religion",
    "history",
    "society",
    "politics",
    "law",
    "economy",
    "finance",
    "investing",
    "business",
    "startups",
    "management",
    "marketing",
    "sales",
    "work",
    "career",
    "productivity",
    "writing",
    "language",
    "education",
    "research",
    "culture",
    "art",
    "design",
    "music",
    "film",
    "books",
    "games",
    "media",
    "sport",
    "environment",
    "energy",
    "transport",
    "travel",
    "food",
    "home",
    "family",
    "personal",
    "other",
];

/// The topics that an answer may name, in the order in which the prompt lists them.
///
/// A name is compared without regard to case, and with spaces and underscores as hyphens.
///
/// ```
/// use hapax_effects::enrich::Topics;
///
/// let topics = Topics::new(["tea", "open source"])?;
/// assert_eq!(topics.find(" Open_Source "), Some("open-source"));
/// assert_eq!(topics.find("coffee"), None);
///
/// assert_eq!(Topics::default().find("Databases"), Some("databases"));
/// assert!(Topics::new(["tea", "TEA"]).is_err(), "the same topic twice");
/// # Ok::<(), hapax_effects::enrich::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topics(Vec<String>);

impl Topics {
    /// These topics.
    ///
    /// # Errors
    /// [`Invalid`] when there is none, there are too many, one is named twice, or a name is empty, too long or holds
    /// anything but letters, digits and hyphens.
    pub fn new<I, T>(names: I) -> Result<Self, Invalid>
    where
        I: IntoIterator<Item = T>,
        T: AsRef<str>,
    {
        let mut topics: Vec<String> = Vec::new();
        for name in names {
            let topic = spelled(name.as_ref());
            let is_plain = |letter: char| letter.is_alphanumeric() || letter == '-';
            if topic.is_empty()
                || topic.chars().count() > TOPIC_CHARS_MAX
                || !topic.chars().all(is_plain)
            {
                return Err(Invalid::new(
                    "topic",
                    "is not 1 to 64 letters, digits and hyphens",
                ));
            }
            if topics.contains(&topic) {
                return Err(Invalid::new("topics", "name one topic twice"));
            }
            if topics.len() == TOPICS_MAX {
                return Err(Invalid::new("topics", "are more than 256"));
            }
            topics.push(topic);
        }
        if topics.is_empty() {
            return Err(Invalid::new("topics", "are none"));
        }
        Ok(Self(topics))
    }

    /// The topic that `name` means, in the list's own spelling.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&str> {
        let name = spelled(name);
        let found = self.0.iter().find(|topic| **topic == name);
        found.map(String::as_str)
    }

    /// All of them, in order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl Default for Topics {
    /// A broad list of sixty.
    fn default() -> Self {
        Self(BROAD.map(str::to_owned).to_vec())
    }
}

/// The one spelling of a topic: lower case, with single hyphens between its words.
fn spelled(name: &str) -> String {
    let is_gap = |letter: char| letter.is_whitespace() || matches!(letter, '_' | '-');
    let words: Vec<String> = name
        .split(is_gap)
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_broad_list_keeps_the_rules_of_every_list() {
        assert_eq!(Topics::new(BROAD).unwrap(), Topics::default());
    }

    #[test]
    fn a_list_that_could_not_be_told_apart_or_breaks_a_prompt_is_refused() {
        assert!(Topics::new([""]).is_err());
        assert!(Topics::new(["a\nb: c"]).is_err());
        assert!(Topics::new(["x".repeat(65)]).is_err());
        assert!(Topics::new(Vec::<String>::new()).is_err());
        assert!(Topics::new((0..257).map(|n| format!("t{n}"))).is_err());
        assert!(Topics::new(["open source", "open-source"]).is_err());
        let spelled = Topics::new(["Café_ au-lait"]).unwrap();
        assert_eq!(spelled.names(), ["café-au-lait"]);
    }
}
