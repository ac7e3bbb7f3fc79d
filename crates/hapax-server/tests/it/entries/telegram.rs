//! What Telegram's Bot API delivers, and how it signs in.

use serde_json::{Value, json};

use super::{get, insert, kept, posted, pull, refused, revisions, thought, update};
use crate::both::{Node, Store, on_both_stores};
use crate::fixture::Server;
use crate::http::Answer;

const PATH: &str = "/ingest/telegram/update";

fn message(update: i64, message: i64, text: &str) -> Value {
    json!({
        "update_id": update,
        "message": {
            "message_id": message,
            "date": 1_771_336_843,
            "chat": {"id": -1_001_234_567_890_i64, "type": "supergroup", "title": "Us"},
            "from": {"id": 5, "is_bot": false, "first_name": "Ada"},
            "text": text,
        },
    })
}

fn count(node: &Node) -> usize {
    posted(node, "/db/read/last", &json!({}))
        .as_array()
        .unwrap()
        .len()
}

fn an_update_is_normalised_and_inserted_once(store: Store) {
    let node = store.serve("");
    let first = posted(&node, PATH, &message(1, 7, "a thought to keep"));
    assert_eq!(
        (&first["ok"], &first["action"], &first["update_id"]),
        (&json!(true), &json!("inserted"), &json!(1))
    );
    assert_eq!(
        (&first["entry"]["source"], &first["entry"]["content_type"]),
        (&json!("telegram"), &json!("thought"))
    );
    assert_eq!(first["entry"]["author"], "Ada");
    let whole = pull(&node, &first["entry"]["entry_id"]);
    assert_eq!(whole["idempotency_key_primary"], "tg:-1001234567890:7");
    // Delivered again, it is the same entry, and nothing of it changes.
    let again = posted(&node, PATH, &message(1, 7, "a thought to keep"));
    assert_eq!(again["entry"]["entry_id"], first["entry"]["entry_id"]);
    assert_eq!(pull(&node, &first["entry"]["entry_id"]), whole);
    assert_eq!(count(&node), 1);
}

fn an_edit_goes_over_the_message_and_a_link_is_kept_once(store: Store) {
    let node = store.serve("");
    let first = posted(&node, PATH, &message(1, 7, "first words"));
    let mut edit = message(2, 7, "edited words");
    let body = edit.as_object_mut().unwrap().remove("message").unwrap();
    let edit = json!({"update_id": 2, "edited_message": body});
    let told = posted(&node, PATH, &edit);
    assert_eq!(
        (&told["action"], &told["entry"]["matched_on"]),
        (&json!("updated"), &json!("primary"))
    );
    assert_eq!(
        pull(&node, &first["entry"]["entry_id"])["clean_text"],
        "edited words"
    );
    let link = |update, text: &str| posted(&node, PATH, &message(update, update, text));
    assert_eq!(
        link(10, "https://example.org/a?utm_source=tg")["action"],
        "inserted"
    );
    assert_eq!(link(11, "look https://example.org/a")["action"], "skipped");
    assert_eq!(count(&node), 2);
}

fn what_holds_no_text_is_ignored_and_not_delivered_again(store: Store) {
    let node = store.serve("");
    for update in [
        json!({"update_id": 1, "poll": {"id": "1"}}),
        json!({"update_id": 2, "message": {"message_id": 1, "date": 1, "chat": {"id": 1}, "photo": []}}),
        json!({"update_id": 3}),
        json!({"update_id": 4, "something_new": {"a": 1}}),
    ] {
        let told = posted(&node, PATH, &update);
        assert_eq!(
            (&told["ok"], &told["action"], &told["reason"]),
            (&json!(true), &json!("ignored"), &json!("nothing_to_keep"))
        );
    }
    assert_eq!(count(&node), 0);
    for wrong in [
        json!({}),
        json!({"update_id": "x"}),
        json!({"update_id": 1, "message": {"text": "no chat"}}),
    ] {
        let answer = node.owner("POST", PATH, &wrong.to_string());
        refused(&answer, 400, "schema_validation_failed");
    }
}

/// A server whose webhook has this secret.
fn with_secret(secret: &str) -> Server {
    Server::start_with(|command| {
        command
            .arg("--no-worker")
            .env("HAPAX_TELEGRAM_SECRET", secret);
    })
}

fn sent(server: &Server, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    server.send("POST", path, headers, body.to_string().as_bytes())
}

const HEADER: &str = "X-Telegram-Bot-Api-Secret-Token";

