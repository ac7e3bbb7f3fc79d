//! /v1/reconcile: what `hapax reconcile` does, now, for one tenant.

use axum::Extension;
use axum::extract::State;
use hapax_core::Tenant;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use crate::answer::Answer;
use crate::auth::Caller;
use crate::body::Optional;
use crate::cmd::reconcile::{self, Asked, Files, Reconciled};
use crate::problem::Refusal;

/// Whether to look only.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReconcileBody {
    /// Only count, and change nothing.
    #[serde(default)]
    dry_run: bool,
}

/// What was found and, unless it was a dry run, done.
#[derive(Serialize, ToSchema)]
#[schema(as = Reconciled)]
pub(super) struct Shown {
    /// Leases that ran out and are taken back.
    leases_expired: u64,
    /// Operations whose runner is dead.
    ops_in_doubt: u64,
    /// Parts that no job can continue, removed.
    parts_deleted: u64,
    /// Results whose content was gone: named again, or planned anew.
    healed: u64,
    /// Objects that no job knows. They are left where they are.
    orphans: u64,
    /// Whether nothing was changed.
    dry_run: bool,
}

impl Shown {
    fn of(found: Reconciled) -> Self {
        let Reconciled {
            leases_expired,
            ops_in_doubt,
            parts_deleted,
            healed,
            orphans,
            dry_run,
        } = found;
        Self {
            leases_expired,
            ops_in_doubt,
            parts_deleted,
            healed,
            orphans,
            dry_run,
        }
    }
}

/// Cleans up after dead workers: their leases are over, and what they were doing is in doubt.
#[utoipa::path(post, path = "/v1/reconcile", operation_id = "reconcile",
    request_body(content = Option<ReconcileBody>, example = json!({"dry_run": true})),
    responses((status = 200, description = "What was found and done.", body = Shown)))]
pub(super) async fn now(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Optional(body): Optional<ReconcileBody>,
) -> Result<Answer<Shown>, Refusal> {
    let asked = Asked {
        tenant: Some(tenant),
        dry_run: body.dry_run,
        careful: false,
        jobs: true,
        actor: &caller.to_string(),
    };
    let files = Files::of_worker(&app.config)?;
    let found = reconcile::whole(&app.store, files, &asked).await?;
    Ok(Answer(Shown::of(found)))
}
