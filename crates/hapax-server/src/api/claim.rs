//! The remote side of a claim, for any language: what a key gets, as an action for the caller.
//! The rules are the engine's; this only reads and writes JSON.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use hapax::Claimed;
use hapax::layer::{
    Asked, IDEMPOTENCY_KEY, KeyError, Route, conflict_details, decoded_bytes_max, is_reserved,
    key_required, overloaded, parse_key, route_pattern,
};
use hapax::problem::Problem;
use hapax_core::{Cause, Claim, Key, NotKept, Policy, Principal, Scope, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::App;
use super::end::token_of;
use super::openapi::words::{ClaimAction, ConflictDetails};
use super::payload::{Payload, invalid};
use super::shown::Shown;
use crate::answer::Answer;
use crate::body::Wrapped;
use crate::problem::{self, Refusal};

/// The longest name of a principal.
const PRINCIPAL_BYTES_MAX: usize = 8192;

/// A claim on a key, for a request that the caller is about to serve.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimBody {
    /// The Idempotency-Key that came with the request, bare or quoted; without one a key is derived.
    key: Option<String>,
    /// Who sends the request: a user's id, or a hash of the credential. Only its hash is stored. It is part of a derived key;
    /// under another key a replay is given to the same principal only.
    #[schema(min_length = 1, max_length = 8192)]
    principal: Option<String>,
    /// POST, PUT, PATCH or DELETE.
    method: String,
    /// The path with its query, beginning with a slash.
    path: String,
    /// The body as text or as JSON.
    #[schema(value_type = Option<Value>)]
    body: Option<Box<RawValue>>,
    /// The body as bytes, in place of `body`.
    body_base64: Option<String>,
    content_type: Option<String>,
    /// The `Content-Encoding` of the body, where it came with one: gzip, deflate, br or zstd. It is compared by what it
    /// decodes to.
    content_encoding: Option<String>,
    /// How long the record answers for its key; the route's own time if it is left out.
    #[schema(maximum = 316_224_000)]
    ttl_seconds: Option<u64>,
    /// How long the caller has before somebody else may take over.
    #[schema(maximum = 86_400)]
    lease_seconds: Option<u64>,
}

impl ClaimBody {
    /// The claim, and the route it is made under.
    fn claim(self, app: &App, tenant: Tenant) -> Result<(Claim, Route), Problem> {
        let method: Method = self
            .method
            .to_ascii_uppercase()
            .parse()
            .map_err(|_| invalid("method", "is not an HTTP method"))?;
        if !hapax::layer::is_keyed(&method) {
            return Err(invalid("method", "must be POST, PUT, PATCH or DELETE"));
        }
        let uri: Uri = self
            .path
            .parse()
            .map_err(|_| invalid("path", "is not a path"))?;
        if uri.authority().is_some() || !uri.path().starts_with('/') {
            return Err(invalid("path", "must begin with / and name no host"));
        }
        let payload = Payload::of(self.body.as_deref(), self.body_base64.as_deref())?;
        let mut headers = HeaderMap::new();
        if let Some(media_type) = self.content_type.as_deref().or(payload.content_type()) {
            let value = HeaderValue::from_str(media_type)
                .map_err(|_| invalid("content_type", "is not a media type"))?;
            headers.insert(CONTENT_TYPE, value);
        }
        if let Some(coding) = &self.content_encoding {
            let value = HeaderValue::from_str(coding)
                .map_err(|_| invalid("content_encoding", "is not a coding"))?;
            headers.insert(CONTENT_ENCODING, value);
        }
        let scope = Scope {
            tenant,
            space: route_pattern(&method, uri.path()),
        };
        let mut route = app.route(&scope.space).clone();
        if payload.bytes.len() > route.max_body_bytes {
            let most = route.max_body_bytes;
            return Err(problem::too_large(format!(
                "{} takes a body of at most {most} bytes under a key",
                scope.space
            )));
        }
        if let Some(seconds) = self.ttl_seconds {
            route.policy.ttl = within("ttl_seconds", seconds, Policy::TTL_MAX)?;
        }
        if let Some(seconds) = self.lease_seconds {
            route.policy.lease = within("lease_seconds", seconds, Policy::LEASE_MAX)?;
        }
        let refused = |problem: Problem| {
            app.observer.key_refused(tenant, &scope.space);
            problem
        };
        let principal = self.principal.as_deref().map(principal).transpose()?;
        // What it decodes to counts until the claim is made.
        let decodes_to = decoded_bytes_max(&headers, payload.bytes.len());
        let room = (decodes_to > 0).then(|| app.budget.hold(tenant, decodes_to));
        if room.as_ref().is_some_and(Option::is_none) {
            return Err(overloaded());
        }
        let asked = Asked::new(&method, &uri, &headers, payload.bytes, &route.selection);
        let key = match self.key {
            Some(text) => {
                let key = read_key(&text).map_err(refused)?;
                if is_reserved(&key, tenant, &scope.space) {
                    return Err(refused(invalid_key(&KeyError::Reserved.to_string())));
                }
                key
            }
            // Who claims without a key asks for a derived one, unless the route forbids it.
            None if route.required && !route.derive => {
                return Err(refused(key_required(scope.space.as_str())));
            }
            None => asked.derived_key(tenant, &scope.space, principal),
        };
        Ok((asked.claim(scope, key, principal, &route), route))
    }
}

