//! Entries of a knowledge base: what is kept, under which keys, and what a second one of the same key does.
//!
//! Normalisation makes the keys, a [`Policy`] says what a match means, [`judge()`] decides, and the store's unique
//! constraints hold it. Two schemas with the same tables, [`Schema::Pkm`] and [`Schema::PkmTest`], never mix.
//!
//! ```
//! use hapax_core::entry::{Column, Draft, Judged, Policy, Row, judge};
//! use hapax_core::Time;
//! use serde_json::json;
//!
//! let link = json!({
//!     "source": "telegram", "content_type": "link", "title": "Tea",
//!     "idempotency_policy_key": "telegram_link_v1", "idempotency_key_primary": "https://example.org/tea",
//! });
//! let draft = Draft::read(link.as_object().unwrap(), |_| None).unwrap();
//! let policies = Policy::seeds();
//! let policy = policies.iter().find(|policy| policy.key == "telegram_link_v1");
//!
//! // Nothing is there: it is inserted. The same link again: the row that is there stays as it is.
//! assert!(matches!(judge(policy, &draft, None, None), Judged::Insert { .. }));
//! let there = Row::new(7, uuid::Uuid::nil(), Time::from_ms(0), draft.fields.clone());
//! assert!(matches!(judge(policy, &draft, Some((&there).into()), None), Judged::Skip { .. }));
//!
//! // The refusal: a Telegram entry without its keys is not inserted.
//! let bare = json!({"source": "telegram", "title": "Tea"});
//! let bare = Draft::read(bare.as_object().unwrap(), |_| None).unwrap();
//! assert!(matches!(judge(None, &bare, None, None), Judged::Refuse(refused) if refused.code == "idempotency_fields_required"));
//! ```
//!
//! Where to read on: [`mod@judge`] is the rule, [`plan`] applies it to a batch, [`catalog`] is the seam that stores
//! implement, [`import`] is how a backlog gets in, [`t1`] how
//! entries are enriched.

pub mod catalog;
pub mod column;
pub mod draft;
pub mod fields;
pub mod import;
pub mod judge;
pub mod message;
pub mod plan;
pub mod policy;
pub mod schema;
pub mod t1;

pub use catalog::{Action, Catalog, Done, Incoming, Kept, Search, Sort, Target, TestMode, Written};
pub use column::{Column, Kind as ColumnKind};
pub use draft::{Change, Draft, Refused, Which};
pub use fields::{Fields, KEY_BYTES_MAX, Row, enrichable, is_enrichable, key_text, merge};
pub use import::{
    Chunk, Counts, Cursor, Import, ImportBatch, ImportError, ImportStatus, Imports, NewImport, Step,
};
pub use judge::{Judged, KeyConflict, Match, Seen, judge, usable};
pub use message::{Merged, message};
pub use plan::{Lookup, Plan};
pub use policy::{ConflictAction, Policy, PolicyChange, SecondaryMatch};
pub use schema::Schema;
pub use t1::{
    Asked, Batch, BatchState, BatchStatus, Batches, DueBatch, Item, ItemChange, ItemScan,
    ItemStatus, ItemText, NewBatch, NewItem, Provider,
};
