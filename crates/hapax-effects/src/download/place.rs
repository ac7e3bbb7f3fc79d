//! The steps that put content in its place: first under its sha256, then under the names of work and artifact.
//! Each may be run again at any point: what is there already is left as it is.

use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::Digest;

use super::folder::{
    FILES, Folder, Names, OBJECTS, Seen, create_file, open_file, remove, rename, seen,
};
use super::hash::ContentHash;
use super::name::{file_name, temporary};
use super::part::{self, InHand, Owner, Whole, digest};
use super::rounds::sync_folder;
use super::stream::Streamed;
use super::together::Chore;

/// Objects are never written again.
const READ_ONLY: u32 = 0o444;

/// Content in its place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Placed {
    /// The sha256 of the content.
    pub sha256: ContentHash,
    /// The size of the content in bytes.
    pub size: u64,
    /// The path of the object, relative to the folder.
    pub object: String,
    /// Whether the same content was there before.
    pub deduped: bool,
    /// Whether a damaged object was there and is replaced.
    #[serde(default)]
    pub healed: bool,
}

/// What came of putting a part in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Placed(Placed),
    /// The part is gone or is not what it was, and the object is not there either.
    PartLost,
    /// Somebody writes the part.
    PartBusy,
}

/// The size of the object with this hash, if it is there and its bytes are what its name says.
pub(super) fn find(
    folder: &Folder,
    hash: &ContentHash,
    size: Option<u64>,
) -> io::Result<Option<u64>> {
    let Some(shelf) = folder.peek(&[OBJECTS, hash.shelf()])? else {
        return Ok(None);
    };
    let Some(found) = seen(&shelf, hash.as_str())?.filter(|seen| seen.is_file) else {
        return Ok(None);
    };
    if size.is_some_and(|size| size != found.size_bytes) {
        return Ok(None);
    }
    let is_whole = has_content(&shelf, hash, found.size_bytes)?;
    if is_whole {
        // Whoever put it there may have died before its name was durable.
        sync_folder(&shelf)?;
    }
    Ok(is_whole.then_some(found.size_bytes))
}

/// Whether the object of this hash holds what its name says. All of it is read.
fn has_content(shelf: &OwnedFd, hash: &ContentHash, size: u64) -> io::Result<bool> {
    match open_file(shelf, hash.as_str(), false)? {
        Some(file) => Ok(ContentHash::of(&digest(file, size)?.finalize()) == *hash),
        None => Ok(false),
    }
}

/// Puts a whole part in the place of its hash, durably: the one in hand, or else one that is found. When the same content
/// is there already the part stays, so that a second run says the same.
#[derive(Debug)]
pub(super) struct Placing {
    folder: Folder,
    owner: Owner,
    streamed: Streamed,
    in_hand: Option<InHand>,
    look: Option<Look>,
    is_synced: bool,
    outcome: Outcome,
}

/// What is there before something is put in its place.
#[derive(Debug)]
struct Look {
    staging: OwnedFd,
    shelf: OwnedFd,
    /// What has the name of the object, whatever it holds.
    there: Option<Seen>,
    /// Whether that is the content.
    is_there: bool,
    part: Option<InHand>,
    is_busy: bool,
}

impl Placing {
    pub(super) fn new(
        folder: &Folder,
        owner: &Owner,
        streamed: &Streamed,
        in_hand: Option<InHand>,
    ) -> Self {
        Self {
            folder: folder.clone(),
            owner: owner.clone(),
            streamed: streamed.clone(),
            in_hand,
            look: None,
            is_synced: false,
            outcome: Outcome::PartLost,
        }
    }
}

impl Chore for Placing {
    type Made = Outcome;

    fn look(&mut self, names: Names) -> io::Result<()> {
        if self.look.is_some() {
            return Ok(());
        }
        let (folder, streamed) = (&self.folder, &self.streamed);
        let staging = folder.staging()?;
        let hash = &streamed.sha256;
        let at = folder.enter_or(&[OBJECTS, hash.shelf()], names)?;
        let there = seen(&at, hash.as_str())?;
        let has_size = there.is_some_and(|seen| seen.is_file && seen.size_bytes == streamed.size);
        let is_there = has_size && has_content(&at, hash, streamed.size)?;
        let (part, is_busy) = intact(&staging, &self.owner, streamed, self.in_hand.take())?;
        if let Some(part) = part.as_ref().filter(|_| !is_there) {
            part.file
                .set_permissions(Permissions::from_mode(READ_ONLY))?;
        }
        self.look = Some(Look {
            staging,
            shelf: at,
            there,
            is_there,
            part,
            is_busy,
        });
        Ok(())
    }

