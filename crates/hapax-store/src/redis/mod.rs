//! Redis, in two honest forms: [`RedisLedger`] claims keys in Redis alone, which may lose what it acknowledged when a
//! primary fails; [`RedisReplays`] answers replays in front of a SQL ledger and never grants anything.
//!
//! Where to read on: `lua/*.lua` compare and set, `fields` is what a record looks like, `names` where it lies.

mod answer;
mod beside;
mod breaker;
mod fields;
mod inspect;
mod ledger;
mod link;
mod names;
mod replays;
mod script;
mod target;

pub use beside::BesideDatabase;
pub use inspect::{Server, inspect};
pub use ledger::{RedisLedger, RedisOptions};
pub use replays::{RedisReplays, ReplayOptions};
pub use target::Target;
