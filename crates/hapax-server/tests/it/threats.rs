//! What an attacker learns by asking: of every route of the document, without a token, with a wrong one, with one of
//! another tenant, and with one of a lesser role. What exists and what does not must not be told apart.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fixture::Server;
use crate::hostile::connect_from;
use crate::http::{self, Answer};
use crate::openapi::{Operation, filled, operations};

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

/// A server with something of everything, all of the default tenant, and the ids of it.
struct Full {
    server: Server,
    /// The start of a path, the parameter in it, and what exists there.
    ids: Vec<(&'static str, &'static str, String)>,
}

impl Full {
    fn start() -> Self {
        let server = Server::start_with(|command| {
            // Nobody is there; batches are queued all the same.
            command
                .env("OPENAI_BASE_URL", "http://127.0.0.1:1")
                .env("LITELLM_MASTER_KEY", "k");
        });
        let make = |path: &str, body: Value| {
            let answer = server.owner("POST", path, &body.to_string());
            assert!(answer.status < 300, "{path}: {}", answer.text());
            answer.json()
        };
        let key = make(
            "/v1/keys/claim",
            json!({"key": "k", "method": "POST", "path": "/payments", "body": {"n": 1}}),
        );
        let job = make(
            "/v1/jobs",
            json!({"kind": "mine", "work_id": "w", "artifact_id": "a", "canonical_url": "https://example.org/"}),
        );
        let leased = make("/v1/jobs/lease", json!({"owner": "me", "kinds": ["mine"]}));
        let op = make(
            "/v1/ops/begin",
            json!({"job_id": job["job_id"], "kind": "HEAD", "context": {}, "owner": "me", "epoch": leased["jobs"][0]["epoch"]}),
        );
        let task = json!({"kind": "intent", "source": "s", "intent_type": "create_task", "fields": {"title": "t"}, "confidence": 0.9});
        let receipt = make("/v1/intents", task);
        let unclear =
            json!({"kind": "intent", "source": "s", "natural_language": "what", "confidence": 0.9});
        make("/v1/intents", unclear);
        let question = server
            .owner("GET", "/v1/clarifications?status=open", "")
            .json();
        let course = make(
            "/v1/courses/ingest",
            json!({"course": {"id": "c1", "name": "n"}}),
        );
        let entry = make(
            "/db/insert",
            json!({"source": "web", "title": "t", "clean_text": "hidden"}),
        );
        let batch = make(
            "/enrich/t1/batch",
            json!({"items": [{"clean_text": "tea is made of leaves"}]}),
        );
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => panic!("no id: {other}"),
        };
        let ids = vec![
            ("/v1/keys/", "{id}", text(&key["id"])),
            ("/v1/jobs/", "{id}", text(&job["job_id"])),
            ("/v1/ops/", "{op_key}", text(&op["op_key"])),
            ("/v1/receipts/", "{id}", text(&receipt["receipt_id"])),
            ("/v1/intents/", "{id}", text(&receipt["intent_id"])),
            (
                "/v1/clarifications/",
                "{op_key}",
                text(&question["items"][0]["id"]),
            ),
            ("/v1/{collection}/{id}", "{id}", "c1".to_owned()),
            (
                "/v1/{collection}/{id}/snapshots/",
                "{sid}",
                text(&course["snapshotId"]),
            ),
            ("/v1/entries/", "{entry_id}", text(&entry[0]["entry_id"])),
            ("/status/t1/batch/", "{id}", text(&batch["batch_id"])),
        ];
        Self { server, ids }
    }

    /// The path with what exists, and with what does not. None where it names nothing that is anybody's.
    fn paths(&self, operation: &Operation) -> Option<(String, String)> {
        let (mut there, mut not) = (operation.path.to_owned(), operation.path.to_owned());
        for (start, name, id) in &self.ids {
            if operation.path.starts_with(start) {
                there = there.replace(name, id);
                not = not.replace(name, &missing(id));
            }
        }
        let is_named = there != not;
        let [there, not] = [there, not].map(|path| filled(&path, operation.value));
        is_named.then_some((there, not))
    }
}

