//! The folder of a downloader: objects by their sha256, files by the names of work and artifact, parts in staging.
//! It opens everything beneath its root, one folder at a time, and follows no symlink on the way.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hapax_core::Tenant;
use hapax_core::job::Place;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::hash::ContentHash;
use super::name::file_name;
use super::rounds::{Which, which};

pub(crate) const OBJECTS: &str = "objects";
pub(crate) const FILES: &str = "files";
pub(crate) const STAGING: &str = ".staging";
const TENANTS: &str = "tenants";

/// A folder of downloads. Cloning it is cheap.
///
/// ```
/// use hapax_effects::download::Folder;
///
/// let place = tempfile::tempdir()?;
/// let folder = Folder::open(place.path())?;
/// assert!(place.path().join("objects").is_dir());
/// assert_eq!(Folder::file("w-1", "../../etc/passwd"), "files/w-1/%2E.%2F..%2Fetc%2Fpasswd");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    root: Arc<OwnedFd>,
    staging: Arc<str>,
}

/// How the names of new folders get durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Names {
    /// Each at once.
    Each,
    /// Later, by a sync of the whole file system, before anybody relies on them.
    Together,
}

/// What is known of a file without opening it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) inode: u64,
    pub(crate) size_bytes: u64,
    pub(crate) changed: SystemTime,
    pub(crate) is_file: bool,
}

impl Folder {
    /// Opens the folder at `path`, and makes it and its parts if they are not there.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let path = path.canonicalize()?;
        let root = rustix::fs::openat(CWD, &path, folder_flags(), Mode::empty())?;
        let folder = Self {
            path,
            root: Arc::new(root),
            staging: STAGING.into(),
        };
        folder.furnish()?;
        Ok(folder)
    }

    /// The folder whose parts are in `staging`, which may have any name. Nothing is made.
    ///
    /// # Errors
    /// Whatever the file system says, as when there is no such folder.
    pub fn around(staging: &Path) -> io::Result<Self> {
        let real = staging.canonicalize()?;
        let is_text = |name: &std::ffi::OsStr| name.to_str().map(Arc::from);
        let (Some(path), Some(name)) = (real.parent(), real.file_name().and_then(is_text)) else {
            return Err(io::Error::other(
                "it has no parent, or its name is not text",
            ));
        };
        let root = rustix::fs::openat(CWD, path, folder_flags(), Mode::empty())?;
        open_folder(&root, &name)?;
        Ok(Self {
            path: path.to_owned(),
            root: Arc::new(root),
            staging: name,
        })
    }

    /// Whether it is a folder of ours: with a place for parts and one for objects.
    #[must_use]
    pub fn is_furnished(&self) -> bool {
        *self.staging == *STAGING && open_folder(&self.root, OBJECTS).is_ok()
    }

    /// Whether not even a shelf for objects is there.
    pub(crate) fn has_no_objects(&self) -> io::Result<bool> {
        match self.peek(&[OBJECTS])? {
            Some(objects) => Ok(names(&objects)?.next().is_none()),
            None => Ok(true),
        }
    }

    /// The folder of parts.
    pub(crate) fn staging(&self) -> io::Result<OwnedFd> {
        self.enter(&[&self.staging])
    }

    /// The folder of one tenant: the root for the default tenant, one beneath it for every other. Nothing is
    /// shared between them, not even equal content.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn of(&self, tenant: Tenant) -> io::Result<Self> {
        if tenant == Tenant::DEFAULT {
            return Ok(self.clone());
        }
        let name = tenant.to_string();
        let folder = Self {
            path: self.path.join(TENANTS).join(&name),
            root: Arc::new(self.enter(&[TENANTS, &name])?),
            staging: STAGING.into(),
        };
        folder.furnish()?;
        Ok(folder)
    }

    /// The tenants that have a folder: the default one, and those beneath it.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn tenants(&self) -> io::Result<Vec<Tenant>> {
        let mut tenants = vec![Tenant::DEFAULT];
        let beneath = match open_folder(&self.root, TENANTS) {
            Ok(beneath) => beneath,
            Err(Errno::NOENT) => return Ok(tenants),
            Err(error) => return Err(error.into()),
        };
        for name in names(&beneath)? {
            tenants.extend(name?.parse::<Tenant>().ok());
        }
        Ok(tenants)
    }

    fn furnish(&self) -> io::Result<()> {
        for part in [OBJECTS, FILES, STAGING] {
            self.enter(&[part])?;
        }
        Ok(())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The place of jobs whose files are here.
    ///
    /// # Errors
    /// When the path is too long, or is not text.
    pub fn place(&self) -> io::Result<Place> {
        let text = self
            .path
            .to_str()
            .ok_or_else(|| io::Error::other("the folder's path is not text"))?;
        Place::new(&format!("dir:{text}")).map_err(io::Error::other)
    }

    /// The path of an object, relative to the folder.
    #[must_use]
    pub fn object(hash: &ContentHash) -> String {
        format!("{OBJECTS}/{}/{hash}", hash.shelf())
    }

    /// The path of a file, relative to the folder.
    #[must_use]
    pub fn file(work_id: &str, artifact_id: &str) -> String {
        format!("{FILES}/{}/{}", file_name(work_id), file_name(artifact_id))
    }

    /// Which folder the root is, as the system tells folders apart.
    pub(super) fn which(&self) -> io::Result<Which> {
        which(&self.root)
    }

    /// The root, opened once more by itself.
    pub(super) fn reopened(&self) -> io::Result<OwnedFd> {
        Ok(open_folder(&self.root, ".")?)
    }

    /// The folder at `parts` beneath the root, made durably if it is not there.
    pub(crate) fn enter(&self, parts: &[&str]) -> io::Result<OwnedFd> {
        self.enter_or(parts, Names::Each)
    }

    /// The folder at `parts` beneath the root, made if it is not there.
    pub(super) fn enter_or(&self, parts: &[&str], names: Names) -> io::Result<OwnedFd> {
        let mut at = None;
        for part in parts {
            let above = at.as_ref().unwrap_or(&*self.root);
            let opened = match open_folder(above, part) {
                Err(Errno::NOENT) => {
                    match (
                        rustix::fs::mkdirat(above, *part, Mode::from_raw_mode(0o755)),
                        names,
                    ) {
                        (Ok(()), Names::Each) => rustix::fs::fsync(above)?,
                        (Ok(()), Names::Together) | (Err(Errno::EXIST), _) => {}
                        (Err(error), _) => return Err(error.into()),
                    }
                    open_folder(above, part)?
                }
                opened => opened?,
            };
            at = Some(opened);
        }
        at.map_or_else(|| self.root.try_clone(), Ok)
    }

    /// The folder at `parts` beneath the root, if it is there.
    pub(crate) fn peek(&self, parts: &[&str]) -> io::Result<Option<OwnedFd>> {
        let mut at = None;
        for part in parts {
            match open_folder(at.as_ref().unwrap_or(&*self.root), part) {
                Ok(opened) => at = Some(opened),
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        at.map_or_else(|| self.root.try_clone(), Ok).map(Some)
    }

    /// What is known of the object with this hash, if it is there.
    pub(crate) fn find_object(&self, hash: &ContentHash) -> io::Result<Option<Seen>> {
        match self.peek(&[OBJECTS, hash.shelf()])? {
            Some(at) => seen(&at, hash.as_str()),
            None => Ok(None),
        }
    }

    /// What is known of the file of this work and artifact, if it is there.
    pub(crate) fn find_file(&self, work_id: &str, artifact_id: &str) -> io::Result<Option<Seen>> {
        match self.peek(&[FILES, &file_name(work_id)])? {
            Some(work) => seen(&work, &file_name(artifact_id)),
            None => Ok(None),
        }
    }
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn open_folder(at: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, name, folder_flags() | OFlags::NOFOLLOW, Mode::empty())
}

/// What is known of `name`, which is not followed if it is a symlink.
pub(crate) fn seen(at: &OwnedFd, name: &str) -> io::Result<Option<Seen>> {
    match rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Seen {
            inode: stat.st_ino,
            size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
            changed: UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0)),
            is_file: FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
        })),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a regular file that is there. A symlink is an error.
