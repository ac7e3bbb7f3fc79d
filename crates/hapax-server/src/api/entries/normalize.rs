//! Normalising: what came in from somewhere becomes a flat entry with its keys, ready to be inserted. Nothing is kept.

use axum::extract::State;
use bytes::Bytes;
use hapax::problem::Problem;
use hapax_core::entry::{Column, Fields};
use hapax_intake::{email, telegram, webpage};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::asked::document;
use super::off_the_runtime;
use crate::answer::Answer;
use crate::api::App;
use crate::api::openapi::words::{MailType, NormalizedEntry};
use crate::body::ReceivedBatch;
use crate::problem::{self, Refusal};

/// What the answer for a message or a mail always names, be it null.
const NAMED: [Column; 19] = [
    Column::Source,
    Column::Intent,
    Column::ContentType,
    Column::Title,
    Column::Author,
    Column::CaptureText,
    Column::CleanText,
    Column::Url,
    Column::UrlCanonical,
    Column::RetrievalExcerpt,
    Column::CleanWordCount,
    Column::CleanCharCount,
    Column::ExtractedCharCount,
    Column::LinkCount,
    Column::LinkRatio,
    Column::BoilerplateHeavy,
    Column::LowSignal,
    Column::QualityScore,
    Column::Metadata,
];

/// What every answer names.
const KEYS: [Column; 3] = [
    Column::IdempotencyPolicyKey,
    Column::IdempotencyKeyPrimary,
    Column::IdempotencyKeySecondary,
];

type Entry = Answer<Map<String, Value>>;
type Normalize = fn(&App, Value) -> Result<Map<String, Value>, Problem>;

/// A message as a client sends it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; hapax-intake reads messages")]
pub(in crate::api) struct TelegramMessage {
    #[schema(min_length = 1)]
    text: String,
    #[schema(max_length = 2000)]
    title: Option<String>,
    #[schema(max_length = 2000)]
    author: Option<String>,
    /// What it is kept for.
    intent: Option<String>,
    /// Needed unless the message is about a link.
    source: Option<TelegramSource>,
}

/// Where a message stands.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; hapax-intake reads messages")]
struct TelegramSource {
    chat_id: Option<i64>,
    message_id: Option<i64>,
    /// What the message is about, if that is said beside the text.
    url: Option<String>,
}

/// A mail as a client sends it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; hapax-intake reads mails")]
pub(in crate::api) struct EmailMessage {
    /// The text, HTML, or the whole message.
    #[schema(min_length = 1)]
    raw_text: String,
    #[schema(min_length = 1)]
    from: String,
    subject: String,
    intent: Option<String>,
    source: Option<EmailSource>,
    /// In-Reply-To, References, List-* and others.
    headers: Option<Map<String, Value>>,
    /// If it is known.
    #[schema(value_type = Option<MailType>)]
    content_type: Option<String>,
    /// The policy of its type, or email_thread_refs_v1 to keep threads by their references.
    idempotency_policy_key: Option<String>,
}

/// Where a mail comes from.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; hapax-intake reads mails")]
struct EmailSource {
    message_id: Option<String>,
    /// RFC 3339 or RFC 5322.
    date: Option<String>,
}

/// A page as a client sends it: `text`, or else `html`, or else `clean_text`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; hapax-intake reads pages")]
pub(in crate::api) struct WebPage {
    text: Option<String>,
    html: Option<String>,
    clean_text: Option<String>,
    capture_text: Option<String>,
    content_type: Option<String>,
    intent: Option<String>,
    url: Option<String>,
    url_canonical: Option<String>,
    excerpt: Option<String>,
    title: Option<String>,
    author: Option<String>,
}

/// Normalises a message of Telegram: a thought, a note or a link.
#[utoipa::path(post, path = "/normalize/telegram", operation_id = "normalize_telegram",
    request_body(content = TelegramMessage, example = json!({
        "text": "Read https://example.org/tea", "source": {"chat_id": -5, "message_id": 7}
    })),
    responses((status = 200, description = "A flat entry.", body = NormalizedEntry)))]
pub(in crate::api) async fn telegram(
    State(app): State<App>,
    ReceivedBatch(bytes): ReceivedBatch,
) -> Result<Entry, Refusal> {
    normalized(app, bytes, |app, document| {
        let fields = telegram::normalize(document, &app.tracking);
        Ok(named(fields.map_err(|refusal| problem::intake(&refusal))?))
    })
    .await
}

/// Normalises a mail: a newsletter or a thread.
#[utoipa::path(post, path = "/normalize/email", operation_id = "normalize_email",
    request_body(content = EmailMessage, example = json!({
        "raw_text": "The harvest was good this year.", "from": "Ada <ada@example.org>", "subject": "Tea news",
        "source": {"message_id": "<1@example.org>", "date": "2026-01-31T12:00:00Z"}
    })),
    responses((status = 200, description = "A flat entry.", body = NormalizedEntry)))]
pub(in crate::api) async fn email(
    State(app): State<App>,
    ReceivedBatch(bytes): ReceivedBatch,
) -> Result<Entry, Refusal> {
    normalized(app, bytes, |_, document| {
        let fields = email::normalize(document);
        Ok(named(fields.map_err(|refusal| problem::intake(&refusal))?))
    })
    .await
}

/// Normalises a web page. Its answer may go over an entry that is there, so of the columns that it says nothing of it names only the
/// keys, which nothing goes over: a null would empty another.
#[utoipa::path(post, path = "/normalize/webpage", operation_id = "normalize_webpage",
    request_body(content = WebPage, example = json!({
        "text": "Water first, then leaves.", "url": "https://example.org/tea/?utm_source=x#top"
    })),
    responses((status = 200, description = "A flat entry.", body = NormalizedEntry)))]
pub(in crate::api) async fn webpage(
    State(app): State<App>,
    ReceivedBatch(bytes): ReceivedBatch,
) -> Result<Entry, Refusal> {
    normalized(app, bytes, |app, document| {
        let page = webpage::normalize(document, &app.tracking);
        let page = page.map_err(|refusal| problem::intake(&refusal))?;
        Ok(with_nulls(page.into_json(), &KEYS))
    })
    .await
}

async fn normalized(app: App, bytes: Bytes, normalize: Normalize) -> Result<Entry, Refusal> {
    let entry = off_the_runtime(move || normalize(&app, document(&bytes)?));
    Ok(Answer(entry.await??))
}

fn named(fields: Fields) -> Map<String, Value> {
    with_nulls(with_nulls(fields.into_json(), &NAMED), &KEYS)
}

fn with_nulls(mut entry: Map<String, Value>, columns: &[Column]) -> Map<String, Value> {
    for column in columns {
        entry.entry(column.as_str()).or_insert(Value::Null);
    }
    entry
}
