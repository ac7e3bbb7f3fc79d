//! Entries of the knowledge base: normalised, inserted once per key, changed, read, and the policies of their keys.
//! None of this goes through the idempotency layer: an entry carries its own keys.

mod asked;
mod ingest;
mod normalize;
pub(crate) mod policies;
mod read;
mod revisions;
mod settings;
pub(super) mod shown;
mod test_mode;
mod write;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post, put};
use hapax::problem::Problem;
use hapax_core::entry::{Schema, Target};
use hapax_store::Role;

use super::App;
use super::payload::invalid;
use crate::auth::{TELEGRAM_PATH, authorize};
use crate::problem::{self, Refusal};

/// The routes of entries: everybody reads, a writer normalises and writes, an owner says what writes do and where they go.
pub(super) fn routes() -> Router<App> {
    let viewer = from_fn_with_state(Role::Viewer, authorize);
    let writer = from_fn_with_state(Role::Writer, authorize);
    let owner = from_fn_with_state(Role::Owner, authorize);
    let reading = Router::new()
        .route("/config", get(settings::show))
        .route("/db/test-mode", get(test_mode::show))
        .route("/db/read/last", post(read::last))
        .route("/db/read/find", post(read::find))
        .route("/db/read/continue", post(read::go_on))
        .route("/db/read/pull", post(read::pull))
        .route("/v1/entries/{entry_id}/revisions", get(revisions::list))
        .route("/v1/policies", get(policies::list))
        .route_layer(viewer);
    let writing = Router::new()
        .route("/normalize/telegram", post(normalize::telegram))
        .route("/normalize/email", post(normalize::email))
        .route("/normalize/webpage", post(normalize::webpage))
        .route(TELEGRAM_PATH, post(ingest::update))
        .route("/db/insert", post(write::insert))
        .route("/db/update", post(write::update))
        .route_layer(writer);
    let operating = Router::new()
        .route("/db/test-mode/toggle", post(test_mode::toggle))
        .route("/db/test-mode/set", post(test_mode::set))
        .route("/v1/policies/{policy_key}", put(policies::set))
        .route_layer(owner);
    reading.merge(writing).merge(operating)
}

/// Which home a query names; the active one if it names none.
fn target(schema: Option<&str>) -> Result<Target, Problem> {
    let Some(word) = schema else {
        return Ok(Target::Active);
    };
    let schema: Schema = word
        .parse()
        .map_err(|_| invalid("schema", "is neither pkm nor pkm_test"))?;
    Ok(Target::Pinned(schema))
}

/// Does what takes longer than a thread of the runtime should be held up.
async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| problem::internal().into())
}
