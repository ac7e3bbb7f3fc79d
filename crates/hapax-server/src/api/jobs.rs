//! The jobs of a tenant: list, count and show. Planning, leasing and moving them are in the files below.

pub(super) mod graph;
pub(super) mod lease;
pub(super) mod plan;
pub(crate) mod refused;
pub(crate) mod shown;
pub(super) mod step;
pub(super) mod words;

use axum::Extension;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::request::Parts;
use hapax_core::Tenant;
use hapax_core::job::{Act, Deed, Done, Fence, Job, JobId, JobKind, JobScan, NewJob, On, Tally};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::openapi::words::JobState;
use super::payload::invalid;
use super::query::Query;
use crate::answer::Answer;
use crate::problem::{self, Refusal};
use shown::{ShownJob, ShownOp};

/// The stored id of the job that the `{id}` of a path names: the UUID that is shown for it, or its key. What is not an id
/// answers like an id that does not exist.
pub(super) struct Id(pub(super) JobId);

impl FromRequestParts<App> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let text = path_parameter(parts, app, "id").await?;
        let name = JobId::new(&text).map_err(|_| problem::not_found())?;
        let tenant = parts.extensions.get::<Tenant>().copied();
        let tenant = tenant.ok_or_else(problem::internal)?;
        stored_id(app, tenant, name).await.map(Self)
    }
}

/// The stored id of the job that goes by this name; the name itself if there is none.
pub(super) async fn stored_id(app: &App, tenant: Tenant, name: JobId) -> Result<JobId, Refusal> {
    let mut named = app.store.queue.named(tenant, vec![name]).await?;
    named.pop().ok_or_else(|| problem::internal().into())
}

/// The parameter `name` of the path.
pub(super) async fn path_parameter<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &str,
) -> Result<String, Refusal> {
    let params = RawPathParams::from_request_parts(parts, state).await;
    let params = params.map_err(|_| problem::not_found())?;
    let found = params.iter().find(|(found, _)| *found == name);
    let (_, text) = found.ok_or_else(problem::not_found)?;
    Ok(text.to_owned())
}

/// A count goes no further than this, and then means "more".
pub(crate) const COUNTED_MAX: u64 = 10_001;

/// Which jobs to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only jobs in this state.
    #[param(value_type = Option<JobState>)]
    state: Option<String>,
    /// Only jobs of this kind.
    #[param(pattern = "^[a-z0-9_-]{1,64}$")]
    kind: Option<String>,
    /// Only the job with this id or key, and jobs of the work with this id.
    q: Option<String>,
    /// Only jobs of this work.
    work_id: Option<String>,
    /// Only jobs that somebody holds now.
    held: Option<bool>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

impl ListQuery {
    fn scan(self, tenant: Tenant) -> Result<JobScan, Refusal> {
        let mut scan = JobScan::of(tenant);
        if let Some(state) = &self.state {
            scan.state = Some(
                state
                    .parse()
                    .map_err(|why| invalid("state", format!("{why}")))?,
            );
        }
        if let Some(kind) = &self.kind {
            scan.kind = Some(JobKind::new(kind).map_err(|why| invalid("kind", why.to_string()))?);
        }
        if self.q.is_some() && self.work_id.is_some() {
            return Err(invalid("q", "give either q or work_id, not both").into());
        }
        if let Some(work_id) = self.q.or(self.work_id) {
            // The form of the other two matters not: only what can be a work's id can be asked for.
            NewJob::download(&work_id, "-", "-")
                .map_err(|why| invalid("work_id", why.to_string()))?;
            scan.work_id = Some(work_id);
        }
        if let Some(cursor) = &self.cursor {
            let place = cursor.parse();
            scan.before =
                Some(place.map_err(|_| invalid("cursor", "is not a next_cursor of this list"))?);
        }
        if let Some(limit) = self.limit {
            if !(1..=JobScan::LIMIT_MAX).contains(&limit) {
                let most = JobScan::LIMIT_MAX;
                return Err(invalid("limit", format!("must be from 1 to {most}")).into());
            }
            scan.limit = limit;
        }
        scan.held = self.held.unwrap_or(false);
        Ok(scan)
    }
}

/// A page of jobs.
#[derive(Serialize, ToSchema)]
#[schema(as = JobPage)]
pub(crate) struct Page {
    pub(crate) items: Vec<ShownJob>,
    pub(crate) next_cursor: Option<String>,
}

/// Lists jobs, newest first.
#[utoipa::path(get, path = "/v1/jobs", operation_id = "list_jobs",
    params(ListQuery), responses((status = 200, description = "A page of jobs.", body = Page)))]
