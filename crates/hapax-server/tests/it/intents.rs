//! Intents over HTTP, with a gateway of our own behind: receipts that can be trusted.

pub(crate) mod gateway;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::both::{Store, on_both_stores};
use crate::fixture::{Server, json, path};
use crate::http::Answer;
use gateway::{Gateway, Mood};

/// A server on this store that carries out its plans at this gateway.
fn serve(store: &[String], gateway: &Gateway) -> Server {
    let base = format!("http://{}", gateway.address);
    Server::start_with(|command| {
        command
            .args(store)
            .env("EXECUTE_ACTIONS", "true")
            .env("GATEWAY_BASE_URL", &base)
            .env("GATEWAY_BEARER_TOKEN", "gateway-secret")
            .env("GATEWAY_TIMEOUT_SECONDS", "1");
    })
}

pub(crate) fn arguments(store: Store) -> Vec<String> {
    match store {
        Store::Sqlite => Vec::new(),
        Store::Postgres => vec!["--database".to_owned(), crate::postgres::database()],
    }
}

/// A writer's token of this tenant, made by the command line beside the running server.
pub(crate) fn token_of(server: &Server, store: &[String], tenant: &str) -> String {
    token_of_role(server, store, tenant, "writer")
}

/// The same, of any role.
pub(crate) fn token_of_role(server: &Server, store: &[String], tenant: &str, role: &str) -> String {
    let data = server.data();
    let words = [
        "token",
        "create",
        "--tenant",
        tenant,
        "--role",
        role,
        "--data",
        path(&data),
    ];
    let store: Vec<&str> = store.iter().map(String::as_str).collect();
    let made = json(&[&words[..], &store].concat());
    made["token"].as_str().unwrap().to_owned()
}

fn task(title: &str) -> Value {
    json!({
        "kind": "intent", "intent_type": "create_task", "source": "shell",
        "fields": {"title": title, "due": "2026-12-24", "priority": "high"}, "confidence": 0.9,
    })
}

fn send(server: &Server, packet: &Value) -> Answer {
    server.owner("POST", "/v1/intents", &packet.to_string())
}

fn receipt(server: &Server, id: &Value) -> Value {
    let path = format!("/v1/receipts/{}", id.as_str().unwrap());
    server.owner("GET", &path, "").json()
}

fn wait_for(server: &Server, id: &Value, status: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let now = receipt(server, id);
        if now["status"] == status {
            return now;
        }
        assert!(Instant::now() < until, "{now}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn a_packet_is_executed_once_and_its_duplicate_gets_the_receipt(store: Store) {
    let gateway = Gateway::start(&[]);
    let server = serve(&arguments(store), &gateway);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let bearer = format!("Bearer {}", server.token());
    let headers = [("authorization", bearer.as_str()), ("traceparent", &parent)];
    let first = server.send(
        "POST",
        "/v1/intents",
        &headers,
        task("Call Ada").to_string().as_bytes(),
    );
    assert_eq!(first.status, 200, "{}", first.text());
    let envelope = first.json();
    assert_eq!(envelope["status"], "executed", "{envelope}");
    assert_eq!(envelope["trace_id"], trace);
    assert_eq!(envelope["plan"]["actions"][0]["action"], "create_task");
    assert!(first.header("idempotency-replayed").is_none());

    let calls = gateway.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].path, "/v1/notion/tasks/create");
    assert!(
        calls[0].head.contains("gateway-secret") && calls[0].head.contains(trace),
        "{:?}",
        calls[0].head
    );
    assert!(
        calls[0].body["idempotency_key"]
            .as_str()
            .unwrap()
            .starts_with("action:")
    );
    assert_eq!(calls[0].body["trace_id"], trace);

    // The same packet, written otherwise.
    let text = r#"{"confidence":0.90,"fields":{"priority":"high","due":"2026-12-24","title":"Call \u0041da"},
                   "source":"shell","intent_type":"create_task","kind":"intent"}"#;
    let again = server.owner("POST", "/v1/intents", text);
    assert_eq!(
        (again.status, again.header("idempotency-replayed")),
        (200, Some("true"))
    );
    assert_eq!(again.json()["receipt_id"], envelope["receipt_id"]);
    assert_eq!(again.json()["idempotency_key"], envelope["idempotency_key"]);
    assert_eq!(gateway.calls().len(), 1, "it ran once");
    assert_eq!(
        receipt(&server, &envelope["receipt_id"])["status"],
        "executed"
    );

    let intent = format!("/v1/intents/{}", envelope["intent_id"].as_str().unwrap());
    let intent = server.owner("GET", &intent, "").json();
    assert_eq!(intent["packet"], task("Call Ada"));
    let kinds: Vec<&str> = intent["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|op| op["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["PLAN", "ACT", "OUTCOME"]);
}

