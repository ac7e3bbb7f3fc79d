//! The seam of a cache of settled records that nodes share in front of a ledger. It may answer a replay, and it can
//! never grant anything: whoever uses it still asks [`decide`](mod@crate::decide), and goes to the ledger for every
//! other answer.

use std::future::Future;
use std::pin::Pin;

use crate::record::{Record, RecordId};
use crate::scope::Tenant;
use crate::time::Time;

/// What the cache knows, later.
pub type Known<'a> = Pin<Box<dyn Future<Output = Option<Record>> + Send + 'a>>;

/// Settled records that nodes share.
///
/// An entry carries the ledger's count of taken-back outcomes ([`Ledger::purges`](crate::Ledger::purges)) at which its
/// record was read. It is given only to a caller whose count is the same, so an outcome that was taken back is never
/// given again: not by a cache that could not be told, nor by one that lost what it was told.
pub trait Replays: Send + Sync + 'static {
    /// The settled record, if the cache has it and it was kept at this count. A cache that is away or slow knows
    /// nothing; that is no error.
    fn get(&self, tenant: Tenant, id: RecordId, purges: u64) -> Known<'_>;

    /// Keeps a settled record that was read at this count, at most until its time is over. Returns at once; what does not
    /// fit is not kept.
    fn put(&self, record: &Record, purges: u64, now: Time);

    /// Forgets the record, as soon as the cache can be told. Returns at once.
    fn forget(&self, tenant: Tenant, id: RecordId);

    /// Stops background work and waits for it. The cache knows nothing afterwards.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
