//! A job as it is stored, and as it is planned.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use uuid::Uuid;

use super::graph::State;
use super::key::job_key;
use crate::error::Invalid;
use crate::key::visible;
use crate::scope::Tenant;
use crate::time::Time;

/// The id of a job: 1 to 128 visible ASCII characters. A job is stored under its key, unless it was planned with an id of
/// its own; older databases have others.
///
/// People and programs see a UUID: [`Display`](fmt::Display) writes the one that is made of the first 122 bits of the key.
/// Keys of operations are made of the stored id, which is [`JobId::as_str`].
///
/// ```
/// use hapax_core::job::JobId;
///
/// let stored = JobId::new("67f7640f888de7a2f799069aeaced920e858c52b5926d4414a680f6ac609e438")?;
/// assert_eq!(stored.to_string(), "67f7640f-888d-87a2-b799-069aeaced920");
/// let shown = JobId::new("67F7640F-888D-87A2-B799-069AEACED920")?;
/// assert!(stored.goes_by(&shown) && stored.goes_by(&stored));
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(Arc<str>);

impl JobId {
    /// The longest id in bytes.
    pub const BYTES_MAX: usize = 128;

    /// Checks the form of `text` and keeps it.
    ///
    /// # Errors
    /// [`Invalid`] when it is empty, too long or holds anything but visible ASCII.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        visible("job_id", text, Self::BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The id as it is stored, and as keys of operations are made of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `name` is this id, or the UUID that stands for it. The case of a UUID does not matter.
    #[must_use]
    pub fn goes_by(&self, name: &JobId) -> bool {
        self == name || name.uuid().is_some_and(|uuid| self.shown() == Some(uuid))
    }

    /// The ids that a UUID may stand for lie between these two, the second excluded: a key's first 48 bits are the UUID's.
    /// `None` if this is no UUID.
    #[must_use]
    pub fn range(&self) -> Option<(String, String)> {
        let shown = self.uuid()?.simple().to_string();
        let first = &shown[..12];
        Some((first.to_owned(), format!("{first}g")))
    }

    /// The UUID in the form that ids are stored in; every other id as it is.
    #[must_use]
    pub fn normal(self) -> Self {
        match self.uuid() {
            Some(uuid) => Self(uuid.to_string().into()),
            None => self,
        }
    }

    /// The UUID that this text is.
    fn uuid(&self) -> Option<Uuid> {
        let is_hyphenated = self.0.len() == 36;
        Uuid::try_parse(&self.0).ok().filter(|_| is_hyphenated)
    }

    /// The UUID that stands for this id, if it is a key.
    fn shown(&self) -> Option<Uuid> {
        let is_key = self.0.len() == 64;
        let hash = HEXLOWER.decode(self.0.as_bytes()).ok();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.filter(|_| is_key)?[..16]);
        Some(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shown() {
            Some(uuid) => uuid.fmt(f),
            None => f.pad(&self.0),
        }
    }
}

/// What a job is for: 1 to 64 of `a-z`, `0-9`, `_` and `-`. A worker leases the kinds it knows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobKind(Cow<'static, str>);

impl JobKind {
    /// The kind that is meant when none is named.
    pub const DOWNLOAD: JobKind = JobKind(Cow::Borrowed("download"));
    /// The longest kind in bytes.
    pub const BYTES_MAX: usize = 64;

