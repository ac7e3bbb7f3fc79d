//! A part: content on its way, with one writer. It is only ever appended to, and a note beside it says which
//! version of the source its bytes are.
//!
//! A part is named by its job and the epoch of its writer, and locked while it is written. Whoever takes a job
//! over takes its part over: by a new name if nobody holds the lock, else by copying what is there, since a
//! stalled writer may still append to it. To start over is to make a new file, so bytes under a note never
//! change.

mod earlier;

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use hapax_core::job::JobId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::folder::{Folder, create_file, names, open_file, read_text, remove, seen, write_text};
use super::hash::ContentHash;
use super::name::file_name;
use super::rounds::sync_folder;
use earlier::{adopt, candidates, copy, part_names};

/// How a part's name ends.
pub(crate) const PART: &str = ".part";
/// How the name of the note beside it ends.
const NOTE: &str = ".json";
const NOTE_BYTES_MAX: u64 = 64 << 10;
/// The buffer of everything that reads a part.
const BUFFER_BYTES: usize = 256 << 10;
/// The most that is fetched again after a crash though it had come whole: a note would cost more than the fetch.
const UNNOTED_BYTES_MAX: u64 = 64 << 10;
/// Up to this epoch the parts of a job are looked for by their names, beyond it among all of staging.
const EPOCHS_TRIED: i64 = 4;

/// Whose part, and of which lease.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    job: String,
    name: String,
    epoch: i64,
}

impl Owner {
    /// The holder of the lease of `job` with this epoch.
    #[must_use]
    pub fn of(job: &JobId, epoch: i64) -> Self {
        Self {
            job: job.as_str().to_owned(),
            name: file_name(job.as_str()),
            epoch,
        }
    }

    /// The epoch of the lease.
    #[must_use]
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    pub(crate) fn part_name(&self) -> String {
        self.part_name_of(self.epoch)
    }

    /// Whether its job was leased so seldom that each of its parts can be looked for.
    fn has_few_epochs(&self) -> bool {
        (1..=EPOCHS_TRIED).contains(&self.epoch)
    }

    fn part_name_of(&self, epoch: i64) -> String {
        format!("{}.{epoch}{PART}", self.name)
    }

    /// The name of the job and the epoch that a file in staging has, be it a part, a note, or a note on its way.
    fn parse(file: &str) -> Option<(&str, i64)> {
        let stem = [PART, NOTE, ".json.new"]
            .iter()
            .find_map(|end| file.strip_suffix(end))?;
        let stem = stem.strip_suffix(PART).unwrap_or(stem);
        let (name, epoch) = stem.rsplit_once('.')?;
        let epoch = epoch.parse().ok()?;
        (!name.is_empty()).then_some((name, epoch))
    }
}

/// Which version of the source the bytes of a part are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Version {
    /// The URL that was asked for.
    pub url: String,
    /// The URL that answered, after redirects.
    pub final_url: String,
    /// The entity tag, if there was one.
    pub etag: Option<String>,
    /// When it was last modified, if that was said.
    pub last_modified: Option<String>,
    /// What can be sent as `If-Range`: only then can it be continued.
    pub if_range: Option<String>,
    /// Its whole length in bytes, if that was said.
    pub length: Option<u64>,
    /// Its media type, if that was said.
    pub content_type: Option<String>,
}

/// The note beside a part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Note {
    /// The job, as it is called in the queue.
    job: String,
    #[serde(flatten)]
    version: Version,
    /// The file that it is about: a note never speaks for another file of the same name.
    inode: u64,
    /// The boot of the machine on which it was written.
    boot: String,
    /// How many bytes are known to be durable.
    synced: u64,
    /// The sha256 of the content, once it is whole.
    #[serde(default)]
    sha256: Option<ContentHash>,
}

/// A part that can be continued, as it was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// How many of its bytes can be trusted.
    pub length: u64,
    /// Which version of the source they are.
    pub version: Version,
}

impl Found {
    /// Whether there is something to go on from, and the source can say whether it is still the same.
    pub(super) fn can_be_continued(&self) -> bool {
        self.length > 0 && self.version.if_range.is_some()
    }
}

/// A part that we alone write.
#[derive(Debug)]
pub struct Part {
    staging: OwnedFd,
    owner: Owner,
    file: File,
    note: Note,
    /// Whether the note is on disk, so that others can continue the part.
    is_noted: bool,
    length: u64,
}

