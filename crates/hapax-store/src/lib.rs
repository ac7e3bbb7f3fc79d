//! The ledgers: memory, SQLite, PostgreSQL and Redis behind the seams of `hapax-core`.
//! Only this crate knows SQL and Lua. It decides nothing: every store compares and sets.
//!
//! All stores pass the same suite, which the feature `conformance` exports.

pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod token;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
pub mod vault;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod within;

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
mod codec;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod db_clock;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod entry;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod import;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod migration;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
mod row;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod snapshot;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod t1;

pub use clock::Clock;
pub use memory::MemoryLedger;
#[cfg(feature = "postgres")]
pub use postgres::PgLedger;
#[cfg(feature = "redis")]
pub use redis::RedisLedger;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteLedger;
pub use token::{Role, SessionId, Token, TokenId, Tokens};