    /// Checks the form of `text` and keeps it.
    ///
    /// # Errors
    /// [`Invalid`] when it is not 1 to 64 of the allowed characters.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
        };
        if text.is_empty() || text.len() > Self::BYTES_MAX || !text.bytes().all(allowed) {
            return Err(Invalid::new("kind", "must be 1 to 64 of a-z, 0-9, _ and -"));
        }
        Ok(Self(Cow::Owned(text.to_owned())))
    }

    /// The kind as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the kind whose graph has every step.
    #[must_use]
    pub fn is_download(&self) -> bool {
        self.0 == Self::DOWNLOAD.0
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a job may run: anywhere (the empty place), or only where its files are. A worker leases one place, and workers
/// over the API have the empty one, so a job with a place is the program's own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place(Arc<str>);

impl Place {
    /// The longest place in bytes.
    pub const BYTES_MAX: usize = 1024;

    /// Checks the form of `text` and keeps it.
    ///
    /// # Errors
    /// [`Invalid`] when it is too long or holds a control character.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        plain("place", text, Self::BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The place as text; empty for anywhere.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who holds a job, and until when nobody else may take it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The holder's name.
    pub owner: Arc<str>,
    /// The end of the lease. A holder may renew it later than that, until somebody else has the job.
    pub until: Time,
}

/// A stored job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Whose.
    pub tenant: Tenant,
    /// Its place in the order of planning, given by the store.
    pub seq: i64,
    /// Its id.
    pub id: JobId,
    /// What makes it the same job when it is planned again; unique within its tenant.
    pub key: String,
    /// What it is for.
    pub kind: JobKind,
    /// Where it may run.
    pub place: Place,
    /// How far it has come.
    pub state: State,
    /// Who holds it, or held it last without giving it back.
    pub lease: Option<Hold>,
    /// The fence: rises with every lease and with every retry by a person.
    pub epoch: i64,
    /// How often it was leased.
    pub attempts: u32,
    /// How many leases ended in a failure or ran out since the last retry by a person.
    pub failures: u32,
    /// After this many failures it is given up.
    pub max_attempts: u32,
    /// How long it rests after its first failure; a second if `None`. See [`rest`](super::backoff::rest).
    pub backoff: Option<Duration>,
    /// When it may be leased, if it is not terminal: never earlier than the end of a lease or of a rest.
    pub available_at: Time,
    /// Operations begun up to this epoch are as if they had never been: the job was planned anew since.
    pub redone: i64,
    /// Operations that failed for good up to this epoch may run again: a person retried the job since.
    pub retried: i64,
    /// The work it belongs to.
    pub work_id: String,
    /// The artifact it is about.
    pub artifact_id: String,
    /// Where the artifact is.
    pub canonical_url: String,
    /// What the planner added, as JSON text.
    pub payload: Option<Arc<str>>,
    /// What came of it, as JSON text.
    pub result: Option<Arc<str>>,
    /// Why its last attempt failed.
    pub error: Option<Arc<str>>,
    /// When it was planned.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
}

impl Job {
    /// The attempts of a job, unless it is planned with another number.
    pub const ATTEMPTS_MAX: u32 = 5;
    /// The longest name of a holder in bytes.
    pub const OWNER_BYTES_MAX: usize = 200;
    /// The longest error that is kept, in bytes; the end of a longer one is cut off.
    pub const ERROR_BYTES_MAX: usize = 8192;
    /// The largest payload in bytes.
    pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
    /// The shortest and the longest lease.
    pub const LEASES: (Duration, Duration) =
        (Duration::from_millis(1), Duration::from_secs(86_400));

    /// Whether the program runs it itself: it has a place, which no job that is planned over the API has.
    #[must_use]
    pub fn is_of_the_program(&self) -> bool {
        self.place != Place::default()
    }

    /// Whether somebody holds it now.
    #[must_use]
    pub fn is_held(&self, now: Time) -> bool {
        self.lease.as_ref().is_some_and(|hold| hold.until > now)
    }

    /// Whether it can be leased now.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        !self.state.is_terminal() && self.available_at <= now
    }

    /// Checks the form of a holder's name.
    ///
    /// # Errors
    /// [`Invalid`] when it is empty, too long or holds a control character.
    pub fn check_owner(owner: &str) -> Result<(), Invalid> {
        filled("owner", owner, Self::OWNER_BYTES_MAX)
    }
}

/// A job to be planned, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewJob {
    id: Option<JobId>,
    kind: JobKind,
    place: Place,
    work_id: String,
    artifact_id: String,
    canonical_url: String,
    payload: Option<Arc<str>>,
    max_attempts: u32,
    backoff: Option<Duration>,
}

impl NewJob {
    /// The longest work or artifact id in bytes.
    pub const ID_BYTES_MAX: usize = 512;
    /// The longest URL in bytes.
    pub const URL_BYTES_MAX: usize = 8192;

