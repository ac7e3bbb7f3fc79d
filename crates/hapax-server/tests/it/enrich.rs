//! Enrichment over HTTP, with a LiteLLM of our own making behind it: what is paid for is paid for once, and nothing that was
//! answered is lost.

mod answers;
mod asking;
mod batches;
mod files;
mod imported;
mod killed;
mod outages;
mod real;
mod seen;
mod shared;

use std::process::Command;
use std::time::{Duration, Instant};

use hapax_effects::enrich::testing::{FakeLitellm, KEY};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::both::Store;
use crate::fixture::Server;
use crate::http::Answer;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// A provider in this process.
struct Provider {
    fake: FakeLitellm,
    runtime: Runtime,
}

impl std::ops::Deref for Provider {
    type Target = FakeLitellm;

    fn deref(&self) -> &FakeLitellm {
        &self.fake
    }
}

impl Provider {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let fake = runtime.block_on(FakeLitellm::start()).unwrap();
        Self { fake, runtime }
    }

    fn goes_down(&self) {
        self.runtime.block_on(self.fake.down()).unwrap();
    }

    fn comes_back(&self) {
        self.runtime.block_on(self.fake.up()).unwrap();
    }
}

/// A server that asks the provider.
struct House {
    server: Server,
    provider: Provider,
    root: TempDir,
    store: Vec<String>,
}

impl std::ops::Deref for House {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl House {
    fn new(store: Store) -> Self {
        Self::with(store, |_| {})
    }

    fn with(store: Store, change: impl FnOnce(&mut Command)) -> Self {
        let store = match store {
            Store::Sqlite => Vec::new(),
            Store::Postgres => vec!["--database".to_owned(), crate::postgres::database()],
        };
        let (folder, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Self::start(folder, root, store, Provider::start(), change)
    }

    fn start(
        folder: TempDir,
        root: TempDir,
        store: Vec<String>,
        provider: Provider,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let server = Server::start_in(folder, |command| {
            configured(command, &provider, &root).args(&store);
            change(command);
        });
        Self {
            server,
            provider,
            root,
            store,
        }
    }

    /// The server is killed, and another is started on the same data.
    fn restarted(self, change: impl FnOnce(&mut Command)) -> Self {
        self.server.signal("KILL");
        self.revived(change)
    }

    /// The server is stopped as an operator does, so that it leaves no job behind, and another is started on the same data.
    fn relieved(self, change: impl FnOnce(&mut Command)) -> Self {
        self.server.signal("TERM");
        self.revived(change)
    }

    /// Another server is started on the data of one that has ended.
    fn revived(self, change: impl FnOnce(&mut Command)) -> Self {
        let (_, _, folder) = self.server.wait();
        Self::start(folder, self.root, self.store, self.provider, change)
    }

    fn ask(&self, body: &Value) -> Answer {
        self.owner("POST", "/enrich/t1", &body.to_string())
    }

    /// A text that must be enriched.
    fn enriched(&self, clean_text: &str) -> Value {
        let answer = self.ask(&json!({ "clean_text": clean_text }));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.owner("POST", path, &body.to_string());
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// An entry with this text; its number.
    fn entry(&self, clean_text: &str) -> i64 {
        let rows = self.post(
            "/db/insert",
            &json!({"source": "web", "title": "T", "clean_text": clean_text}),
        );
        rows[0]["entry_id"].as_i64().unwrap()
    }

    fn pull(&self, entry_id: i64) -> Value {
        self.post("/db/read/pull", &json!({ "entry_id": entry_id }))
    }

    /// A batch of these items; its id.
    fn batch(&self, items: &Value) -> String {
        let told = self.post("/enrich/t1/batch", &json!({ "items": items }));
        assert_eq!(told["request_count"], items.as_array().unwrap().len());
        told["batch_id"].as_str().unwrap().to_owned()
    }

    /// A batch as it stands, with its items.
    fn shown(&self, batch: &str) -> Value {
        let path = format!("/status/t1/batch/{batch}?include_items=true");
        let answer = self.owner("GET", &path, "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The batch once it is as `is_so` wants it.
    fn until(&self, batch: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = self.shown(batch);
            if is_so(&now) {
                return now;
            }
            assert!(
                Instant::now() < until,
                "it took too long: {now}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The batch once it has ended.
    fn ended(&self, batch: &str) -> Value {
        self.until(batch, is_over)
    }
}

fn is_over(batch: &Value) -> bool {
    matches!(batch["status"].as_str(), Some("completed" | "failed"))
}

/// What a server needs to enrich, with short pauses.
fn configured<'a>(
    command: &'a mut Command,
    provider: &Provider,
    root: &TempDir,
) -> &'a mut Command {
    command
        .env("OPENAI_BASE_URL", provider.base_url())
        .env("LITELLM_MASTER_KEY", KEY)
        .env("T1_BATCH_SYNC_INTERVAL_MS", "50")
        .env("HAPAX_LLM_TIMEOUT_MS", "4000")
        .env("EMAIL_IMPORT_ROOT", root.path())
}

/// The statuses of the items of a batch, in order.
fn statuses(batch: &Value) -> Vec<&str> {
    let items = batch["items"].as_array().unwrap().iter();
    items.map(|item| item["status"].as_str().unwrap()).collect()
}

/// Texts that differ.
fn texts(count: usize) -> Value {
    (0..count)
        .map(|number| json!({"clean_text": format!("Tea number {number} is made of leaves and water.")}))
        .collect()
}
