//! An attacker who reads or writes the database, Redis or the disk, without the keys of the vault.

mod guards;
mod redis;
mod sealed;
