//! The fake over HTTP: who may ask, what is asked, and breaking off in the middle of an answer.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::batches::{BatchScript, FakeBatch, lines};
use super::multipart::parts;
use super::reply::{Answer, Reply, error};
use super::{Endpoint, File, Shape, State, locked, now_s};

/// Serves until it is aborted. Its connections end with it.
pub(super) async fn run(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        let service = service_fn(move |request| handle(request, state.clone()));
        connections.spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            // A connection that is cut ends with an error, as it should.
            let _cut = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// The connection is to break off.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is cut")
    }
}

impl std::error::Error for Cut {}

/// A body that is whole, or breaks off before its last byte.
struct Said {
    text: Option<Bytes>,
    is_cut: bool,
}

impl Body for Said {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        Poll::Ready(match self.text.take() {
            Some(text) if self.is_cut => Some(Ok(Frame::data(text.slice(..text.len() / 2)))),
            Some(text) => Some(Ok(Frame::data(text))),
            None if self.is_cut => Some(Err(Cut)),
            None => None,
        })
    }
}

/// One request, read whole.
struct Asked {
    method: Method,
    path: Vec<String>,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
}

async fn handle(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Said>, Cut> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    let url = url::Url::parse(&format!("http://fake{}", head.uri)).map_err(|_| Cut)?;
    let path = url.path_segments().into_iter().flatten();
    let asked = Asked {
        method: head.method,
        path: path
            .filter(|part| *part != "v1")
            .map(str::to_owned)
            .collect(),
        query: url.query_pairs().into_owned().collect(),
        headers: head.headers,
        body,
    };
    let (answer, is_cut) = match answered(&asked, &state) {
        Ending::Answer(answer) => (answer, false),
        Ending::Half(answer) => (answer, true),
        Ending::Cut => return Err(Cut),
        Ending::Silence => {
            let never: Infallible = std::future::pending().await;
            match never {}
        }
    };
    let mut response = Response::builder()
        .status(answer.status)
        .header(CONTENT_TYPE, answer.content_type);
    if let Some((name, value)) = answer.header {
        response = response.header(name, value);
    }
    let said = Said {
        text: Some(Bytes::from(answer.body)),
        is_cut,
    };
    response.body(said).map_err(|_| Cut)
}

/// How a request ends.
enum Ending {
    Answer(Answer),
    Half(Answer),
    Cut,
    Silence,
}

fn answered(asked: &Asked, state: &Mutex<State>) -> Ending {
    let mut state = locked(state);
    let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    let is_post = asked.method == Method::POST;
    if path.first() == Some(&"fake") {
        return Ending::Answer(controlled(&mut state, &path, asked));
    }
    if let Some(refused) = refused_key(&mut state, &asked.headers) {
        return Ending::Answer(refused);
    }
    let endpoint = match (is_post, path.as_slice()) {
        (true, ["chat", "completions"]) => Endpoint::Chat,
        (true, ["files"]) => Endpoint::Upload,
        (true, ["batches"]) => Endpoint::CreateBatch,
        (false, ["batches"]) => Endpoint::ListBatches,
        (false, ["batches", _]) => Endpoint::ReadBatch,
        (false, ["files", _, "content"]) => Endpoint::ReadFile,
        (false, ["files", id]) => return Ending::Answer(shown_file(&state, id)),
        (true, ["batches", id, "cancel"]) => return Ending::Answer(cancelled(&mut state, id)),
        _ => {
            let missing = json!({"detail": "Not Found"});
            return Ending::Answer(Answer {
                status: 404,
                ..Answer::ok(&missing)
            });
        }
    };
    let scripted = state
        .next
        .get_mut(&endpoint)
        .and_then(std::collections::VecDeque::pop_front);
    if endpoint == Endpoint::Chat {
        return chatted(&mut state, scripted, asked);
    }
    let shape = state.shape;
    match &scripted {
        Some(Reply::Cut) => return Ending::Cut,
        Some(Reply::Hang) => return Ending::Silence,
        Some(reply) => {
            if let Some(answer) = reply.to_other(shape) {
                return Ending::Answer(answer);
            }
        }
        None => {}
    }
    let answer = match (endpoint, path.as_slice()) {
        (Endpoint::Upload, _) => uploaded(&mut state, asked),
        (Endpoint::CreateBatch, _) => created(&mut state, &asked.body),
        (Endpoint::ReadBatch, [_, id]) => read_batch(&mut state, id),
        (Endpoint::ReadFile, [_, id, _]) => content(&mut state, id),
        _ => listed(&mut state, &asked.query),
    };
    ending(scripted.as_ref(), answer)
}

