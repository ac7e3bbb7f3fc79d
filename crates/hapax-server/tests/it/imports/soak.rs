//! A mailbox of two gigabytes in little memory.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use crate::fixture::{hapax, path};

/// The most memory that an import may take, in kB as /proc counts.
const MEMORY_KB_MAX: u64 = 200_000;

/// Writes a mailbox of this many bytes: newsletters of about 50 kB, and now and then one of several megabytes.
fn write_mailbox(file: &std::path::Path, bytes: u64) -> u64 {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file).unwrap());
    let (mut written, mut number) = (0, 0_u64);
    while written < bytes {
        let lines = if number % 500 == 250 { 60_000 } else { 600 };
        let mut mail = format!(
            "From a@example.org Thu Aug 22 12:36:23 2002\nFrom: News <news@example.org>\nSubject: Issue {number}\n\
             Message-ID: <{number}@example.org>\nDate: Thu, 22 Aug 2002 12:36:23 +0000\n\n"
        );
        for line in 0..lines {
            writeln!(mail, "Line {line} of issue {number} says what the lines before it said, in other words: {line}.").unwrap();
        }
        mail.push('\n');
        out.write_all(mail.as_bytes()).unwrap();
        written += mail.len() as u64;
        number += 1;
    }
    out.flush().unwrap();
    number
}

/// The most memory that a process has had, in kB.
fn peak_kb(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn soak(store: &[String]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("big.mbox");
    let mails = write_mailbox(&file, 2 << 30);
    let begun = Instant::now();
    let mut child = hapax()
        .args(["import", "mbox", path(&file), "--json", "--data"])
        .arg(folder.path().join("data"))
        .args(store)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_kb(child.id()).unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let output = child.wait_with_output().unwrap();
    let import: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    println!(
        "{mails} mails, peak {peak} kB, {:.0} s: {import}",
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(import["inserted"], mails, "{import}");
    assert!(peak < MEMORY_KB_MAX, "{peak} kB");
}

#[test]
#[ignore = "a soak of some minutes: ./test --soak"]
fn soak_a_mailbox_of_two_gigabytes_in_little_memory_on_sqlite() {
    soak(&[]);
}

#[test]
#[ignore = "a soak of some minutes: ./test --soak"]
fn soak_a_mailbox_of_two_gigabytes_in_little_memory_on_postgres() {
    soak(&["--database".to_owned(), crate::postgres::database()]);
}