fn sources_actors_and_tenants_have_receipts_of_their_own(store: Store) {
    let gateway = Gateway::start(&[]);
    let store = arguments(store);
    let server = serve(&store, &gateway);
    let envelope = send(&server, &task("Call Ada")).json();
    let mut acted = task("Call Ada");
    acted["actor"] = "ada".into();
    let by_ada = send(&server, &acted).json()["receipt_id"].clone();
    acted["actor"] = "bob".into();
    let by_bob = send(&server, &acted).json()["receipt_id"].clone();
    assert!(by_ada != by_bob && by_ada != envelope["receipt_id"]);
    let tenant = "00000000-0000-0000-0000-000000000007";
    let token = token_of(&server, &store, tenant);
    let elsewhere = server.bearing(&token, "POST", "/v1/intents", &task("Call Ada").to_string());
    assert_eq!(
        elsewhere.json()["status"],
        "executed",
        "{}",
        elsewhere.text()
    );
    assert_ne!(elsewhere.json()["receipt_id"], envelope["receipt_id"]);
    let theirs = format!("/v1/receipts/{}", envelope["receipt_id"].as_str().unwrap());
    assert_eq!(server.bearing(&token, "GET", &theirs, "").status, 404);
    let mut other = task("Call Ada");
    other["source"] = "telegram".into();
    assert_ne!(
        send(&server, &other).json()["receipt_id"],
        envelope["receipt_id"]
    );
    assert_eq!(
        gateway.keys().len(),
        5,
        "each is carried out under a key of its own"
    );
}

fn a_hundred_equal_packets_at_once_are_one(store: Store) {
    let gateway = Gateway::start(&[]);
    let server = serve(&arguments(store), &gateway);
    let ids: Mutex<BTreeSet<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let answer = send(&server, &task("Once"));
                assert_eq!(answer.status, 200, "{}", answer.text());
                let id = answer.json()["receipt_id"].as_str().unwrap().to_owned();
                ids.lock().unwrap().insert(id);
            });
        }
    });
    let ids = ids.into_inner().unwrap();
    assert_eq!(ids.len(), 1);
    wait_for(
        &server,
        &Value::from(ids.first().unwrap().as_str()),
        "executed",
    );
    assert_eq!(gateway.calls().len(), 1);
}

fn a_downstream_failure_is_a_502_that_stays_until_it_is_replayed(store: Store) {
    let gateway = Gateway::start(&[Mood::Refuse(500)]);
    let server = serve(&arguments(store), &gateway);
    for replayed in [None, Some("true")] {
        let failed = send(&server, &task("Fails"));
        assert_eq!(
            (failed.status, failed.header("idempotency-replayed")),
            (502, replayed)
        );
        let envelope = failed.json();
        assert_eq!(envelope["status"], "failed");
        assert_eq!(
            envelope["error"]["details"]["status_code"], 500,
            "{envelope}"
        );
    }
    assert_eq!(
        gateway.calls().len(),
        1,
        "a failure is not tried again by itself"
    );
    let id = send(&server, &task("Fails")).json()["receipt_id"].clone();
    let failed = server.owner("GET", "/v1/receipts?status=failed", "").json();
    assert_eq!(failed["items"][0]["receipt_id"], id);

    let path = format!("/v1/receipts/{}/replay", id.as_str().unwrap());
    let again = server.owner("POST", &path, "");
    assert_eq!(
        (again.status, &again.json()["status"]),
        (200, &json!("executed")),
        "{}",
        again.text()
    );
    assert_eq!(
        gateway.keys().len(),
        2,
        "a replay on purpose has a key of its own"
    );
}

