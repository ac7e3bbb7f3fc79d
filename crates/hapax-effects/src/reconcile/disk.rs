//! The rules about files. What is slow runs away from the threads that wait for sockets.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hapax_core::job::{Deed, Fence, Job, JobId, JobKind, JobScan, On, Op, Queue};
use hapax_core::{Error, Kind, Tenant};

use super::{Options, Reconciled, act};
use crate::download::folder::{OBJECTS, Seen, names, remove, seen};
use crate::download::part::{PART, job_of, part_of_note, remove_unused};
use crate::download::place::link;
use crate::download::{ContentHash, Downloaded, Folder};

/// How many objects are compared with the jobs in one pass over them.
const OBJECTS_MAX: usize = 100_000;
/// The folders of objects: one for each first byte of a hash.
const SHELVES: usize = 256;

pub(super) async fn reconcile(
    queue: &Arc<dyn Queue>,
    tenant: Tenant,
    folder: &Folder,
    options: &Options,
    found: &mut Reconciled,
) -> Result<(), Error> {
    found.parts_deleted = parts(queue, tenant, folder, options).await?;
    if !folder.is_furnished() {
        return Ok(()); // Somebody else's folder: it has parts, and nothing else of ours.
    }
    let there = folder.clone();
    if options.careful && off("looking at objects", move || there.has_no_objects()).await? {
        let shown = folder.path().display();
        tracing::error!(folder = %shown, "there are no objects at all: is the disk mounted? `hapax reconcile` heals it");
        return Ok(());
    }
    found.healed = results(queue, tenant, folder, options).await?;
    found.orphans = orphans(queue, tenant, folder, options).await?;
    Ok(())
}

/// Removes parts that no job can continue, and what lies beside them.
async fn parts(
    queue: &Arc<dyn Queue>,
    tenant: Tenant,
    folder: &Folder,
    options: &Options,
) -> Result<u64, Error> {
    let (there, age) = (folder.clone(), options.part_age);
    let old = off("listing parts", move || old_parts(&there, age)).await?;
    let mut deleted = 0;
    for (name, job) in old {
        if let Some(id) = job.and_then(|job| JobId::new(&job).ok()) {
            let stored = queue.job(tenant, id).await?;
            if stored.is_some_and(|(job, _)| !job.state.is_terminal()) {
                continue;
            }
        }
        let there = folder.clone();
        let is_part = name.ends_with(PART);
        let dry_run = options.dry_run;
        let is_gone = off("removing a part", move || {
            let staging = there.staging()?;
            if is_part {
                remove_unused(&staging, &name, dry_run)
            } else if dry_run {
                Ok(true)
            } else {
                remove(&staging, &name)
            }
        });
        deleted += u64::from(is_gone.await? && is_part);
    }
    Ok(deleted)
}

/// Parts that were not written for a while, each with its job; and notes whose part is gone.
fn old_parts(folder: &Folder, age: Duration) -> io::Result<Vec<(String, Option<String>)>> {
    let staging = folder.staging()?;
    let mut old = Vec::new();
    for name in names(&staging)? {
        let name = name?;
        let Some(file) = seen(&staging, &name)?.filter(|seen| seen.is_file) else {
            continue;
        };
        let is_part = name.ends_with(PART);
        let has_part = match part_of_note(&name) {
            Some(part) => seen(&staging, part)?.is_some(),
            None => !is_part, // None of ours.
        };
        if !is_old(&file, age) || has_part {
            continue;
        }
        let job = if is_part {
            job_of(&staging, &name)?
        } else {
            None
        };
        old.push((name, job));
    }
    Ok(old)
}

fn is_old(file: &Seen, age: Duration) -> bool {
    let since = SystemTime::now().duration_since(file.changed);
    since.is_ok_and(|since| since >= age)
}

/// Names content again that lost its name, and plans jobs anew whose content is gone.
async fn results(
    queue: &Arc<dyn Queue>,
    tenant: Tenant,
    folder: &Folder,
    options: &Options,
) -> Result<u64, Error> {
    let mut healed = 0;
    let mut before = None;
    loop {
        let page = queue.jobs(scan(tenant, before)).await?;
        for job in page.jobs.iter().filter(|job| job.place == options.place) {
            let Some(downloaded) = result(job) else {
                continue;
            };
            healed += u64::from(heal(queue, job, &downloaded, folder, options.dry_run).await?);
        }
        before = page.next;
        if before.is_none() {
            return Ok(healed);
        }
    }
}

fn scan(tenant: Tenant, before: Option<i64>) -> JobScan {
    JobScan {
        kind: Some(JobKind::DOWNLOAD),
        before,
        limit: JobScan::LIMIT_MAX,
        ..JobScan::of(tenant)
    }
}

