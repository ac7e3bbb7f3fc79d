//! How enrichment is set up: the provider, the models, what prompts are made by and how answers are read.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use hapax_core::Fingerprint;
use hapax_effects::enrich::{
    Llm, LlmConfig, LlmError, Parser, Prompt, Retry, Rules, Text, Topics, prompt, request_key,
};

use crate::config::{self, Config};
use crate::exit::Usage;

/// How long a caller is kept waiting for a provider that wants to be left alone.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is left of the time of a request for everything but the provider.
const BESIDE: Duration = Duration::from_secs(4);
/// A provider may take a moment to list what it was just asked for.
const LISTED_LATE: Duration = Duration::from_secs(2);

/// The provider, as it is called for batches and for somebody who waits.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) batches: Llm,
    pub(crate) chats: Llm,
}

/// How enrichment is set up.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `None` while it is not configured.
    pub(crate) provider: Option<Provider>,
    pub(crate) default_model: String,
    pub(crate) batch_model: String,
    pub(crate) rules: Rules,
    pub(crate) parser: Parser,
    /// How often the provider is asked how far a batch is.
    pub(crate) interval: Duration,
    /// How long after its creation was begun a batch that cannot be found is in doubt.
    pub(crate) doubt: Duration,
    /// The data folder.
    data: PathBuf,
}

impl Settings {
    /// What the configuration says.
    ///
    /// # Errors
    /// [`Usage`] when the URL, the key or the topics cannot be used. Not being configured is none.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let topics = match &config.t1_topics[..] {
            [] => Topics::default(),
            names => Topics::new(names).map_err(|why| Usage::error(format!("t1_topics: {why}")))?,
        };
        let interval = Duration::from_millis(config.t1_batch_sync_interval_ms);
        Ok(Self {
            provider: provider(config)?,
            default_model: config.t1_default_model.clone(),
            batch_model: config.t1_batch_model.clone(),
            parser: Parser::new(topics.clone()).strict(config.t1_topics_strict),
            rules: Rules {
                topics,
                topics_strict: config.t1_topics_strict,
                ..Rules::default()
            },
            interval,
            // The request of a process that died may be on its way for as long as any.
            doubt: Duration::from_millis(config.llm_timeout_ms) + LISTED_LATE,
            data: config.data.clone(),
        })
    }

    /// Where the files of batches are while they are sent: a worker beside a database may have no data folder.
    pub(super) fn folder(&self) -> PathBuf {
        if self.data.is_dir() {
            self.data.clone()
        } else {
            std::env::temp_dir()
        }
    }

    /// What every prompt of this process has in common. Two processes that differ in it ask in other words.
    pub(super) fn words(&self) -> String {
        let text = Text {
            clean_text: "hapax",
            ..Text::default()
        };
        let prompt = Prompt::new(&text, &self.rules);
        let whole = self.rules.whole_chars_max.to_be_bytes();
        let key = request_key("", &prompt);
        Fingerprint::of_parts(&[b"hapax t1 words", key.as_bytes(), &whole]).short()
    }

    /// The version of the prompt.
    pub(super) const fn version() -> &'static str {
        prompt::VERSION
    }
}

fn provider(config: &Config) -> Result<Option<Provider>> {
    let key = config::litellm_key()?;
    let has_url = !config.openai_base_url.is_empty();
    let (Some(key), true) = (&key, has_url) else {
        if has_url || key.is_some() {
            tracing::warn!(
                "nothing is enriched: OPENAI_BASE_URL and LITELLM_MASTER_KEY are needed both, and one is set"
            );
        }
        return Ok(None);
    };
    let batches = LlmConfig {
        timeout: Duration::from_millis(config.llm_timeout_ms),
        transfer_timeout: Duration::from_millis(config.llm_transfer_timeout_ms),
        log_prompts: config.llm_log_prompts,
        ..LlmConfig::new(config.openai_base_url.as_str(), key.as_str())
    };
    let most = config.request_timeout();
    let most = most.saturating_sub(BESIDE).max(most / 2);
    let chats = LlmConfig {
        timeout: batches.timeout.min(most),
        retry: Retry {
            tries_max: 3,
            total: most / 2,
            patience: PATIENCE,
            ..Retry::default()
        },
        ..batches.clone()
    };
    let made = |config| Llm::new(config).map_err(|why: LlmError| Usage::error(why.to_string()));
    Ok(Some(Provider {
        batches: made(batches)?,
        chats: made(chats)?,
    }))
}