    fn content(&self) -> Option<&File> {
        let look = self.look.as_ref().filter(|look| !look.is_there)?;
        let part = look.part.as_ref().filter(|_| !self.is_synced)?;
        Some(&part.file)
    }

    fn content_is_synced(&mut self) {
        self.is_synced = true;
    }

    fn name(&mut self, _: Names) -> io::Result<Option<&OwnedFd>> {
        let Some(look) = &self.look else {
            return Ok(None);
        };
        let streamed = &self.streamed;
        self.outcome = match &look.part {
            Some(part) if look.is_there => {
                let is_ours = look.there.is_some_and(|seen| seen.inode == part.inode);
                Outcome::Placed(placed(streamed, !is_ours, false))
            }
            Some(part) => Outcome::Placed(look.put(part, streamed)?),
            None if look.is_there => Outcome::Placed(placed(streamed, false, false)),
            None if look.is_busy => Outcome::PartBusy,
            None => Outcome::PartLost,
        };
        // When it was there before: whoever put it there may have died before that was durable.
        let is_placed = matches!(self.outcome, Outcome::Placed(_));
        Ok(is_placed.then_some(&look.shelf))
    }

    fn end(self) -> io::Result<Outcome> {
        Ok(self.outcome)
    }
}

impl Look {
    fn put(&self, part: &InHand, streamed: &Streamed) -> io::Result<Placed> {
        let hash = &streamed.sha256;
        let from = (&self.staging, part.name.as_str());
        let to = (&self.shelf, hash.as_str());
        if self.there.is_some() {
            tracing::warn!(sha256 = %hash, "an object was damaged and is replaced");
            rename(from, to)?;
            return Ok(placed(streamed, false, true));
        }
        // If it is not new, somebody else was faster by a moment.
        let is_new = move_new(from, to)?;
        Ok(placed(streamed, !is_new, false))
    }
}

