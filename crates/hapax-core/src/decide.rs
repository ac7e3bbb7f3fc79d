//! The rule: what a claim gets, given what is stored. This is the whole semantics of hapax.
//! It is pure: stores compare and set, the engine acts, and neither decides anything.

use std::sync::Arc;

use crate::claim::Claim;
use crate::outcome::{NotKept, Outcome};
use crate::policy::OnLost;
use crate::record::{Record, State, Version};
use crate::time::Time;

/// Why a claim was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Nobody had the key, or it was given back.
    Fresh,
    /// The key had been used; its record's time is over.
    Expired,
    /// The last holder's lease ran out without an outcome, and the policy says to run again.
    Lost,
    /// This very attempt holds it: an earlier write whose answer was lost did arrive.
    Mine,
}

/// Why nobody knows whether it happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// The holder's lease ran out without an outcome.
    RunnerDied,
    /// The holder is alive but could not find out, as after a time-out downstream.
    OutcomeUnknown,
    /// It happened, but the answer could not be kept, for this reason if it is known.
    ResponseNotStored(Option<NotKept>),
}

impl Doubt {
    /// The word used in storage and in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Doubt::RunnerDied => "runner_died",
            Doubt::OutcomeUnknown => "outcome_unknown",
            Doubt::ResponseNotStored(_) => "response_not_stored",
        }
    }

    /// Why an answer could not be kept, where that is the doubt and it is known.
    #[must_use]
    pub const fn not_kept(self) -> Option<NotKept> {
        match self {
            Doubt::ResponseNotStored(reason) => reason,
            Doubt::RunnerDied | Doubt::OutcomeUnknown => None,
        }
    }
}

/// A granted claim: the record to write, expecting what was seen, before anything is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The record to write.
    pub next: Record,
    /// Why it is granted.
    pub cause: Cause,
}

/// What a claim gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict<'r> {
    /// Write this record; if the write is the first, act.
    Grant(Box<Grant>),
    /// It happened: this is what came of it.
    Replay(&'r Arc<Outcome>),
    /// Somebody acts under the key until this time.
    Busy(Time),
    /// The key stands for another request, or for another principal's.
    Conflict(&'r Record),
    /// It may have happened. Nobody may run it again without a person.
    Lost(Doubt),
    /// It was used, and what was stored under it is erased: neither a replay nor a second run.
    Erased,
}

/// What `claim` gets at `now`, given the record that is stored under its key.
///
/// The order matters. An expired record answers for nothing, so it cannot conflict. A conflict is said
/// before "busy", since waiting would not help. It may help while another principal acts under the key: if
/// its credential is refused, the key is free again, so such a claim is "busy". A lost lease is only looked at
/// when the request is the same one. An erased record knows neither request nor outcome, so it answers every
/// claim alike.
///
/// ```
/// use hapax_core::{decide, Claim, Fingerprint, Key, OnLost, Owner, Policy, Scope, Tenant, Time, Verdict};
/// use std::time::Duration;
///
/// let scope = Scope::new(Tenant::DEFAULT, "POST:transfers")?;
/// let held = Policy { on_lost: OnLost::Hold, ..Policy::default() };
/// let claim = Claim::new(scope, Key::new("t-1")?, Fingerprint::of(b"10 EUR"), Owner::from_u128(1)).with_policy(held);
/// let now = Time::from_ms(0);
/// let Verdict::Grant(grant) = decide(None, &claim, now) else { unreachable!() };
///
/// let retry = Claim { owner: Owner::from_u128(2), ..claim };
/// assert!(matches!(decide(Some(&grant.next), &retry, now), Verdict::Busy(_)));
/// // The runner died. Under `hold` nobody runs it again: the answer is doubt, not a second transfer.
/// let later = now.plus(Duration::from_secs(61));
/// assert!(matches!(decide(Some(&grant.next), &retry, later), Verdict::Lost(_)));
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[must_use]
pub fn decide<'r>(seen: Option<&'r Record>, claim: &Claim, now: Time) -> Verdict<'r> {
    let Some(record) = seen else {
        return grant(claim, Version::seeded(now), now, Cause::Fresh);
    };
    if record.hold().is_some_and(|hold| hold.owner == claim.owner) {
        return Verdict::Grant(Box::new(Grant {
            next: record.renewed(now),
            cause: Cause::Mine,
        }));
    }
    if record.is_expired(now) {
        let cause = if record.state == State::Free {
            Cause::Fresh
        } else {
            Cause::Expired
        };
        return regrant(record, claim, now, cause);
    }
    match &record.state {
        State::Free => regrant(record, claim, now, Cause::Fresh),
        State::Expired => regrant(record, claim, now, Cause::Expired),
        State::Erased => Verdict::Erased,
        State::Held(hold) if hold.until > now && record.principal != claim.principal => {
            Verdict::Busy(hold.until)
        }
        State::Held(_) | State::InDoubt { .. } | State::Settled { .. }
            if is_another(record, claim) =>
        {
            Verdict::Conflict(record)
        }
        State::Held(hold) if hold.until > now => Verdict::Busy(hold.until),
        State::Held(_) => lost(record, claim, now, Doubt::RunnerDied),
        State::InDoubt { reason, .. } => lost(record, claim, now, *reason),
        State::Settled { outcome, .. } => match outcome.whole() {
            Some(_) => Verdict::Replay(outcome),
            None => Verdict::Lost(Doubt::ResponseNotStored(outcome.reason())),
        },
    }
}

/// Whether the record stands for another request, or for the same one of somebody else.
fn is_another(record: &Record, claim: &Claim) -> bool {
    let asks_another =
        record.fingerprint != claim.fingerprint && Some(record.fingerprint) != claim.former;
    asks_another || record.principal != claim.principal
}

/// A lease ran out without an outcome: the record's own policy says what that means.
fn lost<'r>(record: &'r Record, claim: &Claim, now: Time, doubt: Doubt) -> Verdict<'r> {
    match record.on_lost {
        OnLost::Retry => regrant(record, claim, now, Cause::Lost),
        OnLost::Hold => Verdict::Lost(doubt),
    }
}

fn regrant<'r>(record: &Record, claim: &Claim, now: Time, cause: Cause) -> Verdict<'r> {
    grant(claim, record.version.regranted(now), now, cause)
}

fn grant<'r>(claim: &Claim, version: Version, now: Time, cause: Cause) -> Verdict<'r> {
    Verdict::Grant(Box::new(Grant {
        next: Record::granted(claim, version, now),
        cause,
    }))
}
