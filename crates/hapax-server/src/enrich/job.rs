//! The jobs of enrichment: what they are called, where they run, and what a batch's job is about.

use hapax_core::entry::Schema;
use hapax_core::job::{Job, JobId, JobKind, NewJob, Place};
use hapax_core::{Error, Fingerprint, Invalid, Kind, Tenant};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// How often a job is tried before it is given up. A provider that is away is waited for; one that says no is believed
/// much earlier, by the step that heard it.
const ATTEMPTS_MAX: u32 = 100_000;

/// The names of the steps, in every graph.
pub(super) const LOAD: &str = "LOAD";
pub(super) const PROMPT: &str = "PROMPT";
pub(super) const LLM: &str = "LLM";
pub(super) const PARSE: &str = "PARSE";
pub(super) const WRITE: &str = "WRITE";

/// The kind of these jobs.
///
/// # Panics
/// Never: the word has the form of a kind.
pub(crate) fn kind() -> JobKind {
    JobKind::new("enrich").expect("it has the form of a kind")
}

/// What stands before the id of its job in the URL of a batch's job.
const BATCH_URL: &str = "t1-batch:";
/// What stands before the hash of what is asked in the URL of a request's job.
const REQUEST_URL: &str = "t1-request:";

/// Whether the URL is that of a job of enrichment.
pub(crate) fn is_own_url(url: &str) -> bool {
    url.starts_with(BATCH_URL) || url.starts_with(REQUEST_URL)
}

/// Where the jobs of a schema's batches run: in the workers of this program, and in no worker that leases over the API.
/// Each schema has a place of its own, so that however much waits in one, the other is served.
///
/// # Panics
/// Never: the words have the form of a place.
pub(crate) fn place(schema: Schema) -> Place {
    Place::new(&format!("hapax:enrich:{schema}")).expect("it has the form of a place")
}

/// A request that somebody waits for, by what makes it the same request. No worker leases in its place: those who wait
/// drive it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asking {
    pub(crate) id: JobId,
    pub(crate) place: Place,
    key: Fingerprint,
}

impl Asking {
    /// # Panics
    /// Never: the words have the form of an id and of a place.
    pub(crate) fn of(tenant: Tenant, key: Fingerprint) -> Self {
        let tenant = tenant.to_string();
        let parts = [&b"hapax t1 request"[..], tenant.as_bytes(), key.as_bytes()];
        let name = Fingerprint::of_parts(&parts).hex();
        Self {
            id: JobId::new(&format!("t1-{name}")).expect("it has the form of an id"),
            place: Place::new(&format!("hapax:enrich:{name}")).expect("it has the form of a place"),
            key,
        }
    }

    /// The job.
    ///
    /// # Errors
    /// Never; the words are short.
    pub(crate) fn job(&self) -> Result<NewJob, Error> {
        let key = self.key.hex();
        let made =
            NewJob::new(kind(), "t1", &key, &format!("{REQUEST_URL}{key}")).and_then(|job| {
                job.with_id(self.id.clone())
                    .max_attempts(ATTEMPTS_MAX)
                    .in_place(self.place.clone())
                    .with_payload(&json!({"graph": "sync", "request_key": key}).to_string())
            });
        made.map_err(|why| unplanned(&why))
    }
}

/// Which graph a batch's job runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Graph {
    Schedule,
    Collect,
}

impl Graph {
    const fn as_str(self) -> &'static str {
        match self {
            Graph::Schedule => "schedule",
            Graph::Collect => "collect",
        }
    }
}

/// What the job of a batch is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errand {
    pub(crate) graph: Graph,
    pub(crate) schema: Schema,
    pub(crate) batch: Uuid,
    pub(crate) attempt: u32,
}

#[derive(Deserialize)]
struct Payload {
    graph: Graph,
    schema: String,
    batch_id: Uuid,
    attempt: u32,
}

impl Errand {
    /// Reads it back from its job.
    ///
    /// # Errors
    /// Why the job is none of ours.
    pub(crate) fn of(job: &Job) -> Result<Self, String> {
        let payload = job.payload.as_deref().unwrap_or("null");
        let read: Payload = serde_json::from_str(payload)
            .map_err(|error| format!("the job is about no batch: {error}"))?;
        let errand = Self {
            graph: read.graph,
            schema: read
                .schema
                .parse()
                .map_err(|why: Invalid| why.to_string())?,
            batch: read.batch_id,
            attempt: read.attempt,
        };
        if job.id == errand.id() {
            Ok(errand)
        } else {
            Err("the job is not that of its batch".to_owned())
        }
    }

    /// The id of its job.
    ///
    /// # Panics
    /// Never: the words have the form of an id.
    pub(crate) fn id(&self) -> JobId {
        let Self {
            graph,
            schema,
            batch,
            attempt,
        } = self;
        let id = format!("t1-{}-{schema}-{batch}-{attempt}", graph.as_str());
        JobId::new(&id).expect("it has the form of an id")
    }

    /// The job. The same batch, graph and attempt are always the same job.
    ///
    /// # Errors
    /// Never; the words are short.
    pub(crate) fn job(&self) -> Result<NewJob, Error> {
        let id = self.id();
        let payload = json!({
            "graph": self.graph.as_str(), "schema": self.schema.as_str(), "batch_id": self.batch, "attempt": self.attempt,
        });
        let url = format!("{BATCH_URL}{id}");
        let made =
            NewJob::new(kind(), &self.batch.to_string(), id.as_str(), &url).and_then(|job| {
                job.with_id(id)
                    .max_attempts(ATTEMPTS_MAX)
                    .in_place(place(self.schema))
                    .with_payload(&payload.to_string())
            });
        made.map_err(|why| unplanned(&why))
    }
}

fn unplanned(why: &Invalid) -> Error {
    Error::new(Kind::Limit, "planning enrichment").because(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Time;

    #[test]
    fn the_job_of_a_batch_says_what_it_is_about_and_has_one_id_for_each_attempt() {
        let errand = Errand {
            graph: Graph::Collect,
            schema: Schema::PkmTest,
            batch: Uuid::from_u128(7),
            attempt: 2,
        };
        let job = errand
            .job()
            .unwrap()
            .at(Tenant::DEFAULT, 1, Time::from_ms(0));
        assert_eq!(Errand::of(&job), Ok(errand));
        assert_eq!(job.id, errand.id());
        let first = Errand {
            attempt: 1,
            ..errand
        };
        assert_ne!(first.id(), errand.id());
        let planted = Job {
            id: first.id(),
            ..job.clone()
        };
        assert!(Errand::of(&planted).is_err(), "another job's errand");
    }
}
