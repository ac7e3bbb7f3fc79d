//! Entries of the knowledge base: normalised, inserted once per key, changed, read, and the policies of their keys.
//! None of this goes through the idempotency layer: an entry carries its own keys.

mod asked;
mod ingest;
mod list;
mod normalize;
pub(crate) mod policies;
mod read;
mod revisions;
mod settings;
pub(super) mod shown;
mod test_mode;
mod write;

use hapax::problem::Problem;
use hapax_core::entry::{Schema, Target};
use utoipa_axum::routes;

use super::listed::{Door, owner, viewer, writer};
use super::payload::invalid;
use crate::problem::{self, Refusal};

/// The routes of entries: everybody reads, a writer normalises and writes, an owner says what writes do and where they go.
pub(super) fn door() -> Door {
    Door {
        name: "entries",
        about: "Entries of a knowledge base: normalised to a flat row with its keys, inserted once per key, changed, read, and the policies of their keys.",
        parameters: &[
            ("entry_id", "The number of an entry.", "1"),
            ("policy_key", "The name of a policy.", "telegram_link_v1"),
        ],
        routes: vec![
            writer(routes!(normalize::telegram)),
            writer(routes!(normalize::email)),
            writer(routes!(normalize::webpage)),
            writer(routes!(ingest::update)),
            writer(routes!(write::insert)),
            writer(routes!(write::update)),
            viewer(routes!(read::last)),
            viewer(routes!(read::find)),
            viewer(routes!(read::go_on)),
            viewer(routes!(read::pull)),
            viewer(routes!(list::list)),
            viewer(routes!(list::show)),
            viewer(routes!(revisions::list)),
            viewer(routes!(policies::list)),
            owner(routes!(policies::set)),
            viewer(routes!(test_mode::show)),
            owner(routes!(test_mode::toggle)),
            owner(routes!(test_mode::set)),
            viewer(routes!(settings::show)),
        ],
    }
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
