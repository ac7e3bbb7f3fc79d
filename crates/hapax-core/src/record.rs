//! The stored row of a key: its state and version, and the pure steps from one state to the next.
//! Who may take a step is not said here but in [`decide`](mod@crate::decide).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::claim::{Claim, Request};
use crate::decide::Doubt;
use crate::error::Invalid;
use crate::fingerprint::{Fingerprint, Principal, Subject};
use crate::key::Key;
use crate::lease::{Epoch, Owner};
use crate::outcome::Outcome;
use crate::policy::OnLost;
use crate::scope::Scope;
use crate::time::Time;

/// The id of a record: a UUID made from its scope and key, so a swept and re-claimed key keeps its id.
///
/// ```
/// use hapax_core::{Key, RecordId, Scope, Tenant};
///
/// let key = Key::new("order-7")?;
/// let here = RecordId::of(&Scope::new(Tenant::DEFAULT, "POST:payments")?, &key);
/// let there = RecordId::of(&Scope::new(Tenant::DEFAULT, "POST:refunds")?, &key);
/// assert_ne!(here, there, "the same key in another space is another operation");
/// assert_eq!(here.to_string().parse::<RecordId>()?, here);
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordId(Uuid);

impl RecordId {
    /// The id of the record of `key` in `scope`.
    #[must_use]
    pub fn of(scope: &Scope, key: &Key) -> Self {
        let tenant = scope.tenant.as_uuid();
        let hash = Fingerprint::of_parts(&[
            tenant.as_bytes(),
            scope.space.as_str().as_bytes(),
            key.as_str().as_bytes(),
        ]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.as_bytes()[..16]);
        // Version 8, variant RFC 9562: a UUID whose bits are ours.
        bytes[6] = 0x80 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        Self(Uuid::from_bytes(bytes))
    }

    /// Takes a stored UUID as it is.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The UUID.
    #[must_use]
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl FromStr for RecordId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Uuid::parse_str(text)
            .map(Self)
            .map_err(|_| Invalid::new("id", "is not a UUID"))
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which write of a record this is. Raised by every write, and never restarted: it is seeded from the
/// ledger's clock, so a lease from before a sweep cannot match the record of a later claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub i64);

impl Version {
    /// The first version of a record made at `now`.
    #[must_use]
    pub const fn seeded(now: Time) -> Self {
        Self(now.as_ms().saturating_mul(1000))
    }

    /// The version of a new grant over a record at this version.
    #[must_use]
    pub fn regranted(self, now: Time) -> Self {
        self.next().max(Self::seeded(now))
    }

    /// The version of the next write.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Who holds a record, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The fence.
    pub epoch: Epoch,
    /// The attempt.
    pub owner: Owner,
    /// Until when the holder may be silent.
    pub until: Time,
}

/// Where a record is in its life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Somebody acts under it.
    Held(Hold),
    /// It may have happened, nobody knows. The last holder may still settle it.
    InDoubt {
        /// Why nobody knows.
        reason: Doubt,
        /// The last holder.
        hold: Hold,
    },
    /// It happened, and this is what came of it.
    Settled {
        /// What happened.
        outcome: Arc<Outcome>,
        /// When it was recorded.
        at: Time,
    },
    /// Given back or deleted: the next claim runs as new. Kept so that the version goes on.
    Free,
    /// Swept after its time: the next claim runs as new and is told so.
    Expired,
    /// Its content was erased on request. Until its time is over no claim runs under it.
    Erased,
}

impl State {
    /// The word used in storage and in the API.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            State::Held(_) => "held",
            State::InDoubt { .. } => "in_doubt",
            State::Settled { .. } => "settled",
            State::Free => "free",
            State::Expired => "expired",
            State::Erased => "erased",
        }
    }
}

/// The stored row of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Made from scope and key.
    pub id: RecordId,
    /// Whose key.
    pub scope: Scope,
    /// The key.
    pub key: Key,
    /// Which write this is.
    pub version: Version,
    /// What was asked.
    pub fingerprint: Fingerprint,
    /// Who asked, if replays are for them alone.
    pub principal: Option<Principal>,
    /// Whom it is about, so that it can be found and erased.
    pub subject: Option<Subject>,
    /// What a lost lease means for this record.
    pub on_lost: OnLost,
    /// How far a renewal extends the lease.
    pub lease: Duration,
    /// What a conflict may show.
    pub request: Arc<Request>,
    /// When the key was first claimed in this life.
    pub created_at: Time,
    /// Until when the record answers for its key.
    pub expires_at: Time,
    /// Where it is in its life.
    pub state: State,
}