impl Part {
    /// Which part `owner` could continue now, without touching it.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn find(folder: &Folder, owner: &Owner) -> io::Result<Option<Found>> {
        let staging = folder.staging()?;
        let candidate = candidates(&staging, owner)?.into_iter().next();
        Ok(candidate.map(|candidate| Found {
            length: candidate.trusted,
            version: candidate.note.version,
        }))
    }

    /// Takes over what `owner` can continue, if there is anything. `None` when there is not.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when somebody else writes the part of the very same lease, and whatever the
    /// file system says.
    pub fn take(folder: &Folder, owner: &Owner) -> io::Result<Option<Self>> {
        let staging = folder.staging()?;
        let own_name = owner.part_name();
        for candidate in candidates(&staging, owner)? {
            let is_own = candidate.name == own_name;
            let Some(file) = open_file(&staging, &candidate.name, true)? else {
                continue;
            };
            let taken = match file.try_lock() {
                Ok(()) => adopt(&staging, owner, &candidate, file)?,
                Err(TryLockError::WouldBlock) if is_own => return Err(busy()),
                Err(TryLockError::WouldBlock) => Some(copy(&staging, owner, &candidate, &file)?),
                Err(TryLockError::Error(error)) => return Err(error),
            };
            if taken.is_some() {
                return Ok(taken);
            }
        }
        Ok(None)
    }

    /// A new, empty part for this version of the source. What `owner` had before is gone.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when somebody else writes the part of the very same lease, and whatever the
    /// file system says.
    pub fn start(folder: &Folder, owner: &Owner, version: Version) -> io::Result<Self> {
        let mut part = Self::begin(folder, owner, version)?;
        part.note()?;
        Ok(part)
    }

    /// The same without its note: nobody can continue it until [`Part::note`] or [`Part::finish`] writes that.
    pub(super) fn begin(folder: &Folder, owner: &Owner, version: Version) -> io::Result<Self> {
        let staging = folder.staging()?;
        let name = owner.part_name();
        if let Some(file) = open_file(&staging, &name, true)? {
            match file.try_lock() {
                Ok(()) => discard(&staging, &name)?,
                Err(TryLockError::WouldBlock) => return Err(busy()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        remove_unnoted(&staging, owner)?;
        Self::create(staging, owner, version)
    }

    fn create(staging: OwnedFd, owner: &Owner, version: Version) -> io::Result<Self> {
        let name = owner.part_name();
        // The note first: an old one must not speak for a new file that got the old one's number.
        remove(&staging, &note_name(&name))?;
        let file = create_file(&staging, &name)?;
        file.try_lock().map_err(io::Error::from)?;
        let note = Note {
            job: owner.job.clone(),
            version,
            inode: file.metadata()?.ino(),
            boot: boot(),
            synced: 0,
            sha256: None,
        };
        Ok(Self {
            staging,
            owner: owner.clone(),
            file,
            note,
            is_noted: false,
            length: 0,
        })
    }

    /// Writes the note if it is not there yet. Nothing is synced: bytes that are not need not outlive a crash of the
    /// machine.
    pub(super) fn note(&mut self) -> io::Result<()> {
        if !self.is_noted {
            write_note(&self.staging, &self.owner.part_name(), &self.note, false)?;
            self.is_noted = true;
        }
        Ok(())
    }

    /// Throws the bytes away and begins again with another version of the source.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn start_over(self, version: Version) -> io::Result<Self> {
        discard(&self.staging, &self.owner.part_name())?;
        // The lock of the old file goes only when nothing of it has a name any more.
        let staging = self.staging.try_clone()?;
        let mut part = Self::create(staging, &self.owner, version)?;
        part.note()?;
        Ok(part)
    }

    /// Removes the part: what it holds is of no use.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn discard(self) -> io::Result<()> {
        discard(&self.staging, &self.owner.part_name())
    }

    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Which version of the source its bytes are.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.note.version
    }

    /// The number of its file, which it keeps when it becomes an object.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.note.inode
    }

    /// Its name in staging.
    #[must_use]
    pub fn name(&self) -> String {
        self.owner.part_name()
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Whatever the file system says; then how much was written is unknown, and the part must not be used on.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Makes everything so far durable, and says so in the note.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn sync(&mut self) -> io::Result<()> {
        let synced = self.syncing()?()?;
        self.was_synced(synced);
        Ok(())
    }

    /// Work that makes everything so far durable, says so in the note, and returns how much that is. Until it is done
    /// the part may be appended to, and nothing else.
    pub(super) fn syncing(&self) -> io::Result<impl FnOnce() -> io::Result<u64> + Send + 'static> {
        let (file, staging) = (self.file.try_clone()?, self.staging.try_clone()?);
        let (name, synced) = (self.owner.part_name(), self.length);
        let note = Note {
            synced,
            boot: boot(),
            ..self.note.clone()
        };
        Ok(move || {
            file.sync_data()?;
            write_note(&staging, &name, &note, true)?;
            sync_folder(&staging)?;
            Ok(synced)
        })
    }

    /// Takes note of what [`Part::syncing`] did.
    pub(super) fn was_synced(&mut self, length: u64) {
        self.note.synced = self.note.synced.max(length);
        self.is_noted = true;
    }

    /// Notes that it is whole, and hands it to whoever puts it in its place. Nothing is synced: they do that, and after
    /// another boot the bytes are looked at before they are believed. A small one that came at once gets no note: after
    /// a crash it is fetched again, or if its hash was recorded its bytes are looked at.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn finish(mut self, sha256: ContentHash) -> io::Result<InHand> {
        let name = self.owner.part_name();
        // Without a note the name has to tell whose it is.
        let is_told_by_name = self.owner.name == self.owner.job;
        if self.is_noted || self.length > UNNOTED_BYTES_MAX || !is_told_by_name {
            self.note.sha256 = Some(sha256);
            self.note.boot = boot();
            write_note(&self.staging, &name, &self.note, false)?;
        }
        Ok(InHand {
            name,
            inode: self.note.inode,
            file: self.file,
        })
    }

    /// Whether nothing is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.note.sha256.is_some() || self.note.version.length == Some(self.length)
    }

    /// How many bytes are known to be durable.
    #[must_use]
    pub fn synced(&self) -> u64 {
        self.note.synced
    }

    /// The sha256 of what it has, to be continued.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn hasher(&self) -> io::Result<Sha256> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        let hasher = digest(file, self.length)?;
        file.seek(SeekFrom::Start(self.length))?;
        Ok(hasher)
    }
}

