//! The inputs that are kept with the source, one file each: `corpus/TARGET/NAME`.

use std::fs;
use std::io;
use std::path::PathBuf;

/// The inputs of the target of this name, in the order of their names. There is at least the empty one.
///
/// # Errors
/// When a file that is there cannot be read.
pub fn of(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut inputs = vec![Vec::new()];
    let listed = match fs::read_dir(&folder) {
        Ok(listed) => listed,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(inputs),
        Err(why) => return Err(why),
    };
    let mut files = listed
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    for file in files {
        inputs.push(fs::read(file)?);
    }
    Ok(inputs)
}
