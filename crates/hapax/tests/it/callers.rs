//! Who sends a request, as the layer finds it, and what that means for a key that it derives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use axum::body::Body;
use axum::routing::any;
use axum::{Json, Router};
use hapax::core::Principal;
use hapax::layer::{Identity, Route, Routes};
use hapax::problem::Problem;
use hapax::store::MemoryLedger;
use hapax::{Engine, IdempotencyLayer};
use http::{Request, StatusCode};
use tower::ServiceExt;

/// A service that answers how often it ran, behind a route of this identity that derives keys.
fn app(identity: Identity) -> Router {
    behind(identity, |layer| layer)
}

fn behind(identity: Identity, change: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Router {
    let runs = Arc::new(AtomicU16::new(0));
    let handler = move || {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move { (StatusCode::CREATED, Json(run)) }
    };
    let routes = Routes::any(Route::default().derive().identified_by(identity));
    let layer = IdempotencyLayer::new(Engine::new(Arc::new(MemoryLedger::new()))).routes(routes);
    Router::new()
        .route("/orders", any(handler))
        .layer(change(layer))
}

type Headers<'a> = &'a [(&'a str, &'a str)];

fn order(headers: Headers, principal: Option<Principal>) -> Request<Body> {
    let mut request = Request::post("/orders");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from("{}")).unwrap();
    if let Some(principal) = principal {
        request.extensions_mut().insert(principal);
    }
    request
}

/// The status and the body, or the code and the setting of a refusal.
async fn answer(app: &Router, request: Request<Body>) -> (u16, String) {
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await;
    let text = String::from_utf8(body.unwrap().to_vec()).unwrap();
    if status < 400 {
        return (status, text);
    }
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let error = &document["error"];
    let setting = error["details"]["setting"].as_str().unwrap_or("");
    let code = error["code"].as_str().unwrap();
    (status, format!("{code} {setting}").trim_end().to_owned())
}

async fn run_of(app: &Router, headers: Headers<'_>) -> (u16, String) {
    answer(app, order(headers, None)).await
}

fn run(number: u16) -> (u16, String) {
    (201, number.to_string())
}

#[tokio::test]
async fn a_principal_in_the_extensions_is_part_of_a_derived_key() {
    let app = app(Identity::default());
    let of = |name: &str| {
        let principal = Some(Principal::of(name.as_bytes()));
        // Code has checked who that is: neither cookies nor a credential change it.
        order(&[("cookie", "a=1"), ("authorization", name)], principal)
    };
    assert_eq!(answer(&app, of("ann")).await, run(1));
    assert_eq!(answer(&app, of("bob")).await, run(2));
    assert_eq!(answer(&app, of("ann")).await, run(1));
    let again = order(&[], Some(Principal::of(b"ann")));
    assert_eq!(answer(&app, again).await, run(1));
}

#[tokio::test]
async fn without_any_setting_authorization_tells_callers_apart_where_a_key_is_derived() {
    let app = app(Identity::default());
    let (ann, bob) = (("authorization", "ann"), ("authorization", "bob"));
    assert_eq!(run_of(&app, &[ann]).await, run(1));
    assert_eq!(run_of(&app, &[bob]).await, run(2));
    assert_eq!(run_of(&app, &[ann, ("cookie", "a=1")]).await, run(1));
    assert_eq!(run_of(&app, &[]).await, run(3));
    assert_eq!(run_of(&app, &[]).await, run(3));
    // Under a key of their own it does not, as ever: a refreshed token gets its replay.
    let key = ("idempotency-key", "k");
    assert_eq!(run_of(&app, &[ann, key]).await, run(4));
    assert_eq!(run_of(&app, &[bob, key]).await, run(4));
}

#[tokio::test]
async fn cookies_without_an_identity_get_no_derived_key_and_run_nothing() {
    for (identity, setting) in [
        (Identity::default(), "principal_cookie"),
        (Identity::cookie("sid").unwrap(), "principal_cookie"),
        (Identity::authorization(), "principal_cookie"),
        (
            Identity::headers([http::HeaderName::from_static("x-user")]).unwrap(),
            "principal_headers",
        ),
        (Identity::verified(), "principal"),
    ] {
        let app = app(identity);
        let refused = (400, format!("principal_required {setting}"));
        for headers in [
            &[("cookie", "theme=dark")][..],
            &[("cookie", "theme=dark"), ("authorization", "")],
            &[("cookie", "")],
        ] {
            assert_eq!(run_of(&app, headers).await, refused, "{headers:?}");
        }
        let anonymous = order(&[("cookie", "a=1")], Some(Principal::anonymous()));
        assert_eq!(answer(&app, anonymous).await, refused);
        let keyed = [("cookie", "theme=dark"), ("idempotency-key", "k")];
        assert_eq!(
            run_of(&app, &keyed).await,
            run(1),
            "under a key nothing changes"
        );
    }
}

#[tokio::test]
async fn a_cookie_that_is_named_is_the_caller_under_every_key() {
    let app = app(Identity::cookie("sid").unwrap());
    let (ann, bob) = (("cookie", "sid=ann"), ("cookie", "sid=bob"));
    assert_eq!(run_of(&app, &[ann]).await, run(1));
    assert_eq!(run_of(&app, &[bob]).await, run(2));
    assert_eq!(run_of(&app, &[("cookie", "a=1"), ann]).await, run(1));
    let key = ("idempotency-key", "k");
    assert_eq!(run_of(&app, &[ann, key]).await, run(3));
    assert_eq!(run_of(&app, &[ann, key]).await, run(3));
    let other = run_of(&app, &[bob, key]).await;
    assert_eq!(other, (409, "IDEMPOTENCY_CONFLICT".to_owned()));
}

#[tokio::test]
async fn what_finds_callers_may_refuse_one() {
    let app = behind(Identity::verified(), |layer| {
        layer.caller_of(|parts| match parts.headers.get("x-badge") {
            None => Ok(None),
            Some(badge) if badge.as_bytes().starts_with(b"real ") => {
                Ok(Some(Principal::of(badge.as_bytes())))
            }
            Some(_) => Err(Box::new(Problem::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "get a badge",
            ))),
        })
    });
    let (ann, bob) = (("x-badge", "real ann"), ("x-badge", "real bob"));
    assert_eq!(run_of(&app, &[ann]).await, run(1));
    assert_eq!(run_of(&app, &[bob]).await, run(2));
    assert_eq!(run_of(&app, &[ann]).await, run(1));
    let forged = run_of(&app, &[("x-badge", "ann")]).await;
    assert_eq!(forged, (401, "unauthorized".to_owned()));
    // Who has none is who else it can be: a credential's holder, or nobody.
    assert_eq!(run_of(&app, &[("authorization", "a")]).await, run(3));
    assert_eq!(run_of(&app, &[]).await, run(4));
}

#[tokio::test]
async fn a_key_that_is_derived_for_one_caller_cannot_be_sent_by_another() {
    let app = app(Identity::default());
    let key = "00000000000000000000000000000000:POST:orders:~0123456789abcdef";
    for key in [key.to_owned(), format!("\"{key}\"")] {
        let refused = run_of(&app, &[("idempotency-key", &key)]).await;
        assert_eq!(refused, (400, "idempotency_key_invalid".to_owned()));
    }
    let documented = "00000000000000000000000000000000:POST:orders:44136fa355b3678a";
    assert_eq!(run_of(&app, &[]).await, run(1));
    let sent = run_of(&app, &[("idempotency-key", documented)]).await;
    assert_eq!(sent, run(1), "the form without a principal is anybody's");
}