/// The sha256 of the first `length` bytes, or an error if there are fewer.
pub(crate) fn digest(file: impl Read, length: u64) -> io::Result<Sha256> {
    let mut hasher = Sha256::new();
    let read = each_buffer(file, length, |bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(hasher)
}

fn each_buffer(
    mut file: impl Read,
    length: u64,
    mut act: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let at_most =
        |left: u64| usize::try_from(left).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
    let mut buffer = vec![0; at_most(length)];
    let mut left = length;
    while left > 0 {
        let most = at_most(left);
        let count = file.read(&mut buffer[..most])?;
        if count == 0 {
            break;
        }
        act(&buffer[..count])?;
        left -= count as u64;
    }
    Ok(length - left)
}

fn busy() -> io::Error {
    let why = "somebody else writes the part of this lease";
    io::Error::new(io::ErrorKind::WouldBlock, why)
}

fn note_name(part: &str) -> String {
    format!("{part}{NOTE}")
}

fn write_note(staging: &OwnedFd, part: &str, note: &Note, durable: bool) -> io::Result<()> {
    let text = serde_json::to_string(note)?;
    let name = note_name(part);
    write_text(staging, (&name, &format!("{name}.new")), &text, durable)
}

/// The note of a part. One that is not readable is as good as none.
fn read_note(staging: &OwnedFd, part: &str) -> io::Result<Option<Note>> {
    let text = match read_text(staging, &note_name(part), NOTE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
        read => read?,
    };
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Removes a part and its note. The note goes last, so that a part without one is a part that was never begun.
pub(crate) fn discard(staging: &OwnedFd, part: &str) -> io::Result<()> {
    remove(staging, part)?;
    remove(staging, &note_name(part))?;
    Ok(())
}

/// Removes parts of earlier leases that nobody can continue: what is fetched now must not meet them as another's content.
fn remove_unnoted(staging: &OwnedFd, owner: &Owner) -> io::Result<()> {
    for (name, epoch) in part_names(staging, owner)? {
        let is_theirs = epoch < owner.epoch && seen(staging, &name)?.is_some();
        if is_theirs && read_note(staging, &name)?.is_none() {
            remove_unused(staging, &name, false)?;
        }
    }
    Ok(())
}

/// A whole part that its writer still holds. While it does, the lock keeps everyone else from it.
#[derive(Debug)]
pub struct InHand {
    pub(super) name: String,
    pub(super) inode: u64,
    pub(super) file: File,
}

impl InHand {
    /// Whether `owner` wrote it, in this lease.
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        self.name == owner.part_name()
    }
}

/// A part that seems to be whole.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) name: String,
    pub(super) inode: u64,
    /// Whether nothing but its size speaks for its bytes: it has no note, or one of another boot of the machine.
    pub(super) wants_a_look: bool,
}

