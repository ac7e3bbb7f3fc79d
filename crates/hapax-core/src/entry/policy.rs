//! What a second entry of the same key does. Policies are rows: added, changed and disabled without a release.

use std::str::FromStr;

use super::column::Column;
use super::draft::Refused;
use crate::error::Invalid;

/// What happens to an entry whose key is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConflictAction {
    /// The row that is there stays as it is.
    Skip,
    /// The row that is there takes what comes in.
    Update,
}

impl ConflictAction {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Update => "update",
        }
    }
}

impl FromStr for ConflictAction {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "skip" => Ok(Self::Skip),
            "update" => Ok(Self::Update),
            _ => Err(Invalid::new(
                "conflict_action",
                "is neither 'skip' nor 'update'",
            )),
        }
    }
}

/// Whether the secondary key alone makes an entry the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecondaryMatch {
    /// It does.
    Always,
    /// It does if the entry that comes in has no primary key.
    OnlyIfPrimaryMissing,
}

impl SecondaryMatch {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::OnlyIfPrimaryMissing => "only_if_primary_missing",
        }
    }
}

impl FromStr for SecondaryMatch {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "always" => Ok(Self::Always),
            "only_if_primary_missing" => Ok(Self::OnlyIfPrimaryMissing),
            _ => Err(Invalid::new(
                "secondary_match",
                "is neither 'always' nor 'only_if_primary_missing'",
            )),
        }
    }
}

/// The rule of a family of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Its number. Given by the store.
    pub id: i64,
    /// Its name, such as `telegram_link_v1`.
    pub key: String,
    /// Which source it is for. It informs people; the entry names its policy.
    pub source: String,
    /// Which content it is for. It informs people, too.
    pub content_type: String,
    /// What happens on a match.
    pub conflict_action: ConflictAction,
    /// The columns that an update may change; `None` for all that come in. Names that are no column, or one that never
    /// changes, do nothing.
    pub update_fields: Option<Vec<String>>,
    /// Whether the secondary key alone matches.
    pub secondary_match: SecondaryMatch,
    /// A disabled policy takes nothing in.
    pub enabled: bool,
}

impl Policy {
    /// The policies that both schemas start with.
    #[must_use]
    pub fn seeds() -> Vec<Self> {
        use ConflictAction::{Skip, Update};
        let policy = |key: &str, source: &str, content_type: &str, conflict_action| Self {
            id: 0,
            key: key.to_owned(),
            source: source.to_owned(),
            content_type: content_type.to_owned(),
            conflict_action,
            update_fields: None,
            secondary_match: SecondaryMatch::Always,
            enabled: true,
        };
        vec![
            Self {
                // Two messages with the same words are two thoughts.
                secondary_match: SecondaryMatch::OnlyIfPrimaryMissing,
                ..policy("telegram_thought_v1", "telegram", "thought", Update)
            },
            policy("telegram_link_v1", "telegram", "link", Skip),
            policy("email_newsletter_v1", "email", "newsletter", Skip),
            policy(
                "email_correspondence_thread_v1",
                "email",
                "correspondence_thread",
                Update,
            ),
        ]
    }

    /// What a policy of this name starts as when it is added. Threads by their root message are one that we know.
    #[must_use]
    pub fn added(key: &str) -> Self {
        let known = Self::seeds().into_iter().find(|seed| seed.key == key);
        known.unwrap_or_else(|| {
            let of_threads = key == "email_thread_refs_v1";
            Self {
                id: 0,
                key: key.to_owned(),
                source: if of_threads { "email" } else { "*" }.to_owned(),
                content_type: if of_threads {
                    "correspondence_thread"
                } else {
                    "*"
                }
                .to_owned(),
                conflict_action: if of_threads {
                    ConflictAction::Update
                } else {
                    ConflictAction::Skip
                },
                update_fields: None,
                secondary_match: SecondaryMatch::Always,
                enabled: true,
            }
        })
    }
}

/// What a person changes of a policy. What is not said stays; a policy that is not there is added.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PolicyChange {
    /// Another source.
    pub source: Option<String>,
    /// Another content type.
    pub content_type: Option<String>,
    /// Another action.
    pub conflict_action: Option<ConflictAction>,
    /// Other columns; `Some(None)` for all that come in.
    pub update_fields: Option<Option<Vec<String>>>,
    /// Another reach of the secondary key.
    pub secondary_match: Option<SecondaryMatch>,
    /// On or off.
    pub enabled: Option<bool>,
}

impl PolicyChange {
    /// The longest name of a policy.
    pub const KEY_BYTES_MAX: usize = 100;

    /// The policy with this change, `from` what is there or from the start of a new one.
    #[must_use]
    pub fn over(&self, key: &str, from: Option<&Policy>) -> Policy {
        let mut next = from.cloned().unwrap_or_else(|| Policy::added(key));
        if let Some(source) = &self.source {
            next.source.clone_from(source);
        }
        if let Some(content_type) = &self.content_type {
            next.content_type.clone_from(content_type);
        }
        if let Some(action) = self.conflict_action {
            next.conflict_action = action;
        }
        if let Some(update_fields) = &self.update_fields {
            next.update_fields.clone_from(update_fields);
        }
        if let Some(secondary_match) = self.secondary_match {
            next.secondary_match = secondary_match;
        }
        if let Some(enabled) = self.enabled {
            next.enabled = enabled;
        }
        next
    }

    /// Whether the name can be a policy's, and the fields can be updated.
    ///
    /// # Errors
    /// The refusal, with each place.
    pub fn check(&self, key: &str) -> Result<(), Refused> {
        let mut faults = Vec::new();
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
        if key.is_empty() || key.len() > Self::KEY_BYTES_MAX || !key.bytes().all(is_word) {
            let message = "is not 1 to 100 letters, digits, '_', '-', '.' or ':'";
            faults.push(("/policy_key".to_owned(), message.to_owned()));
        }
        for (nth, name) in self
            .update_fields
            .iter()
            .flatten()
            .flatten()
            .enumerate()
            .take(100)
        {
            let message = match Column::named(name) {
                None => "is not a column of entries",
                Some(column) if !column.is_changeable() => "is a column that never changes",
                Some(_) => continue,
            };
            faults.push((format!("/update_fields/{nth}"), message.to_owned()));
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(Refused::shape(faults))
        }
    }
}
