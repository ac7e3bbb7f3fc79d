//! A manifest: one JSON object per line. It is read line by line, however long it is.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use hapax_core::job::NewJob;
use serde::Deserialize;
use serde_json::json;

use crate::exit::Usage;

/// The longest line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// One download.
pub(super) struct Item {
    pub(super) job: NewJob,
}

/// A line that names no download.
#[derive(Debug)]
pub(super) struct Bad {
    pub(super) line: u64,
    pub(super) why: String,
}

#[derive(Deserialize)]
struct Line {
    work_id: String,
    artifact_id: String,
    canonical_url: String,
    sha256: Option<String>,
    size: Option<u64>,
}

/// The lines of a manifest.
pub(super) struct Manifest {
    lines: Box<dyn BufRead>,
    line: u64,
}

impl Manifest {
    /// Opens the file at `path`, or standard input for `-`.
    ///
    /// # Errors
    /// [`Usage`] when it cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let lines: Box<dyn BufRead> = if path.as_os_str() == "-" {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            let file = File::open(path).map_err(|why| {
                Usage::error(format!("reading the manifest {}: {why}", path.display()))
            })?;
            Box::new(BufReader::with_capacity(64 << 10, file))
        };
        Ok(Self { lines, line: 0 })
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let mut text = Vec::new();
        let mut some = (&mut self.lines).take(LINE_BYTES_MAX + 1);
        some.read_until(b'\n', &mut text)
            .context("reading the manifest")?;
        if text.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        if text.len() as u64 > LINE_BYTES_MAX {
            let message = format!(
                "line {} of the manifest is longer than {LINE_BYTES_MAX} bytes",
                self.line
            );
            return Err(Usage::error(message));
        }
        Ok(Some(text))
    }
}

impl Iterator for Manifest {
    type Item = Result<Result<Item, Bad>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let text = match self.read() {
                Ok(Some(text)) => text,
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            };
            if text.trim_ascii().is_empty() {
                continue;
            }
            let line = self.line;
            return Some(Ok(item(&text).map_err(|why| Bad { line, why })));
        }
    }
}

fn item(text: &[u8]) -> Result<Item, String> {
    let line: Line = serde_json::from_slice(text).map_err(|why| why.to_string())?;
    let job = NewJob::download(&line.work_id, &line.artifact_id, &line.canonical_url)
        .map_err(|why| why.to_string())?;
    if line.sha256.is_none() && line.size.is_none() {
        return Ok(Item { job });
    }
    let sha256 = line.sha256.map(|hex| hex.to_ascii_lowercase());
    let payload = json!({"sha256": sha256, "size": line.size}).to_string();
    let job = job.with_payload(&payload).map_err(|why| why.to_string())?;
    Ok(Item { job })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<Item, Bad>> {
        let lines = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        Manifest { lines, line: 0 }.map(Result::unwrap).collect()
    }

    #[test]
    fn a_bad_line_is_named_and_the_others_are_read() {
        let text = concat!(
            r#"{"work_id": "w", "artifact_id": "a", "canonical_url": "https://example.org/1"}"#,
            "\n\n  \nnot json\n",
            r#"{"work_id": "", "artifact_id": "a", "canonical_url": "https://example.org/2"}"#,
            "\n",
            r#"{"work_id": "w", "artifact_id": "b", "canonical_url": "https://example.org/3", "size": 7, "note": "kept"}"#,
        );
        let read = read(text);
        let bad: Vec<u64> = read
            .iter()
            .filter_map(|item| item.as_ref().err())
            .map(|bad| bad.line)
            .collect();
        assert_eq!((read.len(), bad), (4, vec![4, 5]));
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let lines = Box::new(BufReader::new(std::io::repeat(b'x')));
        let first = Manifest { lines, line: 0 }.next().unwrap();
        assert!(first.is_err_and(|why| why.to_string().contains("line 1")));
    }
}
