//! The names of everything that is kept in Redis. One hash tag per shard, so that a record and the indexes that lead to
//! it lie in one slot, and shards spread over a cluster.

use hapax_core::{RecordId, Tenant};

/// How many shards there are. Fixed: a record's shard is the first byte of its id, which is a hash.
pub(super) const SHARDS: usize = 256;
/// The longest prefix in bytes.
const PREFIX_BYTES_MAX: usize = 64;

/// The names of one shard.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) due: String,
    pub(super) gone: String,
    /// How the name of a record begins; its member in the indexes follows.
    pub(super) stem: String,
}

/// The shard with this number under `prefix`.
pub(super) fn shard(prefix: &str, number: usize) -> Shard {
    let tag = format!("{prefix}:{{{:02x}}}", number % SHARDS);
    Shard {
        due: format!("{tag}:due"),
        gone: format!("{tag}:gone"),
        stem: format!("{tag}:key:"),
    }
}

/// The number of a record's shard.
pub(super) fn number(id: RecordId) -> usize {
    usize::from(id.as_uuid().as_bytes()[0])
}

/// A record's member in the indexes, and the end of its name. The tenant is part of it.
pub(super) fn member(tenant: Tenant, id: RecordId) -> String {
    format!("{}:{}", tenant.simple(), id.as_uuid().simple())
}

/// Whether this can stand before every name: nothing in it moves the hash tag.
pub(super) fn is_prefix(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    (1..=PREFIX_BYTES_MAX).contains(&text.len()) && text.chars().all(fits)
}
