//! What downloads: the client, its guard and limits, and the folder. The steps are its functions.

use std::sync::Arc;

use hapax_core::Tenant;

use super::ask::Asker;
use super::error::{Code, Error};
use super::folder::Folder;
use super::guard::Guard;
use super::hash::ContentHash;
use super::head::{Head, head};
use super::lane::Lane;
use super::limits::Limits;
use super::part::{Found, InHand, Owner, Part};
use super::place::{self, Linking, Outcome, Placed, Placing};
use super::stream::{Fetched, Progress, Run, Streamed, Wanted, off};
use super::together::{Together, together};

/// Downloads into one folder. Cloning it is cheap, and clones share what they know of hosts.
///
/// ```no_run
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use hapax_effects::download::{Downloader, Folder, Guard, Limits, Wanted, part::Owner};
/// use hapax_core::job::JobId;
///
/// let folder = Folder::open("downloads".as_ref())?;
/// let downloader = Downloader::new(folder.clone(), Guard::public_only(), Limits::default())?;
/// let (wanted, owner) = (Wanted::at("https://example.org/paper.pdf"), Owner::of(&JobId::new("j-1")?, 1));
///
/// let head = downloader.head(&wanted.url).await?;
/// let streamed = downloader.stream(&folder, &owner, &wanted, Some(&head), &|_, _| {}).await?;
/// let placed = downloader.finalize(&folder, &owner, &wanted, &streamed).await?;
/// let path = downloader.index(&folder, &owner, &placed.sha256, ("w-1", "a-1")).await?;
/// println!("{path} has {} bytes", placed.size);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Downloader {
    asker: Arc<Asker>,
    folder: Folder,
    /// What is small is made durable together with others, where that can be trusted.
    rounds: Option<Arc<Together>>,
    /// What is short is done in turn by few threads.
    lane: Lane,
}

/// What asks sources: the client, its guard and limits. Making it reads the certificates of the system, which takes a
/// while.
#[derive(Clone, Debug)]
pub struct Sources {
    asker: Arc<Asker>,
}

impl Sources {
    /// What asks within these limits.
    ///
    /// # Errors
    /// [`Error`] when the HTTP client cannot be made, as when no certificates are found.
    pub fn new(guard: Guard, limits: Limits) -> Result<Self, Error> {
        let asker = Arc::new(Asker::new(guard, limits)?);
        Ok(Self { asker })
    }
}

/// What is on disk before a download begins.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) folder: Folder,
    /// The size of the object that has the wanted sha256, if it is there.
    pub(super) known_size: Option<u64>,
    /// A part of the job, whether or not it can be continued.
    pub(super) part: Option<Found>,
}

impl Downloader {
    /// A downloader into `folder`.
    ///
    /// # Errors
    /// [`Error`] when the HTTP client cannot be made, as when no certificates are found.
    pub fn new(folder: Folder, guard: Guard, limits: Limits) -> Result<Self, Error> {
        Ok(Self::of(folder, Sources::new(guard, limits)?))
    }

    /// A downloader from `sources` into `folder`.
    #[must_use]
    pub fn of(folder: Folder, sources: Sources) -> Self {
        Self {
            asker: sources.asker,
            rounds: Together::of(&folder).map(Arc::new),
            lane: Lane::new(),
            folder,
        }
    }

    /// The same for this tenant, which has its share of each host. A new one asks for the tenant `default`.
    #[must_use]
    pub fn of_tenant(&self, tenant: Tenant) -> Self {
        Self {
            asker: Arc::new(self.asker.of(tenant)),
            ..self.clone()
        }
    }

    /// The folder that it downloads into.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The folder of one tenant.
    ///
    /// # Errors
    /// [`Code::Disk`] when it cannot be made.
    pub async fn folder_of(&self, tenant: Tenant) -> Result<Folder, Error> {
        let folder = self.folder.clone();
        let found = off(move || folder.of(tenant)).await?;
        found.map_err(|error| Error::disk("opening the folder", &error))
    }

    /// What is on disk already of what `owner` wants, in the folder of its tenant.
    pub(super) async fn look(
        &self,
        tenant: Tenant,
        owner: &Owner,
        wanted: &Wanted,
    ) -> Result<Look, Error> {
        let (folder, owner, wanted) = (self.folder.clone(), owner.clone(), wanted.clone());
        // Content that is there is hashed, and that may take long.
        let is_short = wanted.sha256.is_none();
        let look = move || {
            let folder = folder.of(tenant)?;
            let known_size = match &wanted.sha256 {
                Some(hash) => place::find(&folder, hash, wanted.size)?,
                None => None,
            };
            let part = Part::find(&folder, &owner)?;
            Ok(Look {
                folder,
                known_size,
                part,
            })
        };
        let looked = if is_short {
            self.lane.run(look).await?
        } else {
            off(look).await?
        };
        looked.map_err(|error: std::io::Error| Error::disk("looking at the folder", &error))
    }

