//! The rules of planning: how sure is sure enough, what may be inferred, which words are known.

use super::project::Projects;
use super::word::Words;
use super::zone::Zone;

/// How packets are planned.
///
/// What is inferred is little and fixed. From `natural_language` comes the text of a list item or a note, word for
/// word, when the packet has no other; and the title of a task only if `title_from_words` says so. The kind of
/// action, a due date, a priority, a status, a project or an id never does: what is missing is asked for.
///
/// ```
/// use hapax_core::Time;
/// use hapax_intake::intent::{Packet, Plan, Policy, plan};
///
/// let packet = Packet::read(br#"{"kind":"intent","intent_type":"create_task","natural_language":"Call Ada"}"#)?;
/// assert!(matches!(plan(&packet, &Policy::default(), Time::from_ms(0)), Plan::Clarify(_)));
/// let lenient = Policy { title_from_words: true, ..Policy::default() };
/// assert!(matches!(plan(&packet, &lenient, Time::from_ms(0)), Plan::Actions(_)));
/// # Ok::<(), hapax_intake::Refusal>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// A packet that is less sure than this is rejected.
    pub confidence_min: f64,
    /// Whether a task without a title may be called what the person said.
    pub title_from_words: bool,
    /// Where the people are whose packets name no zone.
    pub timezone: Zone,
    /// The priorities of the gateway.
    pub priorities: Words,
    /// The states of a task at the gateway.
    pub statuses: Words,
    /// The projects that exist. Without them a project's name goes through as sent.
    pub projects: Option<Projects>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            confidence_min: 0.75,
            title_from_words: false,
            timezone: Zone::default(),
            priorities: Words::priorities(),
            statuses: Words::statuses(),
            projects: None,
        }
    }
}