    /// A job of `kind`.
    ///
    /// # Errors
    /// [`Invalid`] when an id or the URL is empty, too long or holds a control character.
    pub fn new(
        kind: JobKind,
        work_id: &str,
        artifact_id: &str,
        canonical_url: &str,
    ) -> Result<Self, Invalid> {
        filled("work_id", work_id, Self::ID_BYTES_MAX)?;
        filled("artifact_id", artifact_id, Self::ID_BYTES_MAX)?;
        filled("canonical_url", canonical_url, Self::URL_BYTES_MAX)?;
        Ok(Self {
            id: None,
            kind,
            place: Place::default(),
            work_id: work_id.to_owned(),
            artifact_id: artifact_id.to_owned(),
            canonical_url: canonical_url.to_owned(),
            payload: None,
            max_attempts: Job::ATTEMPTS_MAX,
            backoff: None,
        })
    }

    /// A download.
    ///
    /// # Errors
    /// Those of [`NewJob::new`].
    pub fn download(
        work_id: &str,
        artifact_id: &str,
        canonical_url: &str,
    ) -> Result<Self, Invalid> {
        Self::new(JobKind::DOWNLOAD, work_id, artifact_id, canonical_url)
    }

    /// What it brings along for its workers.
    #[must_use]
    pub fn payload(&self) -> Option<&Arc<str>> {
        self.payload.as_ref()
    }

    /// The same with a payload, which is JSON text.
    ///
    /// # Errors
    /// [`Invalid`] when it is not JSON that can be stored, or larger than [`Job::PAYLOAD_BYTES_MAX`].
    pub fn with_payload(mut self, payload: &str) -> Result<Self, Invalid> {
        if payload.len() > Job::PAYLOAD_BYTES_MAX {
            return Err(Invalid::new(
                "payload",
                format!("is larger than {} bytes", Job::PAYLOAD_BYTES_MAX),
            ));
        }
        // One level more than a document may have: a payload may wrap one.
        let depth_max = crate::canonical::DEPTH_MAX + 1;
        crate::canonical::check_with_depth(payload.as_bytes(), depth_max)
            .map_err(|reject| Invalid::new("payload", reject.to_string()))?;
        self.payload = Some(payload.into());
        Ok(self)
    }

    /// The same with an id of its own instead of its key. The same key must always come with the same id.
    #[must_use]
    pub fn with_id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// The same, to be run in one place only.
    #[must_use]
    pub fn in_place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// The same, given up after this many failures, at least one.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// The same, resting this long after its first failure, and four times as long after each that follows, up to
    /// [`LONGEST`](super::backoff::LONGEST). With [`Duration::ZERO`] it never rests.
    #[must_use]
    pub fn backoff(mut self, first: Duration) -> Self {
        self.backoff = Some(first.min(super::backoff::LONGEST));
        self
    }

    /// What makes it the same job when it is planned again.
    #[must_use]
    pub fn key(&self) -> String {
        job_key(
            &self.kind,
            &self.work_id,
            &self.artifact_id,
            &self.canonical_url,
        )
    }

    /// The job that a store writes when the key is new.
    ///
    /// # Panics
    /// Never: a key is always an id.
    #[must_use]
    pub fn at(self, tenant: Tenant, seq: i64, now: Time) -> Job {
        let key = self.key();
        Job {
            tenant,
            seq,
            id: self
                .id
                .unwrap_or_else(|| JobId::new(&key).expect("a key is an id")),
            key,
            kind: self.kind,
            place: self.place,
            state: State::Planned,
            lease: None,
            epoch: 0,
            attempts: 0,
            failures: 0,
            max_attempts: self.max_attempts,
            backoff: self.backoff,
            available_at: now,
            redone: -1,
            retried: -1,
            work_id: self.work_id,
            artifact_id: self.artifact_id,
            canonical_url: self.canonical_url,
            payload: self.payload,
            result: None,
            error: None,
            created_at: now,
            updated_at: now,
        }
    }
}

fn filled(what: &'static str, text: &str, bytes_max: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(what, "is empty"));
    }
    plain(what, text, bytes_max)
}

fn plain(what: &'static str, text: &str, bytes_max: usize) -> Result<(), Invalid> {
    if text.len() > bytes_max {
        return Err(Invalid::new(
            what,
            format!(
                "is {} bytes long; at most {bytes_max} are allowed",
                text.len()
            ),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(what, "holds a control character"));
    }
    Ok(())
}
