//! Route labels of bounded number: a label must not grow with what clients make up.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use hapax_core::Space;
use metrics::SharedString;

/// How many routes have a label of their own. The rest share one.
const ROUTES_MAX: usize = 200;
const OTHER: &str = "other";

/// The routes that have a label.
#[derive(Debug, Default)]
pub(super) struct Labels(RwLock<HashSet<Arc<str>>>);

impl Labels {
    /// The label of `space`: its own while there is room, else `other`.
    pub(super) fn of(&self, space: &Space) -> SharedString {
        // Nothing panics while either lock is held.
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = known.get(space.as_str()) {
            return label.clone().into();
        }
        if known.len() >= ROUTES_MAX {
            return SharedString::const_str(OTHER);
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Others may have filled the last places in between.
        if known.len() >= ROUTES_MAX && !known.contains(space.as_str()) {
            return SharedString::const_str(OTHER);
        }
        let label: Arc<str> = space.as_str().into();
        known.insert(label.clone());
        label.into()
    }
}

pub(super) fn describe() {
    metrics::describe_counter!(
        "hapax_requests_total",
        "Requests under a key, by route and by what became of them: process, replay, conflict, in_progress, in_doubt, erased, error."
    );
    metrics::describe_histogram!("hapax_lookup_seconds", "Time to claim a key, by route.");
    metrics::describe_histogram!(
        "hapax_store_seconds",
        "Time to record the end of a claim, by route."
    );
    metrics::describe_counter!(
        "hapax_keys_expired_total",
        "Keys found expired, by who found them: a claim or a sweep."
    );
    metrics::describe_counter!(
        "hapax_cleanup_operations_total",
        "Sweeps that ended, by result: ok or failed."
    );
    metrics::describe_counter!(
        "hapax_key_errors_total",
        "Requests whose key was missing where one is required, or was no key."
    );
    metrics::describe_counter!(
        "hapax_storage_failures_total",
        "Claims and ends of claims that the ledger could not record, by what was done."
    );
    metrics::describe_counter!(
        "hapax_cache_hits_total",
        "Replays answered from memory, without asking the ledger."
    );
    metrics::describe_counter!(
        "hapax_cache_misses_total",
        "Claims for which the ledger was asked."
    );
    for name in ["hapax_cache_hits_total", "hapax_cache_misses_total"] {
        metrics::counter!(name).increment(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_the_limit_routes_share_a_label_and_known_ones_keep_theirs() {
        let labels = Labels::default();
        let space = |n: usize| Space::new(&format!("POST:r{n}")).unwrap();
        for n in 0..ROUTES_MAX {
            assert_eq!(labels.of(&space(n)).as_ref(), space(n).as_str());
        }
        assert_eq!(labels.of(&space(ROUTES_MAX)).as_ref(), OTHER);
        assert_eq!(labels.of(&space(0)).as_ref(), "POST:r0");
    }
}
