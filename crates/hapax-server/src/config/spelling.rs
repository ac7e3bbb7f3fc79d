//! What a misspelt key or variable was meant to be. It changes nothing.

use anyhow::Result;

use super::{Config, proxy, variable};
use crate::exit::Usage;

const UNKNOWN: &str = "unknown field `";
/// Variables of other programs around hapax: its clients, its tests, whatever starts it.
const FOREIGN: [&str; 4] = ["HAPAX_URL", "HAPAX_BIN", "HAPAX_HOME", "HAPAX_VERSION"];
/// Variables that are no key of the config file.
const OWN: [&str; 6] = [
    "HAPAX_CONFIG",
    "HAPAX_TOKEN",
    "HAPAX_DASHBOARD_DIR",
    "HAPAX_KEK",
    "HAPAX_KEK_PREVIOUS",
    super::TELEGRAM_SECRET,
];

/// The name among `known` that `word` is closest to, if it is close at all.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let apart = |name: &str| {
        let typed = strsim::damerau_levenshtein(word, name);
        // Words in another order are the same words.
        typed.min(1 + strsim::damerau_levenshtein(&in_order(word), &in_order(name)))
    };
    let near = known.map(|name| (apart(name), name)).min();
    near.filter(|(apart, name)| *apart <= word.len().max(name.len()) / 4 + 1)
        .map(|(_, name)| name)
}

fn in_order(word: &str) -> String {
    let mut parts: Vec<&str> = word.split('_').collect();
    parts.sort_unstable();
    parts.join("_")
}

/// The refusal that says `text`. One of an unknown key says what was meant, and not what else there is.
pub(super) fn refused(text: &str) -> anyhow::Error {
    let Some((before, after)) = text.split_once(UNKNOWN) else {
        return Usage::error(text.trim_end());
    };
    let (word, others) = after.split_once('`').unwrap_or((after, ""));
    // The names that would be taken stand in code marks.
    let known = others.split('`').skip(1).step_by(2);
    let hint = match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`? `hapax config default` lists every key"),
        None => "`hapax config default` lists every key".to_owned(),
    };
    Usage::hinted(format!("{before}unknown key `{word}`"), hint)
}

/// Variables that are close to one of ours and mean nothing, each with the one that was meant. What is close to none belongs
/// to another program.
pub(crate) fn misspelt_variables() -> Result<Vec<(String, String)>> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    misspelt(names)
}

fn misspelt(names: impl Iterator<Item = String>) -> Result<Vec<(String, String)>> {
    let known = known()?;
    let is_foreign = |name: &str| {
        !name.starts_with("HAPAX_") || name.starts_with("HAPAX_TEST_") || FOREIGN.contains(&name)
    };
    let mut found = Vec::new();
    for name in names.filter(|name| !is_foreign(name) && !known.contains(name)) {
        let bare = name.trim_start_matches("HAPAX_");
        let words = known.iter().map(|known| known.trim_start_matches("HAPAX_"));
        if let Some(near) = nearest(bare, words) {
            let near = format!("HAPAX_{near}");
            found.push((name, near));
        }
    }
    Ok(found)
}

/// Every variable that means something.
fn known() -> Result<Vec<String>> {
    let keys = Config::default().table()?;
    let own = OWN.into_iter().chain(super::LITELLM_KEYS);
    let own = own.chain([crate::auth::SESSION_SECRET]).map(str::to_owned);
    let of_keys = keys.keys().map(|key| variable(key));
    Ok(own.chain(of_keys).chain(proxy::variables()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_variable_is_told_with_the_one_that_was_meant() {
        let of = |name: &str| misspelt([name.to_owned()].into_iter()).unwrap();
        for (wrong, meant) in [
            ("HAPAX_SHUTDWON_MS", "HAPAX_SHUTDOWN_MS"),
            ("HAPAX_MAX_CONNECTIONS", "HAPAX_CONNECTIONS_MAX"),
            ("HAPAX_PROXY_UPSTREM", "HAPAX_PROXY_UPSTREAM"),
            ("HAPAX_LISTEN_", "HAPAX_LISTEN"),
        ] {
            assert_eq!(of(wrong), [(wrong.to_owned(), meant.to_owned())]);
        }
        for other in [
            "HAPAX_URL",
            "HAPAX_BIN",
            "HAPAX_TOKEN",
            "HAPAX_TOKEN_FILE_OF_THE_BOT",
            "HAPAX_TEST_X",
            "HAPAX_LISTEN",
            "PATH",
        ] {
            assert_eq!(of(other), [], "{other}");
        }
    }

    #[test]
    fn an_unknown_key_is_told_with_the_one_that_was_meant() {
        let text = "at line 2: unknown field `lisen`, expected one of `listen`, `data`\n";
        let said = refused(text).to_string();
        assert_eq!(
            said,
            "at line 2: unknown key `lisen`\nhint: did you mean `listen`? `hapax config default` lists every key"
        );
        let far = refused("unknown field `colour`, expected `data`").to_string();
        assert!(!far.contains("did you mean"), "{far}");
        assert_eq!(refused("no such thing\n").to_string(), "no such thing");
    }
}
