//! A number beside the database that every process can read without SQL: how often a settled outcome was
//! taken back. It is a hint for caches; what rules is the count in the database.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

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
}

impl Purges {
    /// The file beside the database at `path`.
    pub(super) fn beside(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push("-purges");
        Self { path: name.into() }
    }

    /// The number, or `None` while the file is missing. Asked by path: a replaced file is noticed.
    pub(super) fn shown(&self) -> Option<u64> {
        fs::metadata(&self.path).ok().map(|file| file.len())
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
        file.unlock()
    }
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
        }
        fs::remove_file(&purges.path).unwrap();
        assert_eq!(purges.shown(), None);
    }
}
