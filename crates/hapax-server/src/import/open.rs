//! Opening a file beneath a folder: after links are resolved it is in there, it is a file, and it does not make us wait.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

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
}

impl Root {
    /// The folder at `path`, which nobody looked at yet.
    ///
    /// # Errors
    /// When there is no current folder to start from.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let named = std::path::absolute(path)?;
        let linked = false;
        Ok(Self { named, linked })
    }

    /// The same, where a file may have several names.
    pub(crate) fn with_linked_files(self) -> Self {
        let linked = true;
        Self { linked, ..self }
    }

    /// The folder with this name in it.
    pub(crate) fn beneath(&self, name: &str) -> Self {
        Self {
            named: self.named.join(name),
            linked: self.linked,
        }
    }

    /// Its path as it was configured, but absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.named
    }

    /// Where a file of an import is, as far as callers are told: its path beneath the folder, or only its name.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let real = self.named.canonicalize();
        let root = real.as_deref().unwrap_or(&self.named);
        let name = Path::new(path.file_name().unwrap_or_default());
        path.strip_prefix(root)
            .unwrap_or(name)
            .display()
            .to_string()
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
        let root = match self.named.canonicalize() {
            Ok(root) if root.is_dir() => root,
            Ok(_) | Err(_) => return Err(Closed::NoFolder),
        };
        let asked = self.within(&root, Path::new(asked))?;
        let real = resolve(&root, &asked)?;
        let beneath = real.strip_prefix(&root).map_err(|_| Closed::Forbidden)?;
        // Opening a device may do something to it, so it is looked at first, and again once it is open.
        if !std::fs::symlink_metadata(&real).is_ok_and(|found| self.is_allowed(&found)) {
            return Err(Closed::Forbidden);
        }
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = rustix::fs::openat(CWD, &root, folder, Mode::empty()).map_err(closed)?;
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

/// Where `asked` really is. What is missing is only called so if the place where it would be is beneath the root.
fn resolve(root: &Path, asked: &Path) -> Result<PathBuf, Closed> {
    let missing = match asked.canonicalize() {
        Ok(real) => return Ok(real),
        Err(why) => why,
    };
    match missing.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
        io::ErrorKind::InvalidFilename => return Err(Closed::Missing),
        // No right to look, a loop of links, and whatever else: nothing is told.
        _ => return Err(Closed::Forbidden),
    }
    let found = asked
        .ancestors()
        .find(|at| std::fs::symlink_metadata(at).is_ok());
    match found.map(Path::canonicalize) {
        Some(Ok(real)) if real.starts_with(root) => Err(Closed::Missing),
        // A link that leads nowhere, or out.
        Some(_) | None => Err(Closed::Forbidden),
    }
}

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

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
        assert_eq!(root.shown(&root.open("near").unwrap().path), "a.mbox");
        assert_eq!(root.shown(&house.path().join("out/c.mbox")), "c.mbox");
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
            "deep",
            ".",
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
        drop(house);
    }
}
