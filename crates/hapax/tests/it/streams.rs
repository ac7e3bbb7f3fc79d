//! Answers that go on after their head was sent: recorded while they are passed on, or why not.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use hapax::core::OnLost;
use hapax::layer::{Route, Routes};
use hapax::store::Clock;
use hapax::{Engine, IdempotencyLayer};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::faulty::{Fault, Faulty};

const EVENTS: &str = "text/event-stream";
const TEXT: &str = "text/plain";

type Piece = Result<Frame<Bytes>, std::io::Error>;

/// The handler's side of an answer.
struct Source(mpsc::UnboundedReceiver<Piece>);

impl http_body::Body for Source {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Piece>> {
        self.0.poll_recv(context)
    }
}

/// A service whose answer is what a test says, piece by piece.
struct Streaming {
    app: Router,
    runs: Arc<AtomicUsize>,
    say: Option<mpsc::UnboundedSender<Piece>>,
    ledger: Arc<Faulty>,
    engine: Engine,
}

impl Streaming {
    fn new(content_type: &'static str, route: Route) -> Self {
        let ledger = Arc::new(Faulty::new(Clock::system()));
        let engine = Engine::new(ledger.clone());
        let runs = Arc::new(AtomicUsize::new(0));
        let (say, heard) = mpsc::unbounded_channel();
        let (counted, heard) = (runs.clone(), Arc::new(Mutex::new(Some(heard))));
        let handler = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let source = heard.lock().unwrap().take().expect("it runs once");
            async move {
                let body = Body::new(Source(source));
                ([(CONTENT_TYPE, content_type)], body)
            }
        };
        let layer = IdempotencyLayer::new(engine.clone()).routes(Routes::any(route));
        Self {
            app: Router::new().route("/say", post(handler)).layer(layer),
            runs,
            say: Some(say),
            ledger,
            engine,
        }
    }

    fn say(&self, text: &'static str) {
        self.frame(Ok(Frame::data(Bytes::from_static(text.as_bytes()))));
    }

    /// A caller who is gone may have ended it.
    fn frame(&self, piece: Piece) {
        let _ = self.say.as_ref().unwrap().send(piece);
    }

    fn end(&mut self) {
        self.say = None;
    }

    async fn send(&self) -> Response<Body> {
        let request = Request::post("/say").header("idempotency-key", "k");
        let request = request.body(Body::from("{}")).unwrap();
        self.app.clone().oneshot(request).await.unwrap()
    }

    /// The details of the refusal that a repeat gets.
    async fn refused(&self) -> (String, Value) {
        let again = self.send().await;
        assert_eq!(again.status(), 409);
        let body = again.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let error = &body["error"];
        (
            error["code"].as_str().unwrap().to_owned(),
            error["details"].clone(),
        )
    }

    /// The details of the refusal once nobody works on the key any more.
    async fn refused_in_the_end(&self) -> (String, Value) {
        loop {
            let refused = self.refused().await;
            if refused.0 != "IDEMPOTENCY_IN_PROGRESS" {
                return refused;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn replayed(&self) -> Bytes {
        loop {
            let again = self.send().await;
            if again.status() != 409 {
                assert_eq!(again.headers()["idempotency-replayed"], "true");
                return again.into_body().collect().await.unwrap().to_bytes();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn next(body: &mut Body) -> Bytes {
    let frame = body.frame().await.unwrap().unwrap();
    frame.into_data().unwrap()
}

#[tokio::test]
async fn a_stream_that_ends_is_passed_on_at_once_and_replayed_whole() {
    for content_type in [EVENTS, TEXT] {
        let mut service = Streaming::new(content_type, Route::default());
        service.say("data: 1\n\n");
        let first = service.send().await;
        assert_eq!(first.status(), 200);
        let mut body = first.into_body();
        assert_eq!(next(&mut body).await, "data: 1\n\n", "before it ends");
        assert_eq!(service.refused().await.0, "IDEMPOTENCY_IN_PROGRESS");
        service.say("data: 2\n\n");
        assert_eq!(next(&mut body).await, "data: 2\n\n");
        service.end();
        assert!(body.frame().await.is_none());

        let again = service.send().await;
        assert_eq!(again.headers()["idempotency-replayed"], "true");
        assert_eq!(again.headers()["content-type"], content_type);
        let whole = again.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(whole, "data: 1\n\ndata: 2\n\n");
        assert_eq!(service.runs.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_in_doubt_whatever_a_lost_lease_means() {
    for on_lost in [OnLost::Retry, OnLost::Hold] {
        let service = Streaming::new(EVENTS, Route::default().on_lost(on_lost));
        service.say("data: 1\n\n");
        let mut body = service.send().await.into_body();
        assert_eq!(next(&mut body).await, "data: 1\n\n");
        service.frame(Err(std::io::Error::other("planned")));
        assert!(body.frame().await.unwrap().is_err(), "the caller sees it");
        let (code, details) = service.refused().await;
        assert_eq!(code, "IDEMPOTENCY_IN_DOUBT");
        assert_eq!(details["reason"], "outcome_unknown");
    }
}

#[tokio::test]
async fn a_stream_whose_caller_leaves_is_read_on_and_replayed() {
    for content_type in [EVENTS, TEXT] {
        let mut service = Streaming::new(content_type, Route::default());
        service.say("1");
        let mut body = service.send().await.into_body();
        assert_eq!(next(&mut body).await, "1");
        drop(body);
        service.say("2");
        service.end();
        assert_eq!(service.replayed().await, "12");
        assert!(service.engine.drain(Duration::from_secs(30)).await);
    }
}

#[tokio::test]
async fn a_stream_whose_caller_leaves_and_that_does_not_end_is_in_doubt() {
    let mut route = Route::default();
    route.policy.lease = Duration::from_millis(50);
    let service = Streaming::new(EVENTS, route);
    service.say("1");
    let mut body = service.send().await.into_body();
    assert_eq!(next(&mut body).await, "1");
    drop(body);
    let (code, details) = service.refused_in_the_end().await;
    assert_eq!(
        (code.as_str(), &details["reason"]),
        ("IDEMPOTENCY_IN_DOUBT", &Value::from("outcome_unknown"))
    );
}

#[tokio::test]
async fn what_is_too_long_goes_through_whole_and_its_replay_says_why() {
    for (content_type, why) in [(EVENTS, "stream"), (TEXT, "too_large")] {
        let route = Route {
            max_response_bytes: 6,
            ..Route::default()
        };
        let mut service = Streaming::new(content_type, route);
        service.say("1234");
        let mut body = service.send().await.into_body();
        assert_eq!(next(&mut body).await, "1234");
        service.say("5678");
        assert_eq!(next(&mut body).await, "5678");
        let (code, details) = service.refused().await;
        assert_eq!(code, "IDEMPOTENCY_IN_DOUBT", "before it ends");
        assert_eq!(details["reason"], "response_not_stored");
        assert_eq!(details["why"], why);
        service.say("9");
        service.end();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "9");
    }
}

#[tokio::test]
async fn trailers_end_a_stream_and_its_replay_says_so() {
    let mut service = Streaming::new(TEXT, Route::default());
    service.say("1");
    let mut body = service.send().await.into_body();
    assert_eq!(next(&mut body).await, "1");
    let sum = (
        HeaderName::from_static("x-sum"),
        HeaderValue::from_static("7"),
    );
    service.frame(Ok(Frame::trailers(HeaderMap::from_iter([sum]))));
    service.end();
    let rest = body.collect().await.unwrap();
    assert_eq!(rest.trailers().unwrap()["x-sum"], "7");
    let (code, details) = service.refused().await;
    assert_eq!(code, "IDEMPOTENCY_IN_DOUBT");
    assert_eq!(details["why"], "trailers");
}

#[tokio::test]
async fn a_caller_of_a_stream_that_could_not_be_recorded_does_not_see_its_end() {
    let mut service = Streaming::new(EVENTS, Route::default());
    service.say("1");
    let mut body = service.send().await.into_body();
    assert_eq!(next(&mut body).await, "1");
    service.ledger.fail([Fault::Unavailable; 6]);
    service.end();
    assert!(body.frame().await.unwrap().is_err());
    assert!(body.is_end_stream() || body.frame().await.is_none());
}

#[tokio::test]
async fn an_answer_without_a_length_that_ends_at_once_is_recorded_before_it_is_sent() {
    let mut service = Streaming::new(TEXT, Route::default());
    service.say("1");
    service.say("2");
    service.end();
    let first = service.send().await;
    assert!(first.headers().contains_key("idempotency-expires"));
    assert_eq!(service.replayed().await, "12");
    assert_eq!(first.into_body().collect().await.unwrap().to_bytes(), "12");
}
