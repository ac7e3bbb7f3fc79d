//! The same against a real LiteLLM, where `./test --litellm` started one: HAPAX_TEST_LITELLM is its base URL,
//! HAPAX_TEST_LITELLM_KEY its master key.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::Server;

fn server(root: &std::path::Path) -> Server {
    let told = |name| std::env::var(name).expect("./test --litellm sets it");
    Server::start_with(|command| {
        command
            .env("OPENAI_BASE_URL", told("HAPAX_TEST_LITELLM"))
            .env("LITELLM_MASTER_KEY", told("HAPAX_TEST_LITELLM_KEY"))
            .env("T1_BATCH_SYNC_INTERVAL_MS", "300")
            .env("EMAIL_IMPORT_ROOT", root);
    })
}

fn post(server: &Server, path: &str, body: &Value) -> Value {
    let answer = server.owner("POST", path, &body.to_string());
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn ended(server: &Server, batch: &Value) -> Value {
    let until = Instant::now() + Duration::from_secs(300);
    let path = format!(
        "/status/t1/batch/{}?include_items=true",
        batch.as_str().unwrap()
    );
    loop {
        let now = server.owner("GET", &path, "").json();
        if super::is_over(&now) {
            return now;
        }
        assert!(Instant::now() < until, "it took too long: {now}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "needs a real LiteLLM: ./test --litellm"]
fn a_real_litellm_enriches_a_text_a_batch_and_a_mailbox() {
    let root = tempfile::tempdir().unwrap();
    let server = server(root.path());
    let marker = uuid_like();
    let text = json!({"clean_text": format!("Tea {marker} is made of leaves and water.")});
    let first = post(&server, "/enrich/t1", &text);
    assert_eq!(post(&server, "/enrich/t1", &text), first);
    let bad = json!({"clean_text": format!("Tea {marker} fake-reply:4-keywords ")});
    let refused = server.owner("POST", "/enrich/t1", &bad.to_string());
    assert_eq!(refused.refusal(), (502, "parse_error".to_owned()));

    let items: Vec<Value> = (0..5)
        .map(|number| json!({"clean_text": format!("Tea {marker} number {number}.")}))
        .chain([bad])
        .collect();
    let added = post(&server, "/enrich/t1/batch", &json!({ "items": items }));
    let batch = ended(&server, &added["batch_id"]);
    let all = [
        "completed",
        "completed",
        "completed",
        "completed",
        "completed",
        "parse_error",
    ];
    assert_eq!(super::statuses(&batch), all, "{batch}");

    let mail = format!(
        "From a@example.org Thu Aug 22 12:00:00 2002\nFrom: A <a@example.org>\nSubject: {marker}\n\
         Message-ID: <{marker}@example.org>\nDate: Thu, 22 Aug 2002 12:00:00 +0000\n\nTea {marker} is made of leaves.\n"
    );
    std::fs::write(root.path().join("a.mbox"), mail).unwrap();
    let import = post(
        &server,
        "/import/email/mbox",
        &json!({"mbox_path": "a.mbox"}),
    );
    let batch = ended(&server, &import["tier1_batches"][0]["batch_id"]);
    assert_eq!(super::statuses(&batch), ["completed"], "{batch}");
    let row = post(&server, "/db/read/pull", &json!({"entry_id": 1}));
    assert_eq!(row["enrichment_status"], "completed", "{row}");
}

/// A word that no other run has.
fn uuid_like() -> String {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    format!("{:x}-{}", since.as_nanos(), std::process::id())
}