fn a_time_out_is_in_doubt_and_goes_on_with_the_same_key(store: Store) {
    let gateway = Gateway::start(&[Mood::Late(Duration::from_secs(3))]);
    let server = serve(&arguments(store), &gateway);
    let first = send(&server, &task("Slow")).json();
    assert_eq!(first["status"], "planned", "{first}");
    assert_eq!(first["details"]["in_doubt"], true, "{first}");
    wait_for(&server, &first["receipt_id"], "executed");
    let keys = gateway.keys();
    assert!(
        keys.len() == 1 && keys.values().all(|times| *times == 2),
        "{keys:?}"
    );
}

fn an_answer_goes_on_with_the_same_receipt_to_its_execution(store: Store) {
    let gateway = Gateway::start(&[]);
    let server = serve(&arguments(store), &gateway);
    let mut packet = task("When?");
    packet["fields"]["due"] = "someday soon".into();
    let asked = send(&server, &packet).json();
    assert_eq!(asked["status"], "needs_clarification", "{asked}");
    let open = server
        .owner("GET", "/v1/clarifications?status=open", "")
        .json();
    let question = &open["items"][0];
    assert_eq!(question["receipt_id"], asked["receipt_id"]);
    assert_eq!(question["id"], asked["clarification"]["id"]);
    assert!(gateway.calls().is_empty());

    let path = format!(
        "/v1/clarifications/{}/answer",
        question["id"].as_str().unwrap()
    );
    let misfit = server.owner("POST", &path, r#"{"answer_text":"whenever"}"#);
    assert_eq!(misfit.status, 400, "{}", misfit.text());
    let answered = server.owner("POST", &path, r#"{"answer_text":"tomorrow"}"#);
    assert_eq!(answered.status, 200, "{}", answered.text());
    assert_eq!(answered.json()["status"], "executed", "{}", answered.text());
    assert_eq!(answered.json()["receipt_id"], asked["receipt_id"]);
    let again = server.owner("POST", &path, r#"{"answer_text":"tomorrow"}"#);
    assert_eq!(
        (again.status, again.header("idempotency-replayed")),
        (200, Some("true"))
    );
    assert_eq!(
        server
            .owner("POST", &path, r#"{"answer_text":"today"}"#)
            .status,
        409
    );
    assert_eq!(gateway.calls().len(), 1);
    let open = server
        .owner("GET", "/v1/clarifications?status=open", "")
        .json();
    assert_eq!(open["items"], json!([]));
}

fn what_is_not_to_be_done_is_not_done(store: Store) {
    let node = store.serve("");
    let refused = |packet: &str, code: &str| {
        let answer = node.owner("POST", "/v1/intents", packet);
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_str()),
            (400, Some(code)),
            "{}",
            answer.text()
        );
    };
    refused("{", "bad_json");
    refused(
        r#"{"intent_type":"create_task"}"#,
        "schema_validation_failed",
    );
    refused(
        r#"{"kind":"intent","schema_version":"v9"}"#,
        "unsupported_schema_version",
    );
    assert_eq!(node.owner("GET", "/v1/receipts/nobody", "").status, 404);
    assert_eq!(node.owner("GET", "/v1/receipts?status=odd", "").status, 400);
    // No worker here: it is kept, and that is said.
    let kept = send(&node, &task("Later"));
    assert_eq!(
        (kept.status, &kept.json()["status"]),
        (200, &json!("accepted")),
        "{}",
        kept.text()
    );

    let server = Server::start();
    let planned = send(&server, &task("Not executed")).json();
    assert_eq!(planned["status"], "planned", "{planned}");
    let mut unsure = task("Unsure");
    unsure["confidence"] = 0.5.into();
    assert_eq!(send(&server, &unsure).json()["status"], "rejected");
}

fn a_request_id_stands_for_one_body(store: Store) {
    let gateway = Gateway::start(&[]);
    let server = serve(&arguments(store), &gateway);
    let mut packet = task("First");
    packet["request_id"] = "r-1".into();
    let first = send(&server, &packet);
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(
        send(&server, &packet).json()["receipt_id"],
        first.json()["receipt_id"]
    );
    packet["fields"]["title"] = "Second".into();
    let conflict = send(&server, &packet);
    assert_eq!(
        (conflict.status, conflict.json()["error"]["code"].as_str()),
        (409, Some("IDEMPOTENCY_CONFLICT"))
    );
    let told = conflict.json()["error"]["details"]["diff_summary"].to_string();
    assert!(told.contains("title") && told.contains("Second"), "{told}");
    packet["source"] = "other".into();
    assert_eq!(
        send(&server, &packet).status,
        200,
        "another source has ids of its own"
    );
    assert_eq!(gateway.calls().len(), 2);
}

fn receipts_are_not_jobs_for_strangers(store: Store) {
    let node = store.serve("");
    let kept = send(&node, &task("Mine")).json();
    let lease = node.owner(
        "POST",
        "/v1/jobs/lease",
        r#"{"owner":"stranger","limit":10}"#,
    );
    assert_eq!(
        lease.json()["jobs"],
        json!([]),
        "receipts are leased by nobody else"
    );
    let forged = json!({"kind": "intent", "work_id": "w", "artifact_id": "a", "canonical_url": "intent:x",
                        "payload": {"packet": task("Forged")}});
    let forged = node.owner("POST", "/v1/jobs", &forged.to_string()).json();
    let path = format!("/v1/receipts/{}", forged["job_id"].as_str().unwrap());
    assert_eq!(
        node.owner("GET", &path, "").status,
        404,
        "a job is not a receipt"
    );
    let all = node.owner("GET", "/v1/receipts", "").json();
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
    assert_eq!(all["items"][0]["receipt_id"], kept["receipt_id"]);
}

fn a_packet_is_shown_as_it_came(store: Store) {
    let node = store.serve("");
    let text = r#"{"kind":"intent","z":1.10,"n":12345678901234567890123,"a":{"b":[]}}"#;
    let kept = node.owner("POST", "/v1/intents", text).json();
    let path = format!("/v1/intents/{}", kept["intent_id"].as_str().unwrap());
    let shown = node.owner("GET", &path, "").text();
    assert!(shown.contains(text), "{shown}");
    let deep = format!(
        r#"{{"kind":"intent","d":{}{}}}"#,
        "[".repeat(127),
        "]".repeat(127)
    );
    let answer = node.owner("POST", "/v1/intents", &deep);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn equal_answers_at_once_are_one(store: Store) {
    let gateway = Gateway::start(&[]);
    let server = serve(&arguments(store), &gateway);
    let mut packet = task("When?");
    packet["fields"]["due"] = "someday soon".into();
    let asked = send(&server, &packet).json();
    let path = format!(
        "/v1/clarifications/{}/answer",
        asked["clarification"]["id"].as_str().unwrap()
    );
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let answer = server.owner("POST", &path, r#"{"answer_text":"tomorrow"}"#);
                assert_eq!(answer.status, 200, "{}", answer.text());
            });
        }
    });
    wait_for(&server, &asked["receipt_id"], "executed");
    assert_eq!(gateway.calls().len(), 1);
    let path = format!(
        "/v1/receipts/{}/replay",
        asked["receipt_id"].as_str().unwrap()
    );
    let again = server.owner("POST", &path, "").json();
    assert_eq!(again["status"], "needs_clarification", "{again}");
    let open = server
        .owner("GET", "/v1/clarifications?status=open", "")
        .json();
    assert_eq!(
        open["items"].as_array().unwrap().len(),
        1,
        "only what is asked now: {open}"
    );
}