/// An id of the same form that nothing has.
fn missing(id: &str) -> String {
    if let Ok(number) = id.parse::<u64>() {
        return (number + 1000).to_string();
    }
    let (rest, last) = id.split_at(id.len() - 1);
    format!("{rest}{}", if last == "0" { "1" } else { "0" })
}

fn asked(operation: &Operation) -> String {
    operation.method.to_uppercase()
}

/// Operations that somebody has to sign in for.
fn closed() -> impl Iterator<Item = Operation> {
    operations().filter(|operation| operation.value["x-role"] != "none")
}

/// Headers and a body.
type Sent = (&'static [(&'static str, &'static str)], Vec<u8>);

/// What is wrong with these differs, and would be told to one who may know: 413, 415 and 400.
fn bodies() -> Vec<Sent> {
    vec![
        (&[], Vec::new()),
        (&[], b"{".to_vec()),
        (&[("content-type", "text/plain")], b"x".to_vec()),
        (&[("idempotency-key", "two words")], b"{}".to_vec()),
        (
            &[("content-type", "application/json")],
            vec![b' '; 1_100_000],
        ),
    ]
}

#[test]
fn without_a_token_every_route_gives_one_answer_whatever_is_there_and_whatever_is_sent() {
    let full = Full::start();
    let mut told = BTreeSet::new();
    for operation in closed() {
        let example = filled(operation.path, operation.value);
        let paths = full.paths(&operation);
        let paths = paths.map_or(vec![example], |(there, not)| vec![there, not]);
        for path in paths {
            for (headers, body) in bodies() {
                let answer = full.server.send(&asked(&operation), &path, headers, &body);
                assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()), "{path}");
                told.insert(answer.json()["error"].to_string());
            }
        }
    }
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn with_a_wrong_token_every_route_gives_one_answer_and_after_ten_the_other() {
    let full = Full::start();
    let mut guesses = 0;
    for operation in closed() {
        let example = filled(operation.path, operation.value);
        let paths = full.paths(&operation);
        let paths = paths.map_or(vec![example], |(there, not)| vec![there, not]);
        for path in paths {
            let answer = full.server.bearing("guess", &asked(&operation), &path, "{");
            let expected = if guesses < 10 { 401 } else { 429 };
            assert_eq!(answer.status, expected, "{path} after {guesses}");
            guesses += 1;
        }
    }
    assert!(guesses > 60, "{guesses}");
}

/// What is told, without the id that was asked for.
fn without(id: &str, answer: &Answer) -> (u16, String) {
    let mut error = answer.json()["error"].clone();
    assert!(error.is_object(), "{}: {}", answer.status, answer.text());
    let told = error.as_object_mut().unwrap();
    // Its port may hold the digits of an id.
    assert!(told.remove("docs_url").is_some());
    told.remove("trace_id");
    (answer.status, error.to_string().replace(id, "ID"))
}

#[test]
fn with_a_token_of_another_tenant_what_exists_answers_like_what_does_not() {
    let full = Full::start();
    let (_, theirs) = full.server.mint(OTHER, "owner");
    let mut compared = 0;
    for operation in closed() {
        let Some((there, not)) = full.paths(&operation) else {
            continue;
        };
        let example = &operation.value["requestBody"]["content"]["application/json"]["example"];
        let body = if example.is_null() {
            String::new()
        } else {
            example.to_string()
        };
        let method = asked(&operation);
        // Without a query two snapshots are not named.
        let query = if there.ends_with("/diff") {
            "?from=a&to=b"
        } else {
            ""
        };
        let [there, not] = [there, not].map(|path| format!("{path}{query}"));
        let seen = full.server.bearing(&theirs, &method, &there, &body);
        let none = full.server.bearing(&theirs, &method, &not, &body);
        let id = |path: &str| {
            let ids = full.ids.iter().map(|(_, _, id)| id);
            let known = ids.flat_map(|id| [id.clone(), missing(id)]);
            known
                .filter(|id| path.contains(id.as_str()))
                .max_by_key(String::len)
                .unwrap()
        };
        let [seen, none] =
            [(&there, seen), (&not, none)].map(|(path, answer)| without(&id(path), &answer));
        assert_eq!(seen, none, "{method} {there}");
        assert_eq!(seen.0, 404, "{method} {there}: {}", seen.1);
        compared += 1;
    }
    assert!(compared >= 25, "{compared} routes were compared");
}

