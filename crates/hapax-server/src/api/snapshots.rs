//! Snapshots: each collection has the same routes under its own name. A payload is named by its hash, so the same one
//! is kept once, whatever key comes with it.

mod batch;
mod diff;
mod ingest;
mod reading;
mod shown;

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::snapshot::{Shelf, Snapshot};
use hapax_intake::snapshot::Collection;
use hapax_intake::snapshot::payload::ID_CHARS_MAX;
use hapax_store::Role;
use utoipa_axum::routes;
use uuid::Uuid;

use super::App;
use super::listed::{Door, viewer, writer};
use super::payload::invalid;
use crate::auth::authorize;
use crate::problem::{self, Refusal};

/// The routes of a collection: everybody reads, a writer ingests. None of them goes through the idempotency layer: the
/// hash is the key.
pub(super) fn door() -> Door {
    Door {
        name: "snapshots",
        about: "Payloads named by their hash: the same one is kept once, another one is a new snapshot of its entity. Each configured collection has these routes under its name; `courses` is always there.",
        parameters: &[
            (
                "collection",
                "The name of a configured collection.",
                "courses",
            ),
            ("id", "The id of an entity.", "CS101"),
            (
                "sid",
                "The id of a snapshot.",
                "01890a5d-ac96-774b-bcce-b302099a8057",
            ),
        ],
        routes: vec![
            writer(routes!(ingest::ingest)),
            writer(routes!(batch::batch)),
            viewer(routes!(reading::list)),
            viewer(routes!(reading::show)),
            viewer(routes!(reading::history)),
            viewer(routes!(reading::snapshot)),
            viewer(routes!(diff::diff)),
        ],
    }
}

/// An entity may have the id `ingest`: this is its path, which the one to ingest under hides.
pub(super) fn shadowed(collection: &str) -> Router<App> {
    let viewer = from_fn_with_state(Role::Viewer, authorize);
    let show = get(reading::show).route_layer(viewer);
    Router::new().route(&format!("/v1/{collection}/ingest"), show)
}

/// The entity that a path names. What can be nobody's id answers like an id that does not exist.
pub(super) struct EntityId(String);

impl<S: Send + Sync> FromRequestParts<S> for EntityId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| problem::not_found())?;
        let named = params.iter().find(|(name, _)| *name == "id");
        // The one path of an entity without a parameter is that of the entity with this id.
        let id = named.map_or("ingest", |(_, id)| id);
        if id.chars().nth(ID_CHARS_MAX).is_some() || id.contains(char::is_control) {
            return Err(problem::not_found().into());
        }
        Ok(Self(id.to_owned()))
    }
}

/// Where the payloads of a collection are kept for a tenant.
fn shelf(tenant: Tenant, collection: &Collection) -> Shelf {
    Shelf {
        tenant,
        collection: Arc::from(collection.name.as_str()),
    }
}

/// The snapshot with this id, if it is one of the entity.
async fn snapshot_of(
    app: &App,
    shelf: &Shelf,
    entity: &str,
    id: &str,
) -> Result<Snapshot, Refusal> {
    let id = Uuid::try_parse(id).map_err(|_| problem::not_found())?;
    let found = app.store.snapshots.snapshot(shelf.clone(), id).await?;
    let found = found.filter(|snapshot| snapshot.entity_id == entity);
    found.ok_or_else(|| problem::not_found().into())
}

/// How many items a page has: 50 unless asked, at most 500.
fn page_size(limit: Option<usize>, most: usize) -> Result<usize, Problem> {
    match limit {
        None => Ok(50),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(_) => Err(invalid("limit", format!("must be from 1 to {most}"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::api::doors;
    use crate::config::collections::TAKEN;

    #[test]
    fn no_collection_can_take_the_name_of_another_route() {
        let listed = doors().into_iter().flat_map(|door| door.routes);
        let names = listed.filter_map(|listed| {
            let rest = listed.path().strip_prefix("/v1/")?;
            rest.split('/').next().map(str::to_owned)
        });
        let missing: Vec<String> = names
            .filter(|name| !TAKEN.contains(&name.as_str()))
            .collect();
        assert!(missing.is_empty(), "add {missing:?} to TAKEN");
    }
}
