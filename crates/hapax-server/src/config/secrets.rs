//! Secrets of the environment. They are never in a file and never part of a [`Config`](super::Config), which may be shown.

use anyhow::Result;

use crate::exit::Usage;

/// The fewest characters of HAPAX_TOKEN. A shorter one can be guessed, and whoever has it owns the data.
const TOKEN_CHARS_MIN: usize = 16;

/// The owner token that HAPAX_TOKEN sets, if it does. It is never part of a [`Config`], which may be shown.
///
/// # Errors
/// [`Usage`] when it cannot be sent in a header, or is so short that it can be guessed.
pub(crate) fn token() -> Result<Option<String>> {
    let value = std::env::var_os("HAPAX_TOKEN");
    value.map_or(Ok(None), |value| token_of(value.to_str()))
}

fn token_of(value: Option<&str>) -> Result<Option<String>> {
    // Spaces around a token in a header do not count, so they do not here.
    match value.map(str::trim) {
        Some("") => Ok(None),
        None => Err(uncarried()),
        Some(text) if text.chars().any(char::is_control) => Err(uncarried()),
        Some(text) if text.chars().count() < TOKEN_CHARS_MIN => Err(Usage::error(format!(
            "HAPAX_TOKEN has fewer than {TOKEN_CHARS_MIN} characters, and whoever guesses it owns the data\n\
             hint: make one with: openssl rand -hex 32"
        ))),
        Some(text) => Ok(Some(text.to_owned())),
    }
}

fn uncarried() -> anyhow::Error {
    Usage::hinted(
        "HAPAX_TOKEN holds what no header can carry",
        "make one with: openssl rand -hex 32",
    )
}

/// The token for the gateway that GATEWAY_BEARER_TOKEN sets, if it does. It is never part of a [`Config`].
///
/// # Errors
/// [`Usage`] when it is not text.
pub(crate) fn gateway_token() -> Result<Option<String>> {
    match std::env::var("GATEWAY_BEARER_TOKEN") {
        Ok(token) => Ok(Some(token).filter(|token| !token.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Usage::error("GATEWAY_BEARER_TOKEN is not UTF-8"))
        }
    }
}

/// The variables that hold the key of LiteLLM.
pub(super) const LITELLM_KEYS: [&str; 2] = ["HAPAX_LITELLM_MASTER_KEY", "LITELLM_MASTER_KEY"];

/// The key of LiteLLM, if it is set. It is never part of a [`Config`].
///
/// # Errors
/// [`Usage`] when it is not text.
pub(crate) fn litellm_key() -> Result<Option<String>> {
    for name in LITELLM_KEYS {
        match std::env::var(name) {
            Ok(key) if !key.trim().is_empty() => return Ok(Some(key.trim().to_owned())),
            Ok(_) | Err(std::env::VarError::NotPresent) => {}
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(Usage::error(format!("{name} is not UTF-8")));
            }
        }
    }
    Ok(None)
}

/// The variable that holds the secret of Telegram's webhook.
pub(crate) const TELEGRAM_SECRET: &str = "HAPAX_TELEGRAM_SECRET";

/// The secret of Telegram's webhook, if it is set. It is never part of a [`Config`].
///
/// # Errors
/// [`Usage`] when it is none that the Bot API takes.
pub(crate) fn telegram_secret() -> Result<Option<String>> {
    let Some(value) = std::env::var_os(TELEGRAM_SECRET).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match value.to_str() {
        Some(text) if text.len() <= 256 && text.bytes().all(is_taken) => Ok(Some(text.to_owned())),
        Some(_) | None => Err(Usage::error(format!(
            "{TELEGRAM_SECRET} is not 1 to 256 letters, digits, '_' and '-'"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_sixteen_characters_or_there_is_none() {
        let long = "0123456789abcdef";
        for none in ["", "  ", "\t\n"] {
            assert_eq!(token_of(Some(none)).unwrap(), None);
        }
        for (text, token) in [
            (long, long),
            (" 0123456789abcdef ", long),
            ("sixteen with spä", "sixteen with spä"),
        ] {
            assert_eq!(token_of(Some(text)).unwrap().as_deref(), Some(token));
        }
        for short in [
            "zq7",
            "0123456789abcde",
            "   0123456789abcde   ",
            "ääääääääääääääa",
        ] {
            let refused = token_of(Some(short)).unwrap_err();
            assert!(refused.is::<Usage>(), "{short}");
            let said = refused.to_string();
            assert!(said.contains("\nhint: ") && !said.contains(short), "{said}");
        }
        for odd in [Some("0123456789\u{7}abcdef"), None] {
            assert!(token_of(odd).unwrap_err().is::<Usage>());
        }
    }
}