#[test]
fn what_a_body_names_of_another_tenant_answers_like_what_does_not_exist() {
    let full = Full::start();
    let (_, theirs) = full.server.mint(OTHER, "owner");
    let of = |start: &str| {
        full.ids
            .iter()
            .find(|(at, _, _)| *at == start)
            .unwrap()
            .2
            .clone()
    };
    let (entry, job) = (of("/v1/entries/"), of("/v1/jobs/"));
    for (path, id, body) in [
        ("/db/read/pull", &entry, r#"{"entry_id":ID}"#),
        ("/db/update", &entry, r#"{"entry_id":ID,"title":"mine"}"#),
        (
            "/v1/ops/begin",
            &job,
            r#"{"job_id":"ID","kind":"HEAD","context":{},"owner":"me","epoch":1}"#,
        ),
        (
            "/v1/jobs/settle",
            &job,
            r#"{"items":[{"job_id":"ID","owner":"me","epoch":1,"to_state":"HEAD_DONE"}]}"#,
        ),
    ] {
        let ask = |id: &str| {
            let answer = full
                .server
                .bearing(&theirs, "POST", path, &body.replace("ID", id));
            let mut told = answer.json();
            if let Some(told) = told.as_object_mut() {
                told.remove("trace_id");
            }
            if let Some(error) = told.get_mut("error").and_then(Value::as_object_mut) {
                error.remove("docs_url");
            }
            (answer.status, told.to_string().replace(id, "ID"))
        };
        assert_eq!(ask(id), ask(&missing(id)), "{path}");
    }
    let entry = full
        .server
        .owner("GET", &format!("/v1/entries/{entry}"), "")
        .json();
    assert_eq!(entry["title"], "t", "it is as it was");
}

#[test]
fn a_lesser_role_is_refused_before_anything_is_looked_at() {
    let full = Full::start();
    let roles = ["viewer", "writer", "owner"];
    let tokens = roles.map(|role| full.server.mint("default", role).1);
    for operation in closed() {
        let needed = roles
            .iter()
            .position(|role| operation.value["x-role"] == *role);
        let Some(below) = needed.unwrap().checked_sub(1) else {
            continue;
        };
        let example = filled(operation.path, operation.value);
        let paths = full.paths(&operation);
        let paths = paths.map_or(vec![example], |(there, not)| vec![there, not]);
        let mut told = BTreeSet::new();
        for path in &paths {
            for (headers, body) in bodies() {
                let bearer = format!("Bearer {}", tokens[below]);
                let headers = [headers, &[("authorization", bearer.as_str())]].concat();
                let answer = full.server.send(&asked(&operation), path, &headers, &body);
                assert_eq!(answer.refusal(), (403, "forbidden".to_owned()), "{path}");
                told.insert(answer.json()["error"].to_string());
            }
        }
        assert_eq!(told.len(), 1, "{paths:?}: {told:?}");
    }
}

/// An answer to this credential, asked for from this address of the loopback network.
fn from(address: [u8; 4], server: &Server, credential: &str) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut client = connect_from(address, server.address).await.unwrap();
        let request = format!(
            "GET /v1/keys HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {credential}\r\n\r\n"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        http::parse(&answer).unwrap()
    })
}

#[test]
fn guessing_is_counted_by_address_and_by_token_and_the_right_token_is_served_from_anywhere() {
    let server = Server::start();
    let (id, token) = server.mint("default", "viewer");
    let wrong = format!("hpx_{id}_wrong");
    let [one, two, three] = [[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 4]];
    for guess in 0..10 {
        assert_eq!(from(one, &server, &wrong).status, 401, "{guess}");
    }
    let slowed = from(one, &server, &wrong);
    assert_eq!(slowed.refusal(), (429, "rate_limited".to_owned()));
    let wait: u64 = slowed.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(
        from(two, &server, &wrong).status,
        429,
        "the token is counted over all addresses"
    );
    assert_eq!(
        from(three, &server, "nonsense").status,
        401,
        "another address has guessed nothing"
    );
    for address in [one, two, three] {
        assert_eq!(from(address, &server, &token).status, 200, "{address:?}");
    }
}
