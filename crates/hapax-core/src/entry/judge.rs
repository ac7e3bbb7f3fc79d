//! The rule of entries: what becomes of a draft, given its policy and the rows that have its keys. Pure.

use super::column::Column;
use super::draft::{Draft, Refused, Which};
use super::fields::{Fields, Row};
use super::policy::{ConflictAction, Policy, SecondaryMatch};

/// The sources whose entries are never inserted without their keys.
pub const KEYED_SOURCES: [&str; 3] = ["telegram", "email", "email-batch"];

/// The largest metadata of one entry, in bytes of JSON.
pub const METADATA_BYTES_MAX: usize = 1024 * 1024;

/// A key of the draft that belongs to another row. That row is left as it is, and the key is left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyConflict {
    /// Which key.
    pub which: Which,
    /// The key.
    pub key: String,
    /// The number of the row that has it.
    pub entry_id: i64,
}

/// Which row a draft met, and by which key.
#[derive(Clone, PartialEq, Debug)]
pub struct Match {
    /// The key that decided.
    pub on: Which,
    /// The key that belongs to another row, if there is one.
    pub conflict: Option<KeyConflict>,
}

impl Match {
    fn on(on: Which) -> Self {
        Self { on, conflict: None }
    }
}

/// A row that has one of a draft's keys.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen<'r> {
    /// The row.
    pub row: &'r Row,
    /// Whether it has merged the [message](super::message()) that the draft is.
    pub has_merged: bool,
}

/// A row that has merged no message, as every row but a thread's.
impl<'r> From<&'r Row> for Seen<'r> {
    fn from(row: &'r Row) -> Self {
        Self {
            row,
            has_merged: false,
        }
    }
}

/// What becomes of a draft.
#[derive(Clone, PartialEq, Debug)]
pub enum Judged {
    /// It is a new row with these fields.
    Insert {
        /// What the row says.
        fields: Fields,
        /// The key that was left out.
        conflict: Option<KeyConflict>,
    },
    /// The row that is there stays.
    Skip(Match),
    /// The row that is there says this from now on.
    Update {
        /// Which row, and why.
        found: Match,
        /// What it says.
        fields: Fields,
    },
    /// It is not taken.
    Refuse(Refused),
}

/// What becomes of `draft`, if these rows have its primary and its secondary key under its policy.
#[must_use]
pub fn judge(
    policy: Option<&Policy>,
    draft: &Draft,
    by_primary: Option<Seen<'_>>,
    by_secondary: Option<Seen<'_>>,
) -> Judged {
    let keys = Which::BOTH.map(|which| draft.key(which));
    let source = draft.fields.text(Column::Source).unwrap_or_default().trim();
    let must_be_keyed = KEYED_SOURCES
        .iter()
        .any(|keyed| keyed.eq_ignore_ascii_case(source));
    match (draft.policy(), keys) {
        (None, [None, None]) if !must_be_keyed => return fresh(draft, None),
        (Some(_), [Some(_), _] | [_, Some(_)]) => {}
        (policy, [primary, secondary]) => {
            return Judged::Refuse(missing(policy, primary.or(secondary)));
        }
    }
    let policy = match usable(policy, draft.policy().unwrap_or_default()) {
        Ok(policy) => policy,
        Err(refused) => return Judged::Refuse(refused),
    };
    let elsewhere = |seen: Seen<'_>| {
        draft.key(Which::Secondary).map(|key| KeyConflict {
            which: Which::Secondary,
            key: key.to_owned(),
            entry_id: seen.row.entry_id,
        })
    };
    match (by_primary, by_secondary) {
        (None, None) => fresh(draft, None),
        // Merged there before a row with the primary key existed.
        (primary, Some(seen))
            if seen.has_merged && !primary.is_some_and(|primary| primary.has_merged) =>
        {
            Judged::Skip(Match::on(Which::Secondary))
        }
        (Some(seen), other) => {
            let other = other.filter(|other| other.row.id != seen.row.id);
            let conflict = other.and_then(elsewhere);
            let on = Which::Primary;
            meets(policy, draft, seen, Match { on, conflict })
        }
        (None, Some(seen)) => {
            let alone = match policy.secondary_match {
                SecondaryMatch::Always => true,
                SecondaryMatch::OnlyIfPrimaryMissing => keys[0].is_none(),
            };
            if alone {
                meets(policy, draft, seen, Match::on(Which::Secondary))
            } else {
                fresh(draft, elsewhere(seen))
            }
        }
    }
}

/// The policy that was found under the name `key`, if entries may be written by it.
///
/// # Errors
/// The refusal, if there is none or it is disabled.
pub fn usable<'p>(policy: Option<&'p Policy>, key: &str) -> Result<&'p Policy, Refused> {
    match policy {
        None => Err(unknown(key)),
        Some(policy) if !policy.enabled => Err(disabled(&policy.key)),
        Some(policy) => Ok(policy),
    }
}

fn fresh(draft: &Draft, conflict: Option<KeyConflict>) -> Judged {
    let mut fields = draft.fields.clone();
    if let Some(conflict) = &conflict {
        fields.remove(conflict.which.column());
    }
    within_limits(&fields).map_or_else(Judged::Refuse, |()| Judged::Insert { fields, conflict })
}

fn meets(policy: &Policy, draft: &Draft, seen: Seen<'_>, found: Match) -> Judged {
    match policy.conflict_action {
        ConflictAction::Skip => Judged::Skip(found),
        // Merged a second time it would go over what came later.
        ConflictAction::Update if seen.has_merged => Judged::Skip(found),
        ConflictAction::Update => {
            let fields = seen
                .row
                .with(&draft.fields, policy.update_fields.as_deref());
            within_limits(&fields)
                .map_or_else(Judged::Refuse, |()| Judged::Update { found, fields })
        }
    }
}

/// Whether a row may say this.
///
/// # Errors
/// The refusal, if its metadata is larger than [`METADATA_BYTES_MAX`].
pub(crate) fn within_limits(fields: &Fields) -> Result<(), Refused> {
    let metadata = fields.get(Column::Metadata);
    if metadata.is_null() {
        return Ok(());
    }
    // Writing to a counter: no second copy of it.
    let mut counter = Counter(0);
    let written = serde_json::to_writer(&mut counter, metadata);
    if written.is_err() || counter.0 > METADATA_BYTES_MAX {
        return Err(Refused::new(
            "payload_too_large",
            format!("the entry's metadata would be larger than {METADATA_BYTES_MAX} bytes"),
        ));
    }
    Ok(())
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn missing(policy: Option<&str>, key: Option<&str>) -> Refused {
    let what = match (policy, key) {
        (None, None) => "idempotency_policy_key and a key are",
        (None, Some(_)) => "idempotency_policy_key is",
        (Some(_), _) => "idempotency_key_primary and idempotency_key_secondary are",
    };
    Refused::new(
        "idempotency_fields_required",
        format!("{what} missing; send what the normalise route answered"),
    )
}

fn unknown(key: &str) -> Refused {
    let shown: String = key.chars().take(100).collect();
    Refused::new(
        "unknown_policy",
        format!(
            "there is no policy {shown:?}; add it with PUT /v1/policies or hapax policies set --create"
        ),
    )
}

fn disabled(key: &str) -> Refused {
    Refused::new(
        "policy_disabled",
        format!(
            "the policy {key:?} is disabled; enable it with PUT /v1/policies or hapax policies set"
        ),
    )
}
