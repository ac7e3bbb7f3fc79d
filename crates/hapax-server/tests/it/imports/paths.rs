//! Which files can be asked for: those beneath the folder, after links are resolved, and nothing that makes us wait.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use super::House;
use super::mailbox::{Form, Mail, mailbox};
use crate::both::Store;
use crate::fixture::Server;

/// A house with traps.
fn trapped() -> (House, tempfile::TempDir) {
    let (house, outside) = (House::new(Store::Sqlite), tempfile::tempdir().unwrap());
    let text = mailbox(Form::Mboxrd, &[Mail::news(1)]);
    house.put("a.mbox", &text);
    let root = house.root.path();
    std::fs::create_dir(root.join("folder")).unwrap();
    std::fs::write(outside.path().join("secret.mbox"), &text).unwrap();
    symlink(outside.path().join("secret.mbox"), root.join("link")).unwrap();
    symlink(outside.path(), root.join("away")).unwrap();
    symlink("/proc/self/fd/0", root.join("magic")).unwrap();
    symlink("/proc/self/environ", root.join("environ")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("none", root.join("dangling")).unwrap();
    std::fs::hard_link(outside.path().join("secret.mbox"), root.join("second-name")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(root.join("pipe"))
            .status()
            .unwrap()
            .success()
    );
    (house, outside)
}

#[test]
fn what_leads_out_of_the_folder_is_forbidden_in_one_voice() {
    let (house, outside) = trapped();
    let secret = outside.path().join("secret.mbox");
    let by_proc = format!(
        "/proc/self/root{}",
        house.root.path().join("a.mbox").display()
    );
    let up = format!("{}/../{}", house.root.path().display(), "x");
    let wrong = [
        "link",
        "away/secret.mbox",
        "away/none",
        "magic",
        "environ",
        "loop",
        "dangling",
        "second-name",
        "pipe",
        "away",
        "/",
        "..",
        "../x",
        "folder/../../x",
        "/etc/passwd",
        "/dev/zero",
        "/dev/stdin",
        "/proc/self/environ",
        secret.to_str().unwrap(),
        &by_proc,
        &up,
    ];
    let mut voices = std::collections::BTreeSet::new();
    for name in wrong {
        let answer = house.ask(&json!({ "mbox_path": name }));
        assert_eq!(answer.refusal(), (403, "forbidden".to_owned()), "{name}");
        voices.insert(answer.json()["error"].to_string());
    }
    assert_eq!(voices.len(), 1, "{voices:?}");
    let listed = house.owner("GET", "/v1/imports", "").json();
    assert_eq!(listed["items"], json!([]));
}

#[test]
fn what_is_missing_inside_is_not_found_and_what_is_no_path_is_refused() {
    let (house, _outside) = trapped();
    for name in ["none.mbox", "folder/none.mbox", "a.mbox/x", "none/none"] {
        let answer = house.ask(&json!({ "mbox_path": name }));
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{name}");
        assert!(!answer.text().contains(name));
    }
    let long = "x/".repeat(5000);
    for name in ["", "a\0.mbox", &long] {
        let answer = house.ask(&json!({ "mbox_path": name }));
        let details = answer.json()["error"]["details"]["errors"][0]["path"].clone();
        assert_eq!(
            answer.refusal(),
            (400, "schema_validation_failed".to_owned())
        );
        assert_eq!(details, "mbox_path");
    }
}

#[test]
fn a_folder_within_the_folder_is_refused_as_one() {
    let (house, _outside) = trapped();
    symlink("folder", house.root.path().join("to-folder")).unwrap();
    for name in ["folder", "folder/", "to-folder", ".", "folder/.."] {
        let answer = house.ask(&json!({ "mbox_path": name }));
        let told = (400, "schema_validation_failed".to_owned());
        assert_eq!(answer.refusal(), told, "{name}");
        let fault = answer.json()["error"]["details"]["errors"][0].clone();
        assert_eq!(fault["path"], "mbox_path");
        assert!(fault["message"].as_str().unwrap().contains("a folder"));
    }
}

#[test]
fn a_link_within_the_folder_and_a_full_path_are_fine() {
    let (house, _outside) = trapped();
    symlink("a.mbox", house.root.path().join("near")).unwrap();
    let absolute = house.root.path().join("a.mbox");
    for name in ["near", "folder/../a.mbox", absolute.to_str().unwrap()] {
        assert_eq!(house.import(name)["total_messages"], 1, "{name}");
    }
}

#[test]
fn without_a_folder_nothing_is_imported_and_the_answer_says_what_to_set() {
    let gone = tempfile::tempdir().unwrap().path().join("gone");
    for root in [None, Some(gone)] {
        let server = Server::start_with(|command| {
            command.env_remove("EMAIL_IMPORT_ROOT");
            if let Some(root) = &root {
                command.env("EMAIL_IMPORT_ROOT", root);
            }
        });
        let answer = server.owner("POST", "/import/email/mbox", r#"{"mbox_path":"a.mbox"}"#);
        assert_eq!(answer.refusal(), (403, "forbidden".to_owned()));
        assert!(
            answer.text().contains("EMAIL_IMPORT_ROOT"),
            "{}",
            answer.text()
        );
    }
}
