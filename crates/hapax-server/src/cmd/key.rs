//! `hapax key`: the canonical hash, or the canonical bytes, of one JSON document, or the hash of each line of a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use hapax_core::canonical;
use serde_json::json;

use crate::cli::Key;
use crate::exit::{Usage, hinted};
use crate::out;

/// The largest document that is read.
const BYTES_MAX: u64 = 1 << 30;
/// How much is printed at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// What to do about a document that is refused.
const RULES: &str = "correct the document; docs/errors/bad_json.md says what is taken";

pub(super) fn run(args: &Key) -> Result<()> {
    if args.lines {
        return hash_lines(args);
    }
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
            Err(hinted(format!("refused: {reason}: {reject}"), RULES))
        }
    }
}

/// A hash for each line, as they are read.
fn hash_lines(args: &Key) -> Result<()> {
    let (source, name) = open(&args.file)?;
    let mut source = BufReader::new(source);
    let mut told = String::new();
    let (mut lines, mut refused, mut line) = (0_u64, 0_u64, Vec::new());
    loop {
        line.clear();
        let most = (&mut source).take(BYTES_MAX + 1);
        let read = { most }.read_until(b'\n', &mut line);
        if read.with_context(|| format!("reading {name}"))? == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() as u64 > BYTES_MAX {
            return Err(Usage::error(format!(
                "line {} is over {BYTES_MAX} bytes",
                lines + 1
            )));
        }
        lines += 1;
        match canonical::hash(&line, args.profile) {
            Ok(hash) => told.push_str(&hash),
            Err(reject) => {
                refused += 1;
                told.push_str("refused:");
                told.push_str(reject.reason.as_str());
            }
        }
        told.push('\n');
        if told.len() >= CHUNK_BYTES {
            out::bytes(told.as_bytes())?;
            told.clear();
        }
    }
    out::bytes(told.as_bytes())?;
    if refused > 0 {
        return Err(hinted(format!("refused {refused} of {lines} lines"), RULES));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let (source, name) = open(path)?;
    bounded(source).with_context(|| format!("reading {name}"))
}

/// What is read, and what it is called.
fn open(path: &Path) -> Result<(Box<dyn Read>, String)> {
    if path == Path::new("-") {
        return Ok((
            Box::new(std::io::stdin().lock()),
            "standard input".to_owned(),
        ));
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("reading the document {name}"))?;
    Ok((Box::new(file), name))
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
