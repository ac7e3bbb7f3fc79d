//! One text is enriched while the caller waits. The same text again answers what is recorded, and pays nothing.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as Answer};
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::entry::ItemText;
use hapax_effects::enrich::ParseError;
use hapax_intake::quality::{self, Quality};
use serde::Deserialize;
use serde_json::{Value, json};

use super::not_configured;
use crate::api::App;
use crate::api::payload::invalid;
use crate::body::Json;
use crate::enrich::desk::Told;
use crate::enrich::sync::{Parsed, Written};
use crate::enrich::trouble::Trouble;
use crate::problem::{self, Refusal};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// What is left of the time of a request after waiting for the provider.
const MARGIN: Duration = Duration::from_secs(2);
/// When to ask again for what is still being asked.
const LATER: Duration = Duration::from_secs(2);
/// The same for what a batch asks.
const BATCH: Duration = Duration::from_secs(60);

/// A text to be enriched.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct AskBody {
    title: Option<String>,
    author: Option<String>,
    content_type: Option<String>,
    clean_text: String,
    force: Option<bool>,
}

/// Enriches a text.
pub(in crate::api) async fn ask(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Json(body): Json<AskBody>,
) -> Result<Response, Refusal> {
    let text = ItemText {
        title: body.title,
        author: body.author,
        content_type: body.content_type,
        clean_text: body.clean_text,
    };
    if text.fingerprint().is_none() {
        return Err(invalid("/clean_text", "has no text to enrich").into());
    }
    if !app.enrich.is_configured() {
        return Err(not_configured().into());
    }
    let desk = app.enrich.clone();
    let made = tokio::task::spawn_blocking(move || {
        let kind = text.content_type.as_deref().unwrap_or_default();
        let quality = quality::assess(&text.clean_text, None, kind);
        (quality, desk.question(text))
    });
    let (quality, question) = made.await.map_err(|_| problem::internal())?;
    let force = body.force == Some(true);
    let most = app.config.request_timeout().saturating_sub(MARGIN);
    match app.enrich.ask(tenant, question, force, most).await? {
        Told::Written(written, was_there) => answer(*written, &quality, was_there),
        Told::Trouble(trouble) => Err(no_answer(&trouble).into()),
        Told::Busy => Err(busy().into()),
        Told::UnderWay => Err(under_way().into()),
    }
}

fn answer(written: Written, quality: &Quality, was_there: bool) -> Result<Response, Refusal> {
    let t1 = match written.parsed {
        Parsed::Result(t1) => t1,
        Parsed::Refused(refused) => return Err(unreadable(refused).into()),
    };
    let said = json!({
        "retrieval_excerpt": quality.excerpt,
        "retrieval_version": quality::VERSION,
        "model": written.model,
        "prompt_version": written.prompt_version,
        "prompt_mode": written.prompt_mode,
    });
    let mut told = serde_json::Map::new();
    for part in [json!(t1), json!(quality), said] {
        if let Value::Object(members) = part {
            told.extend(members);
        }
    }
    let mut response = Answer(told).into_response();
    if was_there {
        let yes = HeaderValue::from_static("true");
        response.headers_mut().insert(REPLAYED, yes);
    }
    Ok(response)
}

/// What the model said is no result. It is recorded, so the same request answers the same.
fn unreadable(refused: ParseError) -> Problem {
    Problem::new(
        StatusCode::BAD_GATEWAY,
        "parse_error",
        "what the model answered is no result; send the same request with \"force\": true to ask it again",
    )
    .with_detail("reason", refused.reason.as_str())
    .with_detail("detail", refused.detail)
    .with_detail("raw", refused.raw)
}

fn no_answer(trouble: &Trouble) -> Problem {
    let (status, code) = match trouble.status {
        429 => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
        502 => (StatusCode::BAD_GATEWAY, "downstream_failed"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "llm_unavailable"),
    };
    let problem = Problem::new(status, code, trouble.message.clone())
        .with_detail("reason", trouble.word.clone());
    match (trouble.retry_after(), trouble.is_transient) {
        (Some(after), _) => problem.retry_after(after),
        (None, true) => problem.retry_after(LATER),
        (None, false) => problem,
    }
}

fn busy() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "llm_unavailable",
        "the model is still being asked; send the same request again to get what it says",
    )
    .with_detail("reason", "in_progress")
    .retry_after(LATER)
}

/// A batch may take a day, so nobody is kept waiting for it.
fn under_way() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "llm_unavailable",
        "a batch asks the same of the same model, and is not paid for twice; ask again when it is done, or send \
         \"force\": true to pay for an answer now",
    )
    .with_detail("reason", "in_batch")
    .retry_after(BATCH)
}
