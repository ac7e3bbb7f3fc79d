//! /v1/reconcile: what `hapax reconcile` does, now, for one tenant.

use axum::extract::State;
use axum::{Extension, Json as Answer};
use hapax_core::Tenant;
use serde::Deserialize;

use super::App;
use crate::auth::Caller;
use crate::body::Optional;
use crate::cmd::reconcile::{self, Asked, Files, Reconciled};
use crate::problem::Refusal;

/// Whether to look only.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ReconcileBody {
    #[serde(default)]
    dry_run: bool,
}

/// Cleans up after dead workers: their leases are over, and what they were doing is in doubt.
pub(super) async fn now(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Optional(body): Optional<ReconcileBody>,
) -> Result<Answer<Reconciled>, Refusal> {
    let asked = Asked {
        tenant: Some(tenant),
        dry_run: body.dry_run,
        careful: false,
        actor: &caller.to_string(),
    };
    let files = Files::of_worker(&app.config)?;
    Ok(Answer(reconcile::whole(&app.store, files, &asked).await?))
}
