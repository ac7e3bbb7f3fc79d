//! Texts are put into a batch. It is kept here first and sent later, so it is taken whether or not the provider is there.

use std::collections::HashSet;

use axum::Extension;
use axum::extract::State;
use futures_util::{StreamExt, TryStreamExt, stream};
use hapax_core::Tenant;
use hapax_core::entry::{ItemText, NewBatch, NewItem, Row, Schema, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::not_configured;
use crate::answer::Answer;
use crate::api::App;
use crate::api::openapi::words::{BatchState, EntrySchema};
use crate::body::Batch;
use crate::enrich::schedule::FORCE;
use crate::import::asked;
use crate::problem::{self, Refusal};

/// How many entries are read at a time.
const AT_A_TIME: usize = 16;
/// How many faults of items are listed.
const FAULTS_MAX: usize = 1000;
/// The largest metadata, as JSON.
const METADATA_BYTES_MAX: usize = 16 << 10;

/// Texts to be enriched.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EnrichBatchBody)]
pub(in crate::api) struct BatchBody {
    /// In at most 32 MiB. What is over 150 MB at the provider is sent in several parts, one after the other.
    #[schema(value_type = Vec<ItemBody>, min_items = 1, max_items = 50000)]
    items: Vec<Value>,
    /// How long it may take, in hours or days.
    #[schema(pattern = "^[1-9][0-9]{0,3}[hd]$", default = "24h")]
    completion_window: Option<String>,
    /// At most 16 KiB; names that begin with hapax_ are ours.
    metadata: Option<Map<String, Value>>,
    /// true: ask the model again, whatever is recorded.
    force: Option<bool>,
}

/// A batch that is kept.
#[derive(Serialize, ToSchema)]
#[schema(as = QueuedBatch)]
pub(in crate::api) struct Queued {
    batch_id: String,
    #[schema(value_type = BatchState)]
    status: &'static str,
    #[schema(value_type = EntrySchema)]
    schema: &'static str,
    request_count: u64,
}

/// One of them: an entry's text, or one that comes along. Other members, as a row of entries has them, are passed over.
#[derive(Deserialize, ToSchema)]
#[schema(as = EnrichItem)]
struct ItemBody {
    /// The entry whose text it is; without one the text comes along.
    entry_id: Option<i64>,
    title: Option<String>,
    author: Option<String>,
    content_type: Option<String>,
    clean_text: Option<String>,
}

type Faults = Vec<(String, String)>;

/// Keeps a batch. Where it goes is decided once, for all of its items.
#[utoipa::path(post, path = "/enrich/t1/batch", operation_id = "enrich_batch",
    request_body(content = BatchBody, example = json!({
        "items": [{"title": "Tea", "clean_text": "Water first, then leaves."}], "completion_window": "24h"
    })),
    responses((status = 200, description = "It is kept, and sent later.", body = Queued)),
    extensions(("x-codes" = json!(["llm_not_configured"]))))]
pub(in crate::api) async fn add(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Batch(body): Batch<BatchBody>,
) -> Result<Answer<Queued>, Refusal> {
    let most = NewBatch::ITEMS_MAX;
    if body.items.len() > most {
        let message = format!("a batch has at most {most} items; send several");
        let problem = problem::too_large(message)
            .with_detail("items_max", most)
            .with_detail("items", body.items.len());
        return Err(problem.into());
    }
    let mut faults = Faults::new();
    if body.items.is_empty() {
        faults.push(("/items".to_owned(), "is empty".to_owned()));
    }
    let window = body.completion_window;
    let window = window.unwrap_or_else(|| asked::WINDOW.to_owned());
    if !asked::is_window(&window) {
        let why = "is not a number of hours or days such as 24h";
        faults.push(("/completion_window".to_owned(), why.to_owned()));
    }
    let metadata = metadata(body.metadata, body.force, &mut faults);
    let read: Vec<Option<ItemBody>> = body
        .items
        .into_iter()
        .enumerate()
        .map(|(index, item)| read(index, item, &mut faults))
        .collect();
    is_there_twice(&read, &mut faults);
    if !faults.is_empty() {
        return Err(problem::schema(&faults).into());
    }
    if !app.enrich.is_configured() {
        return Err(not_configured().into());
    }
    let schema = Schema::of_test_mode(app.store.entries.test_mode(tenant).await?);
    let items = texts(&app, tenant, schema, read).await?;
    let new = NewBatch {
        id: Uuid::now_v7(),
        completion_window: window,
        metadata,
        items,
    };
    let target = Target::Pinned(schema);
    let batch = app.store.batches.add_batch(tenant, target, new).await?;
    app.enrich.nudge();
    Ok(Answer(Queued {
        batch_id: batch.id.to_string(),
        status: batch.state.status.as_str(),
        schema: batch.schema.as_str(),
        request_count: batch.request_count,
    }))
}

