//! `hapax config`: the defaults, what is in force here, and whether it can be followed. It opens no store.

use anyhow::{Context, Result};
use serde_json::json;
use toml::{Table, Value};

use crate::cli::{ConfigCommand, Plain};
use crate::config::{self, Config};
use crate::out;

const DEFAULT: &str = include_str!("../../../../hapax.default.toml");

pub(super) fn run(args: &ConfigCommand) -> Result<()> {
    match args {
        ConfigCommand::Default => out::bytes(DEFAULT.as_bytes()),
        ConfigCommand::Show { plain } => show(plain),
        ConfigCommand::Check { plain } => check(plain),
    }
}

/// Every key as it is in force, without passwords.
fn show(args: &Plain) -> Result<()> {
    let config = Config::load(&args.store.flags())?;
    let mut table = config.table()?;
    mask(&mut table);
    if args.json {
        return out::json(&serde_json::to_value(&table)?);
    }
    let text = toml::to_string(&table).context("writing the configuration as TOML")?;
    out::bytes(text.as_bytes())
}

fn check(args: &Plain) -> Result<()> {
    let config = Config::load(&args.store.flags())?;
    config.collections()?;
    let misspelt = config::misspelt_variables()?;
    if args.json {
        let misspelt: Vec<_> = misspelt
            .iter()
            .map(|(name, near)| json!({"variable": name, "did_you_mean": near}))
            .collect();
        return out::json(&json!({"ok": true, "misspelt": misspelt}));
    }
    for (name, near) in misspelt {
        out::note(&format!("{name} means nothing; did you mean {near}?"));
    }
    out::line("the configuration can be followed; `hapax doctor` looks at what it names")
}

/// Takes passwords out of every URL.
fn mask(table: &mut Table) {
    for (_, value) in table.iter_mut() {
        mask_value(value);
    }
}

fn mask_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = masked(text),
        Value::Array(items) => items.iter_mut().for_each(mask_value),
        Value::Table(table) => mask(table),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

/// A URL without the password before its host and in its query. Anything else is as it was.
fn masked(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    // A password may hold what a URL should not; the last '@' before the query ends it.
    let (before, query) = match rest.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (rest, None),
    };
    let before = match before.rsplit_once('@') {
        Some((who, host)) => match who.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => before.to_owned(),
        },
        None => before.to_owned(),
    };
    let query = query.map_or(String::new(), |query| {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) if name.to_ascii_lowercase().contains("password") => {
                format!("{name}=***")
            }
            _ => pair.to_owned(),
        });
        format!("?{}", pairs.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{before}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (url, shown) in [
            ("postgres://me:p@ss@db/app", "postgres://me:***@db/app"),
            (
                "postgres://db/app?password=x&sslmode=disable",
                "postgres://db/app?password=***&sslmode=disable",
            ),
            ("redis://:secret@h:1", "redis://:***@h:1"),
            ("http://me@h/p", "http://me@h/p"),
            ("sqlite:a.db", "sqlite:a.db"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
