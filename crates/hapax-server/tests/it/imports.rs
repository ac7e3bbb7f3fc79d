//! Mailboxes over HTTP and by command: every message is accounted for, once, whatever happens in between.

mod command;
mod counting;
mod joining;
mod killed;
mod mailbox;
mod paths;
mod refusals;
mod reruns;
mod soak;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::both::Store;
use crate::fixture::{Server, path};
use crate::http::Answer;

/// A server with a folder of mailboxes.
struct House {
    server: Server,
    /// The folder of mailboxes.
    root: TempDir,
    store: Vec<String>,
    /// Whether the server runs jobs by itself.
    works: bool,
}

impl std::ops::Deref for House {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl House {
    /// A server on this store that runs jobs by itself.
    fn new(store: Store) -> Self {
        Self::with(store, true)
    }

    /// The same, which runs jobs only for those who wait for them.
    fn without_worker(store: Store) -> Self {
        Self::with(store, false)
    }

    fn with(store: Store, works: bool) -> Self {
        let store = match store {
            Store::Sqlite => Vec::new(),
            Store::Postgres => vec!["--database".to_owned(), crate::postgres::database()],
        };
        let (folder, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Self::start(folder, root, store, works)
    }

    fn start(folder: TempDir, root: TempDir, store: Vec<String>, works: bool) -> Self {
        let server = Server::start_in(folder, |command| {
            command.args(&store).env("EMAIL_IMPORT_ROOT", root.path());
            if !works {
                command.arg("--no-worker");
            }
        });
        Self {
            server,
            root,
            store,
            works,
        }
    }

    /// Kills the process, and starts another on the same data.
    fn killed_and_restarted(self) -> Self {
        self.server.signal("KILL");
        let (_, _, folder) = self.server.wait();
        Self::start(folder, self.root, self.store, self.works)
    }

    /// Puts a mailbox into the folder.
    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let file = self.root.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        file
    }

    /// Asks for an import.
    fn ask(&self, body: &Value) -> Answer {
        self.owner("POST", "/import/email/mbox", &body.to_string())
    }

    /// An import that must be done when it answers.
    fn import(&self, name: &str) -> Value {
        self.done(&json!({"mbox_path": name}))
    }

    fn done(&self, body: &Value) -> Value {
        let answer = self.ask(body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let import = answer.json();
        adds_up(&import);
        import
    }

    /// An import as it stands.
    fn shown(&self, import_id: &Value) -> Value {
        let path = format!("/import/{}", import_id.as_str().unwrap());
        let answer = self.owner("GET", &path, "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The import once it is as `is_so` wants it.
    fn until(&self, import_id: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(300);
        loop {
            let now = self.shown(import_id);
            if is_so(&now) {
                return now;
            }
            assert!(Instant::now() < until, "it took too long: {now}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The import once it has ended.
    fn ended(&self, import_id: &Value) -> Value {
        let ended = self.until(import_id, |import| import["status"] != "running");
        adds_up(&ended);
        ended
    }

    /// Every entry of the active schema in the order of their numbers, without ids and times.
    fn entries(&self) -> Vec<Value> {
        let newest = self.owner("POST", "/db/read/last", r#"{"limit":1}"#).json();
        let last = newest[0]["entry_id"].as_i64().unwrap_or(0);
        let mut entries = Vec::new();
        for entry_id in 1..=last {
            let body = json!({ "entry_id": entry_id }).to_string();
            let answer = self.owner("POST", "/db/read/pull", &body);
            // PostgreSQL does not give a number again that a killed transaction had drawn.
            if answer.status == 404 {
                continue;
            }
            assert_eq!(answer.status, 200, "{}", answer.text());
            let mut entry = answer.json();
            for gone in ["id", "entry_id", "created_at", "updated_at"] {
                assert!(entry.as_object_mut().unwrap().remove(gone).is_some());
            }
            entries.push(entry);
        }
        entries
    }

    /// What a command says in JSON, on the store of this server, and its exit code.
    fn command(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let data = self.data();
        let store: Vec<&str> = self.store.iter().map(String::as_str).collect();
        let all = [arguments, &store, &["--data", path(&data), "--json"]].concat();
        let output = crate::fixture::run(&all);
        let said = serde_json::from_slice(&output.stdout);
        (
            output.status.code(),
            said.unwrap_or_else(|why| panic!("{why}: {output:?}")),
        )
    }
}

/// Every message of an import is accounted for.
fn adds_up(import: &Value) {
    let count = |name: &str| import[name].as_u64().unwrap();
    let (ok, bad) = (count("normalized_ok"), count("normalize_errors"));
    assert_eq!(count("total_messages"), ok + bad, "{import}");
    let kept = count("inserted") + count("updated") + count("skipped");
    assert_eq!(ok, kept + count("insert_errors"), "{import}");
    let errors = import["errors"].as_array().unwrap();
    let told = (bad + count("insert_errors")).min(50);
    assert_eq!(errors.len() as u64, told, "{import}");
    let batches = import["tier1_batches"].as_array().unwrap().iter();
    let queued: u64 = batches
        .map(|batch| batch["request_count"].as_u64().unwrap())
        .sum();
    assert_eq!(queued, count("tier1_enqueued_items"), "{import}");
}

/// The counters of an import, as (total, inserted, updated, skipped, normalise errors, insert errors, queued).
fn counted(import: &Value) -> [u64; 7] {
    [
        "total_messages",
        "inserted",
        "updated",
        "skipped",
        "normalize_errors",
        "insert_errors",
        "tier1_enqueued_items",
    ]
    .map(|name| import[name].as_u64().unwrap())
}