/// The principal of this name.
fn principal(name: &str) -> Result<Principal, Problem> {
    // An empty name would be that of everybody who has none.
    if name.is_empty() || name.len() > PRINCIPAL_BYTES_MAX {
        let why = format!("must be of 1 to {PRINCIPAL_BYTES_MAX} bytes");
        return Err(invalid("principal", why));
    }
    Ok(Principal::of(name.as_bytes()))
}

/// A span of whole seconds, at most `longest`. Zero is over at once.
fn within(name: &str, seconds: u64, longest: Duration) -> Result<Duration, Problem> {
    let span = Duration::from_secs(seconds);
    if span > longest {
        let most = longest.as_secs();
        return Err(invalid(name, format!("must be at most {most}")));
    }
    Ok(span)
}

/// What a claim gets.
#[derive(Serialize, ToSchema)]
pub(super) struct Claiming {
    /// What to do: `process` the request, or answer as the rest says.
    #[schema(value_type = ClaimAction)]
    action: &'static str,
    id: String,
    /// The key in its bare form.
    key: String,
    #[schema(example = "POST:bookings-hold")]
    route_pattern: String,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Whether the key was known and its time was over.
    expired: bool,
    /// Whether an earlier runner lost its lease.
    lost: bool,
    #[serde(flatten)]
    more: More,
}

/// What only some of the actions say.
#[derive(Serialize, Default, ToSchema)]
#[schema(as = ClaimingMore)]
struct More {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    lease_expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    response: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    settled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ConflictDetails>, nullable = false)]
    conflict: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lease_seconds_left: Option<u64>,
    /// Why it is in doubt: runner_died, outcome_unknown or response_not_stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<&'static str>,
    /// Why the answer is not stored: too_large, stream or trailers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    why: Option<&'static str>,
}

/// Claims a key for a request. What it gets is an `action` for the caller: run the request, or answer as is said.
#[utoipa::path(post, path = "/v1/keys/claim", operation_id = "claim_key",
    request_body(content = ClaimBody, example = json!({
        "key": "order-4711", "method": "POST", "path": "/v1/bookings/hold", "body": {"seat": "12A"}, "lease_seconds": 60
    })),
    responses((status = 200, description = "What the key gets.", body = Claiming, example = json!({
        "action": "process", "id": "0f8fad5b-d9cb-869f-a165-70867728950e", "key": "order-4711",
        "route_pattern": "POST:bookings-hold", "token": "1760000000000000-0123456789abcdef0123456789abcdef",
        "lease_expires_at": "2026-01-31T12:01:00.000Z", "expires_at": "2026-01-31T12:30:00.000Z",
        "expired": false, "lost": false
    }))),
    extensions(("x-codes" = json!(["idempotency_key_invalid", "idempotency_key_required"]))))]
pub(super) async fn claim(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Wrapped(body): Wrapped<ClaimBody>,
) -> Result<Answer<Claiming>, Refusal> {
    let (claim, route) = body.claim(&app, tenant)?;
    let claimed = app.observer.claim(&app.engine, claim.clone()).await?;
    let mut answer = Claiming {
        action: "process",
        id: claim.id().to_string(),
        key: claim.key.to_string(),
        route_pattern: claim.scope.space.to_string(),
        expires_at: None,
        expired: false,
        lost: false,
        more: More::default(),
    };
    let more = &mut answer.more;
    match claimed {
        Claimed::Granted(lease, cause) => {
            more.token = Some(token_of(&lease));
            more.lease_expires_at = Some(lease.until().to_string());
            answer.expired = cause == Cause::Expired;
            answer.lost = cause == Cause::Lost;
            answer.expires_at = Some(lease.record().expires_at.to_string());
        }
        Claimed::Replay(receipt) => {
            answer.action = "replay";
            more.response = Some(Shown::whole(&receipt.outcome));
            more.settled_at = Some(receipt.settled_at.to_string());
            answer.expires_at = Some(receipt.expires_at.to_string());
        }
        Claimed::Busy(after) => {
            answer.action = "in_progress";
            // The answer may come any moment; the lease's end is only the latest time.
            more.retry_after = Some(1);
            more.lease_seconds_left = Some(after.as_secs());
            answer.expires_at = expires_at(&app, &claim).await?;
        }
        Claimed::Conflict(record) => {
            answer.action = "conflict";
            answer.expires_at = Some(record.expires_at.to_string());
            let now = app.engine.ledger().now();
            more.conflict = Some(conflict_details(&record, &claim, &route, now));
        }
        Claimed::Erased => {
            answer.action = "erased";
            answer.expires_at = expires_at(&app, &claim).await?;
        }
        Claimed::Lost(doubt) => {
            answer.action = "in_doubt";
            more.reason = Some(doubt.as_str());
            more.why = doubt.not_kept().map(NotKept::as_str);
            answer.expires_at = expires_at(&app, &claim).await?;
        }
    }
    Ok(Answer(answer))
}

/// Until when the record answers for its key, if it is still there.
async fn expires_at(app: &App, claim: &Claim) -> Result<Option<String>, Refusal> {
    let record = app.engine.find(&claim.scope, &claim.key).await?;
    Ok(record.map(|record| record.expires_at.to_string()))
}

/// A key as the header may carry it: bare, or a quoted string. Both are the same key.
fn read_key(text: &str) -> Result<Key, Problem> {
    let value = HeaderValue::from_str(text);
    let value = value
        .map_err(|_| invalid_key("key is not visible ASCII; send 1 to 255 such characters"))?;
    let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, value)]);
    let key = parse_key(&headers).map_err(|why| invalid_key(&why.to_string()))?;
    key.ok_or_else(|| invalid_key("key is empty"))
}

fn invalid_key(why: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "idempotency_key_invalid", why)
}
