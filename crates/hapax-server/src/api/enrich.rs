//! Tier-1 enrichment: one text while the caller waits, many as a batch, and how batches stand.

mod ask;
mod batch;
mod shown;
mod status;

use axum::http::StatusCode;
use hapax::problem::Problem;
use utoipa_axum::routes;

use super::listed::{Door, Keyed, viewer, writer};

/// The routes of enrichment: everybody reads, a writer asks. A batch has no key of its own, so a client can give it one.
pub(super) fn door() -> Door {
    Door {
        name: "enrichment",
        about: "Topics, keywords and a gist for a text, by a language model: one while the caller waits, many as a batch. The same text is not paid for again.",
        parameters: &[(
            "id",
            "The id of a batch.",
            "01890a5d-ac96-774b-bcce-b302099a8057",
        )],
        routes: vec![
            writer(routes!(ask::ask)),
            writer(routes!(batch::add)).keyed(Keyed::Batch),
            viewer(routes!(status::list)),
            viewer(routes!(status::show)),
        ],
    }
}

/// Nothing can be asked.
fn not_configured() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "llm_not_configured",
        "nothing can be enriched: set OPENAI_BASE_URL and LITELLM_MASTER_KEY, and start again",
    )
}
