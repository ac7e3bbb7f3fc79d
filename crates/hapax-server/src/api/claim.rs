//! The remote side of the engine, for any language: claim a key, then complete, renew or release it.
//! The rules are the engine's; this only reads and writes JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::{Extension, Json as Answer};
use hapax::layer::{Asked, IDEMPOTENCY_KEY, Route, conflict_details, parse_key, route_pattern};
use hapax::problem::Problem;
use hapax::{Claimed, Settled};
use hapax_core::{
    Cause, Claim, Epoch, Key, Lease, Outcome, Owner, Scope, State as Stored, Tenant, Version,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::App;
use super::keys::Id;
use super::payload::{Payload, invalid, shown};
use crate::body::Json;
use crate::problem::{self, Refusal};

/// A claim on a key, for a request that the caller is about to serve.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimBody {
    key: Option<String>,
    method: String,
    path: String,
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
    content_type: Option<String>,
    ttl_seconds: Option<u64>,
    lease_seconds: Option<u64>,
}

impl ClaimBody {
    fn claim(self, tenant: Tenant) -> Result<Claim, Problem> {
        let method: Method = self
            .method
            .parse()
            .map_err(|_| invalid("method", "is not an HTTP method"))?;
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
        let mut route = Route::default();
        if let Some(seconds) = self.ttl_seconds {
            route.policy.ttl = Duration::from_secs(seconds);
        }
        if let Some(seconds) = self.lease_seconds {
            route.policy.lease = Duration::from_secs(seconds);
        }
        let scope = Scope {
            tenant,
            space: route_pattern(&method, uri.path()),
        };
        let asked = Asked::new(&method, &uri, &headers, payload.bytes, &route.selection);
        let key = match self.key {
            Some(text) => read_key(&text)?,
            None => asked.derived_key(tenant, &scope.space),
        };
        Ok(asked.claim(scope, key, None, &route))
    }
}

/// What the claim gets, as an `action` for the caller.
pub(super) async fn claim(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Json(body): Json<ClaimBody>,
) -> Result<Answer<Value>, Refusal> {
    let claim = body.claim(tenant)?;
    let mut answer = Map::new();
    answer.insert("id".to_owned(), claim.id().to_string().into());
    answer.insert("key".to_owned(), claim.key.as_str().into());
    answer.insert(
        "route_pattern".to_owned(),
        claim.scope.space.as_str().into(),
    );
    answer.insert("expired".to_owned(), false.into());
    answer.insert("lost".to_owned(), false.into());
    let mut put = |name: &str, value: Value| answer.insert(name.to_owned(), value);
    match app.engine.claim(claim.clone()).await? {
        Claimed::Granted(lease, cause) => {
            put("action", "process".into());
            put("token", token_of(&lease).into());
            put("expired", (cause == Cause::Expired).into());
            put("lost", (cause == Cause::Lost).into());
            put("expires_at", lease.record().expires_at.to_string().into());
            put("lease_expires_at", lease.until().to_string().into());
        }
        Claimed::Replay(receipt) => {
            put("action", "replay".into());
            put("response", shown(&receipt.outcome));
            put("settled_at", receipt.settled_at.to_string().into());
            put("expires_at", receipt.expires_at.to_string().into());
        }
        Claimed::Busy(after) => {
            put("action", "in_progress".into());
            // The answer may come any moment; the lease's end is only the latest time.
            put("retry_after", 1.into());
            put("lease_seconds_left", after.as_secs().into());
            put("expires_at", expires_at(&app, &claim).await?);
        }
        Claimed::Conflict(record) => {
            put("action", "conflict".into());
            put("expires_at", record.expires_at.to_string().into());
            put(
                "conflict",
                conflict_details(
                    &record,
                    &claim,
                    &Route::default(),
                    app.engine.ledger().now(),
                ),
            );
        }
        Claimed::Lost(doubt) => {
            put("action", "in_doubt".into());
            put("reason", doubt.as_str().into());
            put("expires_at", expires_at(&app, &claim).await?);
        }
    }
    Ok(Answer(answer.into()))
}

/// Until when the record answers for its key, if it is still there.
async fn expires_at(app: &App, claim: &Claim) -> Result<Value, Refusal> {
    let record = app.engine.find(&claim.scope, &claim.key).await?;
    Ok(record.map(|record| record.expires_at.to_string()).into())
}

/// The end of a claim.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteBody {
    token: String,
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
}