/// A part that holds what was streamed, with its lock: the one in hand if it is still itself. Or else whether somebody
/// holds the one of this very lease.
fn intact(
    staging: &OwnedFd,
    owner: &Owner,
    streamed: &Streamed,
    in_hand: Option<InHand>,
) -> io::Result<(Option<InHand>, bool)> {
    if let Some(part) = in_hand.filter(|part| part.is_of(owner))
        && is_itself(staging, &part, streamed.size)?
    {
        return Ok((Some(part), false));
    }
    let mut is_busy = false;
    for Whole {
        name,
        inode,
        wants_a_look,
    } in part::whole(staging, owner, &streamed.sha256, streamed.size)?
    {
        let Some(file) = open_file(staging, &name, false)? else {
            continue;
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // One of an earlier lease may be held for ever, and is done without.
                is_busy |= name == owner.part_name();
                continue;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let part = InHand { name, inode, file };
        let has_it = || {
            let digest = digest(&part.file, streamed.size)?.finalize();
            io::Result::Ok(ContentHash::of(&digest) == streamed.sha256)
        };
        if is_itself(staging, &part, streamed.size)? && (!wants_a_look || has_it()?) {
            return Ok((Some(part), false));
        }
    }
    Ok((None, is_busy))
}

/// Whether the file in hand is the one that has its name in staging, and has this size.
fn is_itself(staging: &OwnedFd, part: &InHand, size: u64) -> io::Result<bool> {
    let found = part.file.metadata()?;
    let named = seen(staging, &part.name)?;
    let is_named = named.is_some_and(|seen| seen.inode == found.ino());
    Ok(found.len() == size && found.ino() == part.inode && is_named)
}

fn placed(streamed: &Streamed, deduped: bool, healed: bool) -> Placed {
    Placed {
        sha256: streamed.sha256.clone(),
        size: streamed.size,
        object: Folder::object(&streamed.sha256),
        deduped,
        healed,
    }
}

/// Moves a file to a name that must be free; whether it was.
fn move_new(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> io::Result<bool> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => return Ok(false),
            // The file system does not know how: a link does the same.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match rustix::fs::linkat(from.0, from.1, to.0, to.1, AtFlags::empty()) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    remove(from.0, from.1)?;
    Ok(true)
}

/// Gives an object the names of work and artifact, durably, and says by which path. It takes the place of what had
/// them. The object must be there.
pub(crate) fn link(
    folder: &Folder,
    hash: &ContentHash,
    names: (&str, &str),
    epoch: i64,
) -> io::Result<String> {
    let work = named(folder, hash, names, epoch, Names::Each)?;
    sync_folder(&work)?;
    Ok(Folder::file(names.0, names.1))
}

/// The same, and then removes what the job has in staging: it is of no use any more.
#[derive(Debug)]
pub(super) struct Linking {
    folder: Folder,
    owner: Owner,
    hash: ContentHash,
    names: (String, String),
    work: Option<OwnedFd>,
}

impl Linking {
    pub(super) fn new(
        folder: &Folder,
        owner: &Owner,
        hash: &ContentHash,
        (work_id, artifact_id): (&str, &str),
    ) -> Self {
        Self {
            folder: folder.clone(),
            owner: owner.clone(),
            hash: hash.clone(),
            names: (work_id.to_owned(), artifact_id.to_owned()),
            work: None,
        }
    }
}

impl Chore for Linking {
    type Made = String;

    fn look(&mut self, _: Names) -> io::Result<()> {
        Ok(())
    }

    fn content(&self) -> Option<&File> {
        None
    }

    fn content_is_synced(&mut self) {}

    fn name(&mut self, names: Names) -> io::Result<Option<&OwnedFd>> {
        let ids = (self.names.0.as_str(), self.names.1.as_str());
        let work = named(&self.folder, &self.hash, ids, self.owner.epoch(), names)?;
        Ok(Some(self.work.insert(work)))
    }

    fn end(self) -> io::Result<String> {
        part::sweep(&self.folder, &self.owner)?;
        Ok(Folder::file(&self.names.0, &self.names.1))
    }
}

/// Gives an object the names of work and artifact. Whoever made a link that is there may have died before it was durable,
/// so the folder that is returned has to be synced in any case.
fn named(
    folder: &Folder,
    hash: &ContentHash,
    (work_id, artifact_id): (&str, &str),
    epoch: i64,
    names: Names,
) -> io::Result<OwnedFd> {
    let shelf = folder.enter_or(&[OBJECTS, hash.shelf()], names)?;
    let name = file_name(artifact_id);
    let work = folder.enter_or(&[FILES, &file_name(work_id)], names)?;
    let object = seen(&shelf, hash.as_str())?.ok_or(io::ErrorKind::NotFound)?;
    if seen(&work, &name)?.is_some_and(|seen| seen.inode == object.inode) {
        return Ok(work);
    }
    let linked =
        |name: &str| rustix::fs::linkat(&shelf, hash.as_str(), &work, name, AtFlags::empty());
    if linked(&name).is_ok() {
        return Ok(work);
    }
    // The name is taken, or there can be no link.
    let on_its_way = temporary(&name, epoch);
    remove(&work, &on_its_way)?;
    match linked(&on_its_way) {
        Ok(()) => {}
        // Another file system, too many links, or one that has none.
        Err(Errno::XDEV | Errno::MLINK | Errno::PERM | Errno::NOTSUP) => {
            copy((&shelf, hash.as_str()), (&work, &on_its_way))?;
        }
        Err(error) => return Err(error.into()),
    }
    rename((&work, &on_its_way), (&work, &name))?;
    // A rename onto another name of the same file leaves both.
    remove(&work, &on_its_way)?;
    Ok(work)
}

fn copy(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> io::Result<()> {
    let mut source = open_file(from.0, from.1, false)?.ok_or(io::ErrorKind::NotFound)?;
    let mut target = create_file(to.0, to.1)?;
    io::copy(&mut source, &mut target)?;
    target.set_permissions(Permissions::from_mode(READ_ONLY))?;
    target.sync_all()
}
