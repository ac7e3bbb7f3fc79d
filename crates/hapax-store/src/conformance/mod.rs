//! The suites that every implementation of a seam must pass, one named test per rule.
//! A rule of the store lives here and nowhere else; what is special to one backend is tested beside it.
//!
//! ```
//! # mod doc {
//! use std::sync::Arc;
//! use hapax_store::conformance::Subject;
//! use hapax_store::{Clock, MemoryLedger};
//!
//! async fn open() -> Subject {
//!     let clock = Clock::system();
//!     Subject::new(Arc::new(MemoryLedger::with_clock(clock.clone())), clock)
//! }
//!
//! hapax_store::ledger_conformance!(open);
//! # }
//! ```

#![allow(
    clippy::missing_panics_doc,
    reason = "a case panics when its rule is broken; that is what it is for"
)]

pub mod audit;
pub mod batches;
pub mod claims;
pub mod erasing;
pub mod isolation;
pub mod leases;
pub mod payloads;
pub mod sweeping;
pub mod tokens;

mod subject;

pub use subject::{Subject, Taken};

/// Turns every case of the ledger suite into a test named after its rule.
///
/// `$open` is an `async fn() -> Subject` that opens an empty ledger on a clock of its own.
#[macro_export]
macro_rules! ledger_conformance {
    ($open:path) => {
        $crate::conformance_cases!($open, claims:
            a_fresh_key_is_granted_and_stored_as_held,
            a_second_claimant_is_told_who_holds_it_until_when,
            sixty_four_concurrent_claimants_get_one_grant,
            a_settled_key_replays_the_same_bytes,
            another_fingerprint_conflicts,
            a_fingerprint_that_differs_in_its_last_bit_conflicts,
            conflict_beats_busy,
            another_principal_conflicts,
            an_expired_key_is_granted_anew_and_says_so,
            an_expired_key_does_not_conflict,
            a_released_key_is_granted_anew_without_a_flag,
            the_same_attempt_recognises_its_own_write,
            concurrent_takeovers_of_a_lost_lease_grant_one,
        );
        $crate::conformance_cases!($open, leases:
            a_lost_lease_is_taken_over_under_retry,
            a_lost_lease_is_in_doubt_under_hold,
            doubt_under_hold_never_expires,
            doubt_is_stored_with_its_reason,
            a_stale_lease_cannot_settle,
            a_stale_lease_cannot_settle_after_sweep_and_new_claim,
            a_stale_lease_cannot_renew_or_release,
            a_lease_settles_only_once,
            a_renewed_lease_stays_held_past_its_first_end,
            a_late_holder_settles_if_nobody_took_over,
            a_version_rises_with_every_write_and_never_restarts,
            the_clock_is_the_ledgers,
            an_outcome_recorded_late_answers_as_long_as_any_other,
            a_dead_runner_under_hold_is_listed_as_in_doubt,
        );
        $crate::conformance_cases!($open, isolation:
            the_same_key_of_another_tenant_is_another_record,
            the_same_key_in_another_space_is_another_record,
            another_tenants_id_finds_nothing,
            another_tenants_record_cannot_be_moved,
            a_scan_lists_only_its_tenant,
        );
        $crate::conformance_cases!($open, batches:
            moves_of_a_batch_are_independent,
            answers_come_in_the_order_of_the_moves,
            the_same_key_twice_in_a_batch_is_applied_in_order,
            a_claim_and_its_settle_fit_one_batch,
            a_batch_may_hold_many_tenants,
            an_empty_batch_answers_nothing,
            overlapping_batches_have_one_winner_per_key,
        );
        $crate::conformance_cases!($open, payloads:
            any_body_comes_back_byte_for_byte,
            an_omitted_body_is_not_an_empty_one,
            headers_keep_their_order_and_bytes,
            the_request_outlives_the_settle,
            a_stale_settle_leaves_nothing_behind,
            a_release_drops_what_was_asked,
            the_longest_key_and_space_fit,
            every_field_of_a_record_comes_back,
            taking_back_an_outcome_is_noticed,
        );
        $crate::conformance_cases!($open, sweeping:
            a_sweep_removes_content_and_the_next_claim_is_told,
            a_sweep_leaves_what_still_answers_alone,
            a_sweep_leaves_a_live_lease_alone,
            a_sweep_step_is_bounded,
            after_its_grace_a_key_is_forgotten,
            a_sweep_covers_every_tenant,
            a_released_key_is_forgotten_without_a_flag,
            a_scan_pages_newest_first_without_gap,
            a_scan_filters_and_hides_what_no_longer_answers,
            a_healthy_ledger_says_so,
        );
        $crate::conformance_cases!($open, audit:
            a_move_that_is_written_leaves_its_note,
            a_move_that_is_not_written_leaves_no_note,
            notes_of_a_batch_go_to_their_own_tenants,
            a_note_comes_back_as_it_was,
            notes_page_newest_first_without_gap,
            notes_are_filtered_by_action_and_key,
            another_tenants_notes_are_not_listed,
            a_sweep_notes_what_it_removed_for_each_tenant,
            a_sweep_that_finds_nothing_notes_nothing,
            old_notes_are_removed_in_bounded_steps,
            a_claim_can_be_noted,
        );
        $crate::conformance_cases!($open, erasing:
            an_erased_record_keeps_its_key_and_its_time_only,
            every_claim_on_an_erased_key_is_told_so,
            a_holder_of_an_erased_record_cannot_settle,
            erasing_an_outcome_is_noticed,
            an_erased_record_is_swept_after_its_time,
            an_erased_key_runs_again_after_its_time,
            an_erased_record_is_listed,
            what_is_about_a_subject_is_found,
            what_is_about_a_subject_is_paged,
            an_operators_late_outcome_is_stored_with_its_new_end,
        );
    };
}

/// Turns every case of the token suite into a test named after its rule.
///
/// `$open` is an `async fn() -> (Arc<dyn Tokens>, Box<dyn Any + Send>)`; the box keeps what must live on.
#[macro_export]
macro_rules! token_conformance {
    ($open:path) => {
        $crate::conformance_cases!($open, tokens:
            a_stored_token_is_found_by_its_id,
            an_unknown_token_is_not_found,
            a_revoked_token_says_when,
            putting_a_token_again_replaces_it,
            tokens_are_listed_oldest_first,
        );
    };
}

/// Makes one test per named case of a suite.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($open:path, $suite:ident: $($case:ident),+ $(,)?) => {
        mod $suite {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[test]
                fn $case() {
                    $crate::conformance::run(async {
                        $crate::conformance::$suite::$case(&$open().await).await;
                    });
                }
            )+
        }
    };
}

/// Runs one case on a runtime of its own, so that a store may not lean on a particular one.
///
/// # Panics
/// When the runtime cannot start or the case fails.
pub fn run(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a test needs a runtime")
        .block_on(case);
}
