//! `hapax import mbox`: the same import on the store directly, beside a running server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::mailbox::{Form, gzip, mailbox, varied};
use super::{House, adds_up, counted};
use crate::both::{Store, on_both_stores};
use crate::fixture::{hapax, path, refused};

on_both_stores!(
    the_command_imports_what_the_route_imports,
    a_killed_command_goes_on_where_it_stopped,
    an_interrupted_command_says_how_to_go_on,
    the_route_goes_on_with_what_a_killed_command_began,
);

fn the_command_imports_what_the_route_imports(store: Store) {
    let text = mailbox(Form::Mboxrd, &varied(120));
    let (one, two) = (House::new(store), House::new(store));
    let by_route = {
        one.put("a.mbox", &text);
        one.import("a.mbox")
    };
    let file = two.put("a.mbox.gz", gzip(text.as_bytes()));
    let (code, by_command) = two.command(&["import", "mbox", path(&file)]);
    assert_eq!(code, Some(0));
    adds_up(&by_command);
    assert_eq!(counted(&by_command), counted(&by_route));
    assert_eq!(by_command["errors"], by_route["errors"]);
    assert_eq!(two.entries(), one.entries());
    assert_eq!(
        counted(&two.shown(&by_command["import_id"])),
        counted(&by_command)
    );

    let (code, again) = two.command(&["import", "mbox", path(&file)]);
    assert_eq!(
        (code, &again["inserted"], &again["tier1_enqueued_items"]),
        (Some(0), &json!(0), &json!(0))
    );
}

/// A slow import by the command, once it has read this many messages.
#[expect(clippy::zombie_processes, reason = "whoever asks for it ends it")]
fn begun(house: &House, file: &str, messages: u64) -> (std::process::Child, Value) {
    let command = hapax()
        .args(["import", "mbox", file, "--insert-chunk-size", "2", "--data"])
        .arg(house.data())
        .args(&house.store)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn();
    let child = command.unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let listed = house.owner("GET", "/v1/imports", "").json();
        let newest = &listed["items"][0];
        if newest["status"] == "running" && newest["total_messages"].as_u64() >= Some(messages) {
            return (child, newest["import_id"].clone());
        }
        assert!(Instant::now() < until, "{listed}");
    }
}

fn a_killed_command_goes_on_where_it_stopped(store: Store) {
    let house = House::without_worker(store);
    let file = house.put("a.mbox", mailbox(Form::Mboxrd, &varied(1500)));
    let (mut child, id) = begun(&house, path(&file), 20);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(house.shown(&id)["status"], "running");
    let (code, ended) = house.command(&["import", "mbox", path(&file)]);
    assert_eq!(code, Some(0));
    adds_up(&ended);
    assert_eq!(
        (&ended["import_id"], &ended["total_messages"]),
        (&id, &json!(1500))
    );
}

fn an_interrupted_command_says_how_to_go_on(store: Store) {
    let house = House::without_worker(store);
    let file = house.put("a.mbox", mailbox(Form::Mboxrd, &varied(1500)));
    let (child, id) = begun(&house, path(&file), 20);
    let signalled = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(signalled.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("run the same command again"), "{said}");
    assert_eq!(house.shown(&id)["status"], "running");
    let (code, ended) = house.command(&["import", "mbox", path(&file)]);
    assert_eq!(
        (code, &ended["import_id"], &ended["total_messages"]),
        (Some(0), &id, &json!(1500))
    );
}

fn the_route_goes_on_with_what_a_killed_command_began(store: Store) {
    let house = House::new(store);
    let file = house.put("a.mbox", mailbox(Form::Mboxrd, &varied(1500)));
    let (mut child, id) = begun(&house, path(&file), 20);
    child.kill().unwrap();
    child.wait().unwrap();
    let joined = house.ask(&json!({"mbox_path": "a.mbox", "async": true}));
    assert_eq!(joined.json()["import_id"], id);
    let ended = house.ended(&id);
    assert_eq!(
        (&ended["import_id"], &ended["total_messages"]),
        (&id, &json!(1500))
    );
}

#[test]
fn what_cannot_be_imported_is_said_by_the_command() {
    let house = House::new(Store::Sqlite);
    let data = house.data();
    let file = house.put("a.mbox", "");
    let none = house.root.path().join("none");
    let run_for = |code: i32, file: &str, more: &[&str]| {
        let words = ["import", "mbox", file, "--data", path(&data)];
        refused(&[&words[..], more].concat(), code)
    };
    assert!(run_for(1, path(&none), &[]).contains("reading the mailbox"));
    assert!(run_for(1, path(house.root.path()), &[]).contains("it is a folder"));
    let run = |file: &str, more: &[&str]| run_for(2, file, more);
    assert!(
        run(path(&file), &["--batch-size", "7"]).contains("--batch-size must be from 500 to 2000")
    );
    assert!(
        run(path(&file), &["--insert-chunk-size", "0"]).contains("--insert-chunk-size must be")
    );
    assert!(
        run(path(&file), &["--completion-window", "x"]).contains("--completion-window must be")
    );
    let letter = house.put("letter.txt", "Dear Ada,\n");
    let said = refused(&["import", "mbox", path(&letter), "--data", path(&data)], 1);
    assert!(said.contains("not a mailbox"), "{said}");
}

#[test]
fn a_failed_import_ends_with_its_reason() {
    let house = House::new(Store::Sqlite);
    let mut torn = gzip(mailbox(Form::Mboxrd, &varied(400)).as_bytes());
    torn.truncate(torn.len() / 2);
    let file = house.put("torn.mbox.gz", torn);
    let data = house.data();
    let output = crate::fixture::run(&["import", "mbox", path(&file), "--data", path(&data)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!said.contains("queued for enrichment"), "{said}");
    assert!(said.contains("breaks off in this message"), "{said}");
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let [.., why, hint] = lines[..] else {
        panic!("{said}");
    };
    assert!(why.contains("failed: the compressed file"), "{said}");
    assert_eq!(hint, "hint: mend it and import it again");
}

#[test]
fn a_policy_that_cannot_be_used_is_said_before_anything_is_read() {
    let house = House::new(Store::Sqlite);
    let file = house.put("a.mbox", mailbox(Form::Mboxrd, &varied(20)));
    let data = house.data();
    let words = [
        "import",
        "mbox",
        path(&file),
        "--thread-policy",
        "email_thread_refs_v1",
        "--data",
        path(&data),
    ];
    let said = refused(&words, 1);
    assert!(said.contains("unknown_policy"), "{said}");
    let run = "hapax policies set email_thread_refs_v1";
    assert!(
        said.contains(&format!("hint: run `{run} --create`")),
        "{said}"
    );
    let set = |more: &[&str]| {
        let words = ["policies", "set", "email_thread_refs_v1"];
        assert_eq!(house.command(&[&words[..], more].concat()).0, Some(0));
    };
    set(&["--create", "--enabled", "false"]);
    let said = refused(&words, 1);
    assert!(said.contains("policy_disabled"), "{said}");
    assert!(
        said.contains(&format!("run `{run} --enabled true`")),
        "{said}"
    );
    let listed = house.owner("GET", "/v1/imports", "").json();
    assert_eq!(listed["items"], json!([]));
    set(&["--enabled", "true"]);
    let (code, ended) = house.command(&words[..5]);
    assert_eq!(
        (code, &ended["total_messages"], &ended["insert_errors"]),
        (Some(0), &json!(20), &json!(0))
    );
}
