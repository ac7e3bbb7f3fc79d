//! Whoever is between hapax and a PostgreSQL on another machine: without an `sslmode` they choose whether it is encrypted.

use std::process::Output;

use crate::fixture::{hapax, path, run};

const FAR: &str = "postgres://me:hidden-word@db.invalid:5432/hapax";

/// The refusal of a URL: wrong use, with a hint and without the password.
fn is_refused(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("hint: ") && said.contains("verify-full"),
        "{said}"
    );
    assert!(!said.contains("hidden-word"), "{said}");
}

#[test]
fn every_command_refuses_a_database_off_this_machine_without_its_sslmode() {
    let folder = tempfile::tempdir().unwrap();
    let at = ["--database", FAR, "--data", path(folder.path())];
    let mailbox = folder.path().join("mail.mbox");
    std::fs::write(&mailbox, "From a Thu Jan  1 00:00:00 1970\n\nhello\n").unwrap();
    let commands: [&[&str]; 14] = [
        &["serve", "--listen", "127.0.0.1:0"],
        &[
            "proxy",
            "--upstream",
            "http://127.0.0.1:1",
            "--listen",
            "127.0.0.1:0",
        ],
        &["worker"],
        &["migrate"],
        &["keys", "list"],
        &["jobs", "list"],
        &["policies", "list"],
        &["token", "list"],
        &["reconcile"],
        &["sweep"],
        &["backfill"],
        &["vault", "rotate"],
        &["vault", "renew", "--tenant", "default"],
        &["import", "mbox", path(&mailbox)],
    ];
    for command in commands {
        is_refused(&run(&[command, &at].concat()));
    }
    let doctor = run(&[&["doctor", "--listen", "127.0.0.1:0"][..], &at].concat());
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(1), "{said}");
    assert!(
        said.contains("verify-full") && !said.contains("hidden-word"),
        "{said}"
    );
}

#[test]
fn no_other_source_of_the_url_is_trusted_more() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    std::fs::write(&file, format!("database = \"{FAR}\"\n")).unwrap();
    let list = |change: &dyn Fn(&mut std::process::Command)| {
        let mut command = hapax();
        command.args(["keys", "list", "--data", path(folder.path())]);
        change(&mut command);
        command.output().unwrap()
    };
    is_refused(&list(&|command| {
        command.env("HAPAX_DATABASE", FAR);
    }));
    is_refused(&list(&|command| {
        command.args(["--config", path(&file)]);
    }));
    is_refused(&list(&|command| {
        let near = "postgres://127.0.0.1:1/hapax";
        command
            .args(["--database", near])
            .env("HAPAX_DATABASE_DIRECT", FAR);
    }));
    // The driver does not read it, so it does not count as said.
    is_refused(&list(&|command| {
        command
            .args(["--database", FAR])
            .env("PGSSLMODE", "verify-full");
    }));
}

#[test]
fn no_spelling_of_a_far_host_passes_for_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    for rest in [
        "localhost,db.invalid/hapax",
        "localhost/hapax?host=db.invalid",
        "localhost/hapax?hostaddr=192.0.2.1",
        "db.invalid/hapax?hostaddr=127.0.0.1",
        "localhost.invalid/hapax",
        "[2001:db8::1]/hapax",
        "db.invalid/hapax?application_name=sslmode%3Drequire",
        "127.0.0.1@db.invalid/hapax",
    ] {
        let url = format!("postgres://{rest}");
        let at = ["--database", url.as_str(), "--data", path(folder.path())];
        is_refused(&run(&[&["keys", "list"][..], &at].concat()));
    }
}

#[test]
fn a_mode_that_is_said_is_taken_and_doctor_tells_what_it_leaves_open() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, leaves) in [
        ("disable", Some("sslmode=disable does not protect from")),
        ("prefer", Some("sslmode=prefer does not protect from")),
        ("require", None),
        ("verify-full", None),
    ] {
        let url = format!("{FAR}?sslmode={mode}");
        let at = ["--database", url.as_str(), "--data", path(folder.path())];
        let list = run(&[&["keys", "list"][..], &at].concat());
        assert_eq!(
            list.status.code(),
            Some(1),
            "it goes on, to a host that is not there: {list:?}"
        );
        let doctor = run(&[&["doctor", "--listen", "127.0.0.1:0"][..], &at].concat());
        let said = String::from_utf8_lossy(&doctor.stdout);
        match leaves {
            Some(words) => assert!(said.contains(words), "{said}"),
            None => assert!(!said.contains("does not protect from"), "{said}"),
        }
        assert!(!said.contains("hidden-word"), "{said}");
    }
}
