//! Stops asking a server that does not answer, and lets one caller try again after a while.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many failures in a row, and nobody asks any more.
const FAILURES_MAX: u32 = 3;
/// For how long nobody asks, at first and at most; it doubles while the tries fail.
const REST: Duration = Duration::from_millis(500);
const REST_MAX: Duration = Duration::from_secs(8);

/// Whether a server is worth asking now.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    rest: Duration,
    rests_until: Option<Instant>,
}

impl Breaker {
    /// Whether to ask. After a rest one caller may; the others wait for how that goes.
    pub(super) fn allows(&self, now: Instant) -> bool {
        let mut state = self.state();
        match state.rests_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                let rest = state.rest;
                state.rests_until = Some(now + rest);
                true
            }
        }
    }

    /// It answered. Says whether it had not before.
    pub(super) fn answered(&self) -> bool {
        let mut state = self.state();
        let rested = state.rests_until.is_some();
        *state = State::default();
        rested
    }

    /// It did not answer. Says whether it is left alone from now on.
    pub(super) fn failed(&self, now: Instant) -> bool {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        if state.failures < FAILURES_MAX {
            return false;
        }
        let first = state.rests_until.is_none();
        state.rest = (state.rest * 2).clamp(REST, REST_MAX);
        state.rests_until = Some(now + state.rest);
        first
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_is_left_alone_and_tried_by_one_after_a_rest() {
        let (breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES_MAX - 1 {
            assert!(!breaker.failed(start));
            assert!(breaker.allows(start));
        }
        assert!(breaker.failed(start), "it is told once");
        assert!(!breaker.allows(start));
        let later = start + REST;
        assert!(breaker.allows(later));
        assert!(!breaker.allows(later), "one tries");
        assert!(!breaker.failed(later));
        assert!(!breaker.allows(later + REST), "the rest is longer now");
        assert!(breaker.allows(later + 2 * REST));
        assert!(breaker.answered());
        assert!(breaker.allows(later));
    }

    #[test]
    fn one_answer_between_failures_keeps_it_in_use() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..10 {
            breaker.failed(now);
            breaker.failed(now);
            assert!(!breaker.answered());
        }
        assert!(breaker.allows(now));
    }
}
