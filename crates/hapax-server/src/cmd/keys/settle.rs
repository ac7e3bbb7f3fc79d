//! `hapax keys settle`: ends doubt about a key on an operator's word.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use axum::http::{HeaderName, HeaderValue};
use bytes::Bytes;
use hapax::engine::Ruled;
use hapax::layer::is_never_stored;
use hapax_core::Outcome;
use serde_json::json;

use super::{open, unknown};
use crate::cli::Settle;
use crate::exit::{Usage, hinted};
use crate::out;

const ACTOR: &str = "hapax keys settle";

pub(super) async fn run(args: &Settle) -> Result<()> {
    if args.status.is_none() && !args.release {
        return Err(Usage::hinted(
            "nothing says what came of it",
            "give --status N (it happened) or --release (run it again)",
        ));
    }
    let outcome = outcome(args)?;
    let (id, of) = (args.id, &args.of);
    let store = open(of).await?;
    let engine = store.engine();
    let ruled = match outcome {
        Some(outcome) => {
            engine
                .settle_by_operator(of.tenant, id, outcome, ACTOR)
                .await?
        }
        None => engine.release_by_operator(of.tenant, id, ACTOR).await?,
    };
    store.close().await;
    let (state, said) = match ruled {
        Ruled::Recorded(_) => ("settled", "is settled; a retry gets this answer"),
        Ruled::Released(_) => ("released", "is given back; its next use runs as new"),
        Ruled::Held(left) => {
            return Err(hinted(
                "a worker holds the key and will settle it",
                format!("run it again in {} s", left.as_secs() + 1),
            ));
        }
        Ruled::Settled(_) => {
            return Err(hinted(
                "the key is settled",
                format!("`hapax keys rm {id}` lets its next use run as new"),
            ));
        }
        Ruled::Erased => {
            return Err(hinted(
                "what was stored under the key is erased",
                format!("`hapax keys rm {id}` lets its next use run as new"),
            ));
        }
        Ruled::Absent => return Err(unknown(of, id)),
    };
    if of.plain.json {
        return out::json(&json!({"id": id.to_string(), "state": state}));
    }
    out::line(&format!("key {id} {said}"))
}

/// The answer to record, or nothing where the key is to be given back.
fn outcome(args: &Settle) -> Result<Option<Outcome>> {
    let Some(status) = args.status else {
        return Ok(None);
    };
    if !(200..=599).contains(&status) {
        return Err(Usage::error("--status takes 200 to 599"));
    }
    let body = match &args.body {
        Some(file) => read(file)?,
        None => Bytes::new(),
    };
    let mut outcome = Outcome::new(status, body);
    for header in &args.header {
        let (name, value) = parsed(header)
            .ok_or_else(|| Usage::error(format!("--header {header:?} is not 'name: value'")))?;
        if is_never_stored(&name) {
            return Err(Usage::error(format!("the header {name} is never stored")));
        }
        outcome = outcome.with_header(name.as_str(), Bytes::copy_from_slice(value.as_bytes()));
    }
    Ok(Some(outcome))
}

fn parsed(header: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = header.split_once(':')?;
    Some((name.trim().parse().ok()?, value.trim().parse().ok()?))
}

fn read(file: &Path) -> Result<Bytes> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .context("reading standard input")?;
    } else {
        bytes =
            std::fs::read(file).with_context(|| format!("reading the body {}", file.display()))?;
    }
    Ok(bytes.into())
}
