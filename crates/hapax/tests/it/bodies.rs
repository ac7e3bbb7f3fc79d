//! Bodies that are compared by what they mean: forms by their parts, compressed ones by what they decode to.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::post;
use hapax::core::{Fingerprint, Scan, Tenant};
use hapax::layer::{Asked, Budget, Route, Routes};
use hapax::store::MemoryLedger;
use hapax::{Engine, IdempotencyLayer};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// A service that counts its runs and answers the length of what it got.
struct Service {
    app: Router,
    engine: Engine,
    runs: Arc<AtomicUsize>,
}

fn service(route: Route, budget: Budget) -> Service {
    let engine = Engine::new(Arc::new(MemoryLedger::new()));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let handler = move |body: Bytes| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { body }
    };
    let layer = IdempotencyLayer::new(engine.clone())
        .routes(Routes::any(route))
        .budget(budget);
    Service {
        app: Router::new().route("/send", post(handler)).layer(layer),
        engine,
        runs,
    }
}

impl Service {
    fn usual() -> Self {
        service(Route::default(), Budget::default())
    }

    async fn send(&self, headers: &[(&str, &str)], body: impl Into<Body>) -> Response<Body> {
        let mut request = Request::post("/send").header("idempotency-key", "k");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        self.app.clone().oneshot(request).await.unwrap()
    }

    async fn is_replay(&self, headers: &[(&str, &str)], body: impl Into<Body>) -> bool {
        let answer = self.send(headers, body).await;
        answer.headers().contains_key("idempotency-replayed")
    }

    async fn conflict(&self, headers: &[(&str, &str)], body: impl Into<Body>) -> Value {
        let answer = self.send(headers, body).await;
        assert_eq!(answer.status(), 409);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], "IDEMPOTENCY_CONFLICT");
        body["error"]["details"].clone()
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

fn form(boundary: &str, note: &str, file: &str) -> String {
    format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\n{note}\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
         Content-Type: text/plain\r\n\r\n{file}\r\n--{boundary}--\r\n"
    )
}