/// The parts that `owner` may use and that hold this content, as far as their notes or else their sizes say.
pub(super) fn whole(
    staging: &OwnedFd,
    owner: &Owner,
    sha256: &ContentHash,
    size: u64,
) -> io::Result<Vec<Whole>> {
    let mut found = Vec::new();
    for (name, _) in part_names(staging, owner)? {
        let Some(seen) = seen(staging, &name)?.filter(|seen| seen.is_file) else {
            continue;
        };
        let note = read_note(staging, &name)?.filter(|note| note.inode == seen.inode);
        let is_told_otherwise = note
            .as_ref()
            .is_some_and(|note| note.sha256.as_ref() != Some(sha256));
        if seen.size_bytes == size && !is_told_otherwise {
            found.push(Whole {
                name,
                inode: seen.inode,
                wants_a_look: note.is_none_or(|note| note.boot != boot()),
            });
        }
    }
    // What needs no look comes first.
    found.sort_by_key(|part| part.wants_a_look);
    Ok(found)
}

/// Removes everything of a job that is at its end from staging, but for what somebody still writes.
pub(super) fn sweep(folder: &Folder, owner: &Owner) -> io::Result<()> {
    let staging = folder.staging()?;
    if owner.has_few_epochs() {
        for (part, _) in part_names(&staging, owner)? {
            if seen(&staging, &part)?.is_some() && !remove_unused(&staging, &part, false)? {
                continue;
            }
            let note = note_name(&part);
            remove(&staging, &format!("{note}.new"))?;
            remove(&staging, &note)?;
        }
        return Ok(());
    }
    for name in names(&staging)? {
        let name = name?;
        let is_theirs = Owner::parse(&name)
            .is_some_and(|(job, epoch)| job == owner.name && epoch <= owner.epoch);
        if is_theirs {
            remove_unused(&staging, &name, false)?;
        }
    }
    Ok(())
}

/// The job that a part in staging belongs to, if its note says so. Without a note nobody can continue it.
pub(crate) fn job_of(staging: &OwnedFd, part: &str) -> io::Result<Option<String>> {
    // Without a note the name tells: JOB.EPOCH.part, or JOB.part as others name theirs.
    let named = || {
        let named = Owner::parse(part).map(|(job, _)| job);
        named.or_else(|| part.strip_suffix(PART)).map(str::to_owned)
    };
    Ok(read_note(staging, part)?
        .map(|note| note.job)
        .or_else(named))
}

/// The part that a note in staging is about, if the file is a note.
pub(crate) fn part_of_note(file: &str) -> Option<&str> {
    let part = file
        .strip_suffix(".new")
        .unwrap_or(file)
        .strip_suffix(NOTE)?;
    part.ends_with(PART).then_some(part)
}

/// Whether a file of staging is there and nobody writes it; removes it and its note then, unless it is a `dry_run`.
pub(crate) fn remove_unused(staging: &OwnedFd, name: &str, dry_run: bool) -> io::Result<bool> {
    let Some(file) = open_file(staging, name, false)? else {
        return Ok(false);
    };
    match file.try_lock() {
        Ok(()) if dry_run => Ok(true),
        Ok(()) => discard(staging, name).map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// What tells this boot of the machine from the others: after another one, only synced bytes are there for sure.
/// A system that does not say makes every process its own boot.
fn boot() -> String {
    use std::sync::OnceLock;
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(
            |_| format!("process {}", std::process::id()),
            |text| text.trim().to_owned(),
        )
    })
    .clone()
}
