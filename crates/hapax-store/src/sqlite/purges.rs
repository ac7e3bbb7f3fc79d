//! A number beside the database that every process can read without SQL: how often a settled outcome was
//! taken back. It is a hint for caches; what rules is the count in the database.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::connection::owner_only;

/// The file whose length is the number. It has no content, so a full disk does not stop it.
///
/// Invariant: the length is raised to a count only after the transaction with that count is committed, and
/// before anyone is told that it is. So whoever reads the length first and a record afterwards sees every
/// outcome taken back up to that number. A process that dies in between leaves the length behind; the next
/// write of any process finds that out and raises it before it answers.
#[derive(Debug)]
pub(super) struct Purges {
    path: PathBuf,
    /// Open, so that asking walks no path.
    file: OnceLock<File>,
    /// The highest number that this process has seen there. The writer looks at every commit.
    seen: AtomicU64,
}

impl Purges {
    /// The file beside the database at `path`.
    pub(super) fn beside(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push("-purges");
        Self {
            path: name.into(),
            file: OnceLock::new(),
            seen: AtomicU64::new(0),
        }
    }

    /// The number as this process saw it last, without a call to the system. It may be behind, never ahead.
    pub(super) fn lately(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// The number, or `None` while the file is missing. A file that was deleted or replaced is noticed.
    pub(super) fn shown(&self) -> Option<u64> {
        let file = if let Some(file) = self.file.get() {
            file
        } else {
            let opened = File::open(&self.path).ok()?;
            self.file.get_or_init(|| opened)
        };
        let known = file.metadata().ok()?;
        let number = if is_linked(&known) {
            known.len()
        } else {
            fs::metadata(&self.path).ok()?.len()
        };
        if number > self.lately() {
            self.seen.fetch_max(number, Ordering::AcqRel);
        }
        Some(number)
    }

    /// Raises the number to `count`, if it is below.
    pub(super) fn raise(&self, count: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = owner_only(&mut options).open(&self.path)?;
        // Without the lock a slow process could cut the length back that a faster one has raised.
        file.lock()?;
        if file.metadata()?.len() < count {
            file.set_len(count)?;
        }
        self.seen.fetch_max(count, Ordering::AcqRel);
        file.unlock()
    }
}

/// Whether the open file still has its name. Where that cannot be told, the name is asked every time.
fn is_linked(file: &fs::Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::nlink(file) > 0;
    #[cfg(not(unix))]
    return file.len() == u64::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_only_rises_and_a_missing_file_is_no_number() {
        let folder = tempfile::tempdir().unwrap();
        let purges = Purges::beside(&folder.path().join("ledger.db"));
        assert_eq!(purges.shown(), None);
        for (to, shown) in [(0, 0), (3, 3), (2, 3), (5, 5)] {
            purges.raise(to).unwrap();
            assert_eq!(purges.shown(), Some(shown));
            assert_eq!(purges.lately(), shown);
        }
        Purges::beside(&folder.path().join("ledger.db"))
            .raise(7)
            .unwrap();
        assert_eq!(purges.lately(), 5, "nobody has looked yet");
        assert_eq!((purges.shown(), purges.lately()), (Some(7), 7));
        fs::remove_file(&purges.path).unwrap();
        assert_eq!(purges.shown(), None);
        Purges::beside(&folder.path().join("ledger.db"))
            .raise(9)
            .unwrap();
        assert_eq!(purges.shown(), Some(9), "another process made it anew");
    }
}