/// Every receipt that was ever answered exists after kills and comes to its end, with one key at the gateway.
fn receipts_survive_kill_9(store: Store) {
    let gateway = Gateway::start(&[]);
    gateway.pace(Duration::from_millis(60));
    let store = arguments(store);
    let mut server = serve(&store, &gateway);
    let mut known: BTreeSet<String> = BTreeSet::new();
    for round in 0..5 {
        let (address, token) = (server.address, server.token());
        let sender = std::thread::spawn(move || {
            let mut known = Vec::new();
            for n in 0..20 {
                let packet = task(&format!("task {round}/{n}")).to_string();
                let bearer = format!("Bearer {token}");
                let headers = [("authorization", bearer.as_str())];
                let Some(answer) = crate::http::try_request(
                    address,
                    "POST",
                    "/v1/intents",
                    &headers,
                    packet.as_bytes(),
                ) else {
                    break;
                };
                known.push(answer.json()["receipt_id"].as_str().unwrap().to_owned());
            }
            known
        });
        std::thread::sleep(Duration::from_millis(150 + 97 * round));
        server.signal("KILL");
        known.extend(sender.join().unwrap());
        let (_, _, folder) = server.wait();
        let base = format!("http://{}", gateway.address);
        server = Server::start_in(folder, |command| {
            command
                .args(&store)
                .env("EXECUTE_ACTIONS", "true")
                .env("GATEWAY_BASE_URL", &base)
                .env("GATEWAY_TIMEOUT_SECONDS", "1");
        });
    }
    assert!(!known.is_empty());
    for id in &known {
        wait_for(&server, &Value::from(id.as_str()), "executed");
    }
    let twice = gateway.keys().values().filter(|times| **times > 1).count();
    assert!(gateway.keys().len() >= known.len());
    assert!(
        twice <= 5,
        "{twice} keys came again, though only a call at a kill may"
    );
}