fn metadata(
    given: Option<Map<String, Value>>,
    force: Option<bool>,
    faults: &mut Faults,
) -> Map<String, Value> {
    let mut metadata = given.unwrap_or_default();
    if json!(metadata).to_string().len() > METADATA_BYTES_MAX {
        let why = format!("has more than {METADATA_BYTES_MAX} bytes");
        faults.push(("/metadata".to_owned(), why));
    }
    if metadata.keys().any(|name| name.starts_with("hapax_")) {
        let why = "has a name that begins with hapax_, which are ours";
        faults.push(("/metadata".to_owned(), why.to_owned()));
    }
    if force == Some(true) {
        metadata.insert(FORCE.to_owned(), json!(true));
    }
    metadata
}

fn read(index: usize, item: Value, faults: &mut Faults) -> Option<ItemBody> {
    let place = |name: &str| format!("/items/{index}{name}");
    let item: ItemBody = match serde_json::from_value(item) {
        Ok(item) => item,
        Err(why) => {
            faults.push((place(""), why.to_string()));
            return None;
        }
    };
    let is_blank = |text: &str| text.trim().is_empty();
    match (&item.clean_text, item.entry_id) {
        (None, None) => {
            let why = "is needed where there is no entry_id";
            faults.push((place("/clean_text"), why.to_owned()));
        }
        (Some(text), _) if is_blank(text) => {
            faults.push((place("/clean_text"), "has no text to enrich".to_owned()));
        }
        (Some(_), _) | (None, Some(_)) => {}
    }
    Some(item)
}

fn is_there_twice(items: &[Option<ItemBody>], faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let entry = item.as_ref().and_then(|item| item.entry_id);
        if entry.is_some_and(|entry| !seen.insert(entry)) {
            let why = "is in the batch already".to_owned();
            faults.push((format!("/items/{index}/entry_id"), why));
        }
    }
}

/// The items, of those that name an entry the fingerprint of its text: a large batch does not hold the texts of entries.
async fn texts(
    app: &App,
    tenant: Tenant,
    schema: Schema,
    items: Vec<Option<ItemBody>>,
) -> Result<Vec<NewItem>, Refusal> {
    let target = Target::Pinned(schema);
    let one = |item: ItemBody| async move {
        let row = match item.entry_id {
            Some(entry_id) => app.store.entries.entry(tenant, target, entry_id).await?,
            None => None,
        };
        Ok::<_, Refusal>(text(item, row))
    };
    let mut found = stream::iter(items.into_iter().flatten().map(one)).buffered(AT_A_TIME);
    let (mut made, mut faults) = (Vec::new(), Faults::new());
    let mut index = 0;
    while let Some(item) = found.try_next().await? {
        match item {
            Ok(item) => made.push(item),
            Err((name, why)) if faults.len() < FAULTS_MAX => {
                faults.push((format!("/items/{index}/{name}"), why.to_owned()));
            }
            Err(_) => {}
        }
        index += 1;
    }
    if faults.is_empty() {
        Ok(made)
    } else {
        Err(problem::schema(&faults).into())
    }
}

fn text(item: ItemBody, row: Option<Row>) -> Result<NewItem, (&'static str, &'static str)> {
    let given = ItemText {
        title: item.title,
        author: item.author,
        content_type: item.content_type,
        clean_text: item.clean_text.unwrap_or_default(),
    };
    if item.entry_id.is_none() {
        return Ok(NewItem::Own(given));
    }
    let Some(row) = row else {
        return Err(("entry_id", "names no entry of the active schema"));
    };
    let Some(of_entry) = NewItem::of_row(&row) else {
        return Err(("entry_id", "names an entry that has no text to enrich"));
    };
    let text = ItemText::of(&row.fields);
    let differs =
        |given: &Option<String>, there: &Option<String>| given.is_some() && given != there;
    let is_other = (!given.clean_text.is_empty() && given.clean_text != text.clean_text)
        || differs(&given.title, &text.title)
        || differs(&given.author, &text.author)
        || differs(&given.content_type, &text.content_type);
    if is_other {
        let why = "the text is not that of the entry; leave it out, or change the entry first";
        return Err(("entry_id", why));
    }
    Ok(of_entry)
}
