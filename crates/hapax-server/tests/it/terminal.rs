//! What a person at a terminal is told: one message, one hint, and no database in a wrong folder.

mod manuals;
mod pty;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json as value};

use crate::fixture::{Server, hapax, json, path, refused, run, succeed};

/// Runs one command in `folder`; its exit code and what it said on standard error.
fn told_in(folder: &Path, change: impl FnOnce(&mut Command)) -> (Option<i32>, String) {
    let mut command = hapax();
    command.current_dir(folder).stdin(Stdio::null());
    change(&mut command);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

/// One message and one hint, each on one line, and nothing said twice.
fn is_one_message_and_one_hint(said: &str) {
    let lines: Vec<&str> = said.lines().collect();
    let [message, hint] = lines[..] else {
        panic!("{said}");
    };
    assert!(message.starts_with("hapax: "), "{said}");
    assert!(hint.starts_with("hint: ") && hint.len() > 12, "{said}");
    assert_eq!(said.matches("hint: ").count(), 1, "{said}");
    let mut causes: Vec<&str> = message.split(": ").collect();
    let all = causes.len();
    causes.sort_unstable();
    causes.dedup();
    assert_eq!(causes.len(), all, "a cause is said twice: {said}");
}

#[test]
fn a_command_that_only_reads_or_changes_what_is_there_makes_no_database_in_a_wrong_folder() {
    let folder = tempfile::tempdir().unwrap();
    let id = "00000000-0000-8000-8000-000000000000";
    let token = "00000000000000000000000000000000";
    for arguments in [
        &["keys", "list"][..],
        &["keys", "show", id],
        &["keys", "rm", id],
        &["keys", "settle", id, "--release"],
        &["keys", "erase", id],
        &["jobs", "list"],
        &["jobs", "show", id],
        &["jobs", "stats"],
        &["jobs", "leases"],
        &["jobs", "retry", id],
        &["policies", "list"],
        &["policies", "rm", "mine_v1"],
        &["policies", "set", "mine_v1", "--enabled", "false"],
        &["token", "list"],
        &["token", "revoke", token],
        &["sweep"],
        &["backfill"],
        &["reconcile", "--dry-run"],
        &["vault", "renew"],
    ] {
        let (code, said) = told_in(folder.path(), |command| {
            command.args(arguments);
        });
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("sqlite:hapax-data/hapax.db"), "{said}");
        assert!(said.contains("--data DIR"), "{said}");
        is_one_message_and_one_hint(&said);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{arguments:?} left something behind"
        );
    }
    // Nor does looking at what could be served.
    let report = run(&["doctor", "--data", path(&folder.path().join("data"))]);
    assert!(report.status.success(), "{report:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_place_of_the_store_is_named_before_or_after_the_command() {
    let server = Server::start();
    let data = server.data();
    for arguments in [
        ["--data", path(&data), "token", "list", "--json"],
        ["token", "--data", path(&data), "list", "--json"],
        ["token", "list", "--json", "--data", path(&data)],
    ] {
        let listed: Value = serde_json::from_str(&succeed(&arguments)).unwrap();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_command_without_what_it_needs_says_what_to_give() {
    let folder = tempfile::tempdir().unwrap();
    let id = "00000000-0000-8000-8000-000000000000";
    for (arguments, words) in [
        (
            &["keys", "settle", id][..],
            "give --status N (it happened) or --release (run it again)",
        ),
        (&["keys", "erase"], "give the ID of a key"),
        (&["jobs", "retry"], "give the IDs of jobs"),
        (&["keys", "list", "--limit", "0"], "hapax keys list --help"),
        (&["jobs", "list", "--limit", "0"], "hapax jobs list --help"),
        (&["keys", "list", "--dat", "x"], "did you mean --data?"),
        (&["kyes", "list"], "did you mean key or keys?"),
        (&["keys", "list", "--state", "lost"], "hint: "),
        (&["--json", "serve"], "log_format"),
        (
            &["--listen", "127.0.0.1:0", "keys", "list"],
            "serve --listen",
        ),
        (&["serve", "--listen", ":8088"], "--listen 127.0.0.1:8088 "),
        (&["serve", "--listen", "nowhere"], "HOST:PORT"),
        (&["proxy"], "--upstream"),
        (&["proxy", "--upstream", "ftp://x"], "hint: "),
        (
            &["keys", "list", "--database", "mysql://h/d"],
            "postgres://",
        ),
        (
            &["serve", "--config", "/no/such.toml"],
            "hapax config default",
        ),
        (&["vault", "shred", "--tenant", "default"], "--yes"),
        (&["worker", "--kinds", "downlod"], "hint: "),
    ] {
        let (code, said) = told_in(folder.path(), |command| {
            command.args(arguments);
        });
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        is_one_message_and_one_hint(&said);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn what_is_wrong_around_the_program_is_told_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(at("damaged")).unwrap();
    std::fs::write(at("damaged/hapax.db"), "not a database\n".repeat(400)).unwrap();
    std::fs::write(at("file"), "").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let absent = "postgres://h@127.0.0.1:1/d";
    for (arguments, words) in [
        (
            vec!["keys", "list", "--data", &at("damaged")],
            "docs/errors/HX003",
        ),
        (vec!["serve", "--data", &at("damaged")], "docs/errors/HX003"),
        (vec!["serve", "--data", &at("file/below")], "--data DIR"),
        (
            vec!["serve", "--listen", &listen, "--data", &at("new")],
            "--listen 127.0.0.1:0",
        ),
        (
            vec!["keys", "list", "--database", absent],
            "is PostgreSQL running",
        ),
        (
            vec!["serve", "--database", absent, "--data", &at("new")],
            "is PostgreSQL running",
        ),
        (
            vec![
                "download",
                &at("none.jsonl"),
                "--out",
                &at("out"),
                "--data",
                &at("d"),
            ],
            "is the path right, and may",
        ),
        (
            vec!["import", "mbox", &at("none.mbox"), "--data", &at("d")],
            "hint: ",
        ),
        (vec!["key", &at("none.json")], "is the path right"),
    ] {
        let (code, said) = told_in(folder.path(), |command| {
            command.args(&arguments);
        });
        // A manifest and a config file are named by a flag or an argument: that is wrong use.
        let wrong = if arguments[0] == "download" { 2 } else { 1 };
        assert_eq!(code, Some(wrong), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        is_one_message_and_one_hint(&said);
    }
}

#[test]
fn a_level_of_the_log_that_is_none_is_refused_with_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["serve", "worker", "doctor"] {
        let mut program = hapax();
        program.args([command, "--data", path(&folder.path().join("d"))]);
        let output = program.env("HAPAX_LOG", "loud").output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("loud"), "{said}");
        assert!(
            said.contains("off, error, warn, info, debug, trace"),
            "{said}"
        );
    }
}

#[test]
fn doctor_tries_to_write_and_looks_at_who_can_read_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("data");
    let output = run(&["doctor", "--data", path(&below), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |report: &Value, check: &str| {
        let items = report["items"].as_array().unwrap();
        let found = items.iter().find(|item| item["check"] == check);
        found.unwrap_or_else(|| panic!("{check}: {report}")).clone()
    };
    assert_eq!(of(&report, "data folder")["status"], "fail", "{report}");
    assert_eq!(of(&report, "database")["status"], "fail", "{report}");

    let server = Server::start();
    let data = server.data();
    let listen = server.address.to_string();
    let looked = || json(&["doctor", "--data", path(&data), "--listen", &listen]);
    assert_eq!(of(&looked(), "token")["status"], "ok");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(data.join("token"), mode).unwrap();
    let token = of(&looked(), "token");
    assert_eq!(token["status"], "warn", "{token}");
    assert!(
        token["next"].as_str().unwrap().starts_with("chmod 600 "),
        "{token}"
    );
}

#[test]
fn variables_of_programs_around_hapax_are_no_misspelling_and_a_near_miss_is() {
    let folder = tempfile::tempdir().unwrap();
    let checked = |name: &str| {
        let mut program = hapax();
        program.args(["config", "check", "--json"]).env(name, "x");
        let output = program.current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["misspelt"].clone()
    };
    for name in ["HAPAX_URL", "HAPAX_BIN", "HAPAX_TOKEN_OF_THE_DEPLOYMENT"] {
        assert_eq!(checked(name), value!([]), "{name}");
    }
    let told = value!([{"variable": "HAPAX_LISTEM", "did_you_mean": "HAPAX_LISTEN"}]);
    assert_eq!(checked("HAPAX_LISTEM"), told);
}

#[test]
fn an_unknown_key_of_the_config_file_is_told_with_the_one_that_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    for (text, words) in [
        ("lisen = '127.0.0.1:0'\n", "did you mean `listen`?"),
        (
            "[[routes]]\npattern = 'POST:a'\nttl_second = 5\n",
            "did you mean `ttl_seconds`?",
        ),
        (
            "[proxy]\nupstrem = 'http://h'\n",
            "did you mean `upstream`?",
        ),
        ("colour = 'red'\n", "`hapax config default` lists every key"),
    ] {
        std::fs::write(&file, text).unwrap();
        let said = refused(&["config", "check", "--config", path(&file)], 2);
        assert!(said.contains(words), "{said}");
        is_one_message_and_one_hint(&said);
    }
}

#[test]
fn a_policy_is_added_on_purpose_only_and_can_be_removed() {
    let server = Server::start();
    let data = server.data();
    let told = |words: &[&str], code| refused(&[words, &["--data", path(&data)]].concat(), code);
    let did = |words: &[&str]| json(&[words, &["--data", path(&data)]].concat());
    let set = ["policies", "set", "telegram_link_v2"];
    let said = told(&set, 1);
    assert!(
        said.contains("there is no policy telegram_link_v2"),
        "{said}"
    );
    assert!(
        said.contains("telegram_link_v1") && said.contains("--create"),
        "{said}"
    );
    is_one_message_and_one_hint(&said);

    let source = ["--source", "telegram", "--content-type", "link"];
    did(&[
        &set[..],
        &["--create", "--conflict-action", "skip"],
        &source,
    ]
    .concat());
    did(&[&set[..], &["--conflict-action", "update"]].concat());
    let names = || did(&["policies", "list"]).to_string();
    assert!(names().contains("telegram_link_v2"), "{}", names());
    let removed = did(&["policies", "rm", "telegram_link_v2"]);
    assert_eq!(removed["removed"], true, "{removed}");
    assert!(!names().contains("telegram_link_v2"), "{}", names());
    is_one_message_and_one_hint(&told(&["policies", "rm", "telegram_link_v2"], 1));
    let kept = told(&["policies", "rm", "telegram_link_v1"], 2);
    assert!(kept.contains("--enabled false"), "{kept}");
}

#[test]
fn a_member_that_a_request_misses_is_named_by_its_path() {
    let server = Server::start();
    let answer = server.owner("POST", "/v1/keys/claim", r#"{"path":"/a"}"#);
    assert_eq!(
        answer.refusal(),
        (400, "schema_validation_failed".to_owned())
    );
    let errors = &answer.json()["error"]["details"]["errors"];
    assert_eq!(
        errors,
        &value!([{"path": "method", "message": "is missing"}])
    );
}

#[test]
fn a_token_is_a_writer_of_the_default_tenant_unless_said_and_its_name_is_shown() {
    let server = Server::start();
    let data = server.data();
    let create = [
        "token",
        "create",
        "--name",
        "deploy bot",
        "--data",
        path(&data),
    ];
    let made = json(&create);
    assert_eq!(
        (&made["role"], &made["name"], &made["tenant"]),
        (
            &value!("writer"),
            &value!("deploy bot"),
            &value!("00000000-0000-0000-0000-000000000000")
        )
    );
    let listed = succeed(&["token", "list", "--data", path(&data)]);
    assert!(listed.contains("\tdeploy bot\t"), "{listed}");
    for wrong in ["", " ", "two\nlines", &"x".repeat(101)] {
        let said = refused(
            &["token", "create", "--name", wrong, "--data", path(&data)],
            2,
        );
        is_one_message_and_one_hint(&said);
    }

    // What a token does is noted under its name, beside its id.
    let owner = [
        &create[..3],
        &["night shift", "--role", "owner"],
        &create[4..],
    ]
    .concat();
    let made = json(&owner);
    let token = made["token"].as_str().unwrap();
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
    assert_eq!(server.send("POST", "/v1/echo", &headers, b"{}").status, 200);
    let keys = server.bearing(token, "GET", "/v1/keys", "").json();
    let key = keys["items"][0]["id"].as_str().unwrap();
    let path = format!("/v1/keys/{key}");
    assert_eq!(server.bearing(token, "DELETE", &path, "").status, 200);
    let audit = server
        .owner("GET", "/v1/audit?action=key_deleted", "")
        .json();
    let id = made["id"].as_str().unwrap();
    let actor = value!(format!("token {id} (night shift)"));
    assert_eq!(audit["items"][0]["actor"], actor, "{audit}");
    // And the dashboard asks who is signed in.
    let session = server.bearing(token, "GET", "/session", "").json();
    assert_eq!(session["token_name"], "night shift", "{session}");
}
