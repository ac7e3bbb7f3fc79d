//! The same test on SQLite and on PostgreSQL, with a config file of its own.

use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{Server, path, run};
use crate::http::Answer;

/// Where the records are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

/// A server, and the store that it is on.
pub(crate) struct Node {
    server: Server,
    pub(crate) store: Vec<String>,
}

impl std::ops::Deref for Node {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Node {
    /// A new token, made by the command line beside the running server.
    pub(crate) fn token_of(&self, tenant: &str, role: &str) -> String {
        let made = self.command(&["token", "create", "--tenant", tenant, "--role", role]);
        made["token"].as_str().unwrap().to_owned()
    }

    /// What a command says in JSON, on the store of this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.run(&[arguments, &["--json"]].concat(), 0).stdout).unwrap()
    }

    /// A command on the store of this server that must end with this code.
    pub(crate) fn run(&self, arguments: &[&str], code: i32) -> Output {
        let data = self.data();
        let store: Vec<&str> = self.store.iter().map(String::as_str).collect();
        let output = run(&[arguments, &store, &["--data", path(&data)]].concat());
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
        output
    }

    /// The same store and the same file, served anew after a stop.
    pub(crate) fn restarted(self) -> Self {
        let (code, _, folder) = self.server.stop();
        assert_eq!(code, Some(0));
        started(folder, self.store)
    }
}

impl Store {
    /// The database of a program on this store; SQLite is in its data folder.
    pub(crate) fn database(self) -> Option<String> {
        match self {
            Store::Sqlite => None,
            Store::Postgres => Some(crate::postgres::database()),
        }
    }

    /// A server on this store, set up by this config file, which runs no jobs by itself.
    pub(crate) fn serve(self, config: &str) -> Node {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hapax.toml");
        std::fs::write(&file, config).unwrap();
        started(folder, self.flags())
    }

    /// What names a new store of this sort on a command line.
    pub(crate) fn flags(self) -> Vec<String> {
        match self {
            Store::Sqlite => Vec::new(),
            Store::Postgres => vec!["--database".to_owned(), crate::postgres::database()],
        }
    }
}

/// A server on this store, set up by the config file in `folder`.
fn started(folder: TempDir, store: Vec<String>) -> Node {
    let file = folder.path().join("hapax.toml");
    let server = Server::start_in(folder, |command| {
        command
            .args(["--no-worker", "--config", path(&file)])
            .args(&store);
    });
    Node { server, store }
}

/// Makes of each function a test per store.
macro_rules! on_both_stores {
    ($($test:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[test] fn $test() { super::$test($crate::both::Store::Sqlite); })+
        }
        mod on_postgres {
            $(#[test] fn $test() { super::$test($crate::both::Store::Postgres); })+
        }
    };
}
pub(crate) use on_both_stores;

/// A claim that must be answered.
pub(crate) fn claim(server: &Server, claim: &Value) -> Value {
    let answer = server.owner("POST", "/v1/keys/claim", &claim.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// What is done with a key: complete, renew, settle, …
pub(crate) fn post(server: &Server, id: &Value, verb: &str, body: &Value) -> Answer {
    let path = format!("/v1/keys/{}/{verb}", id.as_str().unwrap());
    server.owner("POST", &path, &body.to_string())
}

/// A claim that is processed and completed with this body; its id.
pub(crate) fn completed(server: &Server, request: &Value, body: &Value) -> Value {
    let granted = claim(server, request);
    assert_eq!(granted["action"], "process", "{granted}");
    let outcome = json!({"token": granted["token"], "status": 201, "body": body});
    let done = post(server, &granted["id"], "complete", &outcome);
    assert_eq!(done.status, 200, "{}", done.text());
    granted["id"].clone()
}

/// The seconds between now and the time that an answer names.
pub(crate) fn seconds_left(server: &Server, expires_at: &Value) -> i64 {
    let now = server.send("GET", "/health", &[], b"").json()["time"].clone();
    seconds(expires_at) - seconds(&now)
}

/// A time of the API in seconds since the epoch: `date` reads RFC 3339.
fn seconds(time: &Value) -> i64 {
    let asked = ["-u", "-d", time.as_str().unwrap(), "+%s"];
    let output = std::process::Command::new("date").args(asked).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.trim().parse().unwrap()
}
