//! `hapax migrate`: brings the database up to date and says what ran.

use anyhow::Result;
use serde_json::json;

use crate::cli::Plain;
use crate::config::Config;
use crate::out;
use crate::store::{self, Database};

pub(super) async fn run(args: &Plain) -> Result<()> {
    let config = Config::load(&args.store.flags())?;
    let database = Database::of(&config)?;
    let ran = store::migrate(&config).await?;
    let newer = store::newer(&config).await?;
    if args.json {
        return out::json(&json!({"database": database.to_string(), "ran": ran, "newer": newer}));
    }
    if !newer.is_empty() {
        out::line(&format!(
            "{database} is newer than this program, which leaves {} alone",
            newer.join(", ")
        ))?;
    }
    if ran.is_empty() {
        return out::line(&format!("{database} is up to date"));
    }
    out::line(&format!("{database}: ran {}", ran.join(", ")))
}
