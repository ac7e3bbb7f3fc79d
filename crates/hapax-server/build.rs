//! Lists the files of the dashboard, so that they are compiled into the program. It builds nothing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let folder = root.join("dashboard");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    list(&folder, "", &mut files)?;
    files.sort();
    let mut text = String::from("&[\n");
    for (name, path) in files {
        writeln!(
            text,
            "    ({name:?}, include_bytes!({:?})),",
            path.display().to_string()
        )
        .map_err(io::Error::other)?;
    }
    text.push(']');
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(out.join("dashboard.rs"), text)
}

/// The files beneath `folder` that a browser asks for, by their names in it.
fn list(folder: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if name != "tests" {
                list(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if is_asked_for(&name) {
            println!("cargo::rerun-if-changed={}", entry.path().display());
            files.push((path, entry.path()));
        }
    }
    Ok(())
}

/// Notes, tests and what editors leave behind stay out.
fn is_asked_for(name: &str) -> bool {
    let is_test = name.ends_with(".test.js") || name.ends_with(".test.mjs");
    let is_note = Path::new(name).extension().is_some_and(|kind| kind == "md");
    !name.starts_with('.') && !is_note && !name.ends_with('~') && !is_test
}
