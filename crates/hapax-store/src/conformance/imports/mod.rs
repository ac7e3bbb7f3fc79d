//! The suite of stores of imports: beginning them, writing chunks, queueing what they brought, listing them.
//! Every case goes through the two seams only, so that it holds for every store.

pub mod beginning;
pub mod chunks;
pub mod isolation;
pub mod listing;
pub mod queueing;

mod subject;

pub use subject::ImportSubject;

/// Turns every case of the import suite into a test named after its rule, in a module `imports`.
///
/// `$open` is an `async fn() -> ImportSubject` that opens an empty store on a clock of its own.
#[macro_export]
macro_rules! import_conformance {
    ($open:path) => {
        mod imports {
            #[allow(unused_imports)]
            use super::*;

            $crate::conformance_cases!($open, imports::beginning:
                a_new_import_is_kept_whole,
                beginning_pins_the_active_schema,
                beginning_takes_the_schema_it_is_given,
                a_path_that_is_being_imported_answers_that_import,
                another_path_is_another_import,
                the_same_id_again_answers_what_is_there,
                of_many_that_begin_one_path_at_once_one_begins,
                a_path_of_any_length_and_letters_is_one,
                a_failed_import_says_why_and_refuses_everything,
                a_path_that_was_given_up_answers_that_import_until_it_has_failed,
                a_path_can_be_imported_again_after_it_failed,
                what_nobody_began_is_not_there,
            );
            $crate::conformance_cases!($open, imports::chunks:
                a_chunk_writes_its_entries_and_moves_the_cursor,
                chunks_add_up,
                a_chunk_from_an_old_place_writes_nothing,
                the_mark_is_part_of_the_place,
                of_two_who_write_one_chunk_at_once_one_does,
                of_many_who_write_all_chunks_each_is_written_once,
                chunks_that_are_handed_in_at_once_are_written_in_their_order,
                behind_a_chunk_that_is_refused_nothing_is_written,
                a_store_that_fails_leaves_neither_entries_nor_cursor,
                the_test_mode_does_not_split_an_import,
                a_refused_entry_is_told_by_its_place_in_the_file,
                faults_of_a_chunk_are_told_in_the_order_of_the_file,
                the_first_fifty_faults_are_kept_and_all_are_counted,
                a_chunk_of_faults_only_moves_on,
                an_empty_file_is_one_last_chunk,
                after_the_last_chunk_nothing_is_read,
                over_the_limit_of_a_chunk_is_refused,
                a_completed_import_refuses_chunks,
            );
            $crate::conformance_cases!($open, imports::queueing:
                nothing_is_queued_while_it_reads,
                candidates_are_queued_in_batches,
                a_batch_that_is_asked_for_again_is_made_once,
                rows_that_were_skipped_are_no_candidates,
                messages_of_one_thread_are_one_candidate,
                a_row_without_text_is_no_candidate,
                an_import_without_candidates_is_completed,
                a_rerun_skips_everything_and_queues_nothing,
                a_rerun_queues_what_changed,
                a_text_that_changed_back_is_not_queued_again,
                a_text_that_was_enriched_is_not_queued,
                what_is_queued_is_the_text_as_it_is_then,
                of_many_who_queue_at_once_each_row_is_queued_once,
                two_imports_with_one_row_queue_it_once,
                an_import_that_was_given_up_queues_what_it_wrote,
                an_import_can_be_given_up_while_it_queues,
                a_completed_import_queues_nothing,
            );
            $crate::conformance_cases!($open, imports::listing:
                imports_are_listed_newest_first,
                imports_page_without_gap,
                a_page_of_imports_is_bounded,
                a_listed_import_is_whole,
            );
            $crate::conformance_cases!($open, imports::isolation:
                another_tenants_import_is_not_there,
                the_same_path_and_id_of_two_tenants_are_two_imports,
                another_tenants_entries_do_not_meet_a_chunk,
                what_one_schema_queued_the_other_did_not,
            );
        }
    };
}
