//! What is seen of a call: its metrics and its line in the log, and what must never be in them.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use hapax_effects::enrich::testing::{Endpoint, FakeLitellm, KEY, Reply};
use hapax_effects::enrich::{Llm, LlmConfig};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::Value;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::prelude::*;

use crate::enrich_calls::{fake, request};

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

thread_local! {
    /// Where this thread's log goes, while a test looks at it.
    static HERE: RefCell<Option<Log>> = const { RefCell::new(None) };
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// One subscriber for the whole process: those that come and go disturb each other's callsites.
    fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let is_looked_at = dynamic_filter_fn(|_, _| HERE.with_borrow(Option::is_some));
            let layer = tracing_subscriber::fmt::layer()
                .json()
                .with_writer(|| HERE.with_borrow(|log| log.clone().unwrap_or_default()))
                .with_filter(is_looked_at);
            tracing_subscriber::registry().with(layer).init();
        });
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines with this message.
    fn lines(&self, message: &str) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &Value| line["fields"]["message"] == message)
            .collect()
    }
}

/// Does this on one thread with a log and metrics of its own.
fn seen<F: Future<Output = ()>>(
    log_prompts: bool,
    act: impl FnOnce(FakeLitellm, LlmConfig) -> F,
) -> (Log, String) {
    Log::install();
    let log = Log::default();
    HERE.set(Some(log.clone()));
    let recorder = PrometheusBuilder::new().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let fake = fake().await;
            let config = LlmConfig {
                log_prompts,
                ..fake.config()
            };
            act(fake, config).await;
        });
    });
    drop(runtime);
    HERE.set(None);
    (log, recorder.handle().render())
}

#[test]
fn a_call_is_one_line_in_the_log_and_a_count_in_the_metrics() {
    let (log, metrics) = seen(false, |fake, config| async move {
        fake.next(Endpoint::Chat, Reply::Status(503));
        let llm = Llm::new(config).unwrap();
        llm.chat(&request("Tea and secrets of mine."))
            .await
            .unwrap();
        llm.batches(None, 1).await.unwrap();
    });
    let lines = log.lines("llm call");
    assert_eq!(lines.len(), 2, "{}", log.text());
    let fields = &lines[0]["fields"];
    for (name, value) in [
        ("operation", "chat"),
        ("model", "t1-default"),
        ("prompt_mode", "whole"),
        ("status", "200"),
    ] {
        assert_eq!(fields[name], value);
    }
    assert_eq!(fields["tries"], 2);
    assert!(fields["prompt_tokens"].as_u64().unwrap() > 0);
    assert!(fields["duration_ms"].is_u64());
    assert_eq!(lines[0]["span"]["name"], "llm.call");
    assert_eq!(lines[1]["fields"]["operation"], "list_batches");
    assert_eq!(log.lines("the provider is tried again").len(), 1);
    for line in [
        r#"hapax_llm_calls_total{operation="chat",model="t1-default",prompt_mode="whole",status="200"} 1"#,
        r#"hapax_llm_calls_total{operation="list_batches",model="none",prompt_mode="none",status="200"} 1"#,
        r#"hapax_llm_retries_total{operation="chat",status="503"} 1"#,
        r#"hapax_llm_call_seconds_count{operation="chat",model="t1-default"} 1"#,
        r#"hapax_llm_prompt_tokens_total{model="t1-default",prompt_mode="whole"}"#,
        r#"hapax_llm_completion_tokens_total{model="t1-default",prompt_mode="whole"}"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[test]
fn neither_the_key_nor_the_text_is_in_the_log() {
    let (log, metrics) = seen(false, |fake, config| async move {
        let llm = Llm::new(config.clone()).unwrap();
        assert!(!format!("{llm:?} {config:?}").contains(KEY));
        llm.chat(&request("Tea and secrets of mine."))
            .await
            .unwrap();
        fake.next(
            Endpoint::Chat,
            Reply::Raw(400, format!("your key is {KEY}")),
        );
        let error = llm
            .chat(&request("Tea and secrets of mine."))
            .await
            .unwrap_err();
        assert!(!format!("{error:?} {error}").contains(KEY), "{error:?}");
        let page = format!("{}{KEY}", "x".repeat(490));
        fake.next(Endpoint::Chat, Reply::Raw(500, page));
        llm.chat(&request("Tea and secrets of mine."))
            .await
            .unwrap();
        fake.down().await.unwrap();
        llm.chat(&request("Tea and secrets of mine."))
            .await
            .unwrap_err();
    });
    for text in [log.text(), metrics] {
        assert!(!text.contains(&KEY[..9]), "{text}");
        assert!(!text.contains("secrets of mine"), "{text}");
    }
}

#[test]
fn prompts_and_answers_are_in_the_log_if_it_is_asked_for_and_cut() {
    let (log, _) = seen(true, |fake, config| async move {
        let _alive = fake;
        let text = format!("Tea and secrets of mine. {}", "x".repeat(9000));
        let llm = Llm::new(config).unwrap();
        llm.chat(&request(&text)).await.unwrap();
    });
    let texts = log.lines("llm text");
    assert_eq!(texts.len(), 2);
    assert_eq!(
        (&texts[0]["fields"]["what"], &texts[1]["fields"]["what"]),
        (&"prompt".into(), &"answer".into())
    );
    assert!(texts[0]["fields"]["text"].as_str().unwrap().len() <= 4096);
    assert!(
        texts[1]["fields"]["text"]
            .as_str()
            .unwrap()
            .contains("secrets of mine")
    );
    assert!(!log.text().contains(KEY));
}

#[test]
fn a_call_that_nobody_waits_for_any_more_is_seen_too() {
    let (log, metrics) = seen(false, |fake, config| async move {
        fake.next(Endpoint::Chat, Reply::Hang);
        let llm = Llm::new(config).unwrap();
        let asked = request("Tea.");
        let dropped = tokio::time::timeout(Duration::from_millis(100), llm.chat(&asked)).await;
        assert!(dropped.is_err());
    });
    assert_eq!(log.lines("llm call")[0]["fields"]["status"], "cancelled");
    assert!(metrics.contains(r#"status="cancelled"} 1"#), "{metrics}");
}

#[test]
fn a_provider_that_is_away_is_tried_again_also_for_a_new_batch() {
    let (_, metrics) = seen(false, |fake, config| async move {
        use hapax_effects::enrich::{FileId, NewBatch};
        fake.down().await.unwrap();
        let llm = Llm::new(config).unwrap();
        let file = FileId::new("file-1").unwrap();
        let batch = NewBatch::new(file, "24h", [("hapax_op", "op")]).unwrap();
        let error = llm.create_batch(&batch).await.unwrap_err();
        assert!(!error.may_have_happened(), "{error:?}");
    });
    let line = r#"hapax_llm_retries_total{operation="create_batch",status="unreachable"} 3"#;
    assert!(metrics.contains(line), "{metrics}");
}