fn form_type(boundary: &str) -> String {
    format!("multipart/form-data; boundary={boundary}")
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_form_that_is_sent_again_with_another_boundary_is_the_same_request() {
    let service = Service::usual();
    let (one, two) = (form_type("one"), form_type("\"----two\""));
    let first = service
        .send(&[("content-type", &one)], form("one", "hello", "1,2"))
        .await;
    assert_eq!(first.status(), 200);
    let got = first.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(
        got,
        form("one", "hello", "1,2"),
        "the handler gets it as it came"
    );
    assert!(
        service
            .is_replay(&[("content-type", &two)], form("----two", "hello", "1,2"))
            .await
    );
    let other = service
        .conflict(&[("content-type", &two)], form("----two", "hello", "1,3"))
        .await;
    assert_eq!(other["differs"], json!(["body"]));
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn a_form_that_cannot_be_read_is_compared_by_its_bytes() {
    let service = Service::usual();
    let headers = [("content-type", "multipart/form-data; boundary=one")];
    let broken = form("one", "hello", "1").replace("--one--", "");
    assert_eq!(service.send(&headers, broken.clone()).await.status(), 200);
    assert!(service.is_replay(&headers, broken.clone()).await);
    service.conflict(&headers, broken + " ").await;

    // A boundary that its media type does not name: another reader may see other parts.
    let service = Service::usual();
    assert_eq!(
        service.send(&headers, form("two", "a", "b")).await.status(),
        200
    );
    assert!(service.is_replay(&headers, form("two", "a", "b")).await);
    service.conflict(&headers, form("three", "a", "b")).await;
}

#[tokio::test]
async fn a_compressed_body_is_compared_by_what_it_decodes_to_and_passed_on_as_it_came() {
    let service = Service::usual();
    let json = ("content-type", "application/json");
    let gz = [json, ("content-encoding", "gzip")];
    let body = gzip(br#"{"amount":10,"request_id":"a"}"#);
    let first = service.send(&gz, body.clone()).await;
    let got = first.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(got, body);
    for again in [
        gzip(br#"{ "request_id": "b", "amount": 1e1 }"#),
        [gzip(b"{\"amount\""), gzip(b":10}")].concat(),
    ] {
        assert!(service.is_replay(&gz, again).await);
    }
    assert!(
        service.is_replay(&[json], r#"{"amount":10}"#).await,
        "not encoded"
    );
    let zstd = zstd::bulk::compress(br#"{"amount":10}"#, 3).unwrap();
    assert!(
        service
            .is_replay(&[json, ("content-encoding", "zstd")], zstd)
            .await
    );

    let other = service.conflict(&gz, gzip(br#"{"amount":11}"#)).await;
    assert_eq!(other["differs"], json!(["body"]));
    assert_eq!(other["diff_summary"], json!(["amount: '10' → '11'"]));
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn a_body_that_does_not_decode_is_compared_by_its_bytes() {
    let service = Service::usual();
    let gz = [("content-encoding", "gzip")];
    assert_eq!(service.send(&gz, "no gzip").await.status(), 200);
    assert!(service.is_replay(&gz, "no gzip").await);
    service.conflict(&gz, "no gzip at all").await;

    let service = Service::usual();
    let bomb = gzip(&vec![b'0'; 16 << 20]);
    assert_eq!(service.send(&gz, bomb.clone()).await.status(), 200);
    assert!(service.is_replay(&gz, bomb).await);
}

#[tokio::test]
async fn what_a_body_decodes_to_counts_in_the_budget() {
    let budget = Budget::new(1 << 20);
    let service = service(Route::default(), budget.clone());
    let gz = [("content-encoding", "gzip")];
    // It is not made smaller, and may decode to two million bytes.
    let mut state = 7_u64;
    let noise: Vec<u8> = (0..20_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[1]
        })
        .collect();
    let refused = service.send(&gz, gzip(&noise)).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(service.runs(), 0);
    assert_eq!(service.send(&gz, gzip(b"{}")).await.status(), 200);
    assert_eq!(budget.held(), 0, "it is given back");
}

#[tokio::test]
async fn a_record_of_an_older_version_stands_for_the_same_bytes() {
    for (headers, body) in [
        (
            HeaderMap::from_iter([(CONTENT_TYPE, form_type("one").parse().unwrap())]),
            Bytes::from(form("one", "a", "b")),
        ),
        (
            HeaderMap::from_iter([(CONTENT_ENCODING, "gzip".parse().unwrap())]),
            Bytes::from(gzip(b"{}")),
        ),
    ] {
        let route = Route::default();
        let asked = Asked::new(
            &Method::POST,
            &"/send".parse().unwrap(),
            &headers,
            body.clone(),
            &route.selection,
        );
        let media_type: &[u8] = if headers.contains_key(CONTENT_TYPE) {
            b"multipart/form-data"
        } else {
            b""
        };
        let bytes = Fingerprint::of_parts(&[media_type, &body]);
        let former = Fingerprint::of_parts(&[b"POST", b"/send", bytes.as_bytes()]);
        assert_ne!(asked.fingerprint(), former);
        let scope = hapax::core::Scope::new(Tenant::DEFAULT, "POST:send").unwrap();
        let key = hapax::core::Key::new("k").unwrap();
        let claim = asked.claim(scope, key, None, &route);
        assert_eq!(claim.former, Some(former));
        // As the version before wrote it.
        let mut old = claim.clone();
        old.fingerprint = former;
        let engine = Engine::new(Arc::new(MemoryLedger::new()));
        let done = engine.once(old, async |_| hapax::core::Outcome::text(201, "done"));
        done.await.unwrap();
        let again = engine.claim(claim).await.unwrap();
        assert!(matches!(again, hapax::Claimed::Replay(_)), "{again:?}");
    }
}

#[tokio::test]
async fn what_is_kept_of_a_compressed_request_can_be_read() {
    let service = Service::usual();
    let gz = [("content-encoding", "gzip")];
    service.send(&gz, gzip(br#"{"a":1}"#)).await;
    let scan = service.engine.ledger().scan(Scan::of(Tenant::DEFAULT));
    let record = scan.await.unwrap().records.remove(0);
    assert_eq!(record.request.body.as_deref(), Some(&br#"{"a":1}"#[..]));
}
