//! Patterns of schemas, run with a limit to their steps: linear time is still a long time for a large pattern on a long
//! text. It knows nothing of schemas.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{NFA, WhichCaptures};

/// How many steps all patterns together may take on one document: about a second.
pub(super) const STEPS_MAX: u64 = 100_000_000;

/// The largest compiled pattern, and how many bytes of it are worked out in advance while a text is read.
const PATTERN_BYTES_MAX: usize = 10 << 20;
const CACHE_BYTES_MAX: usize = 8 << 20;

/// How many of those bytes are kept for the next text.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What one look costs, however short the text: there may be very many.
const LOOK_STEPS: usize = 16;

thread_local! {
    /// The steps that are left for the document that this thread judges; `None` once there were too few.
    static LEFT: Cell<Option<u64>> = const { Cell::new(Some(STEPS_MAX)) };
}

/// What `work` says of a document, which has so many steps; `None` if its patterns took more. Then what it said is worth
/// nothing.
pub(super) fn within<T>(steps: u64, work: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(Some(steps));
    let said = work();
    LEFT.get().map(|_| said)
}

/// Whether too few steps were left for the document that this thread judges.
pub(super) fn is_over() -> bool {
    LEFT.get().is_none()
}

/// Takes steps off those that are left, if there are as many.
fn spend(steps: usize) -> bool {
    let left = LEFT.get();
    let left = left.and_then(|left| left.checked_sub(steps as u64));
    LEFT.set(left);
    left.is_some()
}

/// A compiled pattern, as ECMA-262 reads it, without look-around and back-references.
pub(super) struct Pattern {
    /// Takes a step per byte, and some for each state of itself that it works out on the way. If these do not fit into its
    /// cache it gives up.
    quick: DFA,
    cache: Mutex<Option<Box<Cache>>>,
    /// Takes as many steps per byte as the pattern has states, and never gives up.
    thorough: PikeVM,
}

impl Pattern {
    /// The pattern, if it is one and not too large.
    pub(super) fn compile(text: &str) -> Option<Self> {
        let text = jsonschema_regex::to_rust_regex(text).ok()?;
        let limits = NFA::config()
            .nfa_size_limit(Some(PATTERN_BYTES_MAX))
            .which_captures(WhichCaptures::Implicit);
        let nfa = NFA::compiler().configure(limits).build(&text).ok()?;
        let gives_up = DFA::config()
            .cache_capacity(CACHE_BYTES_MAX)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(0))
            // It gives up where a word may end in a letter beyond ASCII.
            .unicode_word_boundary(true);
        let quick = DFA::builder()
            .configure(gives_up)
            .build_from_nfa(nfa.clone());
        Some(Self {
            quick: quick.ok()?,
            cache: Mutex::new(None),
            thorough: PikeVM::new_from_nfa(nfa).ok()?,
        })
    }

    /// Whether it is found in `text`. If too few steps are left, the answer is worth nothing.
    pub(super) fn is_match(&self, text: &str) -> bool {
        if !spend(text.len() + LOOK_STEPS) {
            return true;
        }
        if let Some(found) = self.quickly(text) {
            return found;
        }
        let states = self.thorough.get_nfa().states().len();
        if !spend(states.saturating_mul(text.len() + 1)) {
            return true;
        }
        self.thorough
            .is_match(&mut self.thorough.create_cache(), text)
    }

    /// The same, unless it gives up.
    fn quickly(&self, text: &str) -> Option<bool> {
        let kept = self.locked().take();
        let mut cache = kept.unwrap_or_else(|| Box::new(self.quick.create_cache()));
        let before = cache.memory_usage();
        let found = self
            .quick
            .try_search_fwd(&mut cache, &Input::new(text).earliest(true));
        // Every byte of a state is a step that was taken to work it out.
        let is_paid = spend(cache.memory_usage().saturating_sub(before));
        // Whoever comes next has a cache with room.
        if cache.memory_usage() <= KEPT_BYTES_MAX {
            *self.locked() = Some(cache);
        }
        match found {
            Ok(found) => Some(found.is_some()),
            Err(_) if is_paid => None,
            Err(_) => Some(true),
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Option<Box<Cache>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(pattern: &str, text: &str) -> Option<bool> {
        let pattern = Pattern::compile(pattern).unwrap();
        within(STEPS_MAX, || pattern.is_match(text))
    }

    /// Letters without a pattern of their own.
    fn letters(count: usize) -> String {
        let mut state = 7_u64;
        let mut letter = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state.is_multiple_of(2) { 'a' } else { 'b' }
        };
        (0..count).map(|_| letter()).collect()
    }

    #[test]
    fn patterns_are_found_as_ecma_262_reads_them() {
        for (pattern, text, found) in [
            ("^[a-z]+$", "abc", true),
            ("^[a-z]+$", "abC", false),
            ("b", "abc", true),
            ("^$", "", true),
            ("", "ä", true),
            ("^\\d+$", "١", false),
            ("^\\w$", "ä", false),
            ("\\bend\\b", "the end.", true),
            ("\\bend\\b", "das Ende, ja", false),
            ("\\bend\\b", "ö end ö", true),
            ("^\\cA$", "\u{1}", true),
            ("^.$", "\n", false),
            ("^(a+)+$", "aaaa!", false),
        ] {
            assert_eq!(judged(pattern, text), Some(found), "{pattern} in {text}");
        }
        for bad in ["(", "a(?=b)", "(a)\\1", "(?:a{1000}){1000}"] {
            assert!(Pattern::compile(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_text_that_would_take_too_many_steps_has_no_answer() {
        let hard = "[ab]*a[ab]{2000}$";
        assert_eq!(judged(hard, &letters(900_000)), None);
        assert_eq!(judged(hard, &format!("a{}", letters(2000))), Some(true));
        assert_eq!(judged(hard, &format!("b{}", "b".repeat(2000))), Some(false));
        // Words beyond ASCII are looked for the thorough way.
        let words = "\\b[a-z]{1,500}x\\b";
        assert_eq!(judged(words, &"ä ".repeat(200_000)), None);
        // A long text is no trouble, nor is a large pattern.
        assert_eq!(judged("^(a+)+$", &"a".repeat(900_000)), Some(true));
        assert_eq!(judged("^.{1,5000}$", &"ä".repeat(5000)), Some(true));
    }

    #[test]
    fn a_text_that_fills_the_cache_leaves_room_for_the_next() {
        let pattern = Pattern::compile("[ab]*a[ab]{200}$").unwrap();
        let text = letters(20_000);
        assert_eq!(
            within(STEPS_MAX, || pattern.is_match(&text)),
            Some(text.as_bytes()[19_799] == b'a')
        );
        let small = format!("a{}", letters(200));
        assert_eq!(within(1_000_000, || pattern.is_match(&small)), Some(true));
        // All texts of a document share its steps.
        let all = within(1000, || (0..30).all(|_| pattern.is_match(&small)));
        assert_eq!(all, None);
        let look = |_: &u32| pattern.is_match("");
        let empty = within(1000, || (0..100).filter(look).count());
        assert_eq!(empty, None, "looking costs something too");
        assert_eq!(within(0, || ()), Some(()));
    }
}
