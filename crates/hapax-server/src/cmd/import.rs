//! `hapax import mbox`: imports a mailbox here, with progress, by the code that the API runs. A rerun goes on where the last
//! one stopped.

mod bar;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use hapax::job::Worker;
use hapax_core::entry::{Import, ImportStatus, NewImport, Refused};
use hapax_core::job::State;
use hapax_core::{Error, Tenant};
use tokio::sync::Notify;
use uuid::Uuid;

use super::serve::Signals;
use crate::cli::ImportMbox;
use crate::config::Config;
use crate::exit::{self, Failed, Usage, advised};
use crate::import::asked::Asked;
use crate::import::desk::LEASE;
use crate::import::job::{self, Importing};
use crate::import::mailbox::{Mailbox, Watched};
use crate::import::open::{Closed, Root};
use crate::import::roots::Roots;
use crate::import::shown::Shown;
use crate::import::threads;
use crate::out::{self, Tone, plain};
use crate::store::Store;
use crate::{keep, worker};
use bar::Bar;

/// How often it is looked whether the import has ended, here or elsewhere.
const LOOK: Duration = Duration::from_millis(200);
/// How often within that time the job of an import that has ended is looked at.
const JOB_LOOKS: u32 = 50;

pub(super) async fn run(args: &ImportMbox) -> Result<()> {
    let config = Config::load(&args.of.plain.store.flags())?;
    let asked = Asked {
        batch_size: args.batch_size,
        insert_chunk_size: args.insert_chunk_size,
        completion_window: args.completion_window.clone(),
        thread_policy: args.thread_policy.clone(),
    };
    if let Some((name, why)) = asked.faults().into_iter().next() {
        let flag = name.replace('_', "-");
        return Err(Usage::hinted(
            format!("--{flag} {why}"),
            "`hapax import mbox --help` explains it",
        ));
    }
    let (root, new, file_bytes) = found(&args.file, asked)?;
    let mut signals = Signals::watch()?;
    keep::make_folder(&config.data)?;
    let store = Store::open(&config).await?;
    let begun = Instant::now();
    let (tenant, json) = (args.of.tenant, args.of.plain.json);
    let new = threads::checked(&store, tenant, new).await?;
    let new = new.map_err(|refused| unusable(&refused, args.thread_policy.as_deref()))?;
    let import = store.imports.begin_import(tenant, new).await?;
    if import.counts.total_messages > 0 && !json {
        out::note(&format!(
            "going on after {} messages",
            import.counts.total_messages
        ));
    }
    let watched = Watched::default();
    let bar = Bar::new(file_bytes, &watched, json);
    let driven = Driven {
        store: &store,
        tenant,
        id: import.id,
    };
    let (interrupted, stalled) = driven.run(root, watched, &bar, &mut signals).await?;
    let import = driven.now().await?;
    store.close().await;
    bar.finish();
    report(&import, begun.elapsed(), json, stalled.as_deref())?;
    if interrupted && import.status == ImportStatus::Running {
        out::note("interrupted\nhint: run the same command again to go on where it stopped");
    }
    if import.status == ImportStatus::Completed {
        Ok(())
    } else {
        Err(Failed.into())
    }
}

/// The file, the folder around it, and the import that it is.
fn found(file: &Path, asked: Asked) -> Result<(Root, NewImport, u64)> {
    let shown = file.display();
    let real = file
        .canonicalize()
        .map_err(|why| anyhow!("reading the mailbox {shown}: {why}"))?;
    let (Some(folder), Some(path)) = (real.parent(), real.to_str()) else {
        bail!("{shown} is not a mailbox: its name is not text, or it has none");
    };
    let root = Root::new(folder)?.with_linked_files();
    let opened = root.open(path).map_err(|closed| match closed {
        Closed::Io(why) => anyhow!("reading the mailbox {shown}: {why}"),
        Closed::Missing | Closed::NoFolder => {
            anyhow!("reading the mailbox {shown}: it is not there")
        }
        Closed::Folder => {
            anyhow!("reading the mailbox {shown}: it is a folder; name the file in it")
        }
        Closed::Forbidden | Closed::Form(_) => {
            anyhow!("reading the mailbox {shown}: it is not a plain file that this user can read")
        }
    })?;
    let mailbox = Mailbox::of(opened.file).with_context(|| format!("reading {shown}"))?;
    let new = asked.import(&opened.path, &mailbox);
    let new = new.with_context(|| format!("the name of {shown} is not text"))?;
    Ok((root, new, mailbox.file_bytes()))
}

/// The refusal of a policy, with the command that would make it a good one.
fn unusable(refused: &Refused, policy: Option<&str>) -> anyhow::Error {
    let policy = policy.unwrap_or_default();
    let (what, more) = match refused.code {
        "policy_disabled" => ("is disabled", " --enabled true"),
        _ => ("does not exist", " --create"),
    };
    let message = format!(
        "the policy {policy} {what}\nhint: run `hapax policies set {policy}{more}`, then import again"
    );
    exit::Refused::error(refused.code, message)
}

/// An import that this command drives, or waits for while another process does.
struct Driven<'a> {
    store: &'a Store,
    tenant: Tenant,
    id: Uuid,
}