impl Record {
    /// The record that a granted `claim` writes.
    #[must_use]
    pub fn granted(claim: &Claim, version: Version, now: Time) -> Self {
        let policy = claim.policy.bounded();
        Self {
            id: claim.id(),
            scope: claim.scope.clone(),
            key: claim.key.clone(),
            version,
            fingerprint: claim.fingerprint,
            principal: claim.principal,
            subject: claim.subject,
            on_lost: policy.on_lost,
            lease: policy.lease,
            request: claim.request.clone(),
            created_at: now,
            expires_at: now.plus(policy.ttl),
            state: State::Held(Hold {
                epoch: Epoch(version),
                owner: claim.owner,
                until: now.plus(policy.lease),
            }),
        }
    }

    /// The record with its outcome recorded. Work may outlast the record's time; then the outcome answers for
    /// the key as long as it would have from the start, or those who waited for it would run it again.
    #[must_use]
    pub fn settled(&self, outcome: Outcome, now: Time) -> Self {
        let mut next = self.moved(State::Settled {
            outcome: Arc::new(outcome),
            at: now,
        });
        if self.expires_at <= now {
            next.expires_at = now.plus(self.expires_at.since(self.created_at));
        }
        next
    }

    /// The record given back. What was asked is dropped; the version stays.
    #[must_use]
    pub fn freed(&self, now: Time) -> Self {
        let mut next = self.moved(State::Free);
        next.request = Arc::default();
        next.principal = None;
        next.subject = None;
        next.expires_at = next.expires_at.max(now);
        next
    }

    /// The record with an operator's outcome recorded. Doubt may have outlasted the record's time; then the
    /// outcome answers for the key as long as it would have from the start.
    #[must_use]
    pub fn ruled(&self, outcome: Outcome, now: Time) -> Self {
        let mut next = self.settled(outcome, now);
        next.expires_at = self.lasting(now);
        next
    }

    /// The record without its content: only the key, its times and the version are left. It answers for the
    /// key until its time is over, but never shorter than the lease it ends.
    #[must_use]
    pub fn erased(&self, now: Time) -> Self {
        let mut next = self.moved(State::Erased);
        next.request = Arc::default();
        next.fingerprint = Fingerprint::from_bytes([0; 32]);
        next.principal = None;
        next.subject = None;
        next.expires_at = self.lasting(now);
        next
    }

    /// The record with its lease extended from `now`, if it is held; otherwise only its version rises.
    #[must_use]
    pub fn renewed(&self, now: Time) -> Self {
        let state = match &self.state {
            State::Held(hold) => State::Held(Hold {
                until: now.plus(self.lease),
                ..*hold
            }),
            other => other.clone(),
        };
        self.moved(state)
    }

    /// The record marked in doubt. Only a held record can be; any other stays as it is.
    #[must_use]
    pub fn doubted(&self, reason: Doubt) -> Self {
        let state = match &self.state {
            State::Held(hold) => State::InDoubt {
                reason,
                hold: *hold,
            },
            other => other.clone(),
        };
        self.moved(state)
    }

    /// The record marked in doubt until a person decides, also where the policy would run it again: nobody has to have died
    /// for it. Only a held record can be.
    #[must_use]
    pub fn held_in_doubt(&self, reason: Doubt) -> Self {
        let mut next = self.doubted(reason);
        if let State::InDoubt { .. } = next.state {
            next.on_lost = OnLost::Hold;
        }
        next
    }

    /// The word for this record at `now`: a key whose runner died under [`OnLost::Hold`] is in doubt, although
    /// nobody has written so.
    #[must_use]
    pub fn word(&self, now: Time) -> &'static str {
        match &self.state {
            State::Held(hold) if hold.until <= now && self.on_lost == OnLost::Hold => "in_doubt",
            state => state.as_str(),
        }
    }

    /// The last holder, while nothing is recorded.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        match &self.state {
            State::Held(hold) | State::InDoubt { hold, .. } => Some(*hold),
            State::Settled { .. } | State::Free | State::Expired | State::Erased => None,
        }
    }

    /// Whether the record no longer answers for its key at `now`.
    ///
    /// A live lease outlasts the record's time, and under [`OnLost::Hold`] doubt never expires: only a
    /// person ends it.
    #[must_use]
    pub fn is_expired(&self, now: Time) -> bool {
        let may_expire = match &self.state {
            State::Held(hold) => hold.until <= now && self.on_lost == OnLost::Retry,
            State::InDoubt { .. } => self.on_lost == OnLost::Retry,
            State::Settled { .. } | State::Free | State::Erased => true,
            State::Expired => return true,
        };
        may_expire && self.expires_at <= now
    }

    /// Until when the record answers once its lease is ended by a person at `now`.
    fn lasting(&self, now: Time) -> Time {
        let ends = self.hold().map_or(now, |hold| hold.until);
        if self.expires_at > now || self.is_expired(now) {
            self.expires_at.max(ends)
        } else {
            now.plus(self.expires_at.since(self.created_at)).max(ends)
        }
    }

    fn moved(&self, state: State) -> Self {
        Self {
            version: self.version.next(),
            state,
            ..self.clone()
        }
    }
}
