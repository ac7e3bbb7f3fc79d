//! `dev/audit` finds what it is for: a planted advisory about a crate that we link, and nothing else.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the part about crates against a database of one advisory.
fn audited(versions: &str) -> (Output, String) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("crates/serde");
    std::fs::create_dir_all(&place).unwrap();
    let advisory = format!(
        "```toml\n[advisory]\nid = \"RUSTSEC-0000-0001\"\npackage = \"serde\"\ndate = \"2026-01-01\"\n\n\
         [versions]\n{versions}\n```\n\n# Planted\n"
    );
    std::fs::write(place.join("RUSTSEC-0000-0001.md"), advisory).unwrap();
    let output = audit(folder.path());
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    (output, said)
}

fn audit(database: &Path) -> Output {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/audit");
    Command::new(program)
        .args(["--without", "licences", "bans", "python", "npm"])
        .arg("--rustsec")
        .arg(database)
        .output()
        .unwrap()
}

#[test]
fn a_known_fault_of_a_linked_version_fails_the_audit() {
    let (output, said) = audited("patched = [\">= 1000.0.0\"]");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("RUSTSEC-0000-0001: serde 1."), "{said}");
}

#[test]
fn a_fault_that_was_mended_before_our_version_does_not() {
    let (output, said) = audited("patched = [\"^1.0.1\"]");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said.contains("1 advisories, 1 about crates"), "{said}");
}

#[test]
fn a_database_that_is_not_there_is_no_clean_audit() {
    let folder = tempfile::tempdir().unwrap();
    let output = audit(folder.path());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("NOT LOOKED AT"));
}
