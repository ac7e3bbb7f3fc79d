//! Parts of earlier leases of a job: which there are, and how one is taken over. What a part is, is said in `part`.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use super::super::folder::{names, open_file, remove, rename, seen};
use super::{
    Note, Owner, PART, Part, boot, discard, each_buffer, note_name, read_note, write_note,
};

/// A part of a job that may be continued.
pub(super) struct Candidate {
    pub(super) name: String,
    epoch: i64,
    pub(super) note: Note,
    pub(super) size: u64,
    pub(super) trusted: u64,
}

/// The names that parts of the job may have, of its leases up to that of `owner`. A few are looked for one by one: staging
/// may be full of parts of others.
pub(super) fn part_names(staging: &OwnedFd, owner: &Owner) -> io::Result<Vec<(String, i64)>> {
    if owner.has_few_epochs() {
        let names = (1..=owner.epoch).map(|epoch| (owner.part_name_of(epoch), epoch));
        return Ok(names.collect());
    }
    let mut found = Vec::new();
    for name in names(staging)? {
        let name = name?;
        let theirs = Owner::parse(&name).filter(|_| name.ends_with(PART));
        let theirs = theirs.filter(|(job, epoch)| *job == owner.name && *epoch <= owner.epoch);
        if let Some((_, epoch)) = theirs {
            found.push((name, epoch));
        }
    }
    Ok(found)
}

/// The parts that `owner` may continue, the longest first. Parts of later leases are none of its business.
pub(super) fn candidates(staging: &OwnedFd, owner: &Owner) -> io::Result<Vec<Candidate>> {
    let mut found = Vec::new();
    for (name, epoch) in part_names(staging, owner)? {
        let Some(seen) = seen(staging, &name)? else {
            continue;
        };
        let Some(note) = read_note(staging, &name)? else {
            continue;
        };
        if !seen.is_file || seen.inode != note.inode {
            continue;
        }
        let trusted = if note.boot == boot() {
            seen.size_bytes
        } else {
            seen.size_bytes.min(note.synced)
        };
        found.push(Candidate {
            name,
            epoch,
            note,
            size: seen.size_bytes,
            trusted,
        });
    }
    found.sort_by_key(|candidate| std::cmp::Reverse((candidate.trusted, candidate.epoch)));
    Ok(found)
}

/// Makes a part whose lock we hold our own, by a new name. `None` when it is not what it was.
pub(super) fn adopt(
    staging: &OwnedFd,
    owner: &Owner,
    candidate: &Candidate,
    mut file: File,
) -> io::Result<Option<Part>> {
    let name = owner.part_name();
    // Between opening and locking it may have been renamed, replaced, or have become an object.
    let is_it =
        seen(staging, &candidate.name)?.is_some_and(|seen| seen.inode == candidate.note.inode);
    if !is_it || file.metadata()?.ino() != candidate.note.inode {
        return Ok(None);
    }
    let length = candidate.trusted.min(file.metadata()?.len());
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length))?;
    let note = Note {
        boot: boot(),
        synced: candidate.note.synced.min(length),
        sha256: candidate
            .note
            .sha256
            .clone()
            .filter(|_| length == candidate.size),
        ..candidate.note.clone()
    };
    write_note(staging, &name, &note, true)?;
    if name != candidate.name {
        // The note is there under both names while the part moves from one to the other.
        remove(staging, &name)?;
        rename((staging, &candidate.name), (staging, &name))?;
        remove(staging, &note_name(&candidate.name))?;
    }
    Ok(Some(Part {
        staging: staging.try_clone()?,
        owner: owner.clone(),
        file,
        note,
        is_noted: true,
        length,
    }))
}

/// Copies what a stalled writer has written so far. Bytes under a note never change, so the copy is as good.
pub(super) fn copy(
    staging: &OwnedFd,
    owner: &Owner,
    candidate: &Candidate,
    theirs: &File,
) -> io::Result<Part> {
    let is_it = theirs.metadata()?.ino() == candidate.note.inode;
    let own = owner.part_name();
    if let Some(file) = open_file(staging, &own, true)? {
        file.try_lock().map_err(io::Error::from)?;
        discard(staging, &own)?;
    }
    let version = candidate.note.version.clone();
    let mut part = Part::create(staging.try_clone()?, owner, version)?;
    part.note()?;
    if is_it {
        each_buffer(theirs, candidate.trusted, |bytes| part.append(bytes))?;
    }
    Ok(part)
}
