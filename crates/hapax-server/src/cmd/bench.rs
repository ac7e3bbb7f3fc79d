//! `hapax bench`: what this machine and this store can do, in a few seconds, and whether the promises hold meanwhile.
//! It is no comparison with other programs; the folder `bench` of the project is.

mod hash;
mod jobs;
mod keys;

use std::time::{Duration, Instant};

use anyhow::Result;
use hapax::Engine;
use hapax_core::Tenant;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::Bench;
use crate::config::{Config, Flags};
use crate::out;
use crate::store::{Database, Store};

/// What one part of the bench found.
pub(super) struct Found {
    what: &'static str,
    /// How many at a time; 0 where that means nothing.
    at_once: usize,
    rate: f64,
    unit: &'static str,
    /// Half of them, and 99 of 100, took no longer, in microseconds.
    took_us: Option<(f64, f64)>,
}

pub(super) async fn run(args: &Bench) -> Result<()> {
    let (config, own) = config(args)?;
    let store = Store::open(&config).await?;
    let database = Database::of(&config)?;
    out::note(&match &own {
        Some(_) => {
            "measuring a temporary SQLite ledger; --database or --data takes yours".to_owned()
        }
        None => format!("measuring {database}; what is written is emptied at the end"),
    });
    let time = Duration::from_secs_f64(args.seconds.clamp(0.05, 60.0));
    let mut found = vec![hash::measure(time)];
    // A tenant of its own: nothing that is stored meets what the bench stores.
    let tenant = Tenant::from_uuid(uuid::Uuid::new_v4());
    let engine = Engine::new(store.ledger.clone());
    let mut keys = keys::Keys::new(engine, tenant)?;
    let measured = keys.measure(time).await;
    let emptied = keys.empty().await?;
    let (rows, checked) = measured?;
    found.extend(rows);
    if own.is_some() {
        found.extend(jobs::measure(store.queue.as_ref(), tenant, time).await?);
    }
    store.close().await;
    show(args, &found, &checked, emptied, own.is_some())
}

/// The store that is named, or a temporary one.
fn config(args: &Bench) -> Result<(Config, Option<TempDir>)> {
    let flags = args.store.flags();
    let named = ["HAPAX_DATABASE", "HAPAX_DATA", "HAPAX_CONFIG"];
    let is_named = flags.config.is_some()
        || flags.data.is_some()
        || flags.database.is_some()
        || named.iter().any(|name| std::env::var_os(name).is_some());
    if is_named {
        return Ok((Config::load(&flags)?, None));
    }
    let folder = tempfile::tempdir()?;
    let config = Config::load(&Flags {
        data: Some(folder.path().to_owned()),
        ..flags
    })?;
    Ok((config, Some(folder)))
}

fn show(
    args: &Bench,
    found: &[Found],
    checked: &keys::Checked,
    emptied: usize,
    is_own: bool,
) -> Result<()> {
    if args.json {
        let results: Vec<Value> = found.iter().map(Found::json).collect();
        return out::json(&json!({
            "results": results,
            "verified": {
                "keys": checked.keys, "duplicates": checked.duplicates, "conflicts": checked.conflicts,
            },
            "emptied": emptied,
        }));
    }
    let rows: Vec<Vec<out::Field>> = found.iter().map(Found::row).collect();
    out::table(
        &["what", "at a time", "per second", "of", "p50 µs", "p99 µs"],
        &rows,
    )?;
    out::line(&format!(
        "verified: {} keys ran once each; {} duplicates got the same bytes; {} other requests were refused",
        checked.keys, checked.duplicates, checked.conflicts
    ))?;
    out::line(&if is_own {
        "the temporary ledger is removed".to_owned()
    } else {
        format!(
            "emptied the {emptied} keys that were written; a sweep removes what is left of them"
        )
    })
}

impl Found {
    fn json(&self) -> Value {
        json!({
            "what": self.what, "at_once": self.at_once, "rate": self.rate, "unit": self.unit,
            "p50_us": self.took_us.map(|took| took.0), "p99_us": self.took_us.map(|took| took.1),
        })
    }

    fn row(&self) -> Vec<out::Field> {
        let whole = |figure: Option<f64>| figure.map_or_else(String::new, |it| format!("{it:.0}"));
        let at_once = if self.at_once == 0 {
            String::new()
        } else {
            self.at_once.to_string()
        };
        [
            self.what.to_owned(),
            at_once,
            format!("{:.0}", self.rate),
            self.unit.to_owned(),
            whole(self.took_us.map(|took| took.0)),
            whole(self.took_us.map(|took| took.1)),
        ]
        .iter()
        .map(out::plain)
        .collect()
    }
}

/// How many per second.
fn rate(count: usize, begun: Instant) -> f64 {
    let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    count / begun.elapsed().as_secs_f64().max(1e-9)
}
