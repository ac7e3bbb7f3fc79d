//! Questions back to the person: what is asked, about which member, and what they may choose.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The member of the packet that a question is about, by its JSON pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Field {
    /// What kind of action is wanted.
    #[serde(rename = "/intent_type")]
    IntentType,
    /// Which list.
    #[serde(rename = "/target/key")]
    List,
    /// What the task is called.
    #[serde(rename = "/fields/title")]
    Title,
    /// When it is due.
    #[serde(rename = "/fields/due")]
    Due,
    /// How urgent it is.
    #[serde(rename = "/fields/priority")]
    Priority,
    /// How far it has come.
    #[serde(rename = "/fields/status")]
    Status,
    /// Which project it belongs to.
    #[serde(rename = "/fields/project")]
    Project,
    /// Which task to change.
    #[serde(rename = "/fields/task_id")]
    Task,
    /// What goes on the list.
    #[serde(rename = "/fields/item")]
    Item,
    /// What the note says.
    #[serde(rename = "/fields/content")]
    Content,
    /// What to change about the task: a status, a priority or a due date.
    #[serde(rename = "/fields")]
    Change,
}

impl Field {
    /// The JSON pointer.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IntentType => "/intent_type",
            Self::List => "/target/key",
            Self::Title => "/fields/title",
            Self::Due => "/fields/due",
            Self::Priority => "/fields/priority",
            Self::Status => "/fields/status",
            Self::Project => "/fields/project",
            Self::Task => "/fields/task_id",
            Self::Item => "/fields/item",
            Self::Content => "/fields/content",
            Self::Change => "/fields",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a question is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Something that is needed is not there.
    Missing,
    /// It is there, and cannot be understood.
    Unreadable,
    /// It is there, and means more than one thing.
    Ambiguous,
    /// It is there, and is none of what is known.
    Unknown,
}

/// One thing that may be chosen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Choice {
    /// What an answer names it by.
    pub id: String,
    /// What people read.
    pub label: String,
    /// What is filled in when it is chosen.
    pub value: Value,
}

impl Choice {
    pub(super) fn new(
        id: impl Into<String>,
        label: impl Into<String>,
        value: impl Into<Value>,
    ) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            value: value.into(),
        }
    }
}

/// A question without whose answer there is no plan. An answer is a choice, or a text of one's own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Clarification {
    /// What people read.
    pub question: String,
    /// What it is about.
    pub field: Field,
    /// Why it is asked.
    pub reason: Why,
    /// What may be chosen.
    pub choices: Vec<Choice>,
}