#[test]
fn the_secret_of_the_webhook_stands_for_a_token_on_its_path_only() {
    let server = with_secret("s3cret-of_mine");
    let update = message(1, 7, "hello there");
    let told = sent(&server, PATH, &[(HEADER, "s3cret-of_mine")], &update);
    assert_eq!(told.status, 200, "{}", told.text());
    assert_eq!(told.json()["action"], "inserted");
    for headers in [
        &[][..],
        &[(HEADER, "s3cret-of_min")],
        &[(HEADER, "")],
        &[(HEADER, "s3cret-of_mine"), (HEADER, "s3cret-of_mine")],
    ] {
        let answer = sent(&server, PATH, headers, &update);
        assert_eq!(
            answer.refusal(),
            (401, "unauthorized".to_owned()),
            "{headers:?}"
        );
    }
    for path in ["/db/insert", "/normalize/telegram", "/db/read/last"] {
        let answer = sent(
            &server,
            path,
            &[(HEADER, "s3cret-of_mine")],
            &json!({"source": "web"}),
        );
        assert_eq!(answer.status, 401, "{path}");
    }
    let bearer = format!("Bearer {}", server.token());
    let by_token = [("authorization", bearer.as_str())];
    assert_eq!(
        sent(&server, PATH, &by_token, &update).status,
        200,
        "a token does, too"
    );
    let wrong = [("authorization", bearer.as_str()), (HEADER, "forged")];
    assert_eq!(
        sent(&server, PATH, &wrong, &update).status,
        401,
        "a wrong secret never does"
    );
    let both = [
        ("authorization", "Bearer nonsense"),
        (HEADER, "s3cret-of_mine"),
    ];
    assert_eq!(
        sent(&server, PATH, &both, &update).status,
        401,
        "a token that is sent has to be one"
    );
    let rows = server.owner("POST", "/db/read/last", "{}").json();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    let config = server.owner("GET", "/config", "");
    assert_eq!(config.json()["configured"]["telegram_secret"], true);
    assert!(!config.text().contains("s3cret") && !server.log().contains("s3cret"));
}

#[test]
fn without_a_secret_only_a_token_does() {
    let server = Server::start();
    for headers in [&[][..], &[(HEADER, "")], &[(HEADER, "anything")]] {
        let answer = sent(&server, PATH, headers, &message(1, 1, "x"));
        assert_eq!(answer.status, 401);
    }
}

#[test]
fn a_secret_that_telegram_would_not_take_is_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let output = crate::fixture::hapax()
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.path().join("data"))
        .env("HAPAX_TELEGRAM_SECRET", "not this one!")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("HAPAX_TELEGRAM_SECRET") && !said.contains("not this one"),
        "{said}"
    );
}

fn an_unchanged_text_is_updated_and_leaves_everything_as_it_was(store: Store) {
    let node = store.serve("");
    let (entry, row) = kept(
        &node,
        "/normalize/telegram",
        &thought(-5, 7, "a thought to keep"),
    );
    let enriched = json!({
        "entry_id": row["entry_id"], "topic_primary": "other", "keywords": ["a", "b", "c", "d", "e"], "gist": "A thought.",
        "enrichment_status": "completed", "metadata": {"t1": {"topic_said": "thinking"}},
    });
    update(&node, &enriched);
    let before = (
        pull(&node, &row["entry_id"]),
        revisions(&node, &row["entry_id"]),
    );
    for _ in 0..3 {
        let again = insert(&node, &entry);
        assert_eq!(
            (&again["action"], &again["entry_id"]),
            (&json!("updated"), &row["entry_id"])
        );
        let (_, again) = kept(
            &node,
            "/normalize/telegram",
            &thought(-5, 7, "a thought to keep"),
        );
        assert_eq!(again["action"], "updated");
    }
    let after = (
        pull(&node, &row["entry_id"]),
        revisions(&node, &row["entry_id"]),
    );
    assert_eq!(after, before);
    assert_eq!(before.1.len(), 1, "that of the enrichment");
    let batches = get(&node, "/status/t1/batch?include_terminal=true");
    assert_eq!(batches["items"], json!([]));
}

on_both_stores!(
    an_unchanged_text_is_updated_and_leaves_everything_as_it_was,
    an_update_is_normalised_and_inserted_once,
    an_edit_goes_over_the_message_and_a_link_is_kept_once,
    what_holds_no_text_is_ignored_and_not_delivered_again,
);
