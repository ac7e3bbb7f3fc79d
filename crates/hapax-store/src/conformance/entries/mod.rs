//! The suite of stores of entries: inserting, conflicts, changes, policies, the test mode, and what is found.
//! Every case goes through the seam only, so that it holds for every store.

pub mod changing;
pub mod conflicts;
pub mod inserting;
pub mod isolation;
pub mod messages;
pub mod modes;
pub mod policies;
pub mod searching;
pub mod texts;

mod subject;

pub use subject::EntrySubject;

/// Turns every case of the entry suite into a test named after its rule, in a module `entries`.
///
/// `$open` is an `async fn() -> EntrySubject` that opens an empty store on a clock of its own.
#[macro_export]
macro_rules! entry_conformance {
    ($open:path) => {
        mod entries {
            #[allow(unused_imports)]
            use super::*;

            $crate::conformance_cases!($open, entries::inserting:
                a_new_entry_is_inserted_and_stored_whole,
                a_fresh_batch_reports_every_item_as_inserted,
                two_equal_items_of_a_batch_that_skips_make_one_row,
                two_equal_items_of_a_batch_that_updates_make_one_row,
                entries_without_keys_are_new_every_time,
                the_time_of_a_draft_is_taken_by_a_new_row_only,
                what_the_store_gives_cannot_be_sent,
                sources_with_keys_are_refused_without_them,
                half_of_the_keys_is_refused_of_any_source,
                a_secondary_key_alone_is_enough,
                keys_meet_trimmed,
                a_key_belongs_to_its_policy,
                primary_and_secondary_keys_do_not_mix,
                keys_are_compared_byte_for_byte,
                keys_of_any_length_meet,
                the_longest_keys_fit,
                items_are_answered_in_order_each_on_its_own,
                all_or_nothing_keeps_nothing_of_a_batch_with_a_fault,
                all_or_nothing_keeps_a_batch_without_a_fault,
                only_an_inserted_row_uses_a_number,
                the_largest_batch_is_written_in_one_call,
                over_the_limit_of_a_batch_is_refused,
                writing_nothing_answers_nothing,
                every_row_has_an_id_of_its_own,
                a_row_says_when_it_came,
            );
            $crate::conformance_cases!($open, entries::conflicts:
                a_skip_leaves_the_row_as_it_is,
                an_update_goes_over_the_row,
                a_null_says_nothing_in_an_insert_and_empties_in_a_change,
                an_update_that_changes_nothing_keeps_no_state,
                primary_wins_and_the_row_of_the_secondary_is_reported,
                an_update_by_primary_leaves_the_row_of_the_secondary,
                rows_of_the_same_batch_conflict_by_their_numbers,
                a_secondary_match_alone_does_not_merge_thoughts,
                thoughts_of_one_batch_with_the_same_words_are_two,
                a_thought_without_a_primary_key_is_met_by_its_secondary,
                a_newsletter_is_skipped_by_its_secondary_key_alone,
                an_update_adds_no_key,
                only_the_named_columns_are_updated,
                an_empty_list_of_columns_updates_nothing,
                the_reach_of_the_secondary_key_is_the_policys,
                metadata_is_merged_not_overwritten,
                two_hundred_equal_inserts_at_once_make_one_row,
                two_hundred_updates_at_once_make_one_row,
                overlapping_batches_at_once_make_one_row_each,
                a_thousand_merges_at_once_lose_nothing,
            );
            $crate::conformance_cases!($open, entries::messages:
                a_message_is_merged_once,
                a_message_that_is_twice_in_a_batch_is_merged_once,
                a_message_without_an_id_is_known_by_its_content,
                a_message_that_changes_nothing_is_remembered,
                a_message_of_a_batch_that_was_not_kept_is_not_remembered,
                a_message_stays_in_the_row_that_merged_it,
                a_merged_message_belongs_to_its_tenant_and_home,
                a_message_that_comes_at_once_many_times_is_merged_once,
                a_long_thread_that_comes_again_writes_nothing,
            );
            $crate::conformance_cases!($open, entries::changing:
                a_change_goes_over_the_row,
                a_row_is_named_by_its_number_or_its_id,
                a_row_that_is_not_there_is_missing,
                what_never_changes_is_ignored,
                changes_of_one_row_in_a_batch_happen_in_order,
                a_change_that_changes_nothing_keeps_no_state,
                inserts_and_changes_share_a_batch,
                metadata_that_grows_too_large_is_refused,
                replaced_states_page_newest_first,
                a_page_of_states_is_bounded,
                a_thousand_changes_at_once_lose_nothing,
                what_nobody_inserted_is_not_there,
            );
            $crate::conformance_cases!($open, entries::policies:
                every_home_starts_with_the_seed_policies,
                a_new_tenants_first_write_finds_the_seed_policies,
                many_first_looks_at_once_write_the_seeds_once,
                an_unknown_policy_is_refused,
                a_disabled_policy_takes_nothing_in,
                a_change_of_a_policy_leaves_the_rest,
                a_changed_action_decides_the_next_write,
                a_new_policy_is_added,
                a_known_policy_is_added_as_it_is_known,
                a_new_tenants_first_change_writes_the_seeds,
                a_policy_belongs_to_its_home,
                a_policy_belongs_to_its_tenant,
                changes_of_a_policy_at_once_lose_nothing,
            );
            $crate::conformance_cases!($open, entries::modes:
                the_test_mode_is_off_until_it_is_turned_on,
                a_toggle_turns_it_into_the_other,
                fifty_toggles_at_once_end_where_they_began,
                a_write_follows_the_mode,
                a_pinned_write_does_not_follow_the_mode,
                reads_follow_the_mode,
                a_mode_belongs_to_its_tenant,
            );
            $crate::conformance_cases!($open, entries::isolation:
                the_same_keys_elsewhere_are_another_entry,
                an_update_by_a_key_stays_at_home,
                what_is_elsewhere_cannot_be_read,
                what_is_elsewhere_cannot_be_changed,
                a_search_finds_what_is_at_home,
                numbers_rise_whatever_others_insert,
            );
            $crate::conformance_cases!($open, entries::searching:
                all_words_have_to_be_there,
                other_columns_are_not_searched,
                case_does_not_matter,
                words_beside_anything_are_found,
                no_character_is_an_operator,
                without_a_word_nothing_is_found,
                the_newest_come_first,
                entries_page_by_source_and_words_without_gap,
                found_entries_come_in_the_order_that_is_asked_for,
                only_what_is_new_enough_is_found,
                an_answer_is_bounded,
                a_search_over_its_limits_is_refused,
                an_entry_is_found_by_what_it_says_now,
                what_was_not_kept_is_not_found,
                a_long_text_is_whole_and_found_by_its_first_words,
                texts_that_are_no_words_do_no_harm,
            );
            $crate::conformance_cases!($open, entries::texts:
                every_column_comes_back_as_it_was,
                any_text_comes_back_as_it_was,
                any_text_can_be_a_key,
                any_metadata_comes_back_equal,
                numbers_come_back_exact,
                a_whole_number_is_the_same_double,
                lists_and_flags_come_back_as_they_were,
                long_texts_come_back_whole,
            );
        }
    };
}
