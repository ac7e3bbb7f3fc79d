//! Leases of jobs: take, keep, give back. Who may do so is the queue's business.

use axum::extract::State;
use axum::{Extension, Json as Answer};
use hapax_core::Tenant;
use hapax_core::job::{Ask, Deed, JobKind};
use serde::{Deserialize, Serialize};

use super::super::App;
use super::super::payload::invalid;
use super::shown::ShownJob;
use super::words::{Owner, Ttl, Word, fence};
use super::{Id, act_on_job};
use crate::body::{Json, Optional};
use crate::problem::Refusal;

/// What a worker asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct LeaseBody {
    owner: Word<Owner>,
    #[serde(default)]
    ttl_s: Ttl,
    kinds: Option<Vec<Word<JobKind>>>,
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
#[derive(Serialize)]
pub(in crate::api) struct Leased {
    jobs: Vec<ShownJob>,
}

/// Leases jobs that are due; none is an empty list.
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
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct RenewBody {
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
    #[serde(default)]
    ttl_s: Ttl,
}

/// Keeps the lease for this long from now.
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
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ReleaseBody {
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
}

/// Gives the lease back at once; progress is kept.
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
