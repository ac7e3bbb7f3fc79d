//! The steps that put content in its place: first under its sha256, then under the names of work and artifact.
//! Each may be run again at any point: what is there already is left as it is.

use std::fs::{Permissions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::Digest;

use super::folder::{FILES, Folder, OBJECTS, create_file, open_file, remove, rename, seen};
use super::hash::ContentHash;
use super::name::{file_name, temporary};
use super::part::{self, InHand, Owner, Whole, digest};
use super::rounds::sync_folder;
use super::stream::Streamed;

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
pub(super) fn place(
    folder: &Folder,
    owner: &Owner,
    streamed: &Streamed,
    in_hand: Option<InHand>,
) -> io::Result<Outcome> {
    let staging = folder.staging()?;
    let hash = &streamed.sha256;
    let shelf = folder.enter(&[OBJECTS, hash.shelf()])?;
    let there = seen(&shelf, hash.as_str())?;
    let has_size = there.is_some_and(|seen| seen.is_file && seen.size_bytes == streamed.size);
    let is_there = has_size && has_content(&shelf, hash, streamed.size)?;
    let (part, is_busy) = intact(&staging, owner, streamed, in_hand)?;
    if let Some(InHand { name, inode, file }) = part {
        if is_there {
            // Whoever put it there may have died before that was durable.
            sync_folder(&shelf)?;
            let is_ours = there.is_some_and(|seen| seen.inode == inode);
            return Ok(Outcome::Placed(placed(streamed, !is_ours, false)));
        }
        file.set_permissions(Permissions::from_mode(READ_ONLY))?;
        file.sync_all()?;
        let (from, to) = ((&staging, name.as_str()), (&shelf, hash.as_str()));
        let outcome = if there.is_some() {
            tracing::warn!(sha256 = %hash, "an object was damaged and is replaced");
            rename(from, to)?;
            placed(streamed, false, true)
        } else {
            // If it is not new, somebody else was faster by a moment.
            let is_new = move_new(from, to)?;
            placed(streamed, !is_new, false)
        };
        sync_folder(&shelf)?;
        return Ok(Outcome::Placed(outcome));
    }
    Ok(match (is_there, is_busy) {
        (true, _) => {
            sync_folder(&shelf)?;
            Outcome::Placed(placed(streamed, false, false))
        }
        (false, true) => Outcome::PartBusy,
        (false, false) => Outcome::PartLost,
    })
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
    (work_id, artifact_id): (&str, &str),
    epoch: i64,
) -> io::Result<String> {
    let shelf = folder.enter(&[OBJECTS, hash.shelf()])?;
    let name = file_name(artifact_id);
    let work = folder.enter(&[FILES, &file_name(work_id)])?;
    let path = Folder::file(work_id, artifact_id);
    let object = seen(&shelf, hash.as_str())?.ok_or(io::ErrorKind::NotFound)?;
    if seen(&work, &name)?.is_some_and(|seen| seen.inode == object.inode) {
        // Whoever made the link may have died before it was durable.
        sync_folder(&work)?;
        return Ok(path);
    }
    let linked =
        |name: &str| rustix::fs::linkat(&shelf, hash.as_str(), &work, name, AtFlags::empty());
    if linked(&name).is_ok() {
        sync_folder(&work)?;
        return Ok(path);
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
    sync_folder(&work)?;
    Ok(path)
}

fn copy(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> io::Result<()> {
    let mut source = open_file(from.0, from.1, false)?.ok_or(io::ErrorKind::NotFound)?;
    let mut target = create_file(to.0, to.1)?;
    io::copy(&mut source, &mut target)?;
    target.set_permissions(Permissions::from_mode(READ_ONLY))?;
    target.sync_all()
}
