//! Which problem a refused act is to a client.

use axum::http::StatusCode;
use hapax::problem::Problem;
use hapax_core::job::{Op, Refusal, State};
use serde_json::Value;

use crate::problem;

/// The problem, with the facts that tell a client what to do next.
pub(crate) fn problem(refusal: &Refusal) -> Problem {
    let message = refusal.to_string();
    match refusal {
        Refusal::NotFound => problem::not_found(),
        Refusal::OfTheProgram => problem::job_of_the_program(&message),
        Refusal::LeaseLost {
            epoch,
            owner,
            until,
        } => Problem::new(
            StatusCode::CONFLICT,
            "lease_lost",
            format!("{message}; stop working on it"),
        )
        .with_detail("epoch", *epoch)
        .with_detail("owner", owner.as_deref())
        .with_detail("lease_until", until.map(|until| until.to_string())),
        Refusal::Denied { have, wants, from } => {
            let from: Vec<Value> = from.iter().copied().map(word).collect();
            Problem::new(StatusCode::CONFLICT, "state_transition_denied", message)
                .with_detail("have", word(*have))
                .with_detail("wants", word(*wants))
                .with_detail("from", from)
        }
        Refusal::NotOpen { have } => {
            Problem::new(StatusCode::CONFLICT, "state_transition_denied", message)
                .with_detail("have", have.as_str())
                .with_detail("from", vec!["in_doubt", "waiting"])
        }
        Refusal::KeyConflict { job, kind } => {
            Problem::new(StatusCode::CONFLICT, "key_conflict", message)
                .with_detail("job_id", job.to_string())
                .with_detail("kind", kind.as_str())
        }
        Refusal::TooLarge { bytes } => problem::too_large(message)
            .with_detail("bytes", *bytes)
            .with_detail("bytes_max", Op::RESULT_BYTES_MAX),
    }
}

fn word(state: State) -> Value {
    state.as_str().into()
}
