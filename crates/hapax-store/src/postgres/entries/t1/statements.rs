//! The statements of enrichment on the tables of the two homes, put together once, as those of entries are.

use std::sync::LazyLock;

use hapax_core::entry::Schema;

macro_rules! statements {
    ($($name:ident $file:literal,)*) => {
        /// The statements on the tables of one home.
        pub(super) struct Statements { $(pub(super) $name: String,)* }

        impl Statements {
            fn new(schema: Schema) -> Self {
                let home = schema.as_str();
                Self { $($name: include_str!(concat!("../../../../sql/postgres/", $file, ".sql")).replace("{schema}", home),)* }
            }
        }
    };
}

statements! {
    batch_add "t1_batch_add",
    batch_find "t1_batch_find",
    batch_newest "t1_batch_newest",
    batch_live "t1_batch_live",
    batch_due "t1_batch_due",
    batch_change "t1_batch_change",
    item_add "t1_item_add",
    item_list "t1_item_list",
    item_lock "t1_item_lock",
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
