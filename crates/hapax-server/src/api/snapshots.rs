//! Snapshots: each collection has the same routes under its own name. A payload is named by its hash, so the same one
//! is kept once, whatever key comes with it.

mod batch;
mod diff;
mod ingest;
mod reading;
mod shown;

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Extension, Router};
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::snapshot::{Shelf, Snapshot};
use hapax_intake::snapshot::Collection;
use hapax_intake::snapshot::payload::ID_CHARS_MAX;
use hapax_store::Role;
use uuid::Uuid;

use super::App;
use super::payload::invalid;
use crate::auth::authorize;
use crate::problem::{self, Refusal};

/// The routes of these collections: everybody reads, a writer ingests. Their names are in the paths, so what is not a
/// collection is not found. None of them goes through the idempotency layer: the hash is the key.
pub(super) fn routes(collections: &[Arc<Collection>]) -> Router<App> {
    let each = collections.iter().map(of);
    each.fold(Router::new(), Router::merge)
}

fn of(collection: &Arc<Collection>) -> Router<App> {
    let viewer = from_fn_with_state(Role::Viewer, authorize);
    let writer = from_fn_with_state(Role::Writer, authorize);
    let path = |tail: &str| format!("/v1/{}{tail}", collection.name);
    let reading = Router::new()
        .route(&path(""), get(reading::list))
        .route(&path("/{id}"), get(reading::show))
        // An entity may have this id.
        .route(&path("/ingest"), get(reading::show))
        .route(&path("/{id}/snapshots"), get(reading::history))
        .route(&path("/{id}/snapshots/{sid}"), get(reading::snapshot))
        .route(&path("/{id}/diff"), get(diff::diff))
        .route_layer(viewer);
    let writing = Router::new()
        .route(&path("/ingest"), post(ingest::ingest))
        .route(&path("/ingest/batch"), post(batch::batch))
        .route_layer(writer);
    reading
        .merge(writing)
        .route_layer(Extension(Arc::clone(collection)))
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
    use crate::config::collections::TAKEN;

    #[test]
    fn no_collection_can_take_the_name_of_another_route() {
        let routes = include_str!("mod.rs");
        let first = |rest: &'static str| rest.split(['/', '"']).next().unwrap();
        let names = routes.split("\"/v1/").skip(1).map(first);
        let missing: Vec<&str> = names.filter(|name| !TAKEN.contains(name)).collect();
        assert!(missing.is_empty(), "add {missing:?} to TAKEN");
    }
}