/// The process dies right after its first, second, third … write. Whatever it had said is true afterwards.
fn a_death_after_every_write_loses_no_receipt_and_no_action(store: Store) {
    let mut survived = 0;
    for after in 1..40 {
        let store = arguments(store);
        let gateway = Gateway::start(&[]);
        let base = format!("http://{}", gateway.address);
        let with = |command: &mut std::process::Command| {
            command
                .args(&store)
                .env("EXECUTE_ACTIONS", "true")
                .env("GATEWAY_BASE_URL", &base)
                .env("HAPAX_LOG", "warn");
        };
        let doomed = Server::start_with(|command| {
            with(command);
            command.env("HAPAX_TEST_ABORT_AFTER", after.to_string());
        });
        let packet = task(&format!("after write {after}"));
        let bearer = format!("Bearer {}", doomed.token());
        let headers = [("authorization", bearer.as_str())];
        let text = packet.to_string();
        let first = crate::http::try_request(
            doomed.address,
            "POST",
            "/v1/intents",
            &headers,
            text.as_bytes(),
        );
        if first
            .as_ref()
            .is_some_and(|first| first.json()["status"] == "executed")
        {
            survived = after;
            break;
        }
        let (_, _, folder) = doomed.wait();
        let server = Server::start_in(folder, with);
        let again = send(&server, &packet);
        assert_eq!(again.status, 200, "{}", again.text());
        let id = &again.json()["receipt_id"];
        if let Some(first) = first {
            assert_eq!(&first.json()["receipt_id"], id, "what was said stays true");
        }
        wait_for(&server, id, "executed");
        let keys = gateway.keys();
        assert_eq!(keys.len(), 1, "after write {after}: {keys:?}");
        let times = keys.values().sum::<usize>();
        assert!(times <= 2, "after write {after}: {keys:?}");
    }
    assert!(survived > 5, "only {survived} writes were tried");
}

on_both_stores!(
    a_death_after_every_write_loses_no_receipt_and_no_action,
    a_packet_is_executed_once_and_its_duplicate_gets_the_receipt,
    sources_actors_and_tenants_have_receipts_of_their_own,
    a_hundred_equal_packets_at_once_are_one,
    a_downstream_failure_is_a_502_that_stays_until_it_is_replayed,
    a_time_out_is_in_doubt_and_goes_on_with_the_same_key,
    an_answer_goes_on_with_the_same_receipt_to_its_execution,
    what_is_not_to_be_done_is_not_done,
    a_request_id_stands_for_one_body,
    receipts_survive_kill_9,
    receipts_are_not_jobs_for_strangers,
    a_packet_is_shown_as_it_came,
    equal_answers_at_once_are_one,
);
