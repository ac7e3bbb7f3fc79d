//! The lease under which an import is driven: one job per import, run where its file is.

use std::io;
use std::sync::Arc;

use hapax::job::{Handler, Handling, Held, Identity};
use hapax_core::entry::{Import, ImportStatus, Imports};
use hapax_core::job::{Act, Deed, Fence, Job, JobId, JobKind, NewJob, On, Place, Queue, State};
use hapax_core::{Error, Fingerprint, Invalid, Kind, Tenant};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

use super::drive;
use super::mailbox::{Mailbox, Watched};
use super::open::Closed;
use super::roots::{Folders, Roots};

/// How often an import is tried. A file that is away for days does not end it.
const ATTEMPTS_MAX: u32 = 10_000;
/// How long an import rests at least after an attempt that did not end it.
const REST: Duration = Duration::from_secs(5);

/// The kind of these jobs.
///
/// # Panics
/// Never: the word has the form of a kind.
pub(crate) fn kind() -> JobKind {
    JobKind::new("import").expect("it has the form of a kind")
}

/// What stands before the id of an import in the URL of its job.
const URL: &str = "import:";

/// Whether the URL is that of an import's job.
pub(crate) fn is_own_url(url: &str) -> bool {
    let id = url.strip_prefix(URL);
    id.is_some_and(|id| Uuid::try_parse(id).is_ok())
}

/// Where imports from these folders run, whichever tenant's: in every process that has them, and nowhere else. A worker
/// leases for all tenants, and a process that has the folder of one has those of all.
pub(crate) fn place_of(roots: &Roots) -> Place {
    let path = roots.base().path().to_string_lossy();
    let plain = Place::new(&format!("mbox:{path}"));
    plain.unwrap_or_else(|_| {
        place(&format!(
            "mbox-hash:{}",
            Fingerprint::of(path.as_bytes()).hex()
        ))
    })
}

/// Where one import runs that somebody drives alone.
pub(crate) fn place_alone(import: Uuid) -> Place {
    place(&format!("mbox-import:{import}"))
}

/// # Panics
/// Never: the word has the form of a place.
fn place(word: &str) -> Place {
    Place::new(word).expect("it has the form of a place")
}

/// The id of the job of an import.
///
/// # Panics
/// Never: a UUID has the form of an id.
pub(crate) fn id(import: Uuid) -> JobId {
    JobId::new(&import.to_string()).expect("a UUID has the form of an id")
}

#[derive(Deserialize)]
struct Payload {
    import_id: Uuid,
}

fn new_job(import: Uuid, place: Place) -> Result<NewJob, Invalid> {
    let url = format!("{URL}{import}");
    NewJob::new(kind(), "import", &import.to_string(), &url)?
        .with_id(id(import))
        .max_attempts(ATTEMPTS_MAX)
        .in_place(place)
        .with_payload(&json!({ "import_id": import }).to_string())
}

/// Has the import driven in `place`: plans its job, or brings the one that rests, was given up or belongs elsewhere there.
/// A job that somebody alive holds stays with them.
///
/// # Errors
/// When the queue could not be asked. Asking again is harmless.
pub(crate) async fn offer(
    queue: &dyn Queue,
    tenant: Tenant,
    import: Uuid,
    place: &Place,
) -> Result<(), Error> {
    let new = new_job(import, place.clone())
        .map_err(|why| Error::new(Kind::Limit, "planning an import").because(why.to_string()))?;
    let Some(planned) = queue.plan(tenant, vec![new]).await?.pop() else {
        return Ok(());
    };
    if planned.job.id != id(import) {
        let error = Error::new(Kind::Corrupt, "planning an import");
        return Err(error.because("a job that was planned over the API has its name"));
    }
    if planned.planned {
        return Ok(());
    }
    let acts = needed(&planned.job, queue, place).into_iter();
    let acts = acts.map(|(fence, deed)| Act {
        on: On::Job(planned.job.id.clone()),
        fence,
        deed,
    });
    for done in queue.apply(tenant, acts.collect()).await? {
        if let Err(refusal) = done {
            // Somebody was quicker, and has it now.
            tracing::debug!(%refusal, %import, "the job of an import was left as it is");
        }
    }
    Ok(())
}

