//! /v1/sweep: what the hourly sweep and `hapax sweep` do, now.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use hapax::problem::Problem;
use hapax_core::Tenant;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use crate::answer::Answer;
use crate::cmd::sweep;
use crate::problem::Refusal;

/// What a sweep did.
#[derive(Serialize, ToSchema)]
pub(super) struct Swept {
    /// Keys whose time was over.
    swept: usize,
    /// Keys that nothing is known of any more.
    forgotten: usize,
}

/// Removes what has expired. A sweep is for all tenants, so only an owner of the default one may ask for it.
#[utoipa::path(post, path = "/v1/sweep", operation_id = "sweep",
    responses((status = 200, description = "What was removed.", body = Swept)))]
pub(super) async fn now(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
) -> Result<Answer<Swept>, Refusal> {
    if tenant != Tenant::DEFAULT {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "a sweep is for all tenants; ask with an owner's token of the tenant default, or wait for the next one",
        )
        .into());
    }
    let grace = Duration::from_millis(app.config.sweep_grace_ms);
    let swept = sweep::all(app.store.ledger.as_ref(), grace).await;
    app.observer.swept(swept.as_ref());
    let swept = swept?;
    Ok(Answer(Swept {
        swept: swept.expired,
        forgotten: swept.forgotten,
    }))
}
