//! Bytes in, decision out: what comes through the doors is read, keyed and planned here.
//!
//! This crate is pure. It opens no socket and no file, reads no clock, and needs no async runtime: the text and
//! the time are arguments, and what comes back is a value that a store can keep and a worker can act on.
//!
//! - [`intent`]: a packet that asks for something becomes a key, a plan of actions, a question, or a rejection.
//! - [`snapshot`]: a payload becomes an entity id, a hash and the canonical bytes that the hash is of.
//!
//! Both hash the text as it was received, by `hcj-1`; what they refuse, they refuse with every fault at once.
//!
//! - [`email`]: a mail becomes an entry with its type and its keys; [`mbox`] gives the mails of a mailbox file.
//! - [`telegram`], [`webpage`]: a message or a page becomes the fields of an entry, with [`url`] as the one spelling of
//!   addresses and [`quality`] as the one measure of texts.
//!
//! ```
//! use hapax_intake::intent::Packet;
//!
//! let packet = Packet::read(br#"{"kind":"intent","intent_type":"create_task","fields":{"title":"Call Ada"}}"#)?;
//! let again = Packet::read(br#"{ "fields": {"title": "Call \u0041da"}, "intent_type": "create_task", "kind": "intent" }"#)?;
//! assert_eq!(packet.key(), again.key(), "another spelling of the same document");
//!
//! let refusal = Packet::read(br#"{"kind":"intend","confidence":7}"#).unwrap_err();
//! assert_eq!(refusal.code(), "schema_validation_failed");
//! let paths: Vec<&str> = refusal.faults().iter().map(|fault| fault.path.as_str()).collect();
//! assert_eq!(paths, ["/confidence", "/kind"]);
//! # Ok::<(), hapax_intake::Refusal>(())
//! ```

pub mod date;
pub mod email;
pub mod intent;
pub mod link;
pub mod mbox;
pub mod quality;
pub mod refusal;
pub mod snapshot;
pub mod subject;
pub mod telegram;
pub mod text;
pub mod url;
pub mod webpage;

mod derive;
mod given;

pub use refusal::{Fault, Refusal};
