//! The audit trail's row: what happened to a key, a job or a policy, when, and on whose word. It never holds a body or a secret.

use std::fmt;

use serde_json::{Map, Value};

use crate::record::{Record, RecordId};
use crate::scope::{Space, Tenant};
use crate::time::Time;

/// The longest actor that is kept, in characters.
const ACTOR_CHARS_MAX: usize = 200;

/// What a note is about, by the words the API uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// A recorded outcome was given again.
    Replay,
    /// A key was used for another request.
    Conflict,
    /// A key whose time was over was granted anew.
    Expired,
    /// A sweep removed what had expired.
    Cleanup,
    /// An operator took a key back.
    Deleted,
    /// An operator said what happened.
    Settled,
    /// An operator gave a key back.
    Released,
    /// An operator erased what was stored under a key.
    Erased,
    /// An operator had a failed or given-up job start over.
    JobRetried,
    /// An operation in doubt, or one that waited, was ended.
    OpResolved,
    /// Leases that ran out and operations without a runner were cleaned up.
    Reconciled,
    /// A policy of entries was changed or added.
    PolicyChanged,
    /// The test mode of entries was turned on or off.
    TestModeChanged,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 13] = [
        Self::Replay,
        Self::Conflict,
        Self::Expired,
        Self::Cleanup,
        Self::Deleted,
        Self::Settled,
        Self::Released,
        Self::Erased,
        Self::JobRetried,
        Self::OpResolved,
        Self::Reconciled,
        Self::PolicyChanged,
        Self::TestModeChanged,
    ];

    /// The word used in storage and in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Action::Replay => "idempotency_replay",
            Action::Conflict => "idempotency_conflict",
            Action::Expired => "idempotency_expired",
            Action::Cleanup => "cleanup_idempotency_keys",
            Action::Deleted => "key_deleted",
            Action::Settled => "key_settled",
            Action::Released => "key_released",
            Action::Erased => "key_erased",
            Action::JobRetried => "job_retried",
            Action::OpResolved => "op_resolved",
            Action::Reconciled => "jobs_reconciled",
            Action::PolicyChanged => "policy_changed",
            Action::TestModeChanged => "test_mode_changed",
        }
    }

    /// The action with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One row of the audit trail.
///
/// ```
/// use hapax_core::{Action, Note, Tenant, Time};
///
/// let note = Note::new(Tenant::DEFAULT, Time::from_ms(7), Action::Deleted)
///     .by("token 4f1c")
///     .saying([("key", "order-7".into())]);
/// assert_eq!(note.action.as_str(), "key_deleted");
/// assert_eq!(note.details, r#"{"key":"order-7"}"#);
/// // The refusal: no text of a caller's choosing breaks the row it stands in.
/// assert_eq!(note.by("a\0b\nc").actor.as_deref(), Some("a b c"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Whose audit trail.
    pub tenant: Tenant,
    /// When, on the ledger's clock.
    pub at: Time,
    /// What happened.
    pub action: Action,
    /// On whose word, where somebody's was needed.
    pub actor: Option<String>,
    /// Which record it is about.
    pub key_id: Option<RecordId>,
    /// The space of that record.
    pub space: Option<Space>,
    /// More facts: a JSON object as text, with its names in order.
    pub details: String,
}

impl Note {
    /// A note about nothing in particular yet.
    #[must_use]
    pub fn new(tenant: Tenant, at: Time, action: Action) -> Self {
        Self {
            tenant,
            at,
            action,
            actor: None,
            key_id: None,
            space: None,
            details: "{}".to_owned(),
        }
    }

    /// A note about `record`.
    #[must_use]
    pub fn of(record: &Record, at: Time, action: Action) -> Self {
        Self {
            key_id: Some(record.id),
            space: Some(record.scope.space.clone()),
            ..Self::new(record.scope.tenant, at, action)
        }
    }

    /// The same on the word of `actor`, cut to 200 characters; control characters become spaces.
    #[must_use]
    pub fn by(mut self, actor: &str) -> Self {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        self.actor = Some(actor.chars().take(ACTOR_CHARS_MAX).map(shown).collect());
        self
    }

    /// The same with these facts, in place of earlier ones.
    #[must_use]
    pub fn saying<const N: usize>(mut self, facts: [(&str, Value); N]) -> Self {
        let facts: Map<String, Value> = facts
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        self.details = Value::Object(facts).to_string();
        self
    }
}

/// A note's place in its tenant's trail. Only the order of two of them means anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NoteId(pub i64);

/// Which notes to list, newest first.
#[derive(Clone, Debug)]
pub struct NoteScan {
    /// Whose notes.
    pub tenant: Tenant,
    /// Only this action.
    pub action: Option<Action>,
    /// Only about this record.
    pub key_id: Option<RecordId>,
    /// Only notes after this one in the list, as a page's `next` gave it.
    pub after: Option<(Time, NoteId)>,
    /// At most this many, and never more than [`NoteScan::LIMIT_MAX`].
    pub limit: usize,
}

impl NoteScan {
    /// The most notes on one page.
    pub const LIMIT_MAX: usize = 500;

    /// Every note of `tenant`, 50 to a page.
    #[must_use]
    pub const fn of(tenant: Tenant) -> Self {
        Self {
            tenant,
            action: None,
            key_id: None,
            after: None,
            limit: 50,
        }
    }
}

/// One page of notes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NotePage {
    /// The notes, newest first.
    pub notes: Vec<Note>,
    /// Where the next page begins, if there is one.
    pub next: Option<(Time, NoteId)>,
}