/// Records the outcome, once. Sent again with the same outcome it answers the same.
pub(super) async fn complete(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    id: Id,
    Json(body): Json<CompleteBody>,
) -> Result<Answer<Value>, Refusal> {
    let payload = Payload::of(body.body.as_deref(), body.body_base64.as_deref())?;
    let outcome = payload.outcome(body.status, &body.headers)?;
    let lease = match held(&app, tenant, id, &body.token).await? {
        Held::Yes(lease) => *lease,
        Held::Settled(recorded) if *recorded == outcome => {
            return Ok(completed(id, "settled", true));
        }
        Held::Settled(_) | Held::No => return Err(lease_lost().into()),
    };
    if is_released_by(outcome.status) {
        let released = app.engine.release(lease).await?;
        return if released {
            Ok(completed(id, "released", false))
        } else {
            Err(lease_lost().into())
        };
    }
    match app.engine.settle(lease, outcome).await? {
        Settled::Recorded(_) => Ok(completed(id, "settled", false)),
        Settled::Lost(_) => Err(lease_lost().into()),
    }
}

fn completed(id: Id, state: &str, replayed: bool) -> Answer<Value> {
    Answer(json!({"id": id.0.to_string(), "state": state, "replayed": replayed}))
}

/// Whether an answer with this status gives the key back instead of being recorded: it says "try again".
fn is_released_by(status: u16) -> bool {
    status >= 500 || matches!(status, 408 | 425 | 429)
}

/// The holder's token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenBody {
    token: String,
}

/// Extends the lease.
pub(super) async fn renew(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    id: Id,
    Json(body): Json<TokenBody>,
) -> Result<Answer<Value>, Refusal> {
    let Held::Yes(mut lease) = held(&app, tenant, id, &body.token).await? else {
        return Err(lease_lost().into());
    };
    if !app.engine.renew(&mut lease).await? {
        return Err(lease_lost().into());
    }
    let until = lease.until().to_string();
    Ok(Answer(
        json!({"id": id.0.to_string(), "token": token_of(&lease), "lease_expires_at": until}),
    ))
}

/// Gives the key back, so that the next claim runs as new.
pub(super) async fn release(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    id: Id,
    Json(body): Json<TokenBody>,
) -> Result<Answer<Value>, Refusal> {
    let Held::Yes(lease) = held(&app, tenant, id, &body.token).await? else {
        return Err(lease_lost().into());
    };
    if app.engine.release(*lease).await? {
        Ok(completed(id, "released", false))
    } else {
        Err(lease_lost().into())
    }
}

/// Whether a token still holds its key.
enum Held {
    Yes(Box<Lease>),
    /// No: the outcome is recorded.
    Settled(std::sync::Arc<Outcome>),
    No,
}

async fn held(app: &App, tenant: Tenant, id: Id, token: &str) -> Result<Held, Refusal> {
    let found = app.engine.ledger().find(tenant, id.0).await?;
    let Some(record) = found.filter(super::keys::exists) else {
        return Err(problem::not_found().into());
    };
    let Some((epoch, owner)) = read_token(token) else {
        return Ok(Held::No);
    };
    if let Stored::Settled { outcome, .. } = &record.state {
        return Ok(Held::Settled(outcome.clone()));
    }
    Ok(Lease::of(record, epoch, owner).map_or(Held::No, |lease| Held::Yes(Box::new(lease))))
}

/// The lease as the caller carries it: the fence and the attempt.
fn token_of(lease: &Lease) -> String {
    format!("{}-{:032x}", lease.epoch().0.0, lease.owner().as_u128())
}

fn read_token(text: &str) -> Option<(Epoch, Owner)> {
    let (epoch, owner) = text.split_once('-')?;
    let owner = (owner.len() == 32)
        .then(|| u128::from_str_radix(owner, 16).ok())
        .flatten()?;
    Some((Epoch(Version(epoch.parse().ok()?)), Owner::from_u128(owner)))
}

/// A key as the header may carry it: bare, or a quoted string. Both are the same key.
fn read_key(text: &str) -> Result<Key, Problem> {
    let invalid = |why: &str| Problem::new(StatusCode::BAD_REQUEST, "idempotency_key_invalid", why);
    let value = HeaderValue::from_str(text);
    let value =
        value.map_err(|_| invalid("key is not visible ASCII; send 1 to 255 such characters"))?;
    let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, value)]);
    let key = parse_key(&headers).map_err(|why| invalid(&why.to_string()))?;
    key.ok_or_else(|| invalid("key is empty"))
}

fn lease_lost() -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "lease_lost",
        "this token no longer holds the key; do not act on it, claim the key again to see what became of it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_nothing_else_does() {
        let (epoch, owner) = (Epoch(Version(1_760_000_000_000_000)), Owner::from_u128(7));
        let text = format!("{}-{:032x}", epoch.0.0, owner.as_u128());
        assert!(read_token(&text) == Some((epoch, owner)));
        for wrong in [
            "",
            "-",
            "1-",
            "x-00000000000000000000000000000007",
            "1-7",
            &format!("{text}0"),
        ] {
            assert!(read_token(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_says_try_again_is_not_recorded() {
        assert!(
            [500, 503, 599, 408, 425, 429]
                .into_iter()
                .all(is_released_by)
        );
        assert!(
            ![200, 201, 302, 400, 404, 409, 422]
                .into_iter()
                .any(is_released_by)
        );
    }
}
