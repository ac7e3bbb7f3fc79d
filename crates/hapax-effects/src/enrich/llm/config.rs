//! Where the provider is, who we are to it, and how long everything may take.

use std::fmt;
use std::time::Duration;

use url::Url;

use super::LlmError;
use crate::client::Base;

pub(super) const BASE_URL: &str = "OPENAI_BASE_URL";
pub(super) const KEY: &str = "LITELLM_MASTER_KEY";

/// A text that is never shown.
///
/// ```
/// let key = hapax_effects::enrich::Secret::new("sk-1234");
/// assert_eq!(format!("{key:?}"), "[secret]");
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Takes it as it is.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The text itself. It belongs into a header and nowhere else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// How a provider is called.
///
/// ```
/// use hapax_effects::enrich::{Llm, LlmConfig};
///
/// let config = LlmConfig::new("http://litellm:4000/v1", "sk-1234");
/// assert!(!format!("{config:?}").contains("1234"));
/// assert!(Llm::new(config).is_ok());
///
/// let unset = Llm::new(LlmConfig::new("http://litellm:4000/v1", "")).unwrap_err();
/// assert_eq!(unset.to_string(), "LITELLM_MASTER_KEY is not set");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LlmConfig {
    /// OPENAI_BASE_URL: what `/chat/completions` and the other paths are appended to, with or without a last slash.
    /// One without any path means its `/v1`.
    pub base_url: String,
    /// LITELLM_MASTER_KEY.
    pub key: Secret,
    /// How long one try may take, answer included.
    pub timeout: Duration,
    /// The same for the content of a file, up and down.
    pub transfer_timeout: Duration,
    /// When a call is tried again.
    pub retry: Retry,
    /// The largest content of a file that is read.
    pub content_bytes_max: usize,
    /// Whether the log holds what is asked and answered, cut. It is somebody's text: off unless told.
    pub log_prompts: bool,
}

impl LlmConfig {
    /// The provider at `base_url`, with everything else as usual.
    pub fn new(base_url: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            key: Secret::new(key),
            timeout: Duration::from_secs(60),
            transfer_timeout: Duration::from_secs(300),
            retry: Retry::default(),
            content_bytes_max: 256 << 20,
            log_prompts: false,
        }
    }
}

/// When a call is tried again: after 408, 429 and 5xx, and when there was no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// How many tries there are at most, the first included.
    pub tries_max: u32,
    /// No try begins later than this after the first one began.
    pub total: Duration,
    /// The span of the first wait. It doubles with every try, and a random part of it is waited.
    pub base: Duration,
    /// The longest span.
    pub cap: Duration,
    /// The longest wait that the provider may ask for. If it asks for more, the call ends, and says so.
    pub patience: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            tries_max: 4,
            total: Duration::from_secs(120),
            base: Duration::from_millis(500),
            cap: Duration::from_secs(10),
            patience: Duration::from_secs(30),
        }
    }
}

impl Retry {
    /// One try and no more.
    #[must_use]
    pub fn never() -> Self {
        Self {
            tries_max: 1,
            ..Self::default()
        }
    }
}

/// The base without its last slash, and with `/v1` where it has no path.
pub(super) fn base(text: &str) -> Result<Base, LlmError> {
    let refused = |why: String| LlmError::NotConfigured {
        what: BASE_URL,
        why,
    };
    if text.trim().is_empty() {
        return Err(refused("is not set".to_owned()));
    }
    let mut url =
        Url::parse(text.trim()).map_err(|error| refused(format!("is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("must begin with http:// or https://".to_owned()));
    }
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    if has_credentials || url.query().is_some() || url.fragment().is_some() {
        let why = "must not hold credentials, a query or a fragment";
        return Err(refused(why.to_owned()));
    }
    if url.path().trim_end_matches('/').is_empty() {
        url.set_path("/v1");
    }
    Ok(Base::new(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_appended_to_the_base_and_a_bare_host_means_its_v1() {
        for (given, meant) in [
            ("http://litellm:4000/v1", "http://litellm:4000/v1"),
            ("http://litellm:4000/v1/", "http://litellm:4000/v1"),
            (" http://litellm:4000 ", "http://litellm:4000/v1"),
            ("http://litellm:4000//", "http://litellm:4000/v1"),
            ("https://x.example/llm/v1", "https://x.example/llm/v1"),
            ("https://x.example/openai", "https://x.example/openai"),
        ] {
            assert_eq!(base(given).unwrap().as_str(), meant, "{given}");
        }
        for wrong in [
            "",
            " ",
            "litellm:4000",
            "/v1",
            "file:///etc/passwd",
            "http://me:secret@litellm/v1",
            "http://litellm/v1?key=secret",
            "http://litellm/v1#secret",
        ] {
            let Err(refused) = base(wrong) else {
                panic!("{wrong} is taken");
            };
            assert!(!refused.to_string().contains("secret"), "{refused}");
            assert_eq!(refused.http_status(), 503);
        }
    }
}