fn ending(reply: Option<&Reply>, answer: Answer) -> Ending {
    match reply {
        Some(Reply::CutAfter) => Ending::Cut,
        Some(Reply::HangAfter) => Ending::Silence,
        Some(Reply::CutBody) => Ending::Half(answer),
        _ => Ending::Answer(answer),
    }
}

/// The refusal of a call without the key, as it was seen: LiteLLM without a database takes a wrong one for a question
/// to its database.
fn refused_key(state: &mut State, headers: &HeaderMap) -> Option<Answer> {
    let key = state.key.clone()?;
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    if given == Some(key.as_str()) {
        return None;
    }
    state.counts.refused_keys += 1;
    Some(match (state.shape, given) {
        (Shape::LiteLlm, Some(_)) => error(400, "no_db_connection", "400", "No connected db."),
        _ => error(
            401,
            "auth_error",
            "401",
            "Authentication Error, No api key passed in.",
        ),
    })
}

fn chatted(state: &mut State, scripted: Option<Reply>, asked: &Asked) -> Ending {
    let Ok(body) = serde_json::from_slice::<Value>(&asked.body) else {
        return Ending::Answer(error(400, "invalid_request_error", "400", "not JSON"));
    };
    state.counts.chat += 1;
    state.chats.push(body.clone());
    let reply = scripted.unwrap_or_else(|| state.reply_to(&body));
    match reply {
        Reply::Cut => return Ending::Cut,
        Reply::Hang => return Ending::Silence,
        _ => {}
    }
    let answer = reply.to_chat(state.shape, &body);
    if answer.status == 200 {
        state.counts.chat_answered += 1;
        state.paid(&body);
    }
    ending(Some(&reply), answer)
}

fn uploaded(state: &mut State, asked: &Asked) -> Answer {
    let content_type = asked.headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let parts = parts(content_type.unwrap_or_default(), &asked.body).unwrap_or_default();
    let field = |name: &str| parts.iter().find(|part| part.name == name);
    let (Some(purpose), Some(file)) = (field("purpose"), field("file")) else {
        let missing = if field("purpose").is_none() {
            "purpose"
        } else {
            "file"
        };
        let detail = json!({"detail": [{
            "type": "missing", "loc": ["body", missing], "msg": "Field required", "input": null,
        }]});
        return Answer {
            status: 422,
            ..Answer::ok(&detail)
        };
    };
    let file = File {
        name: file.file_name.clone().unwrap_or_default(),
        purpose: String::from_utf8_lossy(purpose.content).into_owned(),
        content: file.content.to_vec(),
    };
    let id = state.new_id("file");
    state.counts.uploads += 1;
    state.files.insert(id.clone(), file);
    shown_file(state, &id)
}

fn shown_file(state: &State, id: &str) -> Answer {
    match state.files.get(id) {
        Some(file) => Answer::ok(&json!({
            "id": id, "object": "file", "bytes": file.content.len(), "created_at": now_s(),
            "filename": file.name, "purpose": file.purpose, "status": "processed", "status_details": null,
            "expires_at": null,
        })),
        None => error(404, "invalid_request_error", "404", "no such file"),
    }
}

