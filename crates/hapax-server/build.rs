//! Lists the files of the dashboard, so that they are compiled into the program, and says what it is built from. It builds
//! nothing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let folder = root.join("dashboard");
    println!("cargo::rerun-if-changed=build.rs");
    say_what_is_built(&root)?;
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

/// The target, and the commit where it is known: from git, or from `HAPAX_BUILD_COMMIT` where the sources come without it. Only
/// another branch is noticed by itself, so that a commit alone builds nothing anew.
fn say_what_is_built(root: &Path) -> io::Result<()> {
    let target = env::var("TARGET").map_err(io::Error::other)?;
    println!("cargo::rustc-env=HAPAX_BUILD_TARGET={target}");
    println!("cargo::rerun-if-env-changed=HAPAX_BUILD_COMMIT");
    let git = |arguments: &[&str]| {
        let answer = Command::new("git")
            .args(arguments)
            .current_dir(root)
            .output();
        let text = answer.ok().filter(|answer| answer.status.success())?;
        Some(String::from_utf8(text.stdout).ok()?.trim().to_owned())
    };
    if let Some(head) = git(&["rev-parse", "--path-format=absolute", "--git-path", "HEAD"]) {
        println!("cargo::rerun-if-changed={head}");
    }
    let given = env::var("HAPAX_BUILD_COMMIT")
        .ok()
        .filter(|given| !given.is_empty());
    if let Some(commit) = given.or_else(|| git(&["rev-parse", "HEAD"])) {
        println!("cargo::rustc-env=HAPAX_BUILD_COMMIT={commit}");
    }
    Ok(())
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
