//! Opening a file beneath a folder: after links are resolved it is in there, it is a file, and it does not make us wait.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::owner::Owner;

/// The longest path that is looked at, in bytes.
const PATH_BYTES_MAX: usize = 4096;

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) enum Closed {
    /// It is not a path: empty, too long, or with a NUL in it.
    Form(&'static str),
    /// It is not beneath the folder, or is no plain file of one name. Which of them is not told.
    Forbidden,
    /// It would be beneath the folder, and is not there.
    Missing,
    /// It is beneath the folder, and a folder itself.
    Folder,
    /// The folder itself is not there.
    NoFolder,
    /// The file system failed.
    Io(io::Error),
}

/// A file that was opened, and where it really is.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    /// Absolute, without links.
    pub(crate) path: PathBuf,
}

/// A folder that files are opened beneath.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// As it was configured, but absolute.
    named: PathBuf,
    /// Whether a file may have several names. A second one may belong to somebody else's folder.
    linked: bool,
    /// The folder that it is a share of, as it was configured, and whose share it is.
    share: Option<(PathBuf, Owner)>,
}

/// The places that a folder holds.
struct Bounds {
    /// The folder, without links.
    root: PathBuf,
    /// The folder that it is a share of, without links, and whose share it is.
    share: Option<(PathBuf, Owner)>,
}

impl Bounds {
    /// Whether a place is beneath the folder, and not another owner's.
    fn hold(&self, real: &Path) -> bool {
        let is_owned = self.share.as_ref().is_none_or(|(base, owner)| {
            let beneath = real.strip_prefix(base);
            beneath.map_or(true, |beneath| Owner::at(beneath) == *owner)
        });
        is_owned && real.starts_with(&self.root)
    }
}

impl Root {
    /// The folder at `path`, which nobody looked at yet.
    ///
    /// # Errors
    /// When there is no current folder to start from.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            named: std::path::absolute(path)?,
            linked: false,
            share: None,
        })
    }

    /// The same, where a file may have several names.
    pub(crate) fn with_linked_files(self) -> Self {
        let linked = true;
        Self { linked, ..self }
    }

    /// The share of this owner, with this name in the folder; the folder itself if there is none.
    pub(super) fn share(&self, name: &str, owner: Owner) -> Self {
        let named = match name {
            "" => self.named.clone(),
            name => self.named.join(name),
        };
        Self {
            named,
            linked: self.linked,
            share: Some((self.named.clone(), owner)),
        }
    }

    /// Its path as it was configured, but absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.named
    }

    /// The path of a file of an import beneath the folder, if it is there.
    pub(super) fn beneath(&self, path: &Path) -> Option<PathBuf> {
        let real = self.named.canonicalize();
        let root = real.as_deref().unwrap_or(&self.named);
        path.strip_prefix(root).ok().map(Path::to_owned)
    }

    /// Whether a file at this path, without links, is one that may be opened here, as far as the path says.
    pub(super) fn holds(&self, real: &Path) -> bool {
        self.bounds().is_some_and(|bounds| bounds.hold(real))
    }

    /// Where the folder is now, if it is there.
    fn bounds(&self) -> Option<Bounds> {
        let root = self
            .named
            .canonicalize()
            .ok()
            .filter(|root| root.is_dir())?;
        let share = match &self.share {
            Some((base, owner)) => Some((base.canonicalize().ok()?, *owner)),
            None => None,
        };
        Some(Bounds { root, share })
    }

    /// Opens what `asked` names: relative to the folder, or absolute and beneath it.
    ///
    /// # Errors
    /// [`Closed`]; it never waits, whatever is there.
    pub(crate) fn open(&self, asked: &str) -> Result<Opened, Closed> {
        if asked.is_empty() {
            return Err(Closed::Form("is empty"));
        }
        if asked.contains('\0') {
            return Err(Closed::Form("holds a NUL"));
        }
        if asked.len() > PATH_BYTES_MAX {
            return Err(Closed::Form("is longer than 4096 bytes"));
        }
        let bounds = self.bounds().ok_or(Closed::NoFolder)?;
        let asked = self.within(&bounds.root, Path::new(asked))?;
        let real = resolve(&bounds, &asked)?;
        let beneath = real.strip_prefix(&bounds.root);
        let beneath = beneath.map_err(|_| Closed::Forbidden)?;
        // Opening a device may do something to it, so it is looked at first, and again once it is open.
        match std::fs::symlink_metadata(&real) {
            Ok(found) if self.is_allowed(&found) => {}
            Ok(found) if found.is_dir() => return Err(Closed::Folder),
            Ok(_) | Err(_) => return Err(Closed::Forbidden),
        }
        let held = folder_at(&bounds.root).map_err(closed)?;
        let file = File::from(beneath_of(&held, beneath).map_err(closed)?);
        if !self.is_allowed(&file.metadata().map_err(Closed::Io)?) {
            return Err(Closed::Forbidden);
        }
        Ok(Opened { file, path: real })
    }

    /// The path below the folder that is asked for, by its letters alone. One that leaves the folder is not looked at,
    /// so that nobody learns what is there.
    fn within(&self, root: &Path, asked: &Path) -> Result<PathBuf, Closed> {
        let beneath = if asked.is_absolute() {
            let below = |root| asked.strip_prefix(root);
            below(root)
                .or_else(|_| below(&self.named))
                .map_err(|_| Closed::Forbidden)?
        } else {
            asked
        };
        let mut depth = 0_usize;
        for part in beneath.components() {
            depth = match part {
                Component::Normal(_) => depth + 1,
                Component::CurDir => depth,
                Component::ParentDir => depth.checked_sub(1).ok_or(Closed::Forbidden)?,
                Component::RootDir | Component::Prefix(_) => return Err(Closed::Forbidden),
            };
        }
        Ok(root.join(beneath))
    }

    fn is_allowed(&self, found: &std::fs::Metadata) -> bool {
        found.is_file() && (self.linked || found.nlink() == 1)
    }
}

