//! `hapax key`: the canonical hash, or the canonical bytes, of one JSON document.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use hapax_core::canonical;
use serde_json::json;

use crate::cli::Key;
use crate::exit::{Failed, Usage};
use crate::out;

/// The largest document that is read.
const BYTES_MAX: u64 = 1 << 30;

pub(super) fn run(args: &Key) -> Result<()> {
    let input = read(&args.file)?;
    let answer = if args.canon {
        canonical::canonical(&input, args.profile)
    } else {
        canonical::hash(&input, args.profile).map(String::into_bytes)
    };
    match answer {
        Ok(bytes) if args.canon => out::bytes(&bytes),
        Ok(hash) => {
            let hash = String::from_utf8_lossy(&hash);
            if args.json {
                out::json(&json!({"profile": args.profile.name(), "key": hash}))
            } else {
                out::line(&hash)
            }
        }
        Err(reject) => {
            let (reason, offset) = (reject.reason.as_str(), reject.offset);
            if args.json {
                out::json(
                    &json!({"profile": args.profile.name(), "refused": {"reason": reason, "offset": offset}}),
                )?;
            }
            out::note(&format!("hapax: refused: {reason}: {reject}"));
            Err(Failed.into())
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if path == Path::new("-") {
        return bounded(std::io::stdin().lock()).context("reading standard input");
    }
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    bounded(file).with_context(|| format!("reading {}", path.display()))
}

fn bounded(source: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Usage::error(format!(
            "the document is over {BYTES_MAX} bytes"
        )));
    }
    Ok(bytes)
}
