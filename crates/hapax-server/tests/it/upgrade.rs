//! Old and new programs on one schema: a program works on what a newer one has added, and takes nothing of it back.
//! `rolling` shows the same with two real programs.

mod load;
mod rolling;

use std::process::Command;

use serde_json::json;

use crate::fixture::{Server, json as printed, path};
use crate::postgres::database;

/// What a statement answers in this database.
fn query_in(url: &str, statement: &str) -> String {
    let output = Command::new("psql")
        .args([url, "-qAtc", statement])
        .output()
        .expect("psql is installed");
    assert!(output.status.success(), "{statement}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What a newer program may do to a schema while older ones work on it: add.
const EXPAND: &str = "BEGIN;
    ALTER TABLE idempotency_keys ADD COLUMN of_tomorrow text, ADD COLUMN counted bigint NOT NULL DEFAULT 7;
    ALTER TABLE job ADD COLUMN of_tomorrow text;
    ALTER TABLE snapshot ADD COLUMN of_tomorrow text;
    ALTER TABLE pkm.entries ADD COLUMN of_tomorrow text;
    CREATE INDEX of_tomorrow ON idempotency_keys (tenant_id, of_tomorrow) WHERE of_tomorrow IS NOT NULL;
    CREATE TABLE tomorrow (tenant_id uuid NOT NULL);
    INSERT INTO schema_migration (number, name, sha256) VALUES (9999, '9999_tomorrow', 'of a program that is not here');
    COMMIT";

fn start(url: &str) -> Server {
    Server::start_with(|command| {
        command
            .args(["--database", url])
            .env("HAPAX_TOKEN", load::TOKEN);
    })
}

/// One of everything, through this node; whether each was done before.
fn use_all(node: &Server) -> [bool; 5] {
    let bearer = format!("Bearer {}", load::TOKEN);
    let post = |path: &str, body: serde_json::Value| {
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", "k"),
        ];
        let answer = node.send("POST", path, &headers, body.to_string().as_bytes());
        assert!(
            answer.status < 300,
            "{path}: {} {}",
            answer.status,
            answer.text()
        );
        answer
    };
    let echo = post("/v1/echo", json!({}));
    let course = post(
        "/v1/courses/ingest",
        json!({"course": {"id": "c", "name": "C"}}),
    );
    let job = post(
        "/v1/jobs",
        json!({"kind": "x", "work_id": "w", "artifact_id": "a", "canonical_url": "https://example.org/"}),
    );
    let entry = post(
        "/db/insert",
        json!({"items": [{
            "source": "web", "title": "t", "idempotency_policy_key": "telegram_link_v1", "idempotency_key_primary": "e",
        }]}),
    );
    let claim = post(
        "/v1/keys/claim",
        json!({"key": "r", "method": "POST", "path": "/p", "body": {}}),
    )
    .json();
    if claim["action"] == "process" {
        let id = claim["id"].as_str().unwrap();
        post(
            &format!("/v1/keys/{id}/complete"),
            json!({"token": claim["token"], "status": 200, "body": {}}),
        );
    }
    [
        echo.header("idempotency-replayed").is_some(),
        course.json()["idempotent"] == true,
        job.status == 200,
        entry.json()[0]["action"] == "skipped",
        claim["action"] == "replay",
    ]
}

#[test]
fn a_program_goes_on_and_starts_on_a_schema_that_a_newer_one_has_expanded() {
    let url = database();
    let before = start(&url);
    assert_eq!(use_all(&before), [false; 5]);
    query_in(&url, EXPAND);
    assert_eq!(use_all(&before), [true; 5], "what ran before it goes on");
    let after = start(&url);
    assert_eq!(use_all(&after), [true; 5], "what starts after it works");
    let swept = printed(&["sweep", "--database", &url, "--data", path(&after.data())]);
    assert_eq!(swept["swept"], 0);
}

#[test]
fn an_older_program_migrates_nothing_and_says_that_the_schema_is_newer() {
    let (url, folder) = (database(), tempfile::tempdir().unwrap());
    let on = ["--database", url.as_str(), "--data", path(folder.path())];
    let ran = printed(&[&["migrate"][..], &on].concat());
    assert_eq!(ran["newer"], json!([]), "{ran}");
    query_in(&url, EXPAND);
    let shape = "SELECT md5(string_agg(c::text, '' ORDER BY c)) FROM (
        SELECT table_name || column_name || data_type AS c FROM information_schema.columns
        UNION ALL SELECT number || name || sha256 FROM schema_migration) AS all_of_it";
    let before = query_in(&url, shape);
    let ran = printed(&[&["migrate"][..], &on].concat());
    assert_eq!(
        (&ran["ran"], &ran["newer"]),
        (&json!([]), &json!(["9999_tomorrow"]))
    );
    assert_eq!(query_in(&url, shape), before, "nothing has changed");
}
