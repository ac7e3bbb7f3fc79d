//! `hapax backfill`: gives snapshots from before hashes theirs, in bounded steps, until none is left to fill.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::Result;
use hapax_core::canonical::{Profile, hash};
use hapax_core::snapshot::{Filled, Shelf, Snapshots};
use hapax_core::{Error, Fingerprint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::cli::Plain;
use crate::config::Config;
use crate::out;
use crate::store::Store;

/// The most rows of one step.
const STEP_ROWS_MAX: usize = 100;

/// The shortest rest between two steps.
const PAUSE_MIN: Duration = Duration::from_millis(2);

/// What older snippets may have called the same text.
const ALIASES: [Profile; 3] = [Profile::PyJson, Profile::PyJsonUtf8, Profile::JsSorted];

pub(super) async fn run(args: &Plain) -> Result<()> {
    let config = Config::load(&args.store.flags())?;
    let store = Store::open_made(&config).await?;
    let line = progress(args.json);
    let filled = all(store.snapshots.as_ref(), &line).await;
    line.finish_and_clear();
    let filled = filled?;
    store.close().await;
    let Filled {
        filled,
        duplicates,
        unreadable,
    } = filled;
    if args.json {
        return out::json(
            &json!({"filled": filled, "duplicates": duplicates, "unreadable": unreadable}),
        );
    }
    out::line(&format!(
        "filled {filled} hashes; {duplicates} rows are kept under another id already, {unreadable} cannot be hashed"
    ))
}

/// Fills step by step until a step does nothing, at work no more than half the time: a server beside it has to get
/// at the database.
async fn all(snapshots: &dyn Snapshots, line: &ProgressBar) -> Result<Filled, Error> {
    let mut all = Filled::default();
    loop {
        let begun = Instant::now();
        let step = snapshots.fill_hashes(&hashed, STEP_ROWS_MAX).await?;
        all.filled += step.filled;
        all.duplicates += step.duplicates;
        all.unreadable += step.unreadable;
        if step == Filled::default() {
            return Ok(all);
        }
        line.set_position(all.filled + all.duplicates + all.unreadable);
        tokio::time::sleep(begun.elapsed().max(PAUSE_MIN)).await;
    }
}

/// The hash of a stored text and its aliases. It is kept already, so no schema is asked: whatever is JSON has a hash.
fn hashed(_: &Shelf, text: &str) -> Option<(Fingerprint, Vec<(String, String)>)> {
    let own = hash(text.as_bytes(), Profile::Hcj1).ok()?;
    let alias = |profile: Profile| {
        let hash = hash(text.as_bytes(), profile).ok()?;
        Some((profile.name().to_owned(), hash))
    };
    let aliases = ALIASES.into_iter().filter_map(alias).collect();
    Some((Fingerprint::from_hex(&own).ok()?, aliases))
}

/// A line on standard error, if that is a terminal and nobody asked for JSON.
fn progress(json: bool) -> ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{spinner} {pos} rows  {per_sec}  {elapsed} elapsed");
    line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    line.enable_steady_tick(Duration::from_millis(100));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Tenant;
    use hapax_intake::snapshot::{Collection, read};

    #[test]
    fn an_old_row_gets_the_hashes_that_a_new_one_has() {
        let text = r#"{"course":{"name":"Caf\u00e9","id":"a","credits":3.0}}"#;
        let shelf = Shelf {
            tenant: Tenant::DEFAULT,
            collection: "courses".into(),
        };
        let new = read(text.as_bytes(), &Collection::courses()).unwrap();
        let (hash, aliases) = hashed(&shelf, text).unwrap();
        assert_eq!(hash.hex(), new.hash);
        let of_new: Vec<(String, String)> = new
            .aliases
            .into_iter()
            .map(|(profile, hash)| (profile.to_string(), hash))
            .collect();
        assert_eq!(aliases, of_new);
        assert!(hashed(&shelf, "not json").is_none());
    }
}