    /// What the source says it has. Harmless to repeat.
    ///
    /// # Errors
    /// [`Error`] when it says nothing, or may not be asked.
    pub async fn head(&self, url: &str) -> Result<Head, Error> {
        head(&self.asker, url).await
    }

    /// The part that can be continued, if there is one.
    ///
    /// # Errors
    /// [`Code::Disk`] when the folder cannot be read.
    pub async fn resume(&self, folder: &Folder, owner: &Owner) -> Result<Option<Found>, Error> {
        let (folder, owner) = (folder.clone(), owner.clone());
        let found = off(move || Part::find(&folder, &owner)).await?;
        let found = found.map_err(|error| Error::disk("looking for a part", &error))?;
        Ok(found.filter(Found::can_be_continued))
    }

    /// The size of the object with this hash, if it is there and its bytes are what its name says.
    ///
    /// # Errors
    /// [`Code::Disk`] when the folder cannot be read.
    pub async fn find(
        &self,
        folder: &Folder,
        hash: &ContentHash,
        size: Option<u64>,
    ) -> Result<Option<u64>, Error> {
        let (folder, hash) = (folder.clone(), hash.clone());
        let found = off(move || place::find(&folder, &hash, size)).await?;
        found.map_err(|error| Error::disk("looking for an object", &error))
    }

    /// Fetches what is wanted into a part, continuing what is there. Dropping the future keeps what was written.
    ///
    /// # Errors
    /// [`Error`] when it could not be fetched whole, or is not what was wanted.
    pub async fn stream(
        &self,
        folder: &Folder,
        owner: &Owner,
        wanted: &Wanted,
        head: Option<&Head>,
        progress: Progress<'_>,
    ) -> Result<Streamed, Error> {
        let known = (head, false);
        let fetched = self.stream_known(folder, owner, wanted, known, progress);
        Ok(fetched.await?.streamed)
    }

    /// The same, with what is known beforehand: what the source told, and whether there is no part for sure.
    pub(super) async fn stream_known(
        &self,
        folder: &Folder,
        owner: &Owner,
        wanted: &Wanted,
        (head, is_new): (Option<&Head>, bool),
        progress: Progress<'_>,
    ) -> Result<Fetched, Error> {
        let run = Run {
            asker: &self.asker,
            lane: &self.lane,
            folder,
            owner,
            wanted,
            head,
            is_new,
            progress,
        };
        run.stream().await
    }

    /// Puts what was streamed in its place, durably. A part that got lost since is fetched again.
    ///
    /// # Errors
    /// [`Error`] when the folder cannot be written, or a lost part cannot be fetched again as it was.
    pub async fn finalize(
        &self,
        folder: &Folder,
        owner: &Owner,
        wanted: &Wanted,
        streamed: &Streamed,
    ) -> Result<Placed, Error> {
        self.finalize_known(folder, owner, wanted, (streamed, None))
            .await
    }

    /// The same, with the part in hand if it is.
    pub(super) async fn finalize_known(
        &self,
        folder: &Folder,
        owner: &Owner,
        wanted: &Wanted,
        (streamed, in_hand): (&Streamed, Option<InHand>),
    ) -> Result<Placed, Error> {
        let (mut streamed, mut in_hand) = (streamed.clone(), in_hand);
        for has_fetched in [false, true] {
            let placing = Placing::new(folder, owner, &streamed, in_hand.take());
            let rounds = self.rounds.as_deref();
            let outcome = together(rounds, (folder, streamed.size), placing).await?;
            match outcome
                .map_err(|error| Error::disk("putting the content in its place", &error))?
            {
                Outcome::Placed(placed) => return Ok(placed),
                Outcome::PartBusy => {
                    let text = "somebody else writes the part";
                    return Err(Error::retryable(Code::PartBusy, text));
                }
                Outcome::PartLost if has_fetched => break,
                Outcome::PartLost => {
                    tracing::warn!(sha256 = %streamed.sha256, "a part got lost and is fetched again");
                    let same = Wanted {
                        sha256: Some(streamed.sha256.clone()),
                        size: Some(streamed.size),
                        ..wanted.clone()
                    };
                    let again = self.stream_known(folder, owner, &same, (None, false), &|_, _| {});
                    let fetched = again.await?;
                    (streamed, in_hand) = (fetched.streamed, Some(fetched.part));
                }
            }
        }
        Err(Error::retryable(Code::Disk, "the part got lost again"))
    }

    /// Gives an object the names of work and artifact, and says by which path, relative to the folder. What the job
    /// has in staging is of no use then and goes.
    ///
    /// # Errors
    /// [`Code::Disk`] when the folder cannot be written or the object is not there.
    pub async fn index(
        &self,
        folder: &Folder,
        owner: &Owner,
        hash: &ContentHash,
        (work_id, artifact_id): (&str, &str),
    ) -> Result<String, Error> {
        let linking = Linking::new(folder, owner, hash, (work_id, artifact_id));
        let linked = together(self.rounds.as_deref(), (folder, 0), linking).await?;
        linked.map_err(|error| Error::disk("naming the content", &error))
    }
}
