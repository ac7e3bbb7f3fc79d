//! Log lines on standard error: text on a terminal, JSON in a pipe, or as configured.

use std::io::IsTerminal;

use anyhow::Result;
use tracing_subscriber::EnvFilter;

use crate::config::{self, Config, LogFormat};
use crate::exit::Usage;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts logging as `config` says.
///
/// # Errors
/// [`Usage`] when the filter cannot be read.
pub(crate) fn start(config: &Config) -> Result<()> {
    let filter = filter(&config.log)?;
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

/// Warns of variables that are close to one of ours and mean nothing.
///
/// # Errors
/// When the defaults cannot be listed.
pub(crate) fn misspelt() -> Result<()> {
    for (name, near) in config::misspelt_variables()? {
        tracing::warn!(name, "this variable means nothing; did you mean {near}?");
    }
    Ok(())
}

/// The filter that `log` or `HAPAX_LOG` says.
///
/// # Errors
/// [`Usage`] for a word that is no level: it would be taken for the name of a module, and log everything or nothing.
pub(crate) fn filter(log: &str) -> Result<EnvFilter> {
    let refuse = |part: &str| {
        let which = if part == log {
            "which is".to_owned()
        } else {
            format!("and {part:?} is")
        };
        Usage::hinted(
            format!("log (HAPAX_LOG) is {log:?}, {which} no level"),
            format!(
                "it takes {}; or MODULE=LEVEL, separated by commas",
                LEVELS.join(", ")
            ),
        )
    };
    for part in log
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        let is_level = LEVELS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(level.trim()));
        if !is_level {
            return Err(refuse(part));
        }
    }
    EnvFilter::try_new(log).map_err(|_| refuse(log))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused_with_those_that_are() {
        for taken in [
            "",
            "info",
            "WARN",
            "info,hapax=debug",
            "hapax_store[sweep]=trace, error",
        ] {
            assert!(filter(taken).is_ok(), "{taken}");
        }
        for wrong in ["loud", "info,hapax", "hapax=loud", "3x", "=", "a[=info"] {
            let said = filter(wrong).unwrap_err().to_string();
            assert!(
                said.contains("off, error, warn, info, debug, trace"),
                "{said}"
            );
        }
    }
}
