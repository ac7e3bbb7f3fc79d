//! Leases of jobs: take, keep, give back. Who may do so is the queue's business.

use axum::Extension;
use axum::extract::State;
use hapax_core::Tenant;
use hapax_core::job::{Ask, Deed, JobKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::App;
use super::super::payload::invalid;
use super::shown::ShownJob;
use super::words::{Owner, Ttl, Word, fence};
use super::{Id, act_on_job};
use crate::answer::Answer;
use crate::body::{Json, Optional};
use crate::problem::Refusal;

/// What a worker asks for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct LeaseBody {
    /// The worker's name.
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    owner: Word<Owner>,
    /// How long the lease lasts, in seconds.
    #[schema(value_type = f64, minimum = 0.001, maximum = 86_400, default = 120, required = false)]
    #[serde(default)]
    ttl_s: Ttl,
    /// Only these kinds; all if it is left out.
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 64)]
    kinds: Option<Vec<Word<JobKind>>>,
    #[schema(minimum = 1, maximum = 500, default = 1)]
    limit: Option<usize>,
}

impl LeaseBody {
    fn ask(self) -> Result<Ask, Refusal> {
        let limit = self.limit.unwrap_or(1);
        if !(1..=Ask::LIMIT_MAX).contains(&limit) {
            let most = Ask::LIMIT_MAX;
            return Err(invalid("limit", format!("must be from 1 to {most}")).into());
        }
        let kinds = self.kinds.map(|kinds| {
            let kinds = kinds.into_iter().map(|Word(kind)| kind);
            kinds.collect::<Vec<JobKind>>()
        });
        if kinds
            .as_ref()
            .is_some_and(|kinds| kinds.is_empty() || kinds.len() > Ask::KINDS_MAX)
        {
            let why = format!("must be 1 to {} kinds, or left out for all", Ask::KINDS_MAX);
            return Err(invalid("kinds", why).into());
        }
        let Word(Owner(owner)) = self.owner;
        Ok(Ask {
            ttl: self.ttl_s.0,
            kinds,
            limit,
            ..Ask::by(&owner)
        })
    }
}

/// The jobs that were leased.
#[derive(Serialize, ToSchema)]
#[schema(as = LeasedJobs)]
pub(in crate::api) struct Leased {
    jobs: Vec<ShownJob>,
}

/// Leases jobs that are due; none is an empty list.
#[utoipa::path(post, path = "/v1/jobs/lease", operation_id = "lease_jobs",
    request_body(content = LeaseBody, example = json!({"owner": "worker-1", "ttl_s": 120, "kinds": ["download"], "limit": 1})),
    responses((status = 200, description = "The jobs, each with its epoch.", body = Leased)))]
pub(in crate::api) async fn lease(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Json(body): Json<LeaseBody>,
) -> Result<Answer<Leased>, Refusal> {
    let jobs = app.store.queue.lease(tenant, body.ask()?).await?;
    Ok(Answer(Leased {
        jobs: jobs.iter().map(ShownJob::of).collect(),
    }))
}

/// The holder, and how long it needs the job.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct RenewBody {
    /// The holder's name. While somebody holds the job it is needed, together with the epoch.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
    /// How long the lease lasts, in seconds.
    #[schema(value_type = f64, minimum = 0.001, maximum = 86_400, default = 120, required = false)]
    #[serde(default)]
    ttl_s: Ttl,
}

/// Keeps the lease for this long from now. Only its holder does, late too, until somebody else has the job.
#[utoipa::path(post, path = "/v1/jobs/{id}/renew", operation_id = "renew_job",
    request_body(content = RenewBody, example = json!({"owner": "worker-1", "epoch": 1, "ttl_s": 120})),
    responses((status = 200, description = "The job.", body = ShownJob)),
    extensions(("x-codes" = json!(["lease_lost"]))))]
pub(in crate::api) async fn renew(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
    Json(body): Json<RenewBody>,
) -> Result<Answer<ShownJob>, Refusal> {
    let fence = fence(body.owner, body.epoch);
    let deed = Deed::Renew { ttl: body.ttl_s.0 };
    let job = act_on_job(&app, tenant, id, fence, deed).await?;
    Ok(Answer(ShownJob::of(&job)))
}

/// The holder.
#[derive(Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ReleaseBody {
    /// The holder's name. While somebody holds the job it is needed, together with the epoch.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
}

/// Gives the lease back at once; progress is kept.
#[utoipa::path(post, path = "/v1/jobs/{id}/release", operation_id = "release_job",
    request_body(content = Option<ReleaseBody>, example = json!({"owner": "worker-1", "epoch": 1})),
    responses((status = 200, description = "The job.", body = ShownJob)),
    extensions(("x-codes" = json!(["lease_lost"]))))]
pub(in crate::api) async fn release(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
    Optional(body): Optional<ReleaseBody>,
) -> Result<Answer<ShownJob>, Refusal> {
    let fence = fence(body.owner, body.epoch);
    let job = act_on_job(&app, tenant, id, fence, Deed::Release).await?;
    Ok(Answer(ShownJob::of(&job)))
}
