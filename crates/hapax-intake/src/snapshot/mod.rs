//! Snapshots: a payload of a collection, named by its hash. The same payload is the same snapshot.
//!
//! ```
//! use hapax_core::canonical::Profile;
//! use hapax_intake::snapshot::{Collection, key_match, read};
//!
//! let courses = Collection::courses();
//! let snapshot = read(br#"{"course":{"id":"course_123","name":"Caf\u00e9","credits":3.0}}"#, &courses)?;
//! assert_eq!(snapshot.entity_id, "course_123");
//! assert_eq!(snapshot.label.as_deref(), Some("Café"));
//!
//! // A hash that the old Python snippet made of the same text is recognised, and trusted for nothing.
//! let old = &snapshot.aliases.iter().find(|(profile, _)| *profile == Profile::PyJson).unwrap().1;
//! assert_eq!(key_match(&snapshot, old), Some(Profile::PyJson));
//! assert_eq!(key_match(&snapshot, "made up"), None);
//!
//! // The refusal names every fault by its place.
//! let refusal = read(br#"{"course":{"id":""}}"#, &courses).unwrap_err();
//! let paths: Vec<&str> = refusal.faults().iter().map(|fault| fault.path.as_str()).collect();
//! assert_eq!(paths, ["/course/id", "/course/name"]);
//! # Ok::<(), hapax_intake::Refusal>(())
//! ```

pub mod batch;
pub mod collection;
mod pattern;
pub mod payload;
pub mod pointer;
pub mod schema;

pub use batch::{BatchRefusal, ITEMS_MAX, Item, read_batch, split};
pub use collection::{Collection, CollectionName};
pub use payload::{Snapshot, SnapshotId, key_match, read};
pub use pointer::Pointer;
pub use schema::{InvalidSchema, Schema};
