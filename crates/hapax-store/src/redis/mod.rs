//! Redis, in two honest forms: [`RedisLedger`] claims keys in Redis alone, which may lose what it acknowledged when a
//! primary fails; [`RedisReplays`] answers replays in front of a SQL ledger and never grants anything. In both, nodes
//! may share the rates of tenants in [`RedisRates`].
//!
//! Where to read on: `lua/*.lua` compare and set, `fields` is what a record looks like, `names` where it lies.

mod answer;
mod beside;
mod breaker;
mod fields;
mod inspect;
mod ledger;
mod link;
mod mark;
mod names;
mod rates;
mod replays;
mod script;
mod spare;
mod target;

pub use beside::BesideDatabase;
pub use inspect::{Server, inspect};
pub use ledger::{RedisLedger, RedisOptions};
pub use rates::{RateOptions, RedisRates, Taken};
pub use replays::{RedisReplays, ReplayOptions};
pub use target::Target;
