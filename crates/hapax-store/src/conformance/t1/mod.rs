//! The suite of stores of batches for enrichment: adding them, what is due, changes, items with their entries, and
//! answers that were paid for. Every case goes through the seams only, so that it holds for every store.

pub mod adding;
pub mod answers;
pub mod changing;
pub mod imported;
pub mod isolation;
pub mod listing;
pub mod questions;
pub mod reading;
pub mod settling;
pub mod texts;
pub mod waiting;

mod subject;

pub use subject::T1Subject;

/// Turns every case of the suite of batches into a test named after its rule, in a module `t1`.
///
/// `$open` is an `async fn() -> T1Subject` that opens an empty store on a clock of its own.
#[macro_export]
macro_rules! t1_conformance {
    ($open:path) => {
        mod t1 {
            #[allow(unused_imports)]
            use super::*;

            $crate::conformance_cases!($open, t1::adding:
                a_new_batch_is_kept_whole,
                the_same_id_again_answers_what_is_there,
                the_same_id_again_is_found_in_the_other_schema,
                of_many_who_add_one_batch_at_once_one_does,
                a_batch_follows_the_test_mode,
                a_pinned_batch_does_not_follow_the_test_mode,
                a_store_that_fails_leaves_nothing_of_a_batch,
                the_largest_batch_is_kept_in_one_call,
                a_batch_over_its_limits_is_refused,
                items_are_kept_in_their_order_with_what_they_are_about,
            );
            $crate::conformance_cases!($open, t1::listing:
                batches_are_listed_newest_first,
                batches_that_ended_are_left_out_unless_asked_for,
                batches_page_without_gap,
                batches_of_one_moment_page_without_gap,
                a_page_of_batches_is_bounded,
                a_listed_batch_is_whole,
                batches_that_did_not_end_are_counted,
            );
            $crate::conformance_cases!($open, t1::waiting:
                a_batch_is_due_when_its_time_has_come,
                a_batch_that_ended_is_never_due,
                those_that_waited_longest_are_due_first,
                schemas_are_served_in_turn,
                batches_of_all_tenants_are_due,
            );
            $crate::conformance_cases!($open, t1::changing:
                a_change_is_kept_whole,
                a_change_replaces_the_whole_state,
                a_change_of_another_version_is_refused,
                of_many_who_change_a_batch_at_once_one_does,
                a_batch_that_is_not_there_is_not_changed,
            );
            $crate::conformance_cases!($open, t1::reading:
                items_page_in_their_order,
                a_page_of_items_is_bounded,
                items_are_found_by_how_far_they_are,
                texts_come_along_if_asked_for,
                the_text_of_an_entrys_item_is_the_entrys_as_it_is_now,
                the_text_of_an_entry_that_is_not_there_is_none,
                a_page_with_long_texts_ends_early,
                an_item_of_any_length_is_given_alone,
                a_batch_counts_its_items,
                a_batch_that_is_not_there_has_no_items,
                an_item_reads_the_entry_of_its_own_schema,
            );
            $crate::conformance_cases!($open, t1::settling:
                an_item_keeps_what_its_steps_said,
                a_result_is_written_to_its_entry,
                a_change_that_is_made_twice_is_made_once,
                of_many_who_settle_an_item_at_once_one_does,
                an_item_that_is_elsewhere_stays,
                an_entry_that_changed_meanwhile_stays,
                an_entry_that_changed_back_is_written,
                an_entry_that_is_not_there_makes_its_item_stale,
                a_change_without_a_result_leaves_the_entry,
                an_item_with_its_own_text_is_completed_without_an_entry,
                a_result_that_changes_nothing_keeps_no_state,
                two_items_of_one_entry_are_written_in_order,
                steps_of_one_item_fit_one_call,
                a_store_that_fails_settles_nothing,
                an_item_of_another_batch_is_not_settled,
                a_result_that_the_rule_refuses_fails_its_item,
                over_the_limit_of_changes_is_refused,
                a_full_page_is_settled_in_one_call,
            );
            $crate::conformance_cases!($open, t1::answers:
                answers_come_in_the_order_of_their_keys,
                the_first_answer_stays,
                of_many_answers_at_once_one_stays,
                an_answer_belongs_to_its_tenant,
                over_the_limit_of_answers_is_refused,
                any_answer_comes_back,
            );
            $crate::conformance_cases!($open, t1::questions:
                what_one_asks_nobody_else_is_told_to_ask,
                of_many_who_ask_at_once_one_is_told_to,
                what_was_answered_is_not_asked,
                an_answer_ends_the_asking,
                who_stops_asks_nothing_any_more,
                an_asking_ends_with_its_time,
                a_batch_that_ends_asks_nothing_any_more,
                tenants_ask_for_themselves,
                over_the_limit_of_questions_is_refused,
            );
            $crate::conformance_cases!($open, t1::imported:
                an_imports_batch_is_a_batch,
                an_imports_items_have_the_texts_of_its_entries,
                candidates_are_no_items,
                an_import_tells_how_far_its_batches_are,
                an_imports_items_are_settled_with_their_entries,
            );
            $crate::conformance_cases!($open, t1::isolation:
                another_tenants_batch_is_not_there,
                the_same_id_of_two_tenants_is_two_batches,
                an_item_does_not_reach_another_tenants_entry,
                an_item_does_not_reach_the_other_schemas_entry,
            );
            $crate::conformance_cases!($open, t1::texts:
                any_text_of_an_item_comes_back,
                an_empty_title_is_not_a_missing_one,
                any_text_of_a_change_comes_back,
                long_texts_come_back_whole,
                a_null_character_is_replaced_everywhere,
                deep_metadata_comes_back,
            );
        }
    };
}
