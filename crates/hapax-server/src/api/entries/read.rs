//! Reading entries: the last ones, those with some words, and one of them whole.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use hapax::problem::Problem;
use hapax_core::entry::{Column, Search, Sort, Target};
use hapax_core::{Tenant, Time};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::asked::returning;
use crate::answer::Answer;
use crate::api::App;
use crate::api::openapi::words::{ColumnName, EntryNumber, EntryRow};
use crate::api::payload::invalid;
use crate::body::{Json, Optional};
use crate::problem::{self, Refusal};

const LIMIT_USUAL: usize = 50;
pub(super) const DAYS_MAX: u64 = 36_500;
pub(super) const WORDS_CHARS_MAX: usize = 1000;
/// As many as a store looks for.
pub(super) const WORDS_MAX: usize = 100;
/// No source has a longer name that could be asked for.
pub(super) const SOURCE_CHARS_MAX: usize = 1000;

/// What a found row holds beside the usual columns.
const BESIDES: [Column; 8] = [
    Column::RetrievalExcerpt,
    Column::QualityScore,
    Column::TopicPrimary,
    Column::TopicPrimaryConfidence,
    Column::TopicSecondary,
    Column::TopicSecondaryConfidence,
    Column::Keywords,
    Column::Gist,
];

type Rows = Answer<Vec<Map<String, Value>>>;

/// How many of the last days, and how many rows; only those with these words, if there are any.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReadLastBody)]
pub(in crate::api) struct LastBody {
    /// Words that an entry must have.
    #[schema(max_length = 1000)]
    q: Option<String>,
    #[schema(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u64>,
    /// Only entries of so many last days.
    #[schema(minimum = 1, maximum = 36_500)]
    days: Option<u64>,
    /// The columns of the answer.
    #[schema(value_type = Option<Vec<ColumnName>>, max_items = 100)]
    returning: Option<Value>,
}

/// The same with words.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReadFindBody)]
pub(in crate::api) struct FindBody {
    /// Words that an entry must have.
    #[schema(max_length = 1000)]
    q: String,
    #[schema(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u64>,
    /// Only entries of so many last days.
    #[schema(minimum = 1, maximum = 36_500)]
    days: Option<u64>,
    /// The columns of the answer.
    #[schema(value_type = Option<Vec<ColumnName>>, max_items = 100)]
    returning: Option<Value>,
}

/// Reads the newest entries.
#[utoipa::path(post, path = "/db/read/last", operation_id = "read_last",
    request_body(content = Option<LastBody>, example = json!({"days": 7, "limit": 20})),
    responses((status = 200, description = "The rows.", body = Vec<EntryRow>)))]
pub(in crate::api) async fn last(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Optional(body): Optional<LastBody>,
) -> Result<Rows, Refusal> {
    let columns = columns(body.returning.as_ref())?;
    let asked = body.q.filter(|q| !q.trim().is_empty());
    let search = Search {
        words: asked.map(words).transpose()?,
        source: None,
        since: since(&app, body.days)?,
        before: None,
        sort: Sort::Newest,
        limit: limit(body.limit)?,
    };
    rows(&app, tenant, search, &columns).await
}

/// Finds the entries that have these words, those that match best first.
#[utoipa::path(post, path = "/db/read/find", operation_id = "read_find",
    request_body(content = FindBody, example = json!({"q": "tea", "limit": 20})),
    responses((status = 200, description = "The rows.", body = Vec<EntryRow>)))]
pub(in crate::api) async fn find(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Json(body): Json<FindBody>,
) -> Result<Rows, Refusal> {
    search(&app, tenant, body, Sort::Best).await
}

/// Goes on where one was: the entries that have these words, the newest first.
#[utoipa::path(post, path = "/db/read/continue", operation_id = "read_continue",
    request_body(content = FindBody, example = json!({"q": "tea", "days": 30})),
    responses((status = 200, description = "The rows.", body = Vec<EntryRow>)))]
