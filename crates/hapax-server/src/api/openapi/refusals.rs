//! Refusals in the document: which codes an operation can answer, under which status, and the two forms they have.

use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::api::listed::{Access, Keyed};

/// The one envelope of every refusal.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct ErrorEnvelope {
    error: ErrorBody,
    /// Ties the answer to the server's log; the header X-Trace-Id says the same.
    #[schema(example = "4bf92f3577b34da6a3ce929d0e0e4736")]
    trace_id: String,
}

/// What was refused.
#[derive(Serialize, ToSchema)]
struct ErrorBody {
    /// For programs. Each has a page under /docs/errors/.
    code: String,
    /// For people: what to do next.
    message: String,
    /// The facts behind it, by code.
    details: Map<String, Value>,
    /// The page of the code, where there is one that the caller can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        pattern = "^https?://",
        example = "https://hapax.example/docs/errors/not_found"
    )]
    docs_url: Option<String>,
}

/// The same as RFC 9457, to those who accept application/problem+json.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct Problem {
    /// The page of the code, as an absolute URL; `urn:hapax:error:CODE` where there is none that the caller can reach.
    #[serde(rename = "type")]
    #[schema(
        pattern = "^(https?://|urn:)",
        example = "https://hapax.example/docs/errors/not_found"
    )]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    code: String,
    details: Map<String, Value>,
    /// For clients that look for a failure under this name.
    error: ProblemError,
    /// The page of the code, where there is one that the caller can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^https?://")]
    docs_url: Option<String>,
    trace_id: String,
}

/// The failure in short.
#[derive(Serialize, ToSchema)]
struct ProblemError {
    code: String,
    message: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^idempotency_error$")]
    kind: String,
}

/// Every code that an operation of the API can answer, and its status.
pub(super) const CODES: &[(&str, u16)] = &[
    ("bad_json", 400),
    ("body_unreadable", 400),
    ("idempotency_fields_required", 400),
    ("idempotency_key_invalid", 400),
    ("idempotency_key_required", 400),
    ("policy_disabled", 400),
    ("principal_required", 400),
    ("schema_validation_failed", 400),
    ("unknown_policy", 400),
    ("unsupported_schema_version", 400),
    ("unauthorized", 401),
    ("forbidden", 403),
    ("not_found", 404),
    ("request_timeout", 408),
    ("hash_collision", 409),
    ("IDEMPOTENCY_CONFLICT", 409),
    ("IDEMPOTENCY_IN_DOUBT", 409),
    ("IDEMPOTENCY_IN_PROGRESS", 409),
    ("key_conflict", 409),
    ("lease_lost", 409),
    ("state_transition_denied", 409),
    ("erased", 410),
    ("payload_too_large", 413),
    ("unsupported_media_type", 415),
    ("rate_limited", 429),
    ("internal", 500),
    ("not_supported", 501),
    ("downstream_failed", 502),
    ("parse_error", 502),
    ("llm_not_configured", 503),
    ("llm_unavailable", 503),
    ("overloaded", 503),
    ("shutting_down", 503),
    ("store_unavailable", 503),
    ("too_many_streams", 503),
];

/// What decides which codes an operation shares with others.
pub(super) struct Facts {
    pub(super) access: Access,
    pub(super) keyed: Option<Keyed>,
    pub(super) has_body: bool,
    pub(super) has_query: bool,
    pub(super) has_path: bool,
}

/// The codes that follow from what an operation is.
pub(super) fn shared(facts: &Facts) -> Vec<&'static str> {
    let mut codes = Vec::new();
    if facts.has_body {
        codes.extend([
            "bad_json",
            "body_unreadable",
            "schema_validation_failed",
            "payload_too_large",
            "unsupported_media_type",
        ]);
    }
    if facts.has_body || facts.keyed.is_some() {
        codes.push("overloaded");
    }
    if facts.has_query {
        codes.push("schema_validation_failed");
    }
    if facts.has_path {
        codes.push("not_found");
    }
    if facts.access != Access::Open {
        codes.extend(["unauthorized", "rate_limited"]);
    }
    if matches!(facts.access, Access::Role(_)) {
        codes.extend([
            "forbidden",
            "request_timeout",
            "internal",
            "store_unavailable",
        ]);
    }
    if facts.keyed.is_some() {
        codes.extend([
            "idempotency_key_invalid",
            "idempotency_key_required",
            "principal_required",
            "IDEMPOTENCY_CONFLICT",
            "IDEMPOTENCY_IN_DOUBT",
            "IDEMPOTENCY_IN_PROGRESS",
            "erased",
            "payload_too_large",
        ]);
    }
    codes
}

/// The response of these codes, which share a status.
pub(super) fn response(status: u16, codes: &[&str]) -> Value {
    let links: Vec<String> = codes
        .iter()
        .map(|code| format!("[{code}](/docs/errors/{code})"))
        .collect();
    let mut headers = json!({"X-Trace-Id": {"$ref": "#/components/headers/X-Trace-Id"}});
    if matches!(status, 409 | 429 | 503) {
        headers["Retry-After"] = json!({"$ref": "#/components/headers/Retry-After"});
    }
    if status == 401 {
        headers["WWW-Authenticate"] =
            json!({"description": "Bearer", "schema": {"type": "string"}});
    }
    let code = json!({"enum": codes});
    json!({
        "description": links.join(", "),
        "headers": headers,
        "content": {
            "application/json": {
                "schema": {"allOf": [
                    {"$ref": "#/components/schemas/ErrorEnvelope"},
                    {"properties": {"error": {"properties": {"code": code}}}},
                ]},
            },
            "application/problem+json": {
                "schema": {"allOf": [
                    {"$ref": "#/components/schemas/Problem"},
                    {"properties": {"code": code}},
                ]},
            },
        },
        "x-codes": codes,
    })
}
