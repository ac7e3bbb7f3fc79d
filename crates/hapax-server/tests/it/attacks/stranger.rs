//! A stranger: anyone who can open a connection and holds no token.

mod credentials;
mod guessing;
mod heads;
mod memory;
mod sessions;
mod start;
