//! How a mailbox gets into the store: opened safely, read in chunks, and gone on with after a kill. No route is here.
//!
//! - [`asked`] is what can be asked, and [`shown`] what is answered; [`threads`] looks the named policy up.
//! - [`roots`] is which folders a tenant has, [`owner`] whose a place in them is; [`open`] opens a file beneath a folder,
//!   and nothing else.
//! - [`mailbox`] is that file as a stream, compressed or not, from any place in it.
//! - [`chunks`] reads messages, makes drafts of them and gathers chunks, on a thread of its own.
//! - [`mod@drive`] brings an import to its end. API, worker and command line all call it. [`handed`] is what the store has of
//!   it at a time.
//! - [`job`] is the lease under which that happens; [`desk`] is where this process does it, and where callers wait.
//!
//! The lease is a courtesy: it keeps two processes from doing the same work. What keeps a chunk from being written twice
//! is the store, which takes one only where the import stands. So a driver that lost its lease and does not know yet
//! writes nothing twice, and counts nothing twice.

pub(crate) mod asked;
pub(crate) mod chunks;
pub(crate) mod desk;
pub(crate) mod drive;
mod handed;
pub(crate) mod job;
pub(crate) mod mailbox;
pub(crate) mod open;
mod owner;
pub(crate) mod roots;
pub(crate) mod shown;
pub(crate) mod threads;
