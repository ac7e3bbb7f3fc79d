//! The client of LiteLLM: chats, files and batches by its OpenAI-compatible endpoints, and no others.
//!
//! A call is tried again after 408, 429 and 5xx and when there was no answer, as [`Retry`] says, and waits as long as
//! the provider asks for. Creating a batch is the exception: the provider does not know a second request for the first
//! one, so it is tried again only while nothing was sent. After anything else list the batches and adopt what is there.
//!
//! Every call has a span `llm.call`, metrics and one line in the log.

mod batch;
mod chat;
mod config;
mod error;
mod form;
mod id;
pub(in crate::enrich) mod refusal;
mod send;
mod wait;
mod watch;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use reqwest::{Client, Method};
use serde_json::Value;
use tracing::Instrument;

use crate::client::{install_provider, told};

pub use batch::{
    Batch, BatchCounts, BatchFault, BatchPage, BatchStatus, METADATA_NAME_CHARS_MAX,
    METADATA_PAIRS_MAX, METADATA_VALUE_CHARS_MAX, NewBatch,
};
pub use chat::{ChatAnswer, ChatRequest, Choice, Usage};
pub use config::{LlmConfig, Retry, Secret};
pub use error::LlmError;
pub(in crate::enrich) use error::is_transient_status;
pub use form::BatchFile;
pub use id::{BatchId, FileId, ID_BYTES_MAX};

use form::Form;
use send::{Content, Credentials, Failed, Outgoing, Received};
use watch::{Operation, Watch};

/// The largest answer of a chat, small enough to be recorded as the result of an operation.
pub const CHAT_BYTES_MAX: usize = 768 << 10;
/// The largest page of batches.
pub const PAGE_BYTES_MAX: usize = 8 << 20;
/// The largest file that is uploaded: what providers take.
pub const UPLOAD_BYTES_MAX: u64 = 200_000_000;
/// How many batches one page may have.
pub const PAGE_MAX: usize = 100;
/// The longest time to connect. Within it nothing was sent.
const CONNECT: Duration = Duration::from_secs(5);

/// A provider of language models. Cloning it is cheap.
///
/// It is called where the configuration says and nowhere else: no redirect is followed, and no proxy of the
/// environment is used. Every try has a connection of its own, because one that the other side has just closed would
/// put a call in doubt for nothing. Dropping a future leaves what it asked for in doubt.
#[derive(Clone)]
pub struct Llm {
    client: Client,
    credentials: Credentials,
    config: LlmConfig,
}

