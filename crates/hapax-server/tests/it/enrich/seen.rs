//! What is seen of calls from outside: metrics, and a log without the key and without anybody's text.

use hapax_effects::enrich::testing::KEY;
use serde_json::json;

use super::House;
use crate::both::Store;
use crate::fixture::{hapax, path};

#[test]
fn calls_are_counted_and_neither_the_key_nor_a_text_is_logged() {
    let house = House::with(Store::Sqlite, |command| {
        command.env("HAPAX_LOG", "debug");
    });
    house.enriched("An unmistakable text about tea.");
    let items = json!([{"clean_text": "Another unmistakable text about tea."}]);
    house.ended(&house.batch(&items));
    let refused = json!({"clean_text": "unmistakable fake-reply:400 "});
    assert_eq!(house.ask(&refused).status, 502);
    let metrics = house.send("GET", "/metrics", &[], b"").text();
    for line in [
        r#"hapax_llm_calls_total{operation="chat",model="t1-default",prompt_mode="whole",status="200"} 1"#,
        r#"hapax_llm_calls_total{operation="create_batch""#,
        r#"hapax_llm_prompt_tokens_total{model="t1-batch""#,
        r#"hapax_t1_items_total{schema="pkm",status="completed"} 1"#,
        r#"hapax_t1_batches_total{schema="pkm",status="completed"} 1"#,
        "hapax_llm_call_seconds",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let config = house.owner("GET", "/config", "").json();
    assert_eq!(config["configured"]["litellm"], true);
    let log = house.log();
    assert!(log.contains("llm call"), "{log}");
    for secret in [KEY, "unmistakable"] {
        assert!(!log.contains(secret), "{secret} in {log}");
        assert!(!metrics.contains(secret) && !config.to_string().contains(secret));
    }
}

#[test]
fn a_worker_of_its_own_enriches_what_a_server_keeps() {
    let house = House::with(Store::Sqlite, |command| {
        command.arg("--no-worker");
    });
    let batch = house.batch(&super::texts(2));
    let data = house.data();
    let mut command = hapax();
    command.args(["worker", "--kinds", "enrich", "--data", path(&data)]);
    let command = super::configured(&mut command, &house.provider, &house.root);
    let mut worker = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let ended = house.ended(&batch);
    assert_eq!(super::statuses(&ended), ["completed"; 2], "{ended}");
    worker.kill().unwrap();
    worker.wait().unwrap();
    let mut idle = hapax();
    idle.args(["worker", "--kinds", "enrich", "--data", path(&data)]);
    let output = idle.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("OPENAI_BASE_URL"));
}
