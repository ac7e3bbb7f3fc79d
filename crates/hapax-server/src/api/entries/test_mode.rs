//! The test mode: whether writes go to `pkm_test`. It is read from the store each time, so every node sees a change at once.

use axum::Extension;
use axum::extract::State;
use hapax_core::entry::TestMode;
use hapax_core::{Action, Note, Tenant};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::answer::Answer;
use crate::api::App;
use crate::auth::Caller;
use crate::body::Json;
use crate::problem::Refusal;

/// The one row of the answer.
#[derive(Serialize, ToSchema)]
#[schema(as = TestMode)]
pub(in crate::api) struct Mode {
    is_test_mode: bool,
}

type Told = Answer<[Mode; 1]>;

/// Tells whether the test mode is on.
#[utoipa::path(get, path = "/db/test-mode", operation_id = "get_test_mode",
    responses((status = 200, description = "One row.", body = Vec<Mode>)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
) -> Result<Told, Refusal> {
    Ok(told(app.store.entries.test_mode(tenant).await?))
}

/// Turns the test mode into the other. Of toggles at once none is lost.
#[utoipa::path(post, path = "/db/test-mode/toggle", operation_id = "toggle_test_mode",
    responses((status = 200, description = "One row.", body = Vec<Mode>)))]
pub(in crate::api) async fn toggle(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
) -> Result<Told, Refusal> {
    change(&app, tenant, caller, TestMode::Toggle).await
}

/// What it shall be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SetTestModeBody)]
pub(in crate::api) struct SetBody {
    is_test_mode: bool,
}

/// Turns the test mode on or off.
#[utoipa::path(post, path = "/db/test-mode/set", operation_id = "set_test_mode",
    request_body(content = SetBody, example = json!({"is_test_mode": true})),
    responses((status = 200, description = "One row.", body = Vec<Mode>)))]
pub(in crate::api) async fn set(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<SetBody>,
) -> Result<Told, Refusal> {
    change(&app, tenant, caller, TestMode::Set(body.is_test_mode)).await
}

async fn change(
    app: &App,
    tenant: Tenant,
    caller: Caller,
    mode: TestMode,
) -> Result<Told, Refusal> {
    let is_on = app.store.entries.change_test_mode(tenant, mode).await?;
    let note = Note::new(tenant, app.store.ledger.now(), Action::TestModeChanged)
        .by(&caller.to_string())
        .saying([("is_test_mode", is_on.into())]);
    app.store.note(vec![note]).await;
    Ok(told(is_on))
}

fn told(is_test_mode: bool) -> Told {
    Answer([Mode { is_test_mode }])
}
