//! What a route may say beside its times: which answers are final, how keys are written, how refusals look,
//! whom a request is about, and who counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Json, Router};
use hapax::core::{OnLost, Scan, Subject, Tenant};
use hapax::layer::{NotRun, Route, Routes};
use hapax::store::MemoryLedger;
use hapax::{Engine, IdempotencyLayer, Observer, Ruled};
use http::{Request, Response, StatusCode};
use tower::ServiceExt;

/// A service that answers a status and how often it ran.
struct Counting {
    app: Router,
    engine: Engine,
    observer: Arc<Observer>,
}

fn counting(status: StatusCode, routes: Routes) -> Counting {
    let engine = Engine::new(Arc::new(MemoryLedger::new()));
    let observer = Arc::new(Observer::default());
    let runs = Arc::new(AtomicU16::new(0));
    let handler = move || {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move { (status, Json(run)) }
    };
    let layer = IdempotencyLayer::new(engine.clone())
        .routes(routes)
        .observer(Arc::clone(&observer));
    Counting {
        app: Router::new().route("/pay", post(handler)).layer(layer),
        engine,
        observer,
    }
}

impl Counting {
    async fn send(&self, key: Option<&str>, body: &str) -> Response<Body> {
        let mut request = Request::post("/pay").header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        self.app.clone().oneshot(request).await.unwrap()
    }

    async fn text(&self, key: &str) -> String {
        let body = self.send(Some(key), "{}").await.into_body();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }
}

#[tokio::test]
async fn a_route_says_which_answers_are_final() {
    let route = Route {
        store_statuses: "2xx, 503".parse().unwrap(),
        ..Route::default()
    };
    let not_found = counting(StatusCode::NOT_FOUND, Routes::any(route.clone()));
    assert_eq!(not_found.text("k").await, "1");
    assert_eq!(not_found.text("k").await, "2", "a 404 gives the key back");
    let unavailable = counting(StatusCode::SERVICE_UNAVAILABLE, Routes::any(route));
    assert_eq!(unavailable.text("k").await, "1");
    assert_eq!(unavailable.text("k").await, "1", "a 503 is final here");
}

#[tokio::test]
async fn an_answer_to_a_request_that_did_not_run_binds_no_key_whatever_its_status() {
    let route = Route {
        store_statuses: "2xx, 4xx, 5xx".parse().unwrap(),
        on_status_hold: "502".parse().unwrap(),
        ..Route::default().on_lost(OnLost::Hold)
    };
    for status in [400, 413, 415, 422, 502] {
        let status = StatusCode::from_u16(status).unwrap();
        let runs = Arc::new(AtomicU16::new(0));
        let counted = Arc::clone(&runs);
        let handler = move |body: String| {
            let runs = Arc::clone(&counted);
            async move {
                if body == "bad" {
                    return (status, Extension(NotRun)).into_response();
                }
                runs.fetch_add(1, Ordering::SeqCst);
                (status, "the handler's own").into_response()
            }
        };
        let engine = Engine::new(Arc::new(MemoryLedger::new()));
        let layer = IdempotencyLayer::new(engine).routes(Routes::any(route.clone()));
        let app = Router::new().route("/pay", post(handler)).layer(layer);
        let send = async |body: &'static str| {
            let request = Request::post("/pay").header("idempotency-key", "k");
            let request = request.body(Body::from(body)).unwrap();
            app.clone().oneshot(request).await.unwrap()
        };
        for _ in 0..2 {
            assert_eq!(send("bad").await.status(), status);
        }
        assert_eq!(send("good").await.status(), status);
        assert_eq!(runs.load(Ordering::SeqCst), 1, "the corrected request ran");
        let other = send("bad").await.status();
        assert_eq!(
            other,
            StatusCode::CONFLICT,
            "the handler's own {status} is final"
        );
    }
}

