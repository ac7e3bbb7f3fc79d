//! An upstream: a service, a host of downloads or a database that hapax talks to, and whoever sits between them.

mod addresses;
mod sslmode;
