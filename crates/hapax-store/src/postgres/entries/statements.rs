//! The statements on the tables of the two homes. A home is a word of ours, never a caller's text, so it can stand in a
//! statement; it is put there once.

use std::sync::LazyLock;

use hapax_core::entry::Schema;

macro_rules! statements {
    ($($name:ident $file:literal,)*) => {
        /// The statements on the tables of one home.
        pub(super) struct Statements { $(pub(super) $name: String,)* }

        impl Statements {
            fn new(schema: Schema) -> Self {
                let home = schema.as_str();
                Self { $($name: include_str!(concat!("../../../sql/postgres/", $file, ".sql")).replace("{schema}", home),)* }
            }
        }
    };
}

statements! {
    found "entry_found",
    find "entry_find",
    newest "entry_newest",
    newest_source "entry_newest_source",
    words_newest "entry_words_newest",
    words_walk "entry_words_walk",
    words_best "entry_words_best",
    numbers "entry_numbers",
    insert "entry_insert",
    update "entry_update",
    revision_put "entry_revision_put",
    revision_list "entry_revision_list",
    message_put "entry_message_put",
    message_there "entry_message_there",
    policy_list "policy_list",
    policy_seed "policy_seed",
    policy_put "policy_put",
    policy_drop "policy_drop",
    candidate_there "t1_candidate_there",
    candidate_put "t1_candidate_put",
    candidate_list "t1_candidate_list",
    candidate_queue "t1_candidate_queue",
    candidate_drop "t1_candidate_drop",
    batch_there "t1_batch_there",
    batch_insert "t1_batch_insert",
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
