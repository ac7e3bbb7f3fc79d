//! Folders and small files that are still there after the power was lost: whole, or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// Makes the data folder, for its owner alone.
///
/// # Errors
/// When it is not there and cannot be made.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if path.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("making the data folder {}", path.display()))?;
    // A folder that is lost with the power takes everything in it along. Folders far above may not be ours to open.
    let whole = std::path::absolute(path).context("naming the data folder")?;
    for above in whole.ancestors().skip(1) {
        if sync_folder(above).is_err() {
            break;
        }
    }
    Ok(())
}

/// Writes a file for its owner alone, unless it is there already: then false. Nobody ever reads half of it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_once(path: &Path, text: &str) -> io::Result<bool> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Readable by its owner alone from the first byte on.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(why) if why.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(why) => return Err(why.error),
    }
    sync_folder(folder)?;
    Ok(true)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_written_once_for_its_owner_alone_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("a/b");
        make_folder(&data).unwrap();
        make_folder(&data).unwrap();
        let path = data.join("token");
        assert!(write_once(&path, "one\n").unwrap());
        assert!(!write_once(&path, "two\n").unwrap(), "it is there already");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&data)), (0o600, 0o700));
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1);
    }
}
