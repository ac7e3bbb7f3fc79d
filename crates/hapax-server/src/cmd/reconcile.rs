//! `hapax reconcile`: cleans up after dead workers. Leases that ran out are over, and operations that nobody
//! runs any more are in doubt.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use hapax_core::job::Place;
use hapax_core::{Action, Error, Note, Tenant};
use hapax_effects::download::Folder;
pub(crate) use hapax_effects::reconcile::Reconciled;
use hapax_effects::reconcile::{self, Options};

use crate::cli::Reconcile;
use crate::config::Config;
use crate::exit::Usage;
use crate::store::Store;
use crate::{out, worker};

pub(super) async fn run(args: &Reconcile) -> Result<()> {
    let config = Config::load(&args.plain.store.flags())?;
    let staging = args.staging.as_deref().map(Files::beside).transpose()?;
    let store = Store::open_made(&config).await?;
    let files = match staging {
        None => Files::of_worker(&config)?,
        some => some,
    };
    let asked = Asked {
        tenant: None,
        dry_run: args.dry_run,
        careful: false,
        jobs: true,
        actor: "hapax reconcile",
    };
    let found = whole(&store, files, &asked).await?;
    store.close().await;
    if args.plain.json {
        return out::json(&serde_json::to_value(found)?);
    }
    out::line(&told(&found))
}

fn told(found: &Reconciled) -> String {
    let verb = if found.dry_run { "would end" } else { "ended" };
    format!(
        "{verb} {} leases that ran out, {} operations without a runner are in doubt; {} unfinished files deleted, {} jobs \
         healed, {} objects that no job knows",
        found.leases_expired, found.ops_in_doubt, found.parts_deleted, found.healed, found.orphans
    )
}

/// What is asked of a clean-up.
pub(crate) struct Asked<'a> {
    /// Of one tenant, or of all.
    pub(crate) tenant: Option<Tenant>,
    /// Whether it only counts.
    pub(crate) dry_run: bool,
    /// Whether it leaves the results alone when the whole folder is empty: nobody asked, and a disk may be missing.
    pub(crate) careful: bool,
    /// Whether jobs are looked at, and not only files.
    pub(crate) jobs: bool,
    /// Who asked, for the audit trail.
    pub(crate) actor: &'a str,
}

/// The files that jobs of a place made.
pub(crate) struct Files {
    folder: Folder,
    place: Place,
}

impl Files {
    /// The folder of the worker, if anything was downloaded into it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn of_worker(config: &Config) -> Result<Option<Self>, Error> {
        let path = worker::folder_path(config);
        if !path.is_dir() {
            return Ok(None);
        }
        let folder = Folder::open(&path).map_err(disk)?;
        let place = Place::default();
        Ok(Some(Self { folder, place }))
    }

    /// The folder that `hapax download --out` made, by its staging folder.
    ///
    /// # Errors
    /// [`Usage`] when there is no such folder.
    fn beside(staging: &Path) -> Result<Self> {
        let folder = Folder::around(staging)
            .map_err(|why| Usage::error(format!("--staging {}: {why}", staging.display())))?;
        let place = folder.place().map_err(disk)?;
        Ok(Self { folder, place })
    }
}

fn disk(error: std::io::Error) -> Error {
    Error::unavailable("reading the folder of downloads", error)
}

/// Puts right what the database tells, and then what the disk does.
///
/// # Errors
/// Whatever the queue or the disk met; what was put right before stays so.
pub(crate) async fn whole(
    store: &Store,
    files: Option<Files>,
    asked: &Asked<'_>,
) -> Result<Reconciled, Error> {
    let queue = &store.queue;
    let mut found = Reconciled {
        dry_run: asked.dry_run,
        ..Reconciled::default()
    };
    let jobs = if asked.jobs {
        reconcile::reconcile_jobs(queue.as_ref(), asked.tenant, asked.dry_run).await?
    } else {
        BTreeMap::default()
    };
    let mut notes = Vec::new();
    for (tenant, of) in jobs {
        found.leases_expired += of.leases_expired;
        found.ops_in_doubt += of.ops_in_doubt;
        let note = Note::new(tenant, queue.time(), Action::Reconciled).by(asked.actor);
        notes.push(note.saying([
            ("leases_expired", of.leases_expired.into()),
            ("ops_in_doubt", of.ops_in_doubt.into()),
        ]));
    }
    if !asked.dry_run {
        store.note(notes).await;
    }
    let Some(files) = files else { return Ok(found) };
    let Files { folder, place } = files;
    // Only folders that are there: looking makes none.
    let mut tenants = folder.tenants().map_err(disk)?;
    tenants.retain(|tenant| asked.tenant.is_none_or(|only| only == *tenant));
    let options = Options {
        dry_run: asked.dry_run,
        careful: asked.careful,
        place,
        ..Options::default()
    };
    for tenant in tenants {
        let on_disk =
            reconcile::reconcile_files(queue, tenant, &folder.of(tenant).map_err(disk)?, &options)
                .await?;
        found.parts_deleted += on_disk.parts_deleted;
        found.healed += on_disk.healed;
        found.orphans += on_disk.orphans;
    }
    Ok(found)
}
