//! A gateway on loopback that does what it is told and keeps every call it saw.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hapax_effects::gateway::Gateway;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How the next call is answered.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// With this status.
    Status(u16),
    /// Never.
    Hangs,
    /// With a 200, once it is told.
    Waits(Arc<Notify>),
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

impl Seen {
    pub(super) fn key(&self) -> &str {
        self.body["idempotency_key"].as_str().unwrap()
    }
}

#[derive(Default)]
struct Memory {
    seen: Vec<Seen>,
    manners: VecDeque<Manner>,
}

/// The gateway. It is gone when this is dropped.
pub(super) struct Fake {
    address: String,
    memory: Arc<Mutex<Memory>>,
    task: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let memory = Arc::new(Mutex::new(Memory::default()));
        let router = Router::new().fallback(answer).with_state(memory.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            memory,
            task,
        }
    }

    /// Its client, which waits this long for an answer.
    pub(super) fn client(&self, timeout: Duration) -> Gateway {
        let base = format!("http://{}", self.address);
        Gateway::new(&base, Some("secret"), timeout).unwrap()
    }

    pub(super) fn next(&self, manner: Manner) {
        self.memory.lock().unwrap().manners.push_back(manner);
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.memory.lock().unwrap().seen.clone()
    }

    /// The keys that it saw, each once.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        let own = |seen: &Seen| seen.key().to_owned();
        self.seen().iter().map(own).collect()
    }

    /// Stops listening, so that nobody can connect any more.
    pub(super) async fn stop(mut self) {
        self.task.abort();
        let stopped = &mut self.task;
        assert!(stopped.await.unwrap_err().is_cancelled());
    }
}

async fn answer(State(memory): State<Arc<Mutex<Memory>>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    // What it says depends on the action only, like that of a gateway which knows its keys.
    let said = json!({ "page": format!("page of {}", body["payload"]) });
    let manner = {
        let mut memory = memory.lock().unwrap();
        memory.seen.push(Seen {
            path: head.uri.path().to_owned(),
            headers: head.headers,
            body,
        });
        memory.manners.pop_front()
    };
    let status = match manner {
        None => 200,
        Some(Manner::Status(status)) => status,
        Some(Manner::Hangs) => std::future::pending().await,
        Some(Manner::Waits(told)) => {
            told.notified().await;
            200
        }
    };
    let status = StatusCode::from_u16(status).unwrap();
    (status, axum::Json(said)).into_response()
}
