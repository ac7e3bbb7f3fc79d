//! `hapax version`: which version this is, and what it was built from.

use anyhow::Result;
use serde_json::json;

use crate::out;

/// The commit, where the build knew it.
const COMMIT: Option<&str> = option_env!("HAPAX_BUILD_COMMIT");
const TARGET: &str = env!("HAPAX_BUILD_TARGET");
/// The stores that are built in.
const FEATURES: [&str; 3] = ["sqlite", "postgres", "redis"];

pub(super) fn run(as_json: bool) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    if as_json {
        return out::json(&json!({
            "name": "hapax",
            "version": version,
            "commit": COMMIT,
            "target": TARGET,
            "features": FEATURES,
        }));
    }
    let commit = COMMIT.map_or("unknown commit", |commit| {
        commit.get(..12).unwrap_or(commit)
    });
    out::line(&format!(
        "hapax {version} ({commit}, {TARGET}; {})",
        FEATURES.join(", ")
    ))
}