impl Driven<'_> {
    /// Drives it until it ends, an attempt fails, or a signal comes: whether one came, and why an attempt failed.
    async fn run(
        &self,
        root: Root,
        watched: Watched,
        bar: &Bar,
        signals: &mut Signals,
    ) -> Result<(bool, Option<String>)> {
        let place = job::place_alone(self.id);
        self.offer().await?;
        let (told, over) = (bar.clone(), Arc::new(Notify::new()));
        let tells_over = Arc::clone(&over);
        let handler = Importing {
            imports: Arc::clone(&self.store.imports),
            roots: Roots::One(root),
            watched,
            progress: Arc::new(move |import: &Import| {
                told.tell(import);
                if import.status != ImportStatus::Running {
                    tells_over.notify_one();
                }
            }),
        };
        let working = Worker::new(Arc::clone(&self.store.queue))
            .handler(job::kind(), handler)
            .place(place)
            .ttl(LEASE);
        let (mut interrupted, mut ended) = (false, Ok(None));
        let stop = async {
            tokio::select! {
                done = self.ended(bar, &over) => ended = done,
                _ = signals.next() => interrupted = true,
            }
        };
        // What is not written when a signal comes is read again by the next run.
        worker::run(working, self.store.clone(), stop, Duration::ZERO).await;
        Ok((interrupted, ended?))
    }

    async fn offer(&self) -> Result<(), Error> {
        let place = job::place_alone(self.id);
        job::offer(self.store.queue.as_ref(), self.tenant, self.id, &place).await
    }

    /// Ends when the import has, or an attempt of ours failed: then it says why. While another process drives it, that
    /// is watched, and taken over if it dies.
    async fn ended(&self, bar: &Bar, over: &Notify) -> Result<Option<String>> {
        loop {
            // The end of what is driven here is told; what another process drives is looked at.
            let is_told = tokio::time::timeout(LOOK, over.notified()).await.is_ok();
            if is_told {
                self.job_ended().await?;
            }
            let import = self.now().await?;
            bar.tell(&import);
            if import.status != ImportStatus::Running {
                return Ok(None);
            }
            let found = self.store.queue.job(self.tenant, job::id(self.id)).await?;
            let Some((job, _)) = found else { continue };
            if job.place != job::place_alone(self.id) {
                self.offer().await?;
            } else if matches!(job.state, State::Failed | State::Dead)
                && self.now().await?.status == ImportStatus::Running
            {
                let why = job.error.as_deref().unwrap_or("an attempt failed");
                return Ok(Some(why.to_owned()));
            }
        }
    }

    /// Waits until the job has its end too, which is written right after that of the import. Without it the next start
    /// finds the job and ends it.
    async fn job_ended(&self) -> Result<()> {
        for _ in 0..JOB_LOOKS {
            let found = self.store.queue.job(self.tenant, job::id(self.id)).await?;
            if found.is_none_or(|(job, _)| job.state.is_terminal()) {
                break;
            }
            tokio::time::sleep(LOOK / JOB_LOOKS).await;
        }
        Ok(())
    }

    async fn now(&self) -> Result<Import> {
        let found = self.store.imports.import(self.tenant, self.id).await?;
        found.context("the import is gone from the database")
    }
}

/// Prints what came of it.
fn report(import: &Import, took: Duration, json: bool, stalled: Option<&str>) -> Result<()> {
    if json {
        let shown = Shown::of(import, None);
        let shown = match stalled {
            Some(why) => shown.stalled(why.to_owned()),
            None => shown,
        };
        return out::json(&serde_json::to_value(shown)?);
    }
    let counts = &import.counts;
    if !import.errors.is_empty() {
        let rows: Vec<_> = import
            .errors
            .iter()
            .map(|error| {
                vec![
                    plain(&error.index),
                    plain(error.phase),
                    (error.message.clone(), Tone::Bad),
                ]
            })
            .collect();
        out::table(&["Message", "Phase", "Why"], &rows)?;
        let all = counts.normalize_errors + counts.insert_errors;
        let told = import.errors.len() as u64;
        if all > told {
            out::line(&format!("and {} more that failed", all - told))?;
        }
    }
    if import.status == ImportStatus::Failed {
        let why = import.error.as_deref().unwrap_or("for no known reason");
        let again = "put that right and run the same command again";
        let (why, next) = advised(why).unwrap_or((why, again));
        out::note(&format!(
            "the import {} failed: {why}\nhint: {next}",
            import.id
        ));
        return Ok(());
    }
    out::line(&format!(
        "{} messages into {}: {} inserted, {} updated, {} skipped, {} not normalised, {} not inserted; {} queued for enrichment in {} batches; {:.1} s",
        counts.total_messages,
        import.schema.as_str(),
        counts.inserted,
        counts.updated,
        counts.skipped,
        counts.normalize_errors,
        counts.insert_errors,
        counts.tier1_enqueued_items,
        import.batches.len(),
        took.as_secs_f64(),
    ))?;
    if let Some(why) = stalled.filter(|_| import.status == ImportStatus::Running) {
        out::note(&format!(
            "the import {} stopped: {why}\nhint: run the same command again to go on",
            import.id
        ));
    }
    Ok(())
}
