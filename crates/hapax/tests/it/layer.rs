//! The layer: every row of the behaviour table, and what peers get wrong.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::{any, post};
use hapax::core::{Ledger, OnLost, Principal, Tenant};
use hapax::layer::{Route, Routes};
use hapax::store::Clock;
use hapax::{Engine, IdempotencyLayer};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::faulty::{Fault, Faulty};

/// A service behind the layer that counts its runs.
struct World {
    app: Router,
    runs: Arc<AtomicUsize>,
    ledger: Arc<Faulty>,
    engine: Engine,
    clock: Clock,
}

/// What a test wants to know of a response.
#[derive(Debug)]
struct Got {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }

    fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap().to_owned()
    }

    /// The parts that a conflict names.
    fn differs(&self) -> Vec<String> {
        serde_json::from_value(self.json()["error"]["details"]["differs"].clone()).unwrap()
    }

    fn replayed(&self) -> bool {
        let both = [
            &self.headers.get("x-idempotency-replay"),
            &self.headers.get("idempotency-replayed"),
        ];
        assert_eq!(both[0], both[1], "both names say the same");
        both[0].is_some_and(|value| value == "true")
    }
}

impl World {
    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    async fn send(&self, request: Request<Body>) -> Got {
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Got {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }
}

/// The layer with these routes around a handler that answers 201 and counts.
fn world_with(routes: Routes, handler: axum::routing::MethodRouter<Arc<AtomicUsize>>) -> World {
    let clock = Clock::system();
    let ledger = Arc::new(Faulty::new(clock.clone()));
    let engine = Engine::new(ledger.clone());
    let runs = Arc::new(AtomicUsize::new(0));
    let app = Router::new()
        .route("/payments", handler.clone())
        .route("/api/v1/customers/{id}", handler)
        .with_state(runs.clone())
        .layer(IdempotencyLayer::new(engine.clone()).routes(routes));
    World {
        app,
        runs,
        ledger,
        engine,
        clock,
    }
}

async fn pay(State(runs): State<Arc<AtomicUsize>>, body: Bytes) -> impl IntoResponse {
    let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
    let cookie = [
        (header::SET_COOKIE, "session=1"),
        (header::LOCATION, "/payments/7"),
        (header::ETAG, "\"7\""),
    ];
    (
        StatusCode::CREATED,
        cookie,
        format!("run {run} of {} bytes", body.len()),
    )
}

fn world() -> World {
    world_with(Routes::default(), any(pay))
}

fn keyed(key: &str, body: impl Into<Body>) -> Request<Body> {
    let json = HeaderValue::from_static("application/json");
    Request::post("/payments")
        .header("idempotency-key", key)
        .header(header::CONTENT_TYPE, json)
        .body(body.into())
        .unwrap()
}

#[tokio::test]
async fn a_fresh_key_runs_and_a_retry_gets_the_same_answer_as_a_replay() {
    let world = world();
    let first = world.send(keyed("k", r#"{"amount":10}"#)).await;
    assert_eq!((first.status, first.replayed()), (201, false));
    assert!(
        first.headers.contains_key(header::SET_COOKIE),
        "the first caller gets everything"
    );

    for body in [r#"{"amount":10}"#, r#" { "amount" : 1e1 } "#] {
        let again = world.send(keyed("k", body)).await;
        assert_eq!(
            (again.status, again.replayed()),
            (201, true),
            "a 201 is replayed as a 201"
        );
        assert_eq!(again.body, first.body);
        assert_eq!(again.headers[header::LOCATION], "/payments/7");
        assert_eq!(again.headers[header::ETAG], "\"7\"");
        assert_eq!(
            again.headers[header::CONTENT_TYPE],
            first.headers[header::CONTENT_TYPE]
        );
        assert!(
            !again.headers.contains_key(header::SET_COOKIE),
            "a cookie is never replayed"
        );
    }
    assert_eq!(world.runs(), 1);
}

#[tokio::test]
async fn another_body_conflicts_with_a_useful_diff() {
    let world = world();
    world
        .send(keyed(
            "k",
            r#"{"customer_info":{"phone":"+1-0100","card":"4242"},"n":[1,2]}"#,
        ))
        .await;
    let conflict = world
        .send(keyed(
            "k",
            r#"{"customer_info":{"phone":"+1-0200","card":"1111"},"n":[2,1]}"#,
        ))
        .await;

    assert_eq!(
        (conflict.status, conflict.code().as_str()),
        (409, "IDEMPOTENCY_CONFLICT")
    );
    assert_eq!(conflict.headers["x-idempotency-conflict"], "body-mismatch");
    assert_eq!(conflict.differs(), ["body"]);
    assert!(conflict.message().starts_with("Request body differs"));
    assert!(
        !conflict.headers.contains_key(header::RETRY_AFTER),
        "a retry never helps"
    );
    let details = &conflict.json()["error"]["details"];
    assert_eq!(details["original_key"], "k");
    let lines: Vec<_> = details["diff_summary"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    assert!(
        lines.contains(&"customer_info.phone: '+1-0100' → '+1-0200'"),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("customer_info.card: '***'")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("n[0]")),
        "order counts: {lines:?}"
    );
    for hash in ["current_hash", "original_hash"] {
        assert_eq!(details[hash].as_str().unwrap().len(), 16);
    }
    assert_ne!(details["current_hash"], details["original_hash"]);
    let left = details["retry_after"].as_u64().unwrap();
    assert!((3590..=3600).contains(&left));
    assert!(
        details["original_timestamp"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    assert_eq!(world.runs(), 1);
}

#[tokio::test]
async fn the_ietf_status_is_a_route_option() {
    let route = Route {
        mismatch_status: StatusCode::UNPROCESSABLE_ENTITY,
        ..Route::default()
    };
    let world = world_with(Routes::any(route), any(pay));
    world.send(keyed("k", "1")).await;
    assert_eq!(world.send(keyed("k", "2")).await.status, 422);
}

#[tokio::test]
async fn another_path_id_query_or_method_is_a_mismatch_and_another_route_another_operation() {
    let world = world();
    let send = |method: &str, uri: &str| {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("idempotency-key", "k");
        world.send(request.body(Body::from("{}")).unwrap())
    };
    assert_eq!(send("PUT", "/api/v1/customers/1").await.status, 201);
    assert_eq!(send("PUT", "/api/v1/customers/1").await.status, 201);
    let conflict = send("PUT", "/api/v1/customers/2").await;
    assert_eq!(conflict.status, 409);
    let lines = conflict.json()["error"]["details"]["diff_summary"].to_string();
    assert!(
        lines.contains("(path): '/api/v1/customers/1' → '/api/v1/customers/2'"),
        "{lines}"
    );
    assert_eq!(conflict.differs(), ["path"]);
    assert!(
        conflict.message().contains("the request's path differs"),
        "{}",
        conflict.message()
    );
    let queried = send("PUT", "/api/v1/customers/1?dry_run=1").await;
    assert_eq!(
        (queried.status, queried.differs()),
        (409, vec!["query".to_owned()])
    );
    assert_eq!(
        send("POST", "/payments").await.status,
        201,
        "another route is another operation"
    );
    assert_eq!(
        send("DELETE", "/api/v1/customers/1").await.status,
        201,
        "so is another method"
    );
    assert_eq!(world.runs(), 3);
}

#[tokio::test]
async fn a_conflict_names_the_content_type_and_a_secret_in_the_query_too() {
    let world = world();
    let send = |uri: &str, content_type: &str| {
        let request = Request::post(uri)
            .header("idempotency-key", "k")
            .header(header::CONTENT_TYPE, content_type);
        world.send(request.body(Body::from("{}")).unwrap())
    };
    let (json, text) = ("application/json", "text/plain");
    assert_eq!(send("/payments?token=a", json).await.status, 201);
    assert_eq!(
        send("/payments?token=a", text).await.differs(),
        ["content_type"]
    );
    let other = send("/payments?token=b", json).await;
    assert_eq!(other.differs(), ["query"]);
    assert!(!other.json().to_string().contains("token=a"));
    assert_eq!(
        send("/payments?token=b", text).await.differs(),
        ["content_type"],
        "whether the secret differs too, nobody knows"
    );
    assert!(
        send("/payments?token=a", "application/x+json")
            .await
            .replayed()
    );
}

#[tokio::test]
async fn fields_that_change_with_every_retry_do_not_count() {
    let world = world();
    world
        .send(keyed(
            "k",
            r#"{"a":1,"request_id":"x","timestamp":1,"in":{"timestamp":1}}"#,
        ))
        .await;
    assert_eq!(
        world
            .send(keyed("k", r#"{"timestamp":2,"a":1,"in":{"timestamp":1}}"#))
            .await
            .status,
        201
    );
    assert_eq!(
        world
            .send(keyed("k", r#"{"a":1,"in":{"timestamp":2}}"#))
            .await
            .status,
        409,
        "only at the top"
    );
}

#[tokio::test]
async fn bodies_that_are_not_acceptable_json_are_compared_by_their_bytes() {
    let world = world();
    for (at, (body, other)) in [
        (&b"{\"a\":1,\"a\":2}"[..], &b"{\"a\":2}"[..]),
        (b"\xff\xfe", b"\xff\xff"),
        (b"", b" x"),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{at}");
        assert_eq!(
            world.send(keyed(&key, body)).await.status,
            201,
            "the layer never refuses what the handler accepts"
        );
        assert!(world.send(keyed(&key, body)).await.replayed());
        assert_eq!(world.send(keyed(&key, other)).await.status, 409);
    }
    let deep = "[".repeat(100_000);
    assert_eq!(world.send(keyed("deep", deep.clone())).await.status, 201);
    assert!(world.send(keyed("deep", deep)).await.replayed());
}

#[tokio::test]
async fn binary_empty_and_encoded_answers_are_replayed_byte_for_byte() {
    let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let answers = [every_byte, Vec::new(), b"\x1f\x8b\x08\x00gzip".to_vec()];
    for body in answers {
        let answer = body.clone();
        let handler = post(move || async move { ([(header::CONTENT_ENCODING, "gzip")], answer) });
        let world = world_with(Routes::default(), handler);
        let first = world.send(keyed("k", "{}")).await;
        let again = world.send(keyed("k", "{}")).await;
        assert!(again.replayed());
        assert_eq!(
            (first.body.to_vec(), again.body.to_vec()),
            (body.clone(), body)
        );
        assert_eq!(again.headers[header::CONTENT_ENCODING], "gzip");
    }
}

#[tokio::test]
async fn answers_that_are_not_final_give_the_key_back() {
    for status in [500, 502, 503, 504, 401, 403, 407, 408, 425, 429] {
        let handler = post(move |State(runs): State<Arc<AtomicUsize>>| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            (StatusCode::from_u16(status).unwrap(), "not yet")
        });
        let world = world_with(Routes::default(), handler);
        for run in 1..=2 {
            let got = world.send(keyed("k", "{}")).await;
            assert_eq!(
                (got.status, got.replayed(), world.runs()),
                (status, false, run)
            );
        }
        assert_eq!(
            world.send(keyed("k", r#"{"other":1}"#)).await.status,
            status,
            "the key is free for any request"
        );
    }
}

#[tokio::test]
async fn answers_that_are_final_are_kept_whatever_they_say() {
    for status in [200, 204, 302, 400, 402, 404, 409, 422] {
        let handler = post(move || async move { StatusCode::from_u16(status).unwrap() });
        let world = world_with(Routes::default(), handler);
        world.send(keyed("k", "{}")).await;
        let again = world.send(keyed("k", "{}")).await;
        assert_eq!((again.status, again.replayed()), (status, true));
    }
}

#[tokio::test]
async fn requests_without_a_key_or_that_only_read_pass_untouched() {
    let world = world();
    for _ in 0..2 {
        assert!(
            !world
                .send(Request::post("/payments").body(Body::empty()).unwrap())
                .await
                .replayed()
        );
        let get = Request::get("/payments")
            .header("idempotency-key", "k")
            .body(Body::empty())
            .unwrap();
        assert!(!world.send(get).await.replayed());
    }
    assert_eq!(world.runs(), 4);
    assert_eq!(
        world.ledger.swaps.load(Ordering::SeqCst),
        0,
        "nothing was claimed"
    );
}

#[tokio::test]
async fn a_route_may_require_a_key_or_derive_one() {
    let routes = Routes::table()
        .with("POST:payments", Route::default().required())
        .and_then(|routes| routes.with("PUT:customers-*", Route::default().derive()))
        .unwrap();
    let world = world_with(routes, any(pay));
    let refused = world
        .send(Request::post("/payments").body(Body::empty()).unwrap())
        .await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "idempotency_key_required")
    );

    let put = |uri: &str, body: &'static str| {
        world.send(Request::put(uri).body(Body::from(body)).unwrap())
    };
    assert!(!put("/api/v1/customers/1", "{}").await.replayed());
    assert!(
        put("/api/v1/customers/1", " {} ").await.replayed(),
        "the same content has the same key"
    );
    assert!(
        !put("/api/v1/customers/2", "{}").await.replayed(),
        "derived keys of two ids never meet"
    );
    assert!(
        !put("/api/v1/customers/1?x=1", "{}").await.replayed(),
        "nor of two queries"
    );
    assert!(!put("/api/v1/customers/1", "[]").await.replayed());
    assert_eq!(world.runs(), 4);
}

#[tokio::test]
async fn a_malformed_key_is_refused_before_anything_runs() {
    let world = world();
    for key in [&b""[..], b"a b", b"\"open", b"caf\xe9", &[b'k'; 256]] {
        let mut request = keyed("k", "{}");
        request
            .headers_mut()
            .insert("idempotency-key", HeaderValue::from_bytes(key).unwrap());
        let refused = world.send(request).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "idempotency_key_invalid")
        );
    }
    assert_eq!(world.runs(), 0);
    world.send(keyed("k", "{}")).await;
    assert!(
        world.send(keyed("\"k\"", "{}")).await.replayed(),
        "quoted and bare are the same key"
    );
}

#[tokio::test]
async fn refusals_have_the_envelope_or_a_problem_document() {
    let world = world();
    let mut request = keyed("a b", "{}");
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    request.headers_mut().insert(
        "traceparent",
        format!("00-{trace}-00f067aa0ba902b7-01").parse().unwrap(),
    );
    let refused = world.send(request).await;
    assert_eq!(refused.json()["trace_id"], trace);
    assert_eq!(refused.headers["x-trace-id"], trace);

    let mut request = keyed("a b", "{}");
    request.headers_mut().insert(
        header::ACCEPT,
        "text/html, application/problem+json;q=0.9".parse().unwrap(),
    );
    let refused = world.send(request).await;
    assert_eq!(
        refused.headers[header::CONTENT_TYPE],
        "application/problem+json"
    );
    let document = refused.json();
    assert_eq!(
        (document["status"].as_u64(), document["code"].as_str()),
        (Some(400), Some("idempotency_key_invalid"))
    );
    assert!(
        document["type"]
            .as_str()
            .unwrap()
            .ends_with("idempotency_key_invalid")
    );
}

#[tokio::test]
async fn fifty_equal_requests_at_once_run_once_and_share_the_answer() {
    let handler = post(|State(runs): State<Arc<AtomicUsize>>| async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        format!("run {}", runs.fetch_add(1, Ordering::SeqCst) + 1)
    });
    let world = Arc::new(world_with(
        Routes::any(Route::default().wait(Duration::from_secs(30))),
        handler,
    ));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move { world.send(keyed("k", "{}")).await })
        })
        .collect();
    let mut replayed = 0;
    for task in tasks {
        let got = task.await.unwrap();
        assert_eq!((got.status, got.body.as_ref()), (200, &b"run 1"[..]));
        replayed += usize::from(got.replayed());
    }
    assert_eq!((world.runs(), replayed), (1, 49));
}

/// A handler that says when it has begun and waits until it is let go.
fn gated() -> (
    axum::routing::MethodRouter<Arc<AtomicUsize>>,
    Arc<tokio::sync::Semaphore>,
    Arc<tokio::sync::Semaphore>,
) {
    let (begun, gate) = (
        Arc::new(tokio::sync::Semaphore::new(0)),
        Arc::new(tokio::sync::Semaphore::new(0)),
    );
    let (says, waits) = (begun.clone(), gate.clone());
    let handler = post(move |State(runs): State<Arc<AtomicUsize>>| async move {
        says.add_permits(1);
        waits.acquire().await.unwrap().forget();
        format!("run {}", runs.fetch_add(1, Ordering::SeqCst) + 1)
    });
    (handler, begun, gate)
}

#[tokio::test]
async fn a_duplicate_in_flight_is_told_when_to_come_back() {
    let (handler, begun, gate) = gated();
    let world = Arc::new(world_with(Routes::default(), handler));
    let first = tokio::spawn({
        let world = world.clone();
        async move { world.send(keyed("k", "{}")).await }
    });
    begun.acquire().await.unwrap().forget();

    let busy = world.send(keyed("k", "{}")).await;
    assert_eq!(
        (busy.status, busy.code().as_str()),
        (409, "IDEMPOTENCY_IN_PROGRESS")
    );
    assert_eq!(busy.headers[header::RETRY_AFTER], "1");
    assert_eq!(
        world.send(keyed("k", "[]")).await.code(),
        "IDEMPOTENCY_CONFLICT",
        "conflict beats busy"
    );
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
    assert!(world.send(keyed("k", "{}")).await.replayed());
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_the_handler() {
    let (handler, begun, gate) = gated();
    let world = Arc::new(world_with(Routes::default(), handler));
    let gone = tokio::spawn({
        let world = world.clone();
        async move { world.send(keyed("k", "{}")).await }
    });
    begun.acquire().await.unwrap().forget();
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    assert!(
        world.engine.drain(Duration::from_secs(30)).await,
        "the handler ends by itself"
    );

    let retry = world.send(keyed("k", "{}")).await;
    assert_eq!(
        (retry.replayed(), retry.body.as_ref()),
        (true, &b"run 1"[..])
    );
}

#[tokio::test]
async fn a_client_that_goes_away_once_its_key_is_claimed_leaves_nothing_held() {
    let (handler, _begun, gate) = gated();
    let world = world_with(Routes::any(Route::default().on_lost(OnLost::Hold)), handler);
    let mut gone = Box::pin(world.app.clone().oneshot(keyed("k", "{}")));
    // Once: the body is read, the key is claimed and the handler waits. Then the client is gone.
    assert!(futures_util::poll!(&mut gone).is_pending());
    drop(gone);
    gate.add_permits(1);
    assert!(world.engine.drain(Duration::from_secs(30)).await);
    let retry = world.send(keyed("k", "{}")).await;
    assert_eq!(
        (retry.replayed(), retry.body.as_ref()),
        (true, &b"run 1"[..]),
        "it ran to its end and is not in doubt"
    );
}

#[tokio::test]
async fn an_expired_key_runs_anew_and_says_so() {
    let world = world();
    world.send(keyed("k", "{}")).await;
    world.clock.advance(Duration::from_secs(3601));
    let anew = world.send(keyed("k", r#"{"other":1}"#)).await;
    assert_eq!((anew.status, anew.replayed()), (201, false));
    assert_eq!(anew.headers["x-idempotency-expired"], "true");
    assert!(world.send(keyed("k", r#"{"other":1}"#)).await.replayed());
    assert_eq!(world.runs(), 2);
}

/// Claims the key of `keyed("k", "{}")` as a process that then dies would.
async fn die_holding(world: &World, on_lost: OnLost) {
    let route = Route::default().on_lost(on_lost);
    let (parts, _) = keyed("k", "{}").into_parts();
    let asked = hapax::layer::Asked::new(
        &parts.method,
        &parts.uri,
        &parts.headers,
        "{}".into(),
        &route.selection,
    );
    let scope = hapax::core::Scope::new(Tenant::DEFAULT, "POST:payments").unwrap();
    let claim = asked.claim(scope, hapax::core::Key::new("k").unwrap(), None, &route);
    let granted = world.engine.claim(claim).await.unwrap();
    assert!(matches!(granted, hapax::Claimed::Granted(..)));
    world.clock.advance(Duration::from_secs(61));
}

#[tokio::test]
async fn a_dead_runner_means_run_again_or_in_doubt_as_the_route_says() {
    let retry = world();
    die_holding(&retry, OnLost::Retry).await;
    assert_eq!(retry.send(keyed("k", "{}")).await.status, 201);
    assert_eq!(retry.runs(), 1);

    let hold = world_with(
        Routes::any(Route::default().on_lost(OnLost::Hold)),
        any(pay),
    );
    die_holding(&hold, OnLost::Hold).await;
    for _ in 0..2 {
        let doubt = hold.send(keyed("k", "{}")).await;
        assert_eq!(
            (doubt.status, doubt.code().as_str()),
            (409, "IDEMPOTENCY_IN_DOUBT")
        );
        assert_eq!(doubt.json()["error"]["details"]["reason"], "runner_died");
        assert!(
            !doubt.headers.contains_key(header::RETRY_AFTER),
            "only a person ends it"
        );
    }
    assert_eq!(hold.runs(), 0);
}

#[tokio::test]
async fn a_panic_gives_the_key_back_under_retry_and_is_in_doubt_under_hold() {
    for (on_lost, expected) in [(OnLost::Retry, 201), (OnLost::Hold, 409)] {
        let handler = post(|State(runs): State<Arc<AtomicUsize>>| async move {
            assert!(runs.fetch_add(1, Ordering::SeqCst) > 0, "planned");
            StatusCode::CREATED
        });
        let world = Arc::new(world_with(
            Routes::any(Route::default().on_lost(on_lost)),
            handler,
        ));
        let task = tokio::spawn({
            let world = world.clone();
            async move { world.send(keyed("k", "{}")).await }
        });
        assert!(
            task.await.unwrap_err().is_panic(),
            "the panic reaches the service's own handler of panics"
        );
        assert_eq!(world.send(keyed("k", "{}")).await.status, expected);
    }
}

#[tokio::test]
async fn an_answer_too_large_to_keep_goes_through_and_its_replay_says_so() {
    let large: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let answer = large.clone();
    let handler = post(move |State(runs): State<Arc<AtomicUsize>>| async move {
        runs.fetch_add(1, Ordering::SeqCst);
        let chunks = answer
            .chunks(7000)
            .map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk)))
            .collect::<Vec<_>>();
        Body::from_stream(futures_util::stream::iter(chunks))
    });
    let route = Route {
        max_response_bytes: 100_000,
        ..Route::default()
    };
    let world = world_with(Routes::any(route), handler);
    assert_eq!(world.send(keyed("k", "{}")).await.body, large);
    let again = world.send(keyed("k", "{}")).await;
    assert_eq!(
        (again.status, again.code().as_str()),
        (409, "IDEMPOTENCY_IN_DOUBT")
    );
    assert_eq!(
        again.json()["error"]["details"]["reason"],
        "response_not_stored"
    );
    assert_eq!(again.json()["error"]["details"]["why"], "too_large");
    assert_eq!(world.runs(), 1);
}

#[tokio::test]
async fn an_event_stream_is_not_waited_for() {
    let handler = post(|| async {
        let endless = futures_util::stream::once(async {
            Ok::<_, Infallible>(Bytes::from_static(b"data: 1\n\n"))
        });
        let never = futures_util::stream::pending();
        let body = Body::from_stream(futures_util::StreamExt::chain(endless, never));
        ([(header::CONTENT_TYPE, "text/event-stream")], body)
    });
    let world = world_with(Routes::default(), handler);
    let response = world.app.clone().oneshot(keyed("k", "{}")).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut body = Box::pin(response.into_body());
    let frame = std::future::poll_fn(|context| body.as_mut().poll_frame(context))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(frame.into_data().unwrap(), "data: 1\n\n");
    assert_eq!(
        world.send(keyed("k", "{}")).await.code(),
        "IDEMPOTENCY_IN_PROGRESS",
        "it may still end, and be recorded"
    );
}

#[tokio::test]
async fn a_request_body_over_the_limit_is_refused_and_nothing_runs() {
    let route = Route {
        max_body_bytes: 1000,
        ..Route::default()
    };
    let world = world_with(Routes::any(route), any(pay));
    let refused = world.send(keyed("k", vec![b'x'; 1001])).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (413, "payload_too_large")
    );
    assert_eq!(world.send(keyed("k", vec![b'x'; 1000])).await.status, 201);
    let unkeyed = Request::post("/payments")
        .body(Body::from(vec![b'x'; 5000]))
        .unwrap();
    assert_eq!(
        world.send(unkeyed).await.status,
        201,
        "what carries no key has no limit here"
    );
}

#[tokio::test]
async fn a_large_body_is_hashed_and_replayed_too() {
    let world = world();
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(1_000_000));
    assert_eq!(world.send(keyed("k", body.clone())).await.status, 201);
    assert!(world.send(keyed("k", format!(" {body}"))).await.replayed());
}

#[tokio::test]
async fn a_store_that_is_away_answers_503_and_runs_nothing_then_recovers() {
    let world = world();
    world.ledger.fail([Fault::Unavailable, Fault::LostUnknown]);
    for _ in 0..2 {
        let down = world.send(keyed("k", "{}")).await;
        assert_eq!(
            (down.status, down.code().as_str()),
            (503, "store_unavailable")
        );
        assert!(down.headers.contains_key(header::RETRY_AFTER));
    }
    assert_eq!(world.runs(), 0);
    assert_eq!(
        world.send(keyed("k", "{}")).await.status,
        201,
        "it recovers by itself"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_could_not_be_recorded_is_never_sent() {
    let world = world();
    world.ledger.fail([Fault::None]);
    world.ledger.fail([Fault::Unavailable; 6]);
    let lost = world.send(keyed("k", "{}")).await;
    assert_eq!(
        (lost.status, lost.code().as_str()),
        (503, "store_unavailable")
    );
    assert_eq!(lost.json()["error"]["details"]["reason"], "outcome_unknown");
    assert_eq!(world.runs(), 1);
}

#[tokio::test]
async fn tenants_and_principals_never_meet() {
    let world = world();
    let send = |tenant: u128, principal: &str| {
        let mut request = keyed("k", "{}");
        request
            .extensions_mut()
            .insert(Tenant::from_uuid(uuid::Uuid::from_u128(tenant)));
        request
            .extensions_mut()
            .insert(Principal::of(principal.as_bytes()));
        world.send(request)
    };
    assert_eq!(send(1, "alice").await.status, 201);
    assert!(
        !send(2, "alice").await.replayed(),
        "another tenant, another operation"
    );
    assert!(send(1, "alice").await.replayed());
    let other = send(1, "bob").await;
    assert_eq!(
        other.status, 409,
        "another principal of the tenant gets no replay"
    );
    let details = &other.json()["error"]["details"];
    assert_eq!(
        (&details["diff_summary"], &details["original_hash"]),
        (&json!([]), &Value::Null)
    );
    assert_eq!(world.runs(), 2);
}

#[tokio::test]
async fn the_tenant_may_come_from_the_request() {
    let clock = Clock::system();
    let engine = Engine::new(Arc::new(Faulty::new(clock)));
    let layer = IdempotencyLayer::new(engine.clone())
        .tenant_of(|parts| parts.headers.get("x-tenant")?.to_str().ok()?.parse().ok());
    let app = Router::new()
        .route("/payments", post(|| async { "ok" }))
        .layer(layer);
    let mut request = keyed("k", "{}");
    request.headers_mut().insert(
        "x-tenant",
        "11111111-1111-1111-1111-111111111111".parse().unwrap(),
    );
    app.oneshot(request).await.unwrap();
    let tenant: Tenant = "11111111-1111-1111-1111-111111111111".parse().unwrap();
    let stored = engine
        .ledger()
        .scan(hapax::core::Scan::of(tenant))
        .await
        .unwrap();
    assert_eq!(stored.records.len(), 1);
}

#[tokio::test]
async fn stored_headers_are_listed_and_secrets_never_are() {
    let handler = post(|| async {
        [
            ("x-kept", "1"),
            ("x-dropped", "1"),
            ("set-cookie", "s"),
            ("www-authenticate", "Basic"),
            ("authorization", "secret"),
        ]
    });
    let names = ["x-kept", "set-cookie", "authorization"]
        .map(HeaderName::from_static)
        .to_vec();
    let world = world_with(
        Routes::any(Route {
            store_headers: names,
            ..Route::default()
        }),
        handler,
    );
    world.send(keyed("k", "{}")).await;
    let again = world.send(keyed("k", "{}")).await;
    assert!(again.headers.contains_key("x-kept"));
    for absent in [
        "x-dropped",
        "set-cookie",
        "www-authenticate",
        "authorization",
    ] {
        assert!(!again.headers.contains_key(absent), "{absent}");
    }
    let mut request = keyed("secretive", "{}");
    request
        .headers_mut()
        .insert(header::AUTHORIZATION, "Bearer planted".parse().unwrap());
    world.send(request).await;
    let stored = format!(
        "{:?}",
        world
            .ledger
            .scan(hapax::core::Scan::of(Tenant::DEFAULT))
            .await
            .unwrap()
    );
    assert!(
        !stored.contains("planted"),
        "request headers are not stored"
    );
}

/// A gRPC-like body: data, then trailers.
struct Trailed(Option<Bytes>, Option<HeaderMap>);

impl HttpBody for Trailed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self
            .0
            .take()
            .map(Frame::data)
            .or_else(|| self.1.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }
}

#[tokio::test]
async fn trailers_reach_the_caller_and_are_never_replayed_without() {
    let engine = Engine::new(Arc::new(Faulty::new(Clock::system())));
    let inner = tower::service_fn(|_request: Request<_>| async {
        let trailers = HeaderMap::from_iter([(
            HeaderName::from_static("grpc-status"),
            HeaderValue::from_static("0"),
        )]);
        Ok::<_, Infallible>(Response::new(Trailed(
            Some(Bytes::from_static(b"data")),
            Some(trailers),
        )))
    });
    let service = tower_layer::Layer::layer(&IdempotencyLayer::new(engine), inner);
    let response = service.clone().oneshot(keyed("k", "{}")).await.unwrap();
    let collected = http_body_util::BodyExt::collect(response.into_body())
        .await
        .unwrap();
    assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(collected.to_bytes(), "data");
    let again = service.oneshot(keyed("k", "{}")).await.unwrap();
    assert_eq!(again.status(), 409);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_recorded() {
    let handler = post(|State(runs): State<Arc<AtomicUsize>>| async move {
        runs.fetch_add(1, Ordering::SeqCst);
        let parts = [
            Ok(Bytes::from_static(b"half")),
            Err(std::io::Error::other("planned")),
        ];
        Body::from_stream(futures_util::stream::iter(parts))
    });
    let world = world_with(Routes::default(), handler);
    for run in 1..=2 {
        let response = world.app.clone().oneshot(keyed("k", "{}")).await.unwrap();
        assert!(
            axum::body::to_bytes(response.into_body(), 100)
                .await
                .is_err(),
            "the caller sees the failure too"
        );
        assert_eq!(world.runs(), run);
    }
}
