//! /v1/echo: the smallest write there is, to see a first call and its replay.

use axum::Json as Answer;
use axum::extract::State;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::App;
use crate::body::Json;

/// What came, and what a second run would make anew: a replay shows the first id and time again.
#[derive(Serialize)]
pub(super) struct Echoed {
    echo: Box<RawValue>,
    id: Uuid,
    at: String,
}

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
