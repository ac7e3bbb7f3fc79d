//! Normalising: what came in from somewhere becomes a flat entry with its keys, ready to be inserted. Nothing is kept.

use axum::Json as Answer;
use axum::extract::State;
use bytes::Bytes;
use hapax::problem::Problem;
use hapax_core::entry::{Column, Fields};
use hapax_intake::{email, telegram, webpage};
use serde_json::{Map, Value};

use super::asked::document;
use super::off_the_runtime;
use crate::api::App;
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

/// A message of Telegram.
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

/// A mail.
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

/// A web page. Its answer may go over an entry that is there, so of the columns that it says nothing of it names only the
/// keys, which nothing goes over: a null would empty another.
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
