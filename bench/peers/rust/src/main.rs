//! The handler of the bench behind axum-idempotent, whose records are kept in PostgreSQL (DATABASE_URL).
//! It keys by session, so one is made at the start and its cookie is put on every payment.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::header::{COOKIE, HeaderValue, SET_COOKIE};
use axum::http::{Request, StatusCode};
use axum::middleware::map_request;
use axum::routing::post;
use axum::{Json, Router};
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use ruts::store::Ttl;
use ruts::store::postgres::{PostgresStore, PostgresStoreBuilder};
use ruts::{CookieOptions, Session, SessionLayer};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use tower::ServiceExt;
use tower_cookies::CookieManagerLayer;

#[derive(Deserialize)]
struct Payment {
    amount: u64,
    currency: String,
    customer: String,
    description: String,
    reference: String,
}

#[derive(Serialize)]
struct Paid {
    id: String,
    status: &'static str,
    amount: u64,
    currency: String,
    customer: String,
    description: String,
    reference: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = std::env::var("DATABASE_URL")?;
    let pool = PgPoolOptions::new().max_connections(16).connect(&database).await?;
    let store = Arc::new(PostgresStoreBuilder::new(pool).create_table(true).build().await?);
    let options = IdempotentOptions::default()
        .use_idempotency_key_header(Some("Idempotency-Key"), true)
        .expire_after(3600);
    let number = Arc::new(AtomicU64::new(1));
    let pay = move |Json(asked): Json<Payment>| async move {
        let paid = Paid {
            id: format!("pay_{:012}", number.fetch_add(1, Ordering::Relaxed)),
            status: "succeeded",
            amount: asked.amount,
            currency: asked.currency,
            customer: asked.customer,
            description: asked.description,
            reference: asked.reference,
        };
        (StatusCode::CREATED, Json(paid))
    };
    let app = Router::new()
        .route("/payments", post(pay))
        .layer(IdempotentLayer::<PostgresStore>::new(options))
        .route("/session", post(begin_session))
        .layer(SessionLayer::new(store).with_cookie_options(CookieOptions::build().name("session")))
        .layer(CookieManagerLayer::new());
    let cookie = session_of(&app).await?;
    let app = app.layer(map_request(move |mut request: Request<Body>| {
        request.headers_mut().insert(COOKIE, cookie.clone());
        async move { request }
    }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// The cookie of a new session.
async fn session_of(app: &Router) -> Result<HeaderValue, Box<dyn Error>> {
    let request = Request::post("/session").body(Body::empty())?;
    let response = app.clone().oneshot(request).await?;
    let cookie = response.headers().get(SET_COOKIE).ok_or("no session was begun")?;
    let cookie = cookie.to_str()?.split(';').next().unwrap_or_default();
    Ok(HeaderValue::from_str(cookie)?)
}

async fn begin_session(session: Session<PostgresStore>) -> Result<StatusCode, (StatusCode, String)> {
    session
        .set("who", &"bench", Ttl::new(3600).map_err(internal)?, None)
        .await
        .map(|_| StatusCode::CREATED)
        .map_err(internal)
}

fn internal(error: impl Error) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}