impl fmt::Debug for Llm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Llm")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Llm {
    /// The provider that the configuration names. Nothing is sent.
    ///
    /// # Errors
    /// [`LlmError::NotConfigured`] when the URL or the key is not set or cannot be used, or there is no HTTP client.
    pub fn new(config: LlmConfig) -> Result<Self, LlmError> {
        install_provider();
        watch::describe();
        let base = config::base(&config.base_url)?;
        let key = config.key.reveal();
        let refused = |why: &str| LlmError::NotConfigured {
            what: config::KEY,
            why: why.to_owned(),
        };
        if key.trim().is_empty() {
            return Err(refused("is not set"));
        }
        let mut bearer = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| refused("cannot be sent in a header"))?;
        bearer.set_sensitive(true);
        let shortest = config.timeout.min(config.transfer_timeout);
        let client = Client::builder()
            .user_agent(concat!("hapax/", env!("CARGO_PKG_VERSION")))
            .referer(false)
            .retry(reqwest::retry::never())
            .redirect(Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT.min(shortest / 2))
            .build()
            .map_err(|error| LlmError::NotConfigured {
                what: "the HTTP client",
                why: format!("cannot be made: {}", told(&error)),
            })?;
        Ok(Self {
            client,
            credentials: Credentials {
                base,
                bearer,
                key: config.key.clone(),
            },
            config,
        })
    }

    /// Asks a model, and pays for it. A second try is made only when there was no answer or it is sure to be refused
    /// for a while.
    ///
    /// # Errors
    /// [`LlmError`]. An answer without a text is none: see [`ChatAnswer::content`].
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, LlmError> {
        let mut watch = Watch::new(Operation::Chat, &request.model, request.mode.as_str());
        let body = request.body.to_string();
        if self.config.log_prompts {
            watch.text("prompt", &body);
        }
        let outgoing = Outgoing {
            body: Some(Content::json(Bytes::from(body))),
            ..self.outgoing(Method::POST, &["chat", "completions"], CHAT_BYTES_MAX)?
        };
        let received = self.send(&mut watch, Operation::Chat, &outgoing).await;
        let answer = received.and_then(|received| {
            let answer = read_as(&received, ChatAnswer::read)?;
            Ok((received.status, answer))
        });
        if let (true, Ok((_, answer))) = (self.config.log_prompts, &answer) {
            let said = answer
                .choice
                .as_ref()
                .map(|choice| choice.content.to_string());
            watch.text("answer", said.as_deref().unwrap_or_default());
        }
        if let Ok((_, answer)) = &answer {
            watch.used(answer.usage);
        }
        ended(watch, answer)
    }

    /// Uploads the lines of a batch. Done twice it leaves a second file, which nobody looks at.
    ///
    /// # Errors
    /// [`LlmError`]; [`LlmError::TooLarge`] before anything is sent.
    pub async fn upload(&self, lines: BatchFile, file_name: &str) -> Result<FileId, LlmError> {
        if lines.bytes() > UPLOAD_BYTES_MAX {
            return Err(LlmError::TooLarge {
                what: "the file",
                sent: false,
                bytes_max: usize::try_from(UPLOAD_BYTES_MAX).unwrap_or(usize::MAX),
            });
        }
        let unread = |error: std::io::Error| LlmError::Unreachable {
            why: format!("the file of the batch cannot be written: {error}"),
        };
        let form = Form::new(file_name, lines).map_err(unread)?;
        let outgoing = Outgoing {
            body: Some(Content::Form(form)),
            timeout: self.config.transfer_timeout,
            ..self.outgoing(Method::POST, &["files"], CHAT_BYTES_MAX)?
        };
        self.call(Operation::Upload, NO_MODEL, &outgoing, |body| {
            let id = body["id"].as_str().ok_or("the file has no id")?;
            FileId::new(id).map_err(|error| error.to_string())
        })
        .await
    }

    /// Creates a batch. It is tried again only while nothing was sent, since every request makes a batch of its own:
    /// if the error [may have happened](LlmError::may_have_happened), look for the batch before creating another.
    ///
    /// # Errors
    /// [`LlmError`].
    pub async fn create_batch(&self, batch: &NewBatch) -> Result<Batch, LlmError> {
        let body = serde_json::to_vec(batch).map_err(|error| unusable(&error.to_string()))?;
        let outgoing = Outgoing {
            body: Some(Content::json(Bytes::from(body))),
            ..self.outgoing(Method::POST, &["batches"], CHAT_BYTES_MAX)?
        };
        let model = batch.model.as_deref().unwrap_or(NO_MODEL);
        self.call(Operation::CreateBatch, model, &outgoing, Batch::read)
            .await
    }

    /// A batch as it is now.
    ///
    /// # Errors
    /// [`LlmError`].
    pub async fn batch(&self, id: &BatchId) -> Result<Batch, LlmError> {
        let outgoing = self.outgoing(Method::GET, &["batches", id.as_str()], CHAT_BYTES_MAX)?;
        self.call(Operation::ReadBatch, NO_MODEL, &outgoing, Batch::read)
            .await
    }

    /// The batches that come after this one, the newest first; at most [`PAGE_MAX`] of them.
    ///
    /// # Errors
    /// [`LlmError`].
    pub async fn batches(
        &self,
        after: Option<&BatchId>,
        limit: usize,
    ) -> Result<BatchPage, LlmError> {
        let mut outgoing = self.outgoing(Method::GET, &["batches"], PAGE_BYTES_MAX)?;
        {
            let mut query = outgoing.url.query_pairs_mut();
            query.append_pair("limit", &limit.clamp(1, PAGE_MAX).to_string());
            if let Some(after) = after {
                query.append_pair("after", after.as_str());
            }
        }
        self.call(Operation::ListBatches, NO_MODEL, &outgoing, BatchPage::read)
            .await
    }

    /// The content of a file, whole: at most as much as the configuration says.
    ///
    /// # Errors
    /// [`LlmError`].
    pub async fn content(&self, file: &FileId) -> Result<Bytes, LlmError> {
        let path = ["files", file.as_str(), "content"];
        let outgoing = Outgoing {
            timeout: self.config.transfer_timeout,
            ..self.outgoing(Method::GET, &path, self.config.content_bytes_max)?
        };
        let mut watch = Watch::new(Operation::ReadFile, NO_MODEL, NO_MODE);
        let received = self.send(&mut watch, Operation::ReadFile, &outgoing).await;
        let answer = received.map(|received| (received.status, received.body));
        ended(watch, answer)
    }

    fn outgoing(
        &self,
        method: Method,
        path: &[&str],
        answer_bytes_max: usize,
    ) -> Result<Outgoing, LlmError> {
        // A segment is encoded, so an id leads nowhere else.
        let url = self.credentials.base.join(path.iter().copied());
        Ok(Outgoing {
            method,
            url: url.ok_or_else(|| unusable("a path leads out of it"))?,
            body: None,
            timeout: self.config.timeout,
            answer_bytes_max,
        })
    }

    /// A call whose answer is JSON.
    async fn call<T>(
        &self,
        operation: Operation,
        model: &str,
        outgoing: &Outgoing,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<T, LlmError> {
        let mut watch = Watch::new(operation, model, NO_MODE);
        let received = self.send(&mut watch, operation, outgoing).await;
        let answer = received.and_then(|received| Ok((received.status, read_as(&received, read)?)));
        ended(watch, answer)
    }

    /// Sends it until there is an answer or no other try.
    async fn send(
        &self,
        watch: &mut Watch,
        operation: Operation,
        outgoing: &Outgoing,
    ) -> Result<Received, LlmError> {
        let span = watch.span();
        self.send_in_span(watch, operation, outgoing)
            .instrument(span)
            .await
    }

    async fn send_in_span(
        &self,
        watch: &mut Watch,
        operation: Operation,
        outgoing: &Outgoing,
    ) -> Result<Received, LlmError> {
        loop {
            let number = watch.try_begins();
            let tried = send::attempt(&self.client, &self.credentials, outgoing).await;
            let Failed { error, asked } = match tried {
                Ok(received) => return Ok(received),
                Err(failed) => failed,
            };
            let wait = wait::wait(
                &self.config.retry,
                number,
                asked,
                watch.spent(),
                wait::random_part(),
            );
            let Some(wait) = wait.filter(|_| may_repeat(operation, &error)) else {
                return Err(error);
            };
            watch.will_retry(&error, wait);
            tokio::time::sleep(wait).await;
        }
    }
}

