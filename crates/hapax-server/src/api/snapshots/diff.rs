//! What changed between two snapshots of an entity, masked as the diff of a conflict is.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use hapax_core::Tenant;
use hapax_core::diff::{self, Change, Options};
use hapax_core::snapshot::Snapshot;
use hapax_intake::snapshot::Collection;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::App;
use super::super::query::Query;
use super::shown::Id;
use super::{EntityId, shelf, snapshot_of};
use crate::answer::Answer;
use crate::problem::{self, Refusal};

/// How many lines there are; the last one then counts the rest.
const LINES_MAX: usize = 500;

/// Which two to compare: the current one and the one before, unless the query says.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct DiffQuery {
    /// A snapshot; the one before `to` if it is left out.
    from: Option<String>,
    /// A snapshot; the current one if it is left out.
    to: Option<String>,
}

/// The changes from one snapshot to another.
#[derive(Serialize, ToSchema)]
#[schema(as = SnapshotDiff)]
pub(in crate::api) struct Compared {
    #[serde(flatten)]
    id: Id,
    /// None where there is nothing before `to`; then nothing changed.
    from: Option<String>,
    to: String,
    changes: Vec<ShownChange>,
    /// How many further changes are not listed.
    more: usize,
    /// The same as lines for people.
    diff_summary: Vec<String>,
}

/// One change; a side that is left out is absent there.
#[derive(Serialize, ToSchema)]
#[schema(as = SnapshotChange)]
struct ShownChange {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    old: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    new: Option<String>,
}

/// Tells what changed between two snapshots, secrets masked.
#[utoipa::path(get, path = "/v1/{collection}/{id}/diff", operation_id = "diff_snapshots",
    params(DiffQuery), responses((status = 200, description = "The changes.", body = Compared)))]
pub(in crate::api) async fn diff(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(collection): Extension<Arc<Collection>>,
    EntityId(id): EntityId,
    Query(query): Query<DiffQuery>,
) -> Result<Answer<Compared>, Refusal> {
    let shelf = shelf(tenant, &collection);
    let snapshots = &app.store.snapshots;
    let to = if let Some(to) = &query.to {
        snapshot_of(&app, &shelf, &id, to).await?
    } else {
        let found = snapshots.entity(shelf.clone(), id.clone()).await?;
        found.ok_or_else(problem::not_found)?.current
    };
    let from = if let Some(from) = &query.from {
        Some(snapshot_of(&app, &shelf, &id, from).await?)
    } else {
        let before = snapshots.snapshots_of(shelf, id.clone(), Some(to.seq), 1);
        before.await?.pop()
    };
    let id = Id::of(&collection, &id);
    // Large payloads take longer than a thread of the runtime should be held up.
    let compared = tokio::task::spawn_blocking(move || compared(id, from.as_ref(), &to));
    Ok(Answer(compared.await.map_err(|_| problem::internal())?))
}

fn compared(id: Id, from: Option<&Snapshot>, to: &Snapshot) -> Compared {
    let options = Options {
        changes_max: LINES_MAX,
        ..Options::default()
    };
    let found = from.map_or_else(Vec::new, |from| {
        diff::diff(from.payload.as_bytes(), to.payload.as_bytes(), &options)
    });
    let diff_summary = found.iter().map(ToString::to_string).collect();
    let (mut changes, mut more) = (Vec::with_capacity(found.len()), 0);
    for change in found {
        match change {
            Change::Value { path, old, new } => changes.push(ShownChange { path, old, new }),
            Change::Path(path) => changes.push(ShownChange {
                path,
                old: None,
                new: None,
            }),
            Change::More(count) => more = count,
        }
    }
    Compared {
        id,
        from: from.map(|from| from.id.to_string()),
        to: to.id.to_string(),
        changes,
        more,
        diff_summary,
    }
}
