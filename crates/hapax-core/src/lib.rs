//! The words and the rule of hapax: **a key is claimed once, and its outcome is recorded once.**
//!
//! This crate is pure. It has no clock, opens no socket and no file, and needs no async runtime.
//! Everything a store or a server does follows from one function, [`decide()`]:
//!
//! ```
//! use hapax_core::{decide, Claim, Fingerprint, Key, Outcome, Owner, Policy, Record, Scope, Time, Verdict};
//!
//! let scope = Scope::new(hapax_core::Tenant::DEFAULT, "POST:payments")?;
//! let claim = Claim::new(scope.clone(), Key::new("order-7")?, Fingerprint::of(b"pay 10"), Owner::from_u128(1));
//! let now = Time::from_ms(1_000_000);
//!
//! // Nothing is stored: the claim is granted, and the record to write comes with the verdict.
//! let Verdict::Grant(grant) = decide(None, &claim, now) else { panic!("a fresh key is granted") };
//! let held: Record = grant.next;
//!
//! // The holder settles; the next claimant gets the recorded outcome.
//! let settled = held.settled(Outcome::text(201, "paid"), now);
//! let again = Claim { owner: Owner::from_u128(2), ..claim.clone() };
//! assert!(matches!(decide(Some(&settled), &again, now), Verdict::Replay(_)));
//!
//! // The refusal: the same key with another request is a conflict, never a second payment.
//! let other = Claim { fingerprint: Fingerprint::of(b"pay 99"), owner: Owner::from_u128(3), ..claim };
//! assert!(matches!(decide(Some(&settled), &other, now), Verdict::Conflict(_)));
//! # Ok::<(), hapax_core::Invalid>(())
//! ```
//!
//! Where to read on: [`mod@decide`] is the whole semantics, [`ledger`] is the seam that stores
//! implement, [`canonical`] is the byte form that fingerprints are made of.

pub mod canonical;
pub mod chore;
pub mod claim;
pub mod content;
pub mod decide;
pub mod diff;
pub mod difference;
pub mod entry;
pub mod error;
pub mod fingerprint;
pub mod job;
pub mod key;
pub mod lease;
pub mod ledger;
pub mod note;
pub mod outcome;
pub mod overrule;
pub mod policy;
pub mod record;
pub mod replays;
pub mod scope;
pub mod snapshot;
pub mod time;

pub use chore::Chore;
pub use claim::{Claim, Request};
pub use decide::{Cause, Doubt, Grant, Verdict, decide};
pub use error::{Error, Invalid, Kind};
pub use fingerprint::{Fingerprint, Principal, Subject};
pub use key::Key;
pub use lease::{Epoch, Fence, Lease, Owner};
pub use ledger::{
    Answer, Capabilities, Durability, Ledger, Move, Page, Scan, Swap, Sweep, Swept, Wake,
};
pub use note::{Action, Note, NoteId, NotePage, NoteScan};
pub use outcome::{Body, NotKept, Outcome, Receipt};
pub use overrule::{Ruling, overrule};
pub use policy::{OnLost, Policy};
pub use record::{Record, RecordId, State, Version};
pub use replays::Replays;
pub use scope::{Scope, Space, Tenant};
pub use time::Time;
