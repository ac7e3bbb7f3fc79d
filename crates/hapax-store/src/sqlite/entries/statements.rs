//! The statements on the tables of the two homes. A home is a word of ours, never a caller's text, so it can stand in a
//! table's name; it is put there once.

use std::sync::LazyLock;

use hapax_core::entry::Schema;

macro_rules! statements {
    ($($name:ident $file:literal,)*) => {
        /// The statements on the tables of one home.
        pub(super) struct Statements { $(pub(super) $name: String,)* }

        impl Statements {
            fn new(schema: Schema) -> Self {
                let home = schema.as_str();
                Self { $($name: include_str!(concat!("../../../sql/sqlite/", $file, ".sql")).replace("{schema}", home),)* }
            }
        }
    };
}

statements! {
    find "entry_find",
    find_id "entry_find_id",
    find_primary "entry_find_primary",
    find_secondary "entry_find_secondary",
    insert "entry_insert",
    update "entry_update",
    newest "entry_newest",
    newest_source "entry_newest_source",
    words_newest "entry_words_newest",
    words_best "entry_words_best",
    words_put "entry_words_put",
    words_drop "entry_words_drop",
    revision_put "entry_revision_put",
    revision_list "entry_revision_list",
    message_put "entry_message_put",
    message_there "entry_message_there",
    text_hash "entry_text_hash",
    policy_list "policy_list",
    policy_put "policy_put",
    policy_drop "policy_drop",
    candidate_put "t1_candidate_put",
    candidate_list "t1_candidate_list",
    candidate_drop "t1_candidate_drop",
    candidate_queue "t1_candidate_queue",
    queued "t1_queued",
    batch_there "t1_batch_there",
    batch_insert "t1_batch_insert",
    batch_list "t1_batch_list",
    batch_find "t1_batch_find",
    batch_newest "t1_batch_newest",
    batch_live "t1_batch_live",
    batch_due "t1_batch_due",
    batch_change "t1_batch_change",
    item_insert "t1_item_insert",
    item_count "t1_item_count",
    item_list "t1_item_list",
    item_list_status "t1_item_list_status",
    item_text "t1_item_text",
    item_find "t1_item_find",
    item_settle "t1_item_settle",
}

impl Statements {
    /// The statements on this home's tables.
    pub(super) fn of(schema: Schema) -> &'static Self {
        static HOMES: LazyLock<[Statements; 2]> =
            LazyLock::new(|| Schema::ALL.map(Statements::new));
        match schema {
            Schema::Pkm => &HOMES[0],
            Schema::PkmTest => &HOMES[1],
        }
    }
}
