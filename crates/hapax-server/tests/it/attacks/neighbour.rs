//! A neighbour: another tenant of the server, or another caller behind the proxy.

mod callers;
mod mail;
mod tokens;
mod watching;