fn content(state: &mut State, id: &str) -> Answer {
    state.counts.file_reads += 1;
    match state.files.get(id) {
        Some(file) => Answer {
            content_type: "application/octet-stream",
            body: String::from_utf8_lossy(&file.content).into_owned(),
            ..Answer::ok(&Value::Null)
        },
        None => error(404, "invalid_request_error", "404", "no such file"),
    }
}

fn created(state: &mut State, body: &[u8]) -> Answer {
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let file = asked["input_file_id"].as_str();
    let Some(file) = file.and_then(|file| state.files.get(file)) else {
        return error(400, "invalid_request_error", "400", "no such input file");
    };
    let total = lines(&file.content).len();
    let id = state.new_id("batch");
    let next = state.scripts.pop_front();
    let script = next.unwrap_or_else(|| state.script.clone());
    state.counts.batches_created += 1;
    state.batches.push(FakeBatch::new(id, script, asked, total));
    state
        .batches
        .last()
        .map_or_else(no_batch, |batch| Answer::ok(&batch.shown()))
}

fn read_batch(state: &mut State, id: &str) -> Answer {
    state.counts.batch_reads += 1;
    let Some(place) = state.batches.iter().position(|batch| batch.id == id) else {
        return no_batch();
    };
    state.move_batch(place);
    Answer::ok(&state.batches[place].shown())
}

fn cancelled(state: &mut State, id: &str) -> Answer {
    match state.batches.iter_mut().find(|batch| batch.id == id) {
        Some(batch) => {
            batch.cancel();
            Answer::ok(&batch.shown())
        }
        None => no_batch(),
    }
}

fn no_batch() -> Answer {
    error(404, "invalid_request_error", "404", "no such batch")
}

/// The newest first.
fn listed(state: &mut State, query: &[(String, String)]) -> Answer {
    state.counts.batch_lists += 1;
    let value = |name: &str| {
        let found = query.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    };
    let limit: usize = value("limit")
        .and_then(|limit| limit.parse().ok())
        .unwrap_or(20);
    let after = value("after");
    let newest = state.batches.iter().rev();
    let newest: Vec<&FakeBatch> = newest.filter(|batch| batch.is_listed()).collect();
    let start = after.map_or(0, |after| {
        let found = newest.iter().position(|batch| batch.id == after);
        found.map_or(newest.len(), |place| place + 1)
    });
    let rest = &newest[start..];
    let page = &rest[..rest.len().min(limit)];
    Answer::ok(&json!({
        "object": "list",
        "data": page.iter().map(|batch| batch.shown()).collect::<Vec<_>>(),
        "first_id": page.first().map(|batch| &batch.id),
        "last_id": page.last().map(|batch| &batch.id),
        "has_more": rest.len() > page.len(),
    }))
}

/// What a test in another process needs: `GET /fake/counts`, `POST /fake/batches` with a script, and `POST /fake/next`
/// with an endpoint and a reply.
fn controlled(state: &mut State, path: &[&str], asked: &Asked) -> Answer {
    match path {
        [_, "counts"] => {
            let most = state.answered.values().max();
            let mut counts = json!(state.counts);
            counts["answers_max"] = json!(most);
            Answer::ok(&counts)
        }
        [_, "batches"] => match serde_json::from_slice::<BatchScript>(&asked.body) {
            Ok(script) => {
                state.script = script;
                Answer::ok(&json!({}))
            }
            Err(why) => error(400, "fake", "400", &why.to_string()),
        },
        [_, "next"] => {
            let asked: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
            let endpoint = asked["endpoint"].as_str().and_then(Endpoint::named);
            let reply = asked["reply"].as_str().and_then(Reply::named);
            let (Some(endpoint), Some(reply)) = (endpoint, reply) else {
                return error(400, "fake", "400", "no such endpoint or reply");
            };
            state.next.entry(endpoint).or_default().push_back(reply);
            Answer::ok(&json!({}))
        }
        _ => error(404, "fake", "404", "counts, batches or next"),
    }
}
