//! One text is enriched while the caller waits. The same text again answers what is recorded, and pays nothing.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::entry::ItemText;
use hapax_effects::enrich::{Mode, ParseError, T1};
use hapax_intake::quality::{self, Quality};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::not_configured;
use crate::answer::Answer;
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
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EnrichBody)]
pub(in crate::api) struct AskBody {
    title: Option<String>,
    author: Option<String>,
    content_type: Option<String>,
    #[schema(min_length = 1)]
    clean_text: String,
    /// true: ask the model again, whatever is recorded.
    force: Option<bool>,
}

/// Enriches a text while the caller waits. The same text again answers what is recorded, and pays nothing.
#[utoipa::path(post, path = "/enrich/t1", operation_id = "enrich_text",
    request_body(content = AskBody, example = json!({
        "title": "Tea", "content_type": "note", "clean_text": "Water first, then leaves. Three minutes are enough for green tea."
    })),
    responses((status = 200, description = "What was found out.", body = Enriched, headers(("Idempotency-Replayed" = String, description = "true, if the same was sent before and nothing ran.")))),
    extensions(("x-codes" = json!(["rate_limited", "downstream_failed", "parse_error", "llm_not_configured", "llm_unavailable"]))))]
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
        Told::Written(written, was_there) => answer(*written, quality, was_there),
        Told::Trouble(trouble) => Err(no_answer(&trouble).into()),
        Told::Busy => Err(busy().into()),
        Told::UnderWay => Err(under_way().into()),
    }
}

/// What was found out about a text.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct Enriched {
    topic_primary: String,
    /// The model's own word, where the primary topic is `other` because that word is not on the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    topic_said: Option<String>,
    /// How sure that is, from 0 to 1; 0 where the model did not say.
    topic_primary_confidence: f64,
    topic_secondary: Option<String>,
    topic_secondary_confidence: Option<f64>,
    #[schema(min_items = 5, max_items = 12)]
    keywords: Vec<String>,
    /// What it says, in a sentence.
    gist: String,
    flags: Map<String, Value>,
    clean_word_count: usize,
    clean_char_count: usize,
    extracted_char_count: Option<usize>,
    link_count: usize,
    link_ratio: f64,
    boilerplate_heavy: bool,
    low_signal: bool,
    quality_score: f64,
    retrieval_excerpt: String,
    retrieval_version: &'static str,
    model: String,
    prompt_version: String,
    #[schema(value_type = String)]
    prompt_mode: Mode,
}

impl Enriched {
    fn of(t1: T1, quality: Quality, told: Written) -> Self {
        let T1 {
            topic_primary,
            topic_said,
            topic_primary_confidence,
            topic_secondary,
            topic_secondary_confidence,
            keywords,
            gist,
            flags,
        } = t1;
        let Quality {
            clean_word_count,
            clean_char_count,
            extracted_char_count,
            link_count,
            link_ratio,
            boilerplate_heavy,
            low_signal,
            quality_score,
            excerpt,
        } = quality;
        Self {
            topic_primary,
            topic_said,
            topic_primary_confidence,
            topic_secondary,
            topic_secondary_confidence,
            keywords,
            gist,
            flags,
            clean_word_count,
            clean_char_count,
            extracted_char_count,
            link_count,
            link_ratio,
            boilerplate_heavy,
            low_signal,
            quality_score,
            retrieval_excerpt: excerpt,
            retrieval_version: quality::VERSION,
            model: told.model,
            prompt_version: told.prompt_version,
            prompt_mode: told.prompt_mode,
        }
    }
}

fn answer(written: Written, quality: Quality, was_there: bool) -> Result<Response, Refusal> {
    let t1 = match &written.parsed {
        Parsed::Result(t1) => t1.clone(),
        Parsed::Refused(refused) => return Err(unreadable(refused.clone()).into()),
    };
    let mut response = Answer(Enriched::of(t1, quality, written)).into_response();
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