#[tokio::test]
async fn an_answer_that_says_nothing_of_the_effect_is_held_until_a_person_decides() {
    let hold = "404, 5xx".parse().unwrap();
    let route = Route::default().on_status_hold(hold);
    for status in [StatusCode::GATEWAY_TIMEOUT, StatusCode::NOT_FOUND] {
        let service = counting(status, Routes::any(route.clone()));
        let first = service.send(Some("k"), "{}").await;
        assert_eq!(first.status(), status, "the answer itself goes through");
        let again = service.text("k").await;
        assert!(again.contains("IDEMPOTENCY_IN_DOUBT"), "{again}");
        assert!(again.contains("outcome_unknown"), "{again}");
        let found = service.engine.ledger().scan(Scan::of(Tenant::DEFAULT));
        let record = found.await.unwrap().records.remove(0);
        assert_eq!(record.state.as_str(), "in_doubt");
        let far = record.expires_at.plus(Duration::from_secs(86_400));
        assert!(!record.is_expired(far), "only a person ends it");

        let (engine, tenant) = (&service.engine, Tenant::DEFAULT);
        let ruled = engine.release_by_operator(tenant, record.id, "ann").await;
        assert!(matches!(ruled.unwrap(), Ruled::Released(_)));
        assert_eq!(service.text("k").await, "2", "a person let it run again");
    }
}

#[tokio::test]
async fn where_keys_are_strict_a_bare_one_is_refused_and_a_quoted_one_taken() {
    let route = Route {
        strict_keys: true,
        ..Route::default()
    };
    let service = counting(StatusCode::OK, Routes::any(route));
    assert_eq!(service.send(Some("k"), "{}").await.status(), 400);
    assert_eq!(service.send(Some("\"k\""), "{}").await.status(), 200);
    assert_eq!(service.send(None, "{}").await.status(), 200, "it passes");
}

#[tokio::test]
async fn a_route_may_answer_as_the_ietf_draft_does() {
    let route = Route {
        problem_json: true,
        mismatch_status: StatusCode::UNPROCESSABLE_ENTITY,
        ..Route::default()
    };
    let service = counting(StatusCode::OK, Routes::any(route.required()));
    assert_eq!(service.send(Some("k"), "1").await.status(), 200);
    for (key, body, status) in [(Some("k"), "2", 422), (None, "1", 400)] {
        let refused = service.send(key, body).await;
        assert_eq!(refused.status(), status);
        assert_eq!(
            refused.headers()["content-type"],
            "application/problem+json"
        );
    }
}

#[tokio::test]
async fn a_route_says_whom_a_request_is_about() {
    let route = Route {
        subject: Some("/customer/id".to_owned()),
        ..Route::default()
    };
    let service = counting(StatusCode::OK, Routes::any(route));
    for (key, body) in [
        ("text", r#"{"customer":{"id":"42"}}"#),
        ("number", r#"{"customer":{"id":42}}"#),
        ("other", r#"{"customer":{"id":43}}"#),
        ("none", r#"{"customer":42}"#),
    ] {
        assert_eq!(service.send(Some(key), body).await.status(), 200);
    }
    let scan = Scan {
        subject: Some(Subject::of(b"42")),
        ..Scan::of(Tenant::DEFAULT)
    };
    let found = service.engine.ledger().scan(scan).await.unwrap().records;
    let mut keys: Vec<&str> = found.iter().map(|record| record.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["number", "text"]);
}

#[tokio::test]
async fn what_the_layer_answers_is_counted_for_the_tenant() {
    let service = counting(StatusCode::OK, Routes::default());
    for body in ["1", "1", "2"] {
        service.send(Some("k"), body).await;
    }
    service.send(Some("two words"), "1").await;
    service.send(None, "1").await;
    let stats = service.observer.stats(Tenant::DEFAULT);
    assert_eq!(
        (
            stats.total_requests,
            stats.replayed_requests,
            stats.conflict_requests,
            stats.key_generation_errors
        ),
        (4, 1, 1, 1),
        "a request without a key is not counted"
    );
}
