//! /v1/echo: the smallest write there is, to see a first call and its replay.

use axum::extract::State;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::App;
use crate::answer::Answer;
use crate::body::Json;

/// What came, and what a second run would make anew: a replay shows the first id and time again.
#[derive(Serialize, ToSchema)]
pub(super) struct Echoed {
    #[schema(value_type = Value)]
    echo: Box<RawValue>,
    #[schema(value_type = String)]
    id: Uuid,
    #[schema(format = DateTime)]
    at: String,
}

/// Answers what came. With an Idempotency-Key it runs once: the same request again gets the first id and time.
#[utoipa::path(post, path = "/v1/echo", operation_id = "echo",
    request_body(content = Value, description = "Any JSON.", example = json!({"hello": "world"})),
    responses((status = 200, description = "What came, with an id and a time of this run.", body = Echoed, example = json!({
        "echo": {"hello": "world"}, "id": "0f8fad5b-d9cb-469f-a165-70867728950e", "at": "2026-01-31T12:00:00.000Z"
    }))))]
pub(super) async fn echo(
    State(app): State<App>,
    Json(body): Json<Box<RawValue>>,
) -> Answer<Echoed> {
    Answer(Echoed {
        echo: body,
        id: Uuid::new_v4(),
        at: app.store.ledger.now().to_string(),
    })
}
