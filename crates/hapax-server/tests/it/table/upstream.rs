//! The service that is protected: it counts its runs, and does what the header `x-do` says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// What the handler and the test share.
#[derive(Clone)]
pub(super) struct Handler {
    runs: Arc<AtomicUsize>,
    begun: Arc<Semaphore>,
    go_on: Arc<Semaphore>,
}

impl Handler {
    pub(super) fn new() -> Self {
        Self {
            runs: Arc::default(),
            begun: Arc::new(Semaphore::new(0)),
            go_on: Arc::new(Semaphore::new(0)),
        }
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Blocks until a request that was told to wait has begun.
    pub(super) fn wait_for_begin(&self) {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while self
            .begun
            .try_acquire()
            .map(tokio::sync::SemaphorePermit::forget)
            .is_err()
        {
            assert!(std::time::Instant::now() < until, "no request has begun");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Lets one waiting request go on.
    pub(super) fn go_on(&self) {
        self.go_on.add_permits(1);
    }

    /// Takes back a permission that nobody used, so that it does not let a later request through.
    pub(super) fn forget_go_on(&self) {
        if let Ok(permit) = self.go_on.try_acquire() {
            permit.forget();
        }
    }

    pub(super) fn router(&self) -> Router {
        Router::new().fallback(handle).with_state(self.clone())
    }
}

async fn handle(
    State(handler): State<Handler>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let run = handler.runs.fetch_add(1, Ordering::SeqCst) + 1;
    let todo = headers
        .get("x-do")
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    if todo == "wait" {
        handler.begun.add_permits(1);
        handler
            .go_on
            .acquire()
            .await
            .expect("never closed")
            .forget();
    }
    if let Some(status) = todo.strip_prefix("status=") {
        let status = status
            .parse()
            .ok()
            .and_then(|code| StatusCode::from_u16(code).ok());
        return (status.expect("a status"), format!("run {run}")).into_response();
    }
    match todo {
        "bytes" => (0..=255)
            .cycle()
            .take(70_000)
            .collect::<Vec<u8>>()
            .into_response(),
        "large" => "x".repeat(5000).into_response(),
        "empty" => StatusCode::NO_CONTENT.into_response(),
        _ => {
            let headers = [
                ("content-type", "application/json"),
                ("location", "/orders/7"),
                ("set-cookie", "session=secret"),
            ];
            let text = format!(
                "{{\"run\":{run},\"path\":\"{}\",\"bytes\":{}}}",
                uri.path(),
                body.len()
            );
            (StatusCode::CREATED, headers, text).into_response()
        }
    }
}

/// A router on a free port of loopback, on a runtime of its own that can be cut off.
pub(super) struct Served {
    pub(super) address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Served {
    /// Serves what `make` makes, on the runtime it is made on.
    pub(super) fn new(make: impl Future<Output = Router> + Send + 'static) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let router = runtime.block_on(make);
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            runtime: Some(runtime),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // As a crash would: whatever is in flight ends at its next await.
            runtime.shutdown_background();
        }
    }
}
