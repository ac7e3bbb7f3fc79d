//! What the command line cannot follow, in the form of every other error: one message, and one hint.

use anyhow::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::Usage;

/// The refusal of a command line; help and the version are printed, and end the process.
pub(super) fn of(why: &clap::Error, arguments: impl Iterator<Item = String>) -> Error {
    match why.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => why.exit(),
        _ => Usage::hinted(message(why), hint(why, arguments)),
    }
}

/// The first words of clap's text, on one line: after them come its tips, the usage and where help is.
fn message(why: &clap::Error) -> String {
    let text = why.render().to_string();
    let said = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("tip:") && !line.starts_with("Usage:"))
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .collect::<Vec<_>>()
        .join(" ");
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}

fn hint(why: &clap::Error, arguments: impl Iterator<Item = String>) -> String {
    let help = format!("`{} --help` explains it", named(arguments));
    let near = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    let near = near
        .into_iter()
        .find_map(|kind| why.get(kind).and_then(joined));
    match near {
        Some(near) => format!("did you mean {near}? {help}"),
        None => help,
    }
}

fn joined(value: &ContextValue) -> Option<String> {
    match value {
        ContextValue::String(one) => Some(one.clone()),
        ContextValue::Strings(some) => Some(some.join(" or ")),
        _ => None,
    }
}

/// The command that the arguments name, as far as there is one.
fn named(arguments: impl Iterator<Item = String>) -> String {
    let (mut at, mut words) = (super::command(), "hapax".to_owned());
    for word in arguments.skip(1).filter(|word| !word.starts_with('-')) {
        if let Some(below) = at.find_subcommand(&word) {
            words = format!("{words} {word}");
            at = below.clone();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use crate::exit::describe;

    fn said(arguments: &[&str]) -> String {
        let why = super::super::command()
            .try_get_matches_from(arguments)
            .unwrap_err();
        describe(&super::of(&why, arguments.iter().map(ToString::to_string)))
    }

    #[test]
    fn a_command_line_that_cannot_be_followed_is_refused_in_one_line_and_a_hint() {
        for (arguments, words) in [
            (
                &["hapax", "keys", "list", "--dat", "d"][..],
                &["--dat", "did you mean --data?", "`hapax keys list --help`"][..],
            ),
            (&["hapax", "kyes"], &["kyes", "keys"]),
            (
                &["hapax", "keys", "list", "--limit", "0"],
                &["--limit", "1..=500", "`hapax keys list --help`"],
            ),
            (
                &["hapax", "serve", "--redis-mode", "cash"],
                &["cash", "cache, ledger", "did you mean cache?"],
            ),
            (
                &["hapax", "token", "revoke"],
                &["<ID>", "`hapax token revoke --help`"],
            ),
            (
                &["hapax", "token", "create", "--role", "king"],
                &["king", "owner, writer"],
            ),
            (
                &["hapax", "import", "mbox", "x", "--nonsense"],
                &["--nonsense", "`hapax import mbox --help`"],
            ),
        ] {
            let said = said(arguments);
            for word in words {
                assert!(said.contains(word), "{word}: {said}");
            }
            assert_eq!(said.lines().count(), 2, "{said}");
            assert_eq!(said.matches("hint: ").count(), 1, "{said}");
            assert!(!said.contains("error:") && !said.contains("tip:"), "{said}");
        }
    }
}