pub(crate) fn open_file(at: &OwnedFd, name: &str, write: bool) -> io::Result<Option<File>> {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    // A pipe that somebody put there must not make us wait.
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Ok(opened) => {
            let file = File::from(opened);
            if !file.metadata()?.is_file() {
                return Err(io::Error::other(format!("{name} is not a file")));
            }
            Ok(Some(file))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes a file that is not there yet.
pub(crate) fn create_file(at: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(at, name, flags, Mode::from_raw_mode(0o644))?;
    Ok(File::from(opened))
}

/// Removes a file; whether it was there. It looks first: that locks out nobody who works in the same folder.
pub(crate) fn remove(at: &OwnedFd, name: &str) -> io::Result<bool> {
    if seen(at, name)?.is_none() {
        return Ok(false);
    }
    match rustix::fs::unlinkat(at, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Moves a file over whatever has the new name.
pub(crate) fn rename(from: (&OwnedFd, &str), to: (&OwnedFd, &str)) -> io::Result<()> {
    Ok(rustix::fs::renameat(from.0, from.1, to.0, to.1)?)
}

/// The names in a folder, one at a time.
pub(crate) fn names(at: &OwnedFd) -> io::Result<impl Iterator<Item = io::Result<String>>> {
    let entries = Dir::read_from(at)?;
    Ok(entries.filter_map(|entry| match entry {
        // A name that is not text is none of ours.
        Ok(entry) => match entry.file_name().to_str() {
            Ok("." | "..") | Err(_) => None,
            Ok(name) => Some(Ok(name.to_owned())),
        },
        Err(error) => Some(Err(error.into())),
    }))
}

/// The small text file `name`, if it is there.
pub(crate) fn read_text(at: &OwnedFd, name: &str, bytes_max: u64) -> io::Result<Option<String>> {
    let Some(file) = open_file(at, name, false)? else {
        return Ok(None);
    };
    let mut text = String::new();
    file.take(bytes_max).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Writes a small text file whole or not at all, by way of `temporary`. A durable one is so once the folder is
/// synced.
pub(crate) fn write_text(
    at: &OwnedFd,
    (name, temporary): (&str, &str),
    text: &str,
    durable: bool,
) -> io::Result<()> {
    remove(at, temporary)?;
    let mut file = create_file(at, temporary)?;
    file.write_all(text.as_bytes())?;
    if durable {
        file.sync_data()?;
    }
    rename((at, temporary), (at, name))
}
