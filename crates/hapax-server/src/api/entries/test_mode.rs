//! The test mode: whether writes go to `pkm_test`. It is read from the store each time, so every node sees a change at once.

use axum::extract::State;
use axum::{Extension, Json as Answer};
use hapax_core::entry::TestMode;
use hapax_core::{Action, Note, Tenant};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::App;
use crate::auth::Caller;
use crate::body::Json;
use crate::problem::Refusal;

/// Whether it is on.
pub(in crate::api) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
) -> Result<Answer<Value>, Refusal> {
    Ok(told(app.store.entries.test_mode(tenant).await?))
}

/// Turns it into the other. Of toggles at once none is lost.
pub(in crate::api) async fn toggle(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
) -> Result<Answer<Value>, Refusal> {
    change(&app, tenant, caller, TestMode::Toggle).await
}

/// What it shall be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct SetBody {
    is_test_mode: bool,
}

/// Turns it on or off.
pub(in crate::api) async fn set(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<SetBody>,
) -> Result<Answer<Value>, Refusal> {
    change(&app, tenant, caller, TestMode::Set(body.is_test_mode)).await
}

async fn change(
    app: &App,
    tenant: Tenant,
    caller: Caller,
    mode: TestMode,
) -> Result<Answer<Value>, Refusal> {
    let is_on = app.store.entries.change_test_mode(tenant, mode).await?;
    let note = Note::new(tenant, app.store.ledger.now(), Action::TestModeChanged)
        .by(&caller.to_string())
        .saying([("is_test_mode", is_on.into())]);
    app.store.note(vec![note]).await;
    Ok(told(is_on))
}

fn told(is_on: bool) -> Answer<Value> {
    Answer(json!([{"is_test_mode": is_on}]))
}