/// What a job that was planned before needs to be run in `place`.
fn needed(job: &Job, queue: &dyn Queue, place: &Place) -> Vec<(Fence, Deed)> {
    let mut needed = Vec::new();
    if let Some(hold) = job.lease.as_ref().filter(|_| job.is_held(queue.time())) {
        if !Identity::is_dead(&hold.owner) {
            return needed;
        }
        needed.push((Fence::of(&hold.owner, job.epoch), Deed::Release));
    }
    let rests = job.state == State::Failed || job.state.is_terminal();
    if rests || job.place != *place {
        let place = place.clone();
        needed.push((Fence::none(), Deed::Redo { place }));
    }
    needed
}

/// Who hears how an import goes on.
pub(crate) type Progress = Arc<dyn Fn(&Import) + Send + Sync>;

/// Runs the imports of a worker.
pub(crate) struct Importing {
    pub(crate) imports: Arc<dyn Imports>,
    pub(crate) roots: Roots,
    pub(crate) watched: Watched,
    pub(crate) progress: Progress,
}

impl Importing {
    /// Runs the import of a job to its end.
    ///
    /// # Errors
    /// Why not, and whether another attempt can help.
    async fn drive(&self, job: &Job) -> Result<Import, (String, bool)> {
        let payload = job.payload.as_deref().unwrap_or("null");
        let payload: Payload = serde_json::from_str(payload)
            .map_err(|why| (format!("the job names no import: {why}"), false))?;
        if job.id != id(payload.import_id) {
            return Err(("the job is not that of its import".to_owned(), false));
        }
        let found = self.imports.import(job.tenant, payload.import_id).await;
        let found = found.map_err(|error| (error.to_string(), true))?;
        let import = found.ok_or_else(|| ("there is no such import".to_owned(), false))?;
        let (folders, path) = (self.roots.of(job.tenant), import.asked.path.clone());
        let open = Arc::new(move || open(&folders, &path));
        let (imports, watched) = (self.imports.as_ref(), &self.watched);
        let progress = self.progress.as_ref();
        drive::run(imports, job.tenant, import, open, watched, progress)
            .await
            .map_err(|stopped| (stopped.to_string(), true))
    }
}

impl Handler for Importing {
    fn run(&self, held: Held) -> Handling<'_> {
        Box::pin(async move {
            let job = held.job().id.clone();
            let ended = match self.drive(held.job()).await {
                Ok(import) => end(held, &import).await,
                Err((why, retryable)) => {
                    tracing::warn!(%job, why, "an attempt at an import ended");
                    held.fail(&why, retryable, Some(REST)).await.map(drop)
                }
            };
            if let Err(lost) = ended {
                tracing::warn!(%job, %lost, "the end of an attempt at an import was not recorded");
            }
        })
    }
}

/// Ends the job as the import ended.
async fn end(held: Held, import: &Import) -> Result<(), hapax::job::HeldError> {
    if import.status == ImportStatus::Failed {
        let why = import.error.as_deref().unwrap_or("the import failed");
        return held.fail(why, false, None).await.map(drop);
    }
    let result = json!({ "import_id": import.id, "status": import.status.as_str() });
    if held.state() == State::Leased {
        held.advance(State::Finalized, None).await?;
    }
    let result = Some(result.to_string().into());
    held.advance(State::Indexed, result).await.map(drop)
}

/// Opens the file of an import on this machine.
///
/// # Errors
/// In words for whoever looks at the job; the import itself has not failed by it.
fn open(folders: &Folders, path: &str) -> io::Result<Mailbox> {
    let opened = folders.open(path).map_err(|closed| match closed {
        Closed::Missing | Closed::NoFolder => io::Error::new(
            io::ErrorKind::NotFound,
            "the file is not on this machine; a worker that has it goes on with the import",
        ),
        Closed::Forbidden | Closed::Folder | Closed::Form(_) => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the file is not a plain file beneath the tenant's import folder of this machine",
        ),
        Closed::Io(why) => why,
    })?;
    Mailbox::of(opened.file)
}
