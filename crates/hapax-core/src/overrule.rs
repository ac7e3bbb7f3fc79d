//! What an operator's word gets, given what is stored. Beside [`decide`](mod@crate::decide) the only rule there is:
//! a person may end doubt, and may never push a living holder aside.

use std::sync::Arc;

use crate::outcome::Outcome;
use crate::record::{Record, State};
use crate::time::Time;

/// What an operator who wants to settle or release a key gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ruling<'r> {
    /// Nobody acts and nothing is recorded: the operator's word stands.
    Stands(&'r Record),
    /// Somebody acts under the key until this time; ask again after it.
    Held(Time),
    /// It is settled, and a retry is answered with this. Only deleting takes it back.
    Settled(&'r Arc<Outcome>, Time),
    /// Its content was erased: there is nothing to say about it.
    Erased,
    /// No record answers for the key.
    Absent,
}

/// What an operator's word gets at `now`, given the record that is stored.
///
/// ```
/// use hapax_core::{overrule, Claim, Fingerprint, Key, Owner, Record, Ruling, Scope, Tenant, Time, Version};
/// use std::time::Duration;
///
/// let scope = Scope::new(Tenant::DEFAULT, "POST:transfers")?;
/// let claim = Claim::new(scope, Key::new("t-1")?, Fingerprint::of(b"10 EUR"), Owner::from_u128(1));
/// let now = Time::from_ms(0);
/// let held = Record::granted(&claim, Version(1), now);
/// // The refusal: a runner that is alive will settle by itself.
/// assert!(matches!(overrule(Some(&held), now), Ruling::Held(_)));
/// let later = now.plus(Duration::from_secs(61));
/// assert!(matches!(overrule(Some(&held), later), Ruling::Stands(_)));
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[must_use]
pub fn overrule(seen: Option<&Record>, now: Time) -> Ruling<'_> {
    let Some(record) = seen.filter(|record| !record.is_expired(now)) else {
        return Ruling::Absent;
    };
    match &record.state {
        State::Held(hold) if hold.until > now => Ruling::Held(hold.until),
        State::Held(_) | State::InDoubt { .. } => Ruling::Stands(record),
        State::Settled { outcome, at } => match outcome.whole() {
            Some(_) => Ruling::Settled(outcome, *at),
            // Retries are told "in doubt", so a person may say what they should get.
            None => Ruling::Stands(record),
        },
        State::Erased => Ruling::Erased,
        State::Free | State::Expired => Ruling::Absent,
    }
}