pub(in crate::api) async fn go_on(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Json(body): Json<FindBody>,
) -> Result<Rows, Refusal> {
    search(&app, tenant, body, Sort::Newest).await
}

/// Which entry to show whole.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReadPullBody)]
pub(in crate::api) struct PullBody {
    #[schema(value_type = EntryNumber)]
    entry_id: Value,
}

/// Reads one entry with all its columns.
#[utoipa::path(post, path = "/db/read/pull", operation_id = "read_pull",
    request_body(content = PullBody, example = json!({"entry_id": 1})),
    responses((status = 200, description = "The entry.", body = EntryRow)),
    extensions(("x-codes" = json!(["not_found"]))))]
pub(in crate::api) async fn pull(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Json(body): Json<PullBody>,
) -> Result<Answer<Map<String, Value>>, Refusal> {
    let number = body.entry_id.as_i64();
    let number = number.or_else(|| body.entry_id.as_str().and_then(|text| text.parse().ok()));
    let number = number.ok_or_else(|| invalid("entry_id", "is not a whole number"))?;
    let found = app.store.entries.entry(tenant, Target::Active, number);
    let row = found.await?.ok_or_else(problem::not_found)?;
    Ok(Answer(row.to_json(Column::ALL)))
}

async fn search(app: &App, tenant: Tenant, body: FindBody, sort: Sort) -> Result<Rows, Refusal> {
    let columns = columns(body.returning.as_ref())?;
    let search = Search {
        words: Some(words(body.q)?),
        source: None,
        since: since(app, body.days)?,
        before: None,
        sort,
        limit: limit(body.limit)?,
    };
    rows(app, tenant, search, &columns).await
}

async fn rows(
    app: &App,
    tenant: Tenant,
    search: Search,
    columns: &[Column],
) -> Result<Rows, Refusal> {
    let found = app
        .store
        .entries
        .search_entries(tenant, Target::Active, search);
    let rows = found.await?;
    Ok(Answer(
        rows.iter().map(|row| row.to_json(columns)).collect(),
    ))
}

pub(super) fn columns(names: Option<&Value>) -> Result<Vec<Column>, Problem> {
    let asked = names.map(returning).transpose()?.flatten();
    Ok(asked.unwrap_or_else(|| [&Column::DEFAULT_ROW[..], &BESIDES].concat()))
}

pub(super) fn words(text: String) -> Result<String, Problem> {
    if text.trim().is_empty() {
        return Err(invalid("q", "has no words"));
    }
    if text.chars().nth(WORDS_CHARS_MAX).is_some() {
        let message = format!("is longer than the {WORDS_CHARS_MAX} characters allowed");
        return Err(invalid("q", message));
    }
    if text.split_whitespace().nth(WORDS_MAX).is_some() {
        return Err(invalid("q", format!("has more than {WORDS_MAX} words")));
    }
    if text.contains('\0') {
        return Err(invalid(
            "q",
            "holds the character U+0000, which no entry has",
        ));
    }
    Ok(text)
}

fn since(app: &App, days: Option<u64>) -> Result<Option<Time>, Problem> {
    match days {
        None => Ok(None),
        Some(days @ 1..=DAYS_MAX) => Ok(Some(before(app.store.ledger.now(), days))),
        Some(_) => Err(invalid("days", format!("must be from 1 to {DAYS_MAX}"))),
    }
}

fn before(now: Time, days: u64) -> Time {
    let span = Duration::from_secs(days * 86_400);
    let ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    Time::from_ms(now.as_ms().saturating_sub(ms))
}

fn limit(limit: Option<u64>) -> Result<usize, Problem> {
    let most = Search::LIMIT_MAX;
    let limit = limit.map_or(Ok(LIMIT_USUAL), usize::try_from);
    match limit {
        Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
        Ok(_) | Err(_) => Err(invalid("limit", format!("must be from 1 to {most}"))),
    }
}