/// Counts the tokens of a line of a batch, which come to light when its output is read.
///
/// ```
/// use hapax_effects::enrich::llm::count_tokens;
/// use hapax_effects::enrich::{Mode, Usage};
///
/// count_tokens("t1-batch", Mode::Whole, Usage { prompt_tokens: 700, completion_tokens: 80 });
/// ```
pub fn count_tokens(model: &str, mode: crate::enrich::Mode, usage: Usage) {
    watch::count_tokens(model, mode.as_str(), usage);
}

/// The labels of a call that asks no model.
const NO_MODEL: &str = "none";
const NO_MODE: &str = "none";

/// Whether the client itself may send this again.
fn may_repeat(operation: Operation, error: &LlmError) -> bool {
    match error {
        LlmError::Unreachable { .. } | LlmError::TimedOut { sent: false, .. } => true,
        // The provider would make another batch.
        _ if operation == Operation::CreateBatch => false,
        LlmError::TimedOut { .. } | LlmError::RateLimited { .. } => true,
        LlmError::Refused { status, .. } => is_transient_status(*status),
        LlmError::NotConfigured { .. } | LlmError::BadAnswer { .. } | LlmError::TooLarge { .. } => {
            false
        }
    }
}

fn read_as<T>(
    received: &Received,
    read: impl FnOnce(&Value) -> Result<T, String>,
) -> Result<T, LlmError> {
    let body: Value = serde_json::from_slice(&received.body).map_err(|error| {
        let why = format!("not JSON: {error}");
        LlmError::BadAnswer { why }
    })?;
    read(&body).map_err(|why| LlmError::BadAnswer { why })
}

fn ended<T>(watch: Watch, answer: Result<(u16, T), LlmError>) -> Result<T, LlmError> {
    watch.ends(answer.as_ref().map(|(status, _)| *status));
    answer.map(|(_, answer)| answer)
}

fn unusable(why: &str) -> LlmError {
    LlmError::NotConfigured {
        what: config::BASE_URL,
        why: format!("makes no request: {why}"),
    }
}
