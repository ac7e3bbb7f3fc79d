//! Route labels: the patterns that somebody configured, and one label for all the rest. What clients make up is no label.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use hapax_core::Space;
use metrics::SharedString;

use crate::pattern::belongs;

/// How many routes are remembered with their label. The patterns are gone through for the rest.
const ROUTES_MAX: usize = 1000;
const OTHER: &str = "other";

/// The patterns that are labels.
#[derive(Debug, Default)]
pub(super) struct Labels(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The longest first, as routes are found.
    patterns: Vec<Arc<str>>,
    /// What was found for a route.
    found: HashMap<Arc<str>, SharedString>,
}

impl Known {
    fn find(&self, space: &str) -> SharedString {
        let pattern = self.patterns.iter().find(|pattern| belongs(pattern, space));
        pattern.map_or(SharedString::const_str(OTHER), |pattern| {
            pattern.clone().into()
        })
    }
}

impl Labels {
    /// Makes labels of these patterns too.
    pub(super) fn add<'a>(&self, patterns: impl Iterator<Item = &'a str>) {
        // Nothing panics while either lock is held.
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for pattern in patterns {
            if !known.patterns.iter().any(|known| **known == *pattern) {
                known.patterns.push(pattern.into());
            }
        }
        known
            .patterns
            .sort_by_key(|pattern| std::cmp::Reverse(pattern.len()));
        known.found.clear();
    }

    /// The label of `space`: the longest pattern that it belongs to, else `other`.
    pub(super) fn of(&self, space: &Space) -> SharedString {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = known.found.get(space.as_str()) {
            return label.clone();
        }
        let label = known.find(space.as_str());
        if known.patterns.is_empty() || known.found.len() >= ROUTES_MAX {
            return label;
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Patterns may have been added in between.
        let label = known.find(space.as_str());
        known.found.insert(space.as_str().into(), label.clone());
        label
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
    fn only_what_was_configured_is_a_label_and_the_longest_pattern_wins() {
        let labels = Labels::default();
        let of = |text: &str| labels.of(&Space::new(text).unwrap()).to_string();
        assert_eq!(of("POST:bookings-hold"), OTHER);
        labels.add(["*:bookings-*", "POST:bookings-hold"].into_iter());
        assert_eq!(of("POST:bookings-hold"), "POST:bookings-hold");
        assert_eq!(of("PUT:bookings-{id}"), "*:bookings-*");
        for n in 0..ROUTES_MAX + 10 {
            assert_eq!(of(&format!("POST:r{n}")), OTHER);
        }
        assert_eq!(
            of("PUT:bookings-late"),
            "*:bookings-*",
            "whatever is remembered"
        );
        assert!(labels.0.read().unwrap().found.len() <= ROUTES_MAX);
    }
}
