//! What is kept: a collection's entities, an entity with its current payload, its history, and one snapshot.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use hapax_core::Tenant;
use hapax_core::snapshot::EntityScan;
use hapax_intake::snapshot::Collection;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::App;
use super::super::jobs::path_parameter;
use super::super::payload::invalid;
use super::super::query::Query;
use super::shown::{ShownEntity, ShownSnapshot, WholeEntity, WholeSnapshot};
use super::{EntityId, page_size, shelf, snapshot_of};
use crate::answer::Answer;
use crate::problem::{self, Refusal};

/// The longest text to search for, in characters.
const SEARCH_CHARS_MAX: usize = 255;
/// How far a list can be skipped.
const OFFSET_MAX: usize = 1_000_000_000;
/// How many rows are read at a time. They come with payloads that no list shows, so this bounds what is in memory.
const STEP_MAX: usize = 64;
/// How many observations of a snapshot are shown.
const OBSERVATIONS_MAX: usize = 100;

/// Which entities to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ListQuery {
    /// Only entities whose id or name has this text.
    #[param(max_length = 255)]
    search: Option<String>,
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// How many entities are passed over.
    #[param(minimum = 0, maximum = 1_000_000_000)]
    offset: Option<usize>,
    /// A `next_cursor`: the same as the offset of the next page.
    cursor: Option<String>,
}

impl ListQuery {
    fn scan(self) -> Result<EntityScan, Refusal> {
        let offset = match (self.offset, self.cursor) {
            (Some(_), Some(_)) => {
                return Err(invalid("cursor", "stands beside offset; send one of them").into());
            }
            (offset, None) => offset.unwrap_or(0),
            (None, Some(cursor)) => cursor
                .parse()
                .map_err(|_| invalid("cursor", "is not a next_cursor of this list"))?,
        };
        if offset > OFFSET_MAX {
            return Err(invalid("offset", format!("must be at most {OFFSET_MAX}")).into());
        }
        let search = self.search.filter(|text| !text.is_empty());
        if let Some(text) = &search
            && (text.chars().nth(SEARCH_CHARS_MAX).is_some() || text.contains('\0'))
        {
            let why = format!("must have at most {SEARCH_CHARS_MAX} characters, and no NUL");
            return Err(invalid("search", why).into());
        }
        Ok(EntityScan {
            search,
            limit: page_size(self.limit, EntityScan::LIMIT_MAX)?,
            offset,
        })
    }
}

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// Lists entities, those that changed last first.
#[utoipa::path(get, path = "/v1/{collection}", operation_id = "list_entities",
    params(ListQuery), responses((status = 200, description = "A page of entities.", body = Page<ShownEntity>)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(collection): Extension<Arc<Collection>>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page<ShownEntity>>, Refusal> {
    let scan = query.scan()?;
    let shelf = shelf(tenant, &collection);
    let mut items = Vec::with_capacity(scan.limit + 1);
    // One more than asked for tells whether there is another page.
    while items.len() <= scan.limit {
        let step = EntityScan {
            search: scan.search.clone(),
            limit: (scan.limit + 1 - items.len()).min(STEP_MAX),
            offset: scan.offset + items.len(),
        };
        let limit = step.limit;
        let found = app.store.snapshots.entities(shelf.clone(), step).await?;
        items.extend(found.iter().map(|it| ShownEntity::of(&collection, it)));
        if found.len() < limit {
            break;
        }
    }
    let more = items.len() > scan.limit;
    items.truncate(scan.limit);
    Ok(Answer(Page {
        items,
        next_cursor: more.then(|| (scan.offset + scan.limit).to_string()),
    }))
}

/// Shows an entity with its current payload.
#[utoipa::path(get, path = "/v1/{collection}/{id}", operation_id = "get_entity",
    responses((status = 200, description = "The entity.", body = WholeEntity)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(collection): Extension<Arc<Collection>>,
    EntityId(id): EntityId,
) -> Result<Answer<WholeEntity>, Refusal> {
    let found = app
        .store
        .snapshots
        .entity(shelf(tenant, &collection), id)
        .await?;
    let entity = found.ok_or_else(problem::not_found)?;
    Ok(Answer(WholeEntity::of(&collection, &entity)))
}

/// Which part of a history to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct HistoryQuery {
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Lists the snapshots of an entity, newest first.
#[utoipa::path(get, path = "/v1/{collection}/{id}/snapshots", operation_id = "list_snapshots",
    params(HistoryQuery), responses((status = 200, description = "A page of snapshots.", body = Page<ShownSnapshot>)))]
pub(in crate::api) async fn history(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(collection): Extension<Arc<Collection>>,
    EntityId(id): EntityId,
    Query(query): Query<HistoryQuery>,
) -> Result<Answer<Page<ShownSnapshot>>, Refusal> {
    let limit = page_size(query.limit, EntityScan::LIMIT_MAX)?;
    let before = query.cursor.map(|cursor| cursor.parse()).transpose();
    let before = before.map_err(|_| invalid("cursor", "is not a next_cursor of this list"))?;
    let shelf = shelf(tenant, &collection);
    let snapshots = &app.store.snapshots;
    let mut items: Vec<(i64, ShownSnapshot)> = Vec::with_capacity(limit + 1);
    // One more than asked for tells whether there is another page.
    while items.len() <= limit {
        let step = (limit + 1 - items.len()).min(STEP_MAX);
        let before = items.last().map(|(seq, _)| *seq).or(before);
        let found = snapshots
            .snapshots_of(shelf.clone(), id.clone(), before, step)
            .await?;
        items.extend(
            found
                .iter()
                .map(|it| (it.seq, ShownSnapshot::of(&collection, it))),
        );
        if found.len() < step {
            break;
        }
    }
    // An entity has a snapshot; only behind the last one of them there is an empty page.
    if items.is_empty() && snapshots.entity(shelf, id).await?.is_none() {
        return Err(problem::not_found().into());
    }
    let more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().map(|(seq, _)| seq.to_string());
    Ok(Answer(Page {
        items: items.into_iter().map(|(_, shown)| shown).collect(),
        next_cursor: last.filter(|_| more),
    }))
}

/// The `{sid}` of a path.
pub(in crate::api) struct SnapshotId(String);

impl<S: Send + Sync> FromRequestParts<S> for SnapshotId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        path_parameter(parts, state, "sid").await.map(Self)
    }
}

/// Shows a snapshot of an entity, with its payload, and who sent it when.
#[utoipa::path(get, path = "/v1/{collection}/{id}/snapshots/{sid}", operation_id = "get_snapshot",
    responses((status = 200, description = "The snapshot.", body = WholeSnapshot)))]
pub(in crate::api) async fn snapshot(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(collection): Extension<Arc<Collection>>,
    EntityId(id): EntityId,
    SnapshotId(sid): SnapshotId,
) -> Result<Answer<WholeSnapshot>, Refusal> {
    let shelf = shelf(tenant, &collection);
    let found = snapshot_of(&app, &shelf, &id, &sid).await?;
    let observations = app
        .store
        .snapshots
        .observations(shelf, found.id, OBSERVATIONS_MAX)
        .await?;
    Ok(Answer(WholeSnapshot::of(&collection, &found, observations)))
}