pub(super) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page>, Refusal> {
    let named = query.q.clone().filter(|_| query.cursor.is_none());
    let scan = query.scan(tenant)?;
    let named = named.and_then(|q| JobId::new(&q).ok());
    let named = match named {
        Some(name) => {
            let id = stored_id(&app, tenant, name).await?;
            app.store.queue.job(tenant, id).await?
        }
        None => None,
    };
    let now = app.store.queue.time();
    let named = named.map(|(job, _)| job).filter(|job| {
        scan.state.is_none_or(|state| state == job.state)
            && scan.kind.as_ref().is_none_or(|kind| *kind == job.kind)
            && (!scan.held || job.is_held(now))
    });
    let page = app.store.queue.jobs(scan).await?;
    let named_id = named.as_ref().map(|job| job.id.clone());
    let others = page
        .jobs
        .iter()
        .filter(|job| Some(&job.id) != named_id.as_ref());
    Ok(Answer(Page {
        items: named.iter().chain(others).map(ShownJob::of).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

/// Counts jobs by kind and state, each up to 10001, which means that there are more.
#[utoipa::path(get, path = "/v1/jobs/stats", operation_id = "count_jobs",
    responses((status = 200, description = "The counts.", body = Counts)))]
pub(super) async fn stats(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
) -> Result<Answer<Counts>, Refusal> {
    let queue = &app.store.queue;
    let tallies = queue.tally(tenant, COUNTED_MAX).await?;
    let doubtful = queue.doubtful_ops(tenant, COUNTED_MAX).await?;
    Ok(Answer(tally(&tallies, doubtful)))
}

/// The counts as the API and `hapax jobs stats` show them.
#[derive(Serialize, ToSchema)]
#[schema(as = JobCounts)]
pub(crate) struct Counts {
    items: Vec<Tallied>,
    /// How many are in each state, whatever their kind.
    states: BTreeMap<&'static str, u64>,
    total: u64,
    held: u64,
    /// How many operations are in doubt: each waits for a person.
    ops_in_doubt: u64,
}

/// How many jobs of a kind are in a state.
#[derive(Serialize, ToSchema)]
#[schema(as = JobCount)]
struct Tallied {
    kind: String,
    #[schema(value_type = JobState)]
    state: &'static str,
    count: u64,
    /// How many of them somebody holds.
    held: u64,
}

/// The counts, by kind and state and by state alone.
pub(crate) fn tally(tallies: &[Tally], ops_in_doubt: u64) -> Counts {
    let mut states = BTreeMap::new();
    for tally in tallies {
        *states.entry(tally.state.as_str()).or_insert(0) += tally.count;
    }
    let count = |tally: &Tally| Tallied {
        kind: tally.kind.to_string(),
        state: tally.state.as_str(),
        count: tally.count,
        held: tally.held,
    };
    Counts {
        items: tallies.iter().map(count).collect(),
        states,
        total: tallies.iter().map(|tally| tally.count).sum(),
        held: tallies.iter().map(|tally| tally.held).sum(),
        ops_in_doubt,
    }
}

/// A job with its operations, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = JobWithOps)]
pub(crate) struct Whole {
    #[serde(flatten)]
    job: ShownJob,
    ops: Vec<ShownOp>,
}

impl Whole {
    pub(crate) fn of(job: &Job, ops: &[hapax_core::job::Op]) -> Self {
        Self {
            job: ShownJob::of(job),
            ops: ops.iter().map(ShownOp::of).collect(),
        }
    }
}

/// Shows a job with its operations.
#[utoipa::path(get, path = "/v1/jobs/{id}", operation_id = "get_job",
    responses((status = 200, description = "The job.", body = Whole)))]
pub(super) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
) -> Result<Answer<Whole>, Refusal> {
    let found = app.store.queue.job(tenant, id).await?;
    let (job, ops) = found.ok_or_else(problem::not_found)?;
    Ok(Answer(Whole::of(&job, &ops)))
}

/// Does one thing, or refuses it.
pub(super) async fn act(
    app: &App,
    tenant: Tenant,
    on: On,
    fence: Fence,
    deed: Deed,
) -> Result<Done, Refusal> {
    let act = Act { on, fence, deed };
    let mut done = app.store.queue.apply(tenant, vec![act]).await?;
    let done = done.pop().ok_or_else(problem::internal)?;
    done.map_err(|refusal| refused::problem(&refusal).into())
}

/// Does one thing to a job; the job as it is now.
async fn act_on_job(
    app: &App,
    tenant: Tenant,
    id: JobId,
    fence: Fence,
    deed: Deed,
) -> Result<Job, Refusal> {
    match act(app, tenant, On::Job(id), fence, deed).await? {
        Done::Job(job) | Done::Op(_, job) => Ok(*job),
        // Only beginning an operation answers so.
        Done::Begun(..) => Err(problem::internal().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::job::State as Reached;
    use serde_json::json;

    #[test]
    fn the_counts_add_up_over_kinds() {
        let of = |kind: &str, state, count, held| Tally {
            kind: JobKind::new(kind).unwrap(),
            state,
            count,
            held,
        };
        let tallies = [
            of("download", Reached::Planned, 3, 0),
            of("enrich", Reached::Planned, 2, 0),
            of("enrich", Reached::Leased, 4, 1),
        ];
        let shown = tally(&tallies, 2);
        let shown = json!(shown);
        assert_eq!(shown["states"], json!({"PLANNED": 5, "LEASED": 4}));
        assert_eq!((&shown["total"], &shown["held"]), (&json!(9), &json!(1)));
        assert_eq!(shown["ops_in_doubt"], 2);
        assert_eq!(shown["items"][2]["kind"], "enrich");
    }
}
