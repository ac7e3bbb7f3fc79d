//! What an answer says beside its content: until when it is recorded, where its refusal is explained, and gRPC's words.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use hapax::layer::{Route, Routes};
use hapax::problem::DocsBase;
use hapax::store::MemoryLedger;
use hapax::{Engine, IdempotencyLayer};
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;

/// A service that answers this status, within a layer with these routes.
fn app(status: StatusCode, routes: Routes) -> (Router, IdempotencyLayer) {
    let engine = Engine::new(Arc::new(MemoryLedger::new()));
    let app = Router::new().route("/pay", post(move || async move { (status, "paid") }));
    (app, IdempotencyLayer::new(engine).routes(routes))
}

async fn pay(app: &Router, headers: &[(&str, &str)], body: &'static str) -> Response<Body> {
    let mut request = Request::post("/pay").header("idempotency-key", "k");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body)).unwrap();
    app.clone().oneshot(request).await.unwrap()
}

async fn document(response: Response<Body>) -> Value {
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await;
    serde_json::from_slice(&bytes.unwrap()).unwrap()
}

#[tokio::test]
async fn a_recorded_answer_says_until_when_it_is_replayed() {
    let (router, layer) = app(
        StatusCode::CREATED,
        Routes::any(Route::default().ttl(Duration::from_secs(600))),
    );
    let app = router.layer(layer);
    let first = pay(&app, &[], "1").await;
    let expires = first.headers()["idempotency-expires"].clone();
    let moment = httpdate::parse_http_date(expires.to_str().unwrap()).unwrap();
    let left = moment.duration_since(SystemTime::now()).unwrap().as_secs();
    assert!((590..=600).contains(&left), "{left}");
    let again = pay(&app, &[], "1").await;
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(again.headers()["idempotency-expires"], expires);
    let conflict = pay(&app, &[], "2").await;
    assert_eq!(conflict.status(), 409);
    assert!(!conflict.headers().contains_key("idempotency-expires"));
}

#[tokio::test]
async fn an_answer_that_is_not_recorded_has_no_expiry() {
    let (router, layer) = app(StatusCode::SERVICE_UNAVAILABLE, Routes::default());
    let passed = pay(&router.layer(layer), &[], "1").await;
    assert_eq!(passed.status(), 503);
    assert!(!passed.headers().contains_key("idempotency-expires"));
    let small = Route {
        max_response_bytes: 1,
        ..Route::default()
    };
    let (router, layer) = app(StatusCode::OK, Routes::any(small));
    let unkept = pay(&router.layer(layer), &[], "1").await;
    assert_eq!(unkept.status(), 200);
    assert!(!unkept.headers().contains_key("idempotency-expires"));
}

#[tokio::test]
async fn a_refusal_leads_to_its_page_where_the_layer_knows_one_and_never_to_a_path() {
    let problem = [("accept", "application/problem+json")];
    let page = "https://hapax.example/docs/errors/IDEMPOTENCY_CONFLICT";
    for docs in [None, Some(DocsBase::new("https://hapax.example/").unwrap())] {
        let (router, mut layer) = app(StatusCode::OK, Routes::default());
        let is_known = docs.is_some();
        if let Some(docs) = docs {
            layer = layer.docs_base(docs);
        }
        let app = router.layer(layer);
        pay(&app, &[], "1").await;
        let envelope = document(pay(&app, &[], "2").await).await;
        let rfc9457 = document(pay(&app, &problem, "2").await).await;
        let (url, kind) = if is_known {
            (json!(page), page)
        } else {
            (Value::Null, "urn:hapax:error:IDEMPOTENCY_CONFLICT")
        };
        assert_eq!(envelope["error"]["docs_url"], url);
        assert_eq!(rfc9457["docs_url"], url);
        assert_eq!(rfc9457["type"], kind);
        assert_eq!(
            rfc9457["error"],
            json!({
                "code": "IDEMPOTENCY_CONFLICT",
                "message": rfc9457["detail"],
                "type": "idempotency_error",
            })
        );
        assert!(rfc9457["details"]["original_key"] == "k");
        assert!(!envelope.to_string().contains("null,\"docs_url\""));
    }
}

#[tokio::test]
async fn a_grpc_call_in_conflict_is_aborted_in_its_own_words() {
    let (router, layer) = app(StatusCode::OK, Routes::default());
    let app = router.layer(layer);
    pay(&app, &[], "1").await;
    let grpc = [
        ("content-type", "application/grpc+proto"),
        ("te", "trailers"),
    ];
    let conflict = pay(&app, &grpc, "2").await;
    assert_eq!(conflict.status(), 200);
    assert_eq!(conflict.headers()["grpc-status"], "10");
    assert_eq!(conflict.headers()["content-type"], "application/grpc");
    assert_eq!(
        conflict.headers()["x-idempotency-conflict"],
        "body-mismatch"
    );
    let message = conflict.headers()["grpc-message"].to_str().unwrap();
    assert!(message.starts_with("IDEMPOTENCY_CONFLICT: "), "{message}");
    let body = axum::body::to_bytes(conflict.into_body(), 1 << 20).await;
    assert!(body.unwrap().is_empty(), "no message follows");
}

/// A gRPC service that refuses every call by its head alone, with this status.
fn refusing(status: &'static str) -> Router {
    let grpc = move || async move {
        let headers = [
            ("content-type", "application/grpc"),
            ("grpc-status", status),
            ("grpc-message", "no such account"),
        ];
        (headers, ())
    };
    let engine = Engine::new(Arc::new(MemoryLedger::new()));
    Router::new()
        .route("/pay", post(grpc))
        .layer(IdempotencyLayer::new(engine))
}

#[tokio::test]
async fn a_grpc_refusal_is_replayed_with_its_status_and_one_that_passes_over_is_not() {
    let grpc = [("content-type", "application/grpc")];
    for (status, is_final) in [
        ("3", true),
        ("5", true),
        ("6", true),
        ("9", true),
        ("10", true),
        ("12", true),
        ("1", false),
        ("2", false),
        ("4", false),
        ("7", false),
        ("8", false),
        ("13", false),
        ("14", false),
        ("16", false),
        ("99", false),
    ] {
        let app = refusing(status);
        pay(&app, &grpc, "1").await;
        let again = pay(&app, &grpc, "1").await;
        let headers = again.headers();
        assert_eq!(
            headers.contains_key("idempotency-replayed"),
            is_final,
            "{status}"
        );
        assert_eq!(headers["grpc-status"], status);
        assert_eq!(headers["grpc-message"], "no such account");
        assert_eq!(headers["content-type"], "application/grpc");
    }
}