/// What a finished download says it made. Other results, as from a worker of another make, are not ours to judge.
fn result(job: &Job) -> Option<Downloaded> {
    let text = job.result.as_deref().filter(|_| job.state.is_terminal())?;
    serde_json::from_str(text).ok()
}

/// What is wrong with a result.
enum Wrong {
    /// The content is gone or damaged.
    Content,
    /// Only its name is gone.
    Name,
}

async fn heal(
    queue: &Arc<dyn Queue>,
    job: &Job,
    downloaded: &Downloaded,
    folder: &Folder,
    dry_run: bool,
) -> Result<bool, Error> {
    let (there, what) = (folder.clone(), downloaded.clone());
    let names = (job.work_id.clone(), job.artifact_id.clone());
    let epoch = job.epoch;
    let wrong = off("comparing a result", move || {
        let object = there.find_object(&what.sha256)?;
        let Some(object) = object.filter(|seen| seen.is_file && seen.size_bytes == what.size)
        else {
            return Ok(Some(Wrong::Content));
        };
        // A link to the object, or a copy where links cannot be.
        let is_it = |file: &Seen| {
            file.is_file && (file.inode == object.inode || file.size_bytes == object.size_bytes)
        };
        let file = there.find_file(&names.0, &names.1)?;
        if file.as_ref().is_some_and(is_it) {
            return Ok(None);
        }
        if !dry_run {
            link(&there, &what.sha256, (&names.0, &names.1), epoch)?;
        }
        Ok(Some(Wrong::Name))
    });
    match wrong.await? {
        None => Ok(false),
        Some(Wrong::Name) => Ok(true),
        Some(Wrong::Content) if dry_run => Ok(true),
        Some(Wrong::Content) => {
            tracing::warn!(job = %job.id, sha256 = %downloaded.sha256, "the content of a job is gone; it is planned anew");
            let fence = Fence {
                owner: None,
                epoch: Some(epoch),
                ..Fence::none()
            };
            let place = job.place.clone();
            let on = On::Job(job.id.clone());
            let redone = act(queue, job.tenant, on, fence, Deed::Redo { place }).await?;
            Ok(redone.is_some())
        }
    }
}

/// Counts objects that no job knows, a bounded number at a time.
async fn orphans(
    queue: &Arc<dyn Queue>,
    tenant: Tenant,
    folder: &Folder,
    options: &Options,
) -> Result<u64, Error> {
    let mut orphans = 0;
    let mut shelf = 0;
    while shelf < SHELVES {
        let (there, age) = (folder.clone(), options.orphan_age);
        let listed = off("listing objects", move || old_objects(&there, age, shelf));
        let (mut unknown, next) = listed.await?;
        shelf = next;
        forget_known(queue, tenant, &mut unknown).await?;
        for hash in &unknown {
            tracing::warn!(object = Folder::object(hash), "no job knows an object");
        }
        orphans += unknown.len() as u64;
    }
    Ok(orphans)
}

/// The old objects from this shelf on, whole shelves at a time, and the first shelf that is left.
fn old_objects(
    folder: &Folder,
    age: Duration,
    first: usize,
) -> io::Result<(HashSet<ContentHash>, usize)> {
    let mut found = HashSet::new();
    for shelf in first..SHELVES {
        if found.len() >= OBJECTS_MAX {
            return Ok((found, shelf));
        }
        let Some(at) = folder.peek(&[OBJECTS, &format!("{shelf:02x}")])? else {
            continue;
        };
        for name in names(&at)? {
            let Some(hash) = ContentHash::parse(&name?) else {
                continue;
            };
            if seen(&at, hash.as_str())?.is_some_and(|seen| is_old(&seen, age)) {
                found.insert(hash);
            }
        }
    }
    Ok((found, SHELVES))
}

/// Takes from `unknown` what a job has as its result, or has finalized and not ended with yet.
async fn forget_known(
    queue: &Arc<dyn Queue>,
    tenant: Tenant,
    unknown: &mut HashSet<ContentHash>,
) -> Result<(), Error> {
    let mut before = None;
    while !unknown.is_empty() {
        let page = queue.jobs(scan(tenant, before)).await?;
        for job in page.jobs {
            if let Some(downloaded) = result(&job) {
                unknown.remove(&downloaded.sha256);
            } else if !unknown.is_empty() {
                let ops = queue.job(tenant, job.id).await?.map(|(_, ops)| ops);
                for hash in ops.iter().flatten().filter_map(hash_of) {
                    unknown.remove(&hash);
                }
            }
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    Ok(())
}

fn hash_of(op: &Op) -> Option<ContentHash> {
    let value: serde_json::Value = serde_json::from_str(op.result.as_deref()?).ok()?;
    ContentHash::parse(value.get("sha256")?.as_str()?)
}

async fn off<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| Error::unavailable(what, error)),
        Err(ended) => Err(Error::new(Kind::Unavailable, what).caused_by(ended)),
    }
}
