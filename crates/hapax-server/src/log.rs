//! Log lines on standard error: text on a terminal, JSON in a pipe, or as configured.

use std::io::IsTerminal;

use anyhow::Result;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};
use crate::exit::Usage;

/// Starts logging as `config` says.
///
/// # Errors
/// [`Usage`] when the filter cannot be read.
pub(crate) fn start(config: &Config) -> Result<()> {
    let filter = EnvFilter::try_new(&config.log)
        .map_err(|why| Usage::error(format!("log = {:?}: {why}", config.log)))?;
    let terminal = std::io::stderr().is_terminal();
    let coloured = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(coloured)
        // A line that cannot be written is lost; complaining about it on the same stream would panic.
        .log_internal_errors(false);
    let json = match config.log_format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !terminal,
    };
    if json {
        lines.json().flatten_event(true).init();
    } else {
        lines.init();
    }
    Ok(())
}
