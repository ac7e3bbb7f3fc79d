//! The program from outside: a real process, real sockets, real files. Nothing here calls its code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod audit;
mod auth;
mod bad_input;
mod bench;
mod both;
mod commands;
mod config;
mod dashboard;
mod docs;
mod download;
mod echo;
mod enrich;
mod entries;
mod errors;
mod fences;
mod fixture;
mod http;
mod imports;
mod intents;
mod jobs;
mod key;
mod keys;
mod kill;
mod lists;
mod live;
mod million;
mod nodes;
mod openapi;
mod otlp;
mod postgres;
mod proxy;
mod redis;
mod remote;
mod routes;
mod session;
mod snapshots;
mod start;
mod stats;
mod stop;
mod sweep;
mod table;
mod upgrade;
mod vault;
mod worker;
