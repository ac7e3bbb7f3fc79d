//! The gateway's client against a server that answers, refuses, stalls, breaks off and is not there.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax::job::testing::{MemoryQueue, runs_twice_settles_once};
use hapax::job::{Class, Effect, Fault, JobKind, NewJob};
use hapax_effects::gateway::{Answer, BODY_BYTES_MAX, Call, EXCERPT_CHARS_MAX, Gateway};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const PATIENT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_secs(1);

/// What the server does with the next call, once it has read it.
enum Reply {
    /// Sends these bytes and closes.
    Bytes(Vec<u8>),
    /// Sends these bytes and nothing more.
    Stalls(Vec<u8>),
}

#[derive(Default)]
struct Memory {
    requests: Vec<(String, Value)>,
    replies: VecDeque<Reply>,
}

struct Server {
    address: String,
    memory: Arc<Mutex<Memory>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let memory = Arc::new(Mutex::new(Memory {
            replies: replies.into(),
            ..Memory::default()
        }));
        let shared = memory.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self {
            address,
            memory,
            task,
        }
    }

    fn gateway(&self, timeout: Duration) -> Gateway {
        let base = format!("http://{}/base/", self.address);
        Gateway::new(&base, Some("secret"), timeout).unwrap()
    }

    fn requests(&self) -> Vec<(String, Value)> {
        self.memory.lock().unwrap().requests.clone()
    }
}

async fn serve(mut stream: TcpStream, memory: Arc<Mutex<Memory>>) {
    let Some(request) = read(&mut stream).await else {
        return;
    };
    let reply = {
        let mut memory = memory.lock().unwrap();
        memory.requests.push(request);
        memory.replies.pop_front()
    };
    match reply.unwrap_or(Reply::Bytes(ok("{}"))) {
        Reply::Bytes(bytes) => {
            let _gone = stream.write_all(&bytes).await;
            let _gone = stream.shutdown().await;
        }
        Reply::Stalls(bytes) => {
            let _gone = stream.write_all(&bytes).await;
            std::future::pending::<()>().await;
        }
    }
}

/// The head and the body of one request.
async fn read(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1)?;
        let length: usize = length.lines().next()?.parse().ok()?;
        if body.len() >= length {
            return Some((head, serde_json::from_str(body).ok()?));
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

fn ok(body: &str) -> Vec<u8> {
    answer("200 OK", "", body)
}

async fn call(gateway: &Gateway) -> Answer {
    let payload = json!({"task": {"title": "Call Grace"}});
    let call = Call {
        path: "/v1/notion/tasks/create",
        request_id: "r-1",
        idempotency_key: "action:1",
        actor: Some("ada"),
        payload: &payload,
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
    };
    gateway.call(&call).await
}

/// What one call gets when the server does this.
async fn called(reply: Reply) -> Answer {
    let server = Server::start(vec![reply]).await;
    call(&server.gateway(SHORT)).await
}

#[tokio::test]
async fn a_call_carries_its_key_its_token_and_its_trace() {
    let reply = Reply::Bytes(answer("201 Created", "", r#"{"id":"t-1"}"#));
    let server = Server::start(vec![reply]).await;
    let done = call(&server.gateway(PATIENT)).await;
    let (status, body) = (201, json!({"id": "t-1"}));
    assert_eq!(done, Answer::Done { status, body });
    let (head, body) = server.requests().remove(0);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    assert!(head.starts_with("post /base/v1/notion/tasks/create http/1.1"));
    for line in [
        "authorization: bearer secret".to_owned(),
        "content-type: application/json".to_owned(),
        format!("x-trace-id: {trace}"),
        format!("traceparent: 00-{trace}-"),
    ] {
        assert!(head.contains(&line), "{line} in {head}");
    }
    assert_eq!(
        body,
        json!({
            "request_id": "r-1",
            "idempotency_key": "action:1",
            "actor": "ada",
            "payload": {"task": {"title": "Call Grace"}},
            "trace_id": trace,
        })
    );
}

#[tokio::test]
async fn every_status_but_a_2xx_is_a_refusal_and_no_redirect_is_followed() {
    let refused = called(Reply::Bytes(answer("500 Oh", "", "no\ndisk"))).await;
    let excerpt = "no disk".to_owned();
    assert_eq!(
        refused,
        Answer::Refused {
            status: 500,
            excerpt
        }
    );

    let elsewhere = Server::start(Vec::new()).await;
    let location = format!("location: http://{}/\r\n", elsewhere.address);
    let redirect = called(Reply::Bytes(answer("307 Elsewhere", &location, ""))).await;
    assert!(
        matches!(redirect, Answer::Refused { status: 307, .. }),
        "{redirect:?}"
    );
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn no_answer_and_half_an_answer_are_in_doubt() {
    for (reply, what) in [
        (Reply::Stalls(Vec::new()), "says nothing"),
        (Reply::Bytes(Vec::new()), "closes"),
        (
            Reply::Bytes(b"HTTP/1.1 20".to_vec()),
            "breaks off in the head",
        ),
        (
            Reply::Stalls(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}".to_vec()),
            "stalls",
        ),
        (
            Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}".to_vec()),
            "breaks off",
        ),
    ] {
        let answer = called(reply).await;
        assert!(
            matches!(answer, Answer::TimedOut { .. }),
            "{what}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_gateway_that_is_not_there_was_certainly_not_called() {
    let server = Server::start(Vec::new()).await;
    let gateway = server.gateway(PATIENT);
    let address = server.address.clone();
    drop(server);
    // Its task ends at its next turn; until then the port is open.
    while TcpStream::connect(&address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let answer = call(&gateway).await;
    assert!(matches!(answer, Answer::Unreachable { .. }), "{answer:?}");
}

#[tokio::test]
async fn an_endless_answer_is_read_to_its_limit_and_the_action_is_done() {
    let body = "x".repeat(BODY_BYTES_MAX + 1);
    let server = Server::start(vec![Reply::Bytes(ok(&body))]).await;
    let Answer::Done { status, body } = call(&server.gateway(PATIENT)).await else {
        panic!("a 2xx is done, however much it says");
    };
    let kept = body.as_str().unwrap().len();
    assert_eq!((status, kept), (200, EXCERPT_CHARS_MAX));
}

#[tokio::test]
async fn a_call_whose_runner_died_is_sent_again_with_the_same_key_and_recorded_once() {
    let server = Server::start(Vec::new()).await;
    let gateway = server.gateway(PATIENT);
    let kind = JobKind::new("intent").unwrap();
    let job = NewJob::new(kind, "phone", "a-1", "intent:1").unwrap();
    let act = Effect::new("ACT", Class::Keyed);
    let status = runs_twice_settles_once(Arc::new(MemoryQueue::new()), job, &act, |_| async {
        match call(&gateway).await {
            Answer::Done { status, .. } => Ok(status),
            other => Err(Fault::retryable(format!("{other:?}"))),
        }
    })
    .await;
    assert_eq!(status, 200);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].1, requests[1].1);
}