/// Where `asked` really is. What is missing is only called so if the place where it would be is within bounds: of what is
/// another's, nobody learns whether it is there.
fn resolve(bounds: &Bounds, asked: &Path) -> Result<PathBuf, Closed> {
    let missing = match asked.canonicalize() {
        Ok(real) if bounds.hold(&real) => return Ok(real),
        Ok(_) => return Err(Closed::Forbidden),
        Err(why) => why,
    };
    match missing.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
        }
        // No right to look, a loop of links, and whatever else: nothing is told.
        _ => return Err(Closed::Forbidden),
    }
    let found = asked
        .ancestors()
        .find(|at| std::fs::symlink_metadata(at).is_ok());
    let place = found.and_then(|found| {
        // A link that leads nowhere has no place.
        let real = found.canonicalize().ok()?;
        Some(real.join(asked.strip_prefix(found).ok()?))
    });
    match place {
        Some(place) if bounds.hold(&place) => Err(Closed::Missing),
        Some(_) | None => Err(Closed::Forbidden),
    }
}

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// Opens the folder at `root`, which was resolved. A link that was put there since is refused.
#[cfg(target_os = "linux")]
fn folder_at(root: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    match rustix::fs::openat2(CWD, root, FOLDER, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::NOSYS) => rustix::fs::openat(CWD, root, FOLDER, Mode::empty()),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn folder_at(root: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, root, FOLDER, Mode::empty())
}

/// Opens `path` beneath `root` and follows no link on the way: one that was put there since it was resolved is refused.
#[cfg(target_os = "linux")]
fn beneath_of(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, path, FLAGS, Mode::empty(), resolve) {
        Err(Errno::NOSYS) => step_by_step(root, path),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn beneath_of(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    step_by_step(root, path)
}

/// The same where the system cannot do it in one step.
fn step_by_step(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let mut at = root.try_clone().map_err(|_| Errno::MFILE)?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            return Err(Errno::XDEV);
        };
        let kind = if parts.peek().is_some() {
            OFlags::DIRECTORY
        } else {
            OFlags::empty()
        };
        at = rustix::fs::openat(&at, name, FLAGS | OFlags::NOFOLLOW | kind, Mode::empty())?;
    }
    Ok(at)
}

