//! Planning: a job is made once per key, alone or many at a time.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::job::queue::PLANS_MAX;
use hapax_core::job::{Job, JobKind, NewJob, Planned, backoff};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::super::App;
use super::super::openapi::words::JobState;
use super::shown::ShownJob;
use super::words::Word;
use crate::answer::Answer;
use crate::body::{Batch, Roomy};
use crate::problem::{self, Refusal};
use crate::worker;

/// The most attempts that a plan can ask for.
const ATTEMPTS_MAX: u32 = 100;
/// How many of a batch's faults are told at once.
const FAULTS_SHOWN_MAX: usize = 50;

/// A job to be planned.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct PlanBody {
    /// `download` if it is left out.
    #[schema(value_type = Option<String>, pattern = "^[a-z0-9_-]{1,64}$", default = "download")]
    kind: Option<Word<JobKind>>,
    #[schema(min_length = 1)]
    work_id: String,
    #[schema(min_length = 1)]
    artifact_id: String,
    #[schema(min_length = 1)]
    canonical_url: String,
    /// What the worker needs to know, at most 1 MiB.
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    #[schema(minimum = 1, maximum = 100)]
    max_attempts: Option<u32>,
    /// How long it rests after its first failure, in milliseconds, and four times as long after each that follows, up to an
    /// hour; 0 for not at all, a second if it is left out.
    #[schema(minimum = 0, maximum = 3_600_000)]
    backoff_ms: Option<u64>,
}

/// Why a plan is not one: the member and the reason, too much of it, or a name that is the program's.
enum Fault {
    Form(&'static str, String),
    TooLarge,
    OfTheProgram,
}

impl Fault {
    fn problem(self) -> Problem {
        match self {
            Fault::Form(path, why) => problem::schema(&[(path.to_owned(), why)]),
            Fault::TooLarge => too_large(),
            Fault::OfTheProgram => problem::job_of_the_program(
                "this canonical_url names a job that hapax plans itself; give it another",
            ),
        }
    }
}

impl PlanBody {
    fn new_job(self) -> Result<NewJob, Fault> {
        let kind = self.kind.map_or(JobKind::DOWNLOAD, |Word(kind)| kind);
        if worker::is_own_name(&kind, &self.canonical_url) {
            return Err(Fault::OfTheProgram);
        }
        let form = |why: hapax_core::Invalid| Fault::Form(why.what(), why.to_string());
        let mut job = NewJob::new(kind, &self.work_id, &self.artifact_id, &self.canonical_url)
            .map_err(form)?;
        if let Some(payload) = &self.payload {
            if payload.get().len() > Job::PAYLOAD_BYTES_MAX {
                return Err(Fault::TooLarge);
            }
            job = job.with_payload(payload.get()).map_err(form)?;
        }
        job = match self.max_attempts {
            None => job,
            Some(attempts @ 1..=ATTEMPTS_MAX) => job.max_attempts(attempts),
            Some(_) => {
                let why = format!("must be from 1 to {ATTEMPTS_MAX}");
                return Err(Fault::Form("max_attempts", why));
            }
        };
        match self.backoff_ms.map(Duration::from_millis) {
            None => Ok(job),
            Some(first) if first <= backoff::LONGEST => Ok(job.backoff(first)),
            Some(_) => {
                let why = format!("must be from 0 to {}", backoff::LONGEST.as_millis());
                Err(Fault::Form("backoff_ms", why))
            }
        }
    }
}

fn too_large() -> Problem {
    let most = Job::PAYLOAD_BYTES_MAX;
    problem::too_large(format!(
        "a payload has at most {most} bytes; keep what is larger elsewhere, and send where it is"
    ))
    .with_detail("bytes_max", most)
}

/// A job, and whether it was planned now.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct PlannedJob {
    planned: bool,
    #[serde(flatten)]
    job: ShownJob,
}

/// Plans a job, or answers the one that is there: 201 or 200.
#[utoipa::path(post, path = "/v1/jobs", operation_id = "plan_job",
    request_body(content = PlanBody, example = json!({"work_id": "W1", "artifact_id": "A1", "canonical_url": "https://example.org/a.pdf"})),
    responses((status = 201, description = "It is planned.", body = PlannedJob),
        (status = 200, description = "It was there.", body = PlannedJob)))]
pub(in crate::api) async fn plan(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Roomy(body): Roomy<PlanBody>,
) -> Result<(StatusCode, Answer<PlannedJob>), Refusal> {
    let job = body.new_job().map_err(Fault::problem)?;
    let mut planned = app.store.queue.plan(tenant, vec![job]).await?;
    let Planned { job, planned } = planned.pop().ok_or_else(problem::internal)?;
    let status = if planned {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let job = ShownJob::of(&job);
    Ok((status, Answer(PlannedJob { planned, job })))
}

/// Many jobs to be planned.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PlanBatchBody)]
pub(in crate::api) struct BatchBody {
    #[schema(max_items = 1000)]
    jobs: Vec<PlanBody>,
}

/// The jobs in their order.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct PlannedJobs {
    items: Vec<PlannedShort>,
}

/// One of them.
#[derive(Serialize, ToSchema)]
struct PlannedShort {
    job_id: String,
    job_key: String,
    #[schema(value_type = JobState)]
    state: &'static str,
    /// Whether it was planned now.
    planned: bool,
}

/// Plans every job whose key is new. One that has not the form of a job refuses the batch, and nothing is planned.
#[utoipa::path(post, path = "/v1/jobs/batch", operation_id = "plan_jobs",
    request_body(content = BatchBody, example = json!({"jobs": [{"work_id": "W1", "artifact_id": "A1", "canonical_url": "https://example.org/a.pdf"}]})),
    responses((status = 200, description = "The jobs, new or not.", body = PlannedJobs)))]
pub(in crate::api) async fn batch(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Batch(body): Batch<BatchBody>,
) -> Result<Answer<PlannedJobs>, Refusal> {
    if body.jobs.len() > PLANS_MAX {
        let message = format!("a batch has at most {PLANS_MAX} jobs; send several");
        let refused = problem::too_large(message).with_detail("items_max", PLANS_MAX);
        return Err(refused.into());
    }
    let planned = match checked(body.jobs)? {
        none if none.is_empty() => Vec::new(),
        jobs => app.store.queue.plan(tenant, jobs).await?,
    };
    let items = planned.iter().map(|Planned { job, planned }| PlannedShort {
        job_id: job.id.to_string(),
        job_key: job.key.clone(),
        state: job.state.as_str(),
        planned: *planned,
    });
    Ok(Answer(PlannedJobs {
        items: items.collect(),
    }))
}

/// The jobs, or what is wrong with them, by their places.
fn checked(bodies: Vec<PlanBody>) -> Result<Vec<NewJob>, Problem> {
    let mut jobs = Vec::with_capacity(bodies.len());
    let mut faults = Vec::new();
    for (index, body) in bodies.into_iter().enumerate() {
        match body.new_job() {
            Ok(job) => jobs.push(job),
            Err(Fault::Form(path, why)) => faults.push((format!("jobs[{index}].{path}"), why)),
            Err(fault @ (Fault::TooLarge | Fault::OfTheProgram)) => {
                return Err(fault.problem().with_detail("index", index));
            }
        }
    }
    faults.truncate(FAULTS_SHOWN_MAX);
    if faults.is_empty() {
        Ok(jobs)
    } else {
        Err(problem::schema(&faults))
    }
}
