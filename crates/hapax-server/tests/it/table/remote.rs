//! A service in another language: it claims over HTTP, runs, and completes, as a middleware would.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::upstream::{Handler, Served};
use super::{CONFIG, Driver, Request, Sender, Store};
use crate::fixture::Server;
use crate::http::{self, Answer};

pub(super) struct Remote {
    handler: Handler,
    service: Served,
    server: Option<Server>,
    arguments: Vec<String>,
    middleware: Middleware,
}

/// The part that runs in the service's process.
#[derive(Clone)]
struct Middleware {
    server: SocketAddr,
    service: SocketAddr,
    bearer: String,
    /// Set when the process is to die: it neither completes nor releases what it holds.
    dead: Arc<AtomicBool>,
}

impl Remote {
    pub(super) fn start(store: &Store) -> Self {
        let handler = Handler::new();
        let router = handler.router();
        let service = Served::new(async move { router });
        let arguments = store.arguments();
        let server = start(tempfile::tempdir().unwrap(), &arguments);
        let middleware = Middleware::new(&server, &service);
        Self {
            handler,
            service,
            server: Some(server),
            arguments,
            middleware,
        }
    }
}

impl Driver for Remote {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn handler(&self) -> &Handler {
        &self.handler
    }

    fn sender(&self) -> Sender {
        let middleware = self.middleware.clone();
        Box::new(move |request| middleware.send(request))
    }

    fn crash(&mut self) {
        self.middleware.dead.store(true, Ordering::SeqCst);
        let server = self.server.take().expect("it is started");
        server.signal("KILL");
        let (_, _, folder) = server.wait();
        self.server = Some(start(folder, &self.arguments));
    }

    fn revive(&mut self) {
        let server = self.server.as_ref().expect("it is started");
        self.middleware = Middleware::new(server, &self.service);
    }
}

fn start(folder: TempDir, arguments: &[String]) -> Server {
    let config = folder.path().join("hapax.toml");
    std::fs::write(&config, CONFIG).unwrap();
    Server::start_in(folder, |command| {
        command.args(arguments).arg("--config").arg(config);
    })
}

impl Middleware {
    fn new(server: &Server, service: &Served) -> Self {
        let bearer = format!("Bearer {}", server.token());
        Self {
            server: server.address,
            service: service.address,
            bearer,
            dead: Arc::default(),
        }
    }

    fn send(&self, request: &Request) -> Option<Answer> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = self.post("/v1/keys/claim", &claim(request))?;
            if answer.status != 200 {
                return Some(answer);
            }
            let claimed = answer.json();
            match claimed["action"].as_str().unwrap() {
                "process" => return self.process(request, &claimed),
                "in_progress" if request.path.contains("waiting") && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                "in_progress" => {
                    return Some(refusal(
                        "IDEMPOTENCY_IN_PROGRESS",
                        &claimed,
                        "retry-after",
                        "1",
                    ));
                }
                "in_doubt" => {
                    return Some(refusal("IDEMPOTENCY_IN_DOUBT", &claimed, "x-in-doubt", "1"));
                }
                "conflict" => {
                    let (name, value) = ("x-idempotency-conflict", "body-mismatch");
                    return Some(refusal(
                        "IDEMPOTENCY_CONFLICT",
                        &claimed["conflict"],
                        name,
                        value,
                    ));
                }
                "replay" => return Some(replayed(&claimed["response"])),
                other => panic!("unknown action {other}"),
            }
        }
    }

    /// Runs the service's own handler, then completes.
    fn process(&self, request: &Request, claimed: &Value) -> Option<Answer> {
        let mut answer = request.send_to(self.service)?;
        if self.dead.load(Ordering::SeqCst) {
            return None;
        }
        let headers: Map<String, Value> = answer
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect();
        let complete = json!({
            "token": claimed["token"],
            "status": answer.status,
            "headers": headers,
            "body_base64": data_encoding::BASE64.encode(&answer.body),
        });
        let path = format!("/v1/keys/{}/complete", claimed["id"].as_str().unwrap());
        let done = self.post(&path, &complete)?;
        assert_eq!(done.status, 200, "{}", done.text());
        if claimed["expired"] == true {
            answer
                .headers
                .push(("x-idempotency-expired".to_owned(), "true".to_owned()));
        }
        Some(answer)
    }

    fn post(&self, path: &str, body: &Value) -> Option<Answer> {
        let headers = [
            ("authorization", self.bearer.as_str()),
            ("content-type", "application/json"),
        ];
        http::try_request(
            self.server,
            "POST",
            path,
            &headers,
            body.to_string().as_bytes(),
        )
    }
}

fn claim(request: &Request) -> Value {
    let mut claim = json!({
        "method": request.method,
        "path": request.path,
        "content_type": request.content_type,
        "body_base64": data_encoding::BASE64.encode(&request.body),
    });
    if let Some(key) = &request.key {
        claim["key"] = key.as_str().into();
    }
    claim
}

/// The 409 a middleware makes of an action.
fn refusal(code: &str, details: &Value, header: &str, value: &str) -> Answer {
    let body = json!({"error": {"code": code, "message": "", "details": details}});
    let headers = vec![(header.to_owned(), value.to_owned())];
    Answer {
        status: 409,
        headers,
        body: body.to_string().into_bytes(),
    }
}

/// The recorded answer, as a middleware gives it.
fn replayed(response: &Value) -> Answer {
    let body = match (&response["body_base64"], &response["body"]) {
        (Value::String(text), _) => data_encoding::BASE64.decode(text.as_bytes()).unwrap(),
        (_, Value::Null) => Vec::new(),
        (_, value) => value.to_string().into_bytes(),
    };
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut headers: Vec<_> = response["headers"]
        .as_object()
        .map(|headers| {
            headers
                .iter()
                .map(|(name, value)| (name.clone(), text(value)))
                .collect()
        })
        .unwrap_or_default();
    for name in ["idempotency-replayed", "x-idempotency-replay"] {
        headers.push((name.to_owned(), "true".to_owned()));
    }
    Answer {
        status: u16::try_from(response["status"].as_u64().unwrap()).unwrap(),
        headers,
        body,
    }
}
