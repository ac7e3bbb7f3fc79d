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
pub mod entries;
pub mod erasing;
pub mod imports;
pub mod isolation;
pub mod leases;
pub mod listing;
pub mod payloads;
pub mod queue;
pub mod snapshots;
pub mod sweeping;
pub mod t1;
pub mod tokens;

mod subject;

pub use entries::EntrySubject;
pub use imports::ImportSubject;
pub use queue::QueueSubject;
pub use snapshots::SnapshotSubject;
pub use subject::{Subject, Taken};
pub use t1::T1Subject;

/// Turns every case of the ledger suite into a test named after its rule.
///
/// `$open` is an `async fn() -> Subject` that opens an empty ledger on a clock of its own. Where the ledger says by its
/// capabilities that it does not do something, the case checks instead that it refuses that.
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
        $crate::conformance_cases!($open, listing:
            keys_are_found_by_how_they_begin,
            spaces_are_told_once_each,
            a_page_ends_where_it_may_look_no_further,
            swept_records_are_not_listed_and_do_not_hide_the_others,
            doubts_are_counted_among_the_newest,
        );
        $crate::conformance_cases!($open, batches:
            moves_of_a_batch_are_independent,
            a_provisional_claim_blocks_its_key_and_is_settled,
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
            a_sweep_takes_a_record_by_tenant_and_id,
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

/// Turns every case of the queue suite into a test named after its rule, in a module `queue`.
///
/// `$open` is an `async fn() -> QueueSubject` that opens an empty queue on a clock of its own.
#[macro_export]
macro_rules! queue_conformance {
    ($open:path) => {
        mod queue {
            #[allow(unused_imports)]
            use super::*;

            $crate::conformance_cases!($open, queue::planning:
                a_new_job_is_planned_and_stored_whole,
                a_job_goes_by_its_id_its_key_and_its_uuid,
                planning_again_gives_the_same_job,
                planning_again_changes_nothing,
                the_same_key_twice_in_a_batch_is_planned_once,
                kinds_of_the_same_artifact_are_two_jobs,
                a_payload_comes_back_byte_for_byte,
                a_thousand_jobs_are_planned_in_one_call,
                over_the_limit_of_plans_is_refused,
                planning_nothing_answers_nothing,
                planning_a_job_under_way_tells_how_far_it_is,
                the_longest_words_fit,
                concurrent_planners_plan_a_job_once,
            );
            $crate::conformance_cases!($open, queue::leasing:
                a_lease_gives_a_job_to_its_owner_for_a_while,
                jobs_are_leased_by_attempts_and_then_as_planned,
                a_new_job_comes_before_many_that_were_tried,
                jobs_of_several_kinds_are_leased_in_one_order,
                a_lease_gives_at_most_what_was_asked_for,
                a_batch_is_leased_in_one_call,
                only_the_kinds_asked_for_are_leased,
                over_the_limit_of_kinds_is_refused,
                only_the_place_asked_for_is_leased,
                nobody_gets_a_job_that_is_held,
                sixty_four_concurrent_leasers_get_disjoint_jobs,
                an_expired_job_is_leased_again_with_its_progress,
                a_finished_job_is_never_leased,
                a_failed_job_is_leased_after_its_rest_only,
                a_job_whose_leases_run_out_is_given_up,
                giving_up_some_jobs_does_not_hide_the_next,
                a_released_job_is_leased_at_once_and_has_not_failed,
                a_job_that_waits_is_leased_when_it_is_resolved,
                a_lease_is_never_too_short_or_too_long,
                what_rests_is_passed_over,
            );
            $crate::conformance_cases!($open, queue::fencing:
                a_stale_holder_can_do_nothing,
                a_late_holder_renews_until_somebody_has_the_job,
                a_late_holder_moves_the_job_if_nobody_took_it,
                another_owner_is_refused,
                without_owner_and_epoch_a_held_job_is_out_of_reach,
                a_job_of_the_program_is_driven_by_no_caller,
                a_job_that_nobody_holds_needs_no_fence,
                a_renewed_lease_lasts_from_now,
                a_lease_that_was_given_back_is_not_renewed,
                giving_back_twice_is_harmless,
                a_retry_shuts_the_last_holder_out,
                a_stale_holder_cannot_resolve,
                an_unknown_job_is_not_found,
            );
            $crate::conformance_cases!($open, queue::steps:
                a_download_walks_every_step,
                a_duplicate_is_skipped_from_any_step,
                a_step_back_is_refused,
                a_leap_is_refused,
                a_caller_narrows_the_graph_and_never_widens_it,
                the_same_step_again_changes_nothing,
                a_result_is_kept_with_the_job,
                a_job_with_too_large_a_result_stays,
                other_kinds_need_not_fetch,
                a_finished_job_moves_no_more,
            );
            $crate::conformance_cases!($open, queue::failing:
                a_failed_job_rests_and_keeps_the_reason,
                a_failed_job_rests_as_long_as_asked,
                a_job_without_a_rest_is_due_at_once_after_a_failure,
                a_job_rests_by_its_own_first_rest,
                any_error_comes_back_as_it_was,
                a_very_long_error_is_cut,
                a_failure_for_good_gives_up,
                five_failures_give_up,
                a_failure_told_twice_counts_once,
                a_finished_job_cannot_fail,
                a_retry_starts_over_with_all_attempts,
                a_retry_ends_a_rest,
                a_retry_keeps_what_operations_recorded,
                only_failed_jobs_are_retried,
                a_job_done_anew_forgets_its_operations,
                a_held_job_is_not_done_anew,
                a_step_to_failed_is_a_failure,
            );
            $crate::conformance_cases!($open, queue::beginning:
                a_new_operation_is_run_and_stored_whole,
                the_same_runner_is_told_the_same,
                while_a_job_is_held_nobody_else_runs_its_operation,
                a_done_operation_replays_the_same_bytes,
                what_a_dead_runner_may_have_done_is_in_doubt,
                what_may_be_repeated_runs_again,
                a_passing_failure_runs_again,
                a_failure_for_good_is_told,
                one_key_on_two_jobs_conflicts,
                one_key_of_two_kinds_conflicts,
                an_operation_without_a_lease_is_abandoned_after_a_while,
                a_begin_needs_the_fence,
                concurrent_begins_run_it_once,
            );
            $crate::conformance_cases!($open, queue::ending:
                a_result_and_the_step_are_recorded_together,
                the_last_result_is_kept_with_the_job,
                a_denied_step_records_nothing,
                a_result_told_twice_is_recorded_once,
                another_result_conflicts,
                a_result_is_whole_or_refused,
                another_token_is_refused,
                a_failure_of_an_operation_told_twice_is_harmless,
                a_doubted_operation_is_completed_by_its_own_runner,
                doubt_ends_with_a_result,
                doubt_ends_with_another_run,
                doubt_ends_with_a_failure,
                only_doubt_and_waiting_are_resolved,
                an_operation_that_waits_says_what_it_asks,
                an_unknown_operation_is_not_found,
            );
            $crate::conformance_cases!($open, queue::batches:
                acts_are_answered_in_order,
                acts_of_a_batch_are_independent,
                two_acts_on_one_job_happen_in_order,
                an_operation_fits_one_batch,
                a_record_and_the_next_beginning_may_be_sent_twice,
                over_the_limit_of_acts_is_refused,
                an_empty_batch_of_acts_answers_nothing,
                concurrent_acts_on_one_job_make_each_step_once,
            );
            $crate::conformance_cases!($open, queue::isolation:
                another_tenants_job_is_not_found,
                another_tenants_operation_is_not_found,
                the_same_key_of_two_tenants_is_two_jobs,
                the_same_operation_of_two_tenants_is_two_operations,
                lists_and_counts_are_a_tenants_own,
            );
            $crate::conformance_cases!($open, queue::listing:
                jobs_page_newest_first_without_gap,
                the_last_page_names_no_next,
                a_listed_job_is_whole,
                jobs_are_filtered,
                filtered_pages_have_no_gap,
                held_jobs_are_listed,
                a_page_is_bounded,
                a_tally_counts_by_kind_and_state,
                a_tally_counts_no_further_than_asked,
                jobs_of_rare_kinds_and_states_page_without_gap,
                a_job_is_shown_with_its_operations_oldest_first,
            );
            $crate::conformance_cases!($open, queue::questions:
                jobs_that_wait_are_listed_until_they_are_answered,
                doubtful_operations_are_listed_and_counted_until_they_are_resolved,
                states_can_be_left_out,
                operations_of_many_jobs_are_read_at_once,
            );
            $crate::conformance_cases!($open, queue::reconciling:
                tenants_with_something_due_are_named,
                what_cannot_be_leased_is_not_due,
                leases_that_ran_out_are_listed,
                expiring_a_lease_counts_once,
                a_live_lease_is_not_expired,
                expiring_the_last_attempt_gives_up,
                operations_without_a_runner_are_listed_and_doubted,
                an_abandoned_operation_is_listed_after_a_while,
                a_long_operation_under_a_lease_is_not_listed,
                what_is_stale_is_listed_in_bounds,
                new_work_is_told,
            );
        }
    };
}

/// Turns every case of the snapshot suite into a test named after its rule, in a module `snapshots`.
///
/// `$open` is an `async fn() -> SnapshotSubject` that opens an empty store on a clock of its own.
#[macro_export]
macro_rules! snapshot_conformance {
    ($open:path) => {
        mod snapshots {
            #[allow(unused_imports)]
            use super::*;

            $crate::conformance_cases!($open, snapshots::putting:
                a_new_payload_is_kept_whole,
                the_same_payload_again_is_the_same_snapshot,
                another_text_of_the_same_payload_is_the_same_snapshot,
                another_payload_with_the_same_hash_is_a_collision,
                another_payload_with_the_same_id_is_a_collision,
                a_batch_is_answered_in_order,
                the_same_payload_twice_in_a_batch_is_one_snapshot,
                a_collision_within_a_batch_is_noticed,
                a_thousand_payloads_are_put_in_one_call,
                over_the_limit_of_a_batch_is_refused,
                putting_nothing_answers_nothing,
                a_hundred_equal_puts_at_once_make_one_snapshot,
                overlapping_batches_at_once_make_one_snapshot_each,
            );
            $crate::conformance_cases!($open, snapshots::texts:
                a_payload_of_a_mebibyte_comes_back_byte_for_byte,
                any_text_comes_back_as_it_was,
                an_absent_label_stays_absent,
                the_longest_words_fit,
            );
            $crate::conformance_cases!($open, snapshots::history:
                the_current_snapshot_is_the_one_that_was_new_last,
                an_old_payload_put_again_does_not_move_the_current_one,
                a_batch_moves_the_current_one_in_its_order,
                an_entity_is_called_what_its_current_snapshot_calls_it,
                of_different_puts_at_once_the_highest_number_is_current,
                snapshots_page_newest_first_without_gap,
                a_page_of_snapshots_is_bounded,
                what_nobody_put_is_not_there,
            );
            $crate::conformance_cases!($open, snapshots::listing:
                entities_that_changed_last_come_first,
                a_listed_entity_is_whole,
                entities_page_without_gap,
                a_page_of_entities_is_bounded,
                entities_are_found_by_id_and_label,
                an_entity_is_found_by_its_current_label_only,
                a_search_ignores_the_case_of_ascii_letters,
                a_search_takes_wildcards_for_what_they_are,
            );
            $crate::conformance_cases!($open, snapshots::observing:
                every_put_is_an_observation,
                a_batch_observes_in_its_order,
                a_collision_is_not_observed,
                old_observations_make_room_for_new_ones,
            );
            $crate::conformance_cases!($open, snapshots::filling:
                a_row_without_a_hash_is_read_and_filled,
                a_filled_row_answers_a_put,
                a_put_finds_its_own_row_that_has_no_hash_yet,
                a_payload_that_is_kept_already_stays_without_a_hash,
                what_cannot_be_hashed_is_counted_once,
                filling_goes_in_bounded_steps_and_ends,
                filling_covers_every_shelf,
            );
            $crate::conformance_cases!($open, snapshots::isolation:
                the_same_payload_of_two_tenants_is_two_snapshots,
                another_tenants_snapshots_are_not_there,
                another_tenants_puts_move_nothing,
                another_collection_is_another_shelf,
            );
        }
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
            an_ended_session_stays_ended_until_its_time,
        );
    };
}

/// Makes one test per named case of a suite.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($open:path, $seam:ident::$suite:ident: $($case:ident),+ $(,)?) => {
        mod $suite {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[test]
                fn $case() {
                    $crate::conformance::run(async {
                        $crate::conformance::$seam::$suite::$case(&$open().await).await;
                    });
                }
            )+
        }
    };
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