fn closed(why: Errno) -> Closed {
    match why {
        Errno::NOENT => Closed::Missing,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::INTR => {
            Closed::Io(why.into())
        }
        _ => Closed::Forbidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A folder `in` with a mailbox, beside things that are nobody's business.
    fn house() -> (TempDir, Root) {
        let house = tempfile::tempdir().unwrap();
        let at = |name: &str| house.path().join(name);
        std::fs::create_dir_all(at("in/deep")).unwrap();
        std::fs::create_dir(at("out")).unwrap();
        std::fs::write(at("in/a.mbox"), "inside").unwrap();
        std::fs::write(at("in/deep/b.mbox"), "deeper").unwrap();
        std::fs::write(at("out/c.mbox"), "outside").unwrap();
        symlink("a.mbox", at("in/near")).unwrap();
        symlink("../out/c.mbox", at("in/far")).unwrap();
        symlink(at("out"), at("in/away")).unwrap();
        symlink("../out/none", at("in/nowhere")).unwrap();
        symlink("loop", at("in/loop")).unwrap();
        symlink("/proc/self/fd/0", at("in/magic")).unwrap();
        symlink(at("in"), at("also-in")).unwrap();
        std::fs::write(at("in/twice"), "two names").unwrap();
        std::fs::hard_link(at("in/twice"), at("out/twice")).unwrap();
        let fifo = std::process::Command::new("mkfifo")
            .arg(at("in/pipe"))
            .status();
        assert!(fifo.unwrap().success());
        let root = Root::new(&at("in")).unwrap();
        (house, root)
    }

    fn text(opened: Opened) -> String {
        let (mut file, mut text) = (opened.file, String::new());
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_file_beneath_the_folder_is_opened_by_any_of_its_names() {
        let (house, root) = house();
        let absolute = house.path().join("in/a.mbox");
        for name in [
            "a.mbox",
            "./a.mbox",
            "deep/../a.mbox",
            "near",
            absolute.to_str().unwrap(),
        ] {
            let opened = root.open(name).unwrap();
            assert_eq!(
                opened.path,
                house.path().join("in/a.mbox").canonicalize().unwrap()
            );
            assert_eq!(text(opened), "inside", "{name}");
        }
        assert_eq!(text(root.open("deep/b.mbox").unwrap()), "deeper");
        let linked = Root::new(&house.path().join("also-in")).unwrap();
        let by_link = house.path().join("also-in/a.mbox");
        assert_eq!(
            text(linked.open(by_link.to_str().unwrap()).unwrap()),
            "inside"
        );
        let near = root.open("near").unwrap().path;
        assert_eq!(root.beneath(&near).unwrap(), Path::new("a.mbox"));
        assert_eq!(root.beneath(&house.path().join("out/c.mbox")), None);
    }

    #[test]
    fn what_leads_out_or_is_no_file_is_forbidden_and_nothing_hangs() {
        let (house, root) = house();
        let outside = house.path().join("out/c.mbox");
        let by_proc = format!(
            "/proc/self/root{}",
            house.path().join("in/a.mbox").display()
        );
        let wrong = [
            "far",
            "away/c.mbox",
            "away/none",
            "nowhere",
            "loop",
            "magic",
            "pipe",
            "twice",
            "../out/c.mbox",
            "../out/none",
            "deep/../../out/c.mbox",
            "/etc/passwd",
            "/dev/zero",
            "/none",
            outside.to_str().unwrap(),
            &by_proc,
        ];
        for name in wrong {
            assert!(matches!(root.open(name), Err(Closed::Forbidden)), "{name}");
        }
        for name in ["deep", "deep/", ".", "deep/.."] {
            assert!(matches!(root.open(name), Err(Closed::Folder)), "{name}");
        }
        assert_eq!(
            text(root.with_linked_files().open("twice").unwrap()),
            "two names"
        );
    }

    #[test]
    fn what_is_missing_inside_is_missing_and_what_is_no_path_is_refused() {
        let (house, root) = house();
        let long = "n".repeat(300);
        for name in ["none", "deep/none", "none/none", "a.mbox/none", &long] {
            assert!(matches!(root.open(name), Err(Closed::Missing)), "{name}");
        }
        for name in ["", "a\0b", &"a/".repeat(3000)] {
            assert!(matches!(root.open(name), Err(Closed::Form(_))), "{name}");
        }
        let nowhere = Root::new(&house.path().join("none")).unwrap();
        assert!(matches!(nowhere.open("a.mbox"), Err(Closed::NoFolder)));
    }

    #[test]
    fn a_link_that_was_put_there_meanwhile_is_not_followed() {
        let (house, root) = house();
        let held = File::open(root.path()).unwrap();
        let held = OwnedFd::from(held);
        for open in [beneath_of, step_by_step] {
            assert!(open(&held, Path::new("a.mbox")).is_ok());
            assert!(open(&held, Path::new("deep/b.mbox")).is_ok());
            for name in ["near", "away/c.mbox", "../out/c.mbox"] {
                assert!(open(&held, Path::new(name)).is_err(), "{name}");
            }
        }
        assert!(folder_at(&house.path().canonicalize().unwrap().join("in")).is_ok());
        assert!(folder_at(&house.path().join("also-in")).is_err());
    }
}
