//! The remote side of a lease's end: complete, renew or release with the token that the claim gave.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json as Answer};
use hapax::Settled;
use hapax::layer::Route;
use hapax::problem::Problem;
use hapax_core::{Epoch, Lease, Outcome, Owner, Record, State as Stored, Tenant, Version};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::App;
use super::keys::Id;
use super::payload::Payload;
use crate::body::{Json, Wrapped};
use crate::problem::{self, Refusal};

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
    Wrapped(body): Wrapped<CompleteBody>,
) -> Result<Answer<Value>, Refusal> {
    let payload = Payload::of(body.body.as_deref(), body.body_base64.as_deref())?;
    let record = found(&app, tenant, id).await?;
    let route = app.route(&record.scope.space);
    let given = payload.outcome(body.status, &body.headers, route)?;
    let (is_final, outcome) = (is_final(route, given.status), kept(route, given));
    let lease = match held(record, &body.token) {
        Held::Yes(lease) => *lease,
        Held::Settled(recorded) if *recorded == outcome => {
            return Ok(completed(id, "settled", true));
        }
        Held::Settled(_) | Held::No => return Err(lease_lost().into()),
    };
    if !is_final {
        return if app.observer.release(&app.engine, lease).await? {
            Ok(completed(id, "released", false))
        } else {
            Err(lease_lost().into())
        };
    }
    match app.observer.settle(&app.engine, lease, outcome).await? {
        Settled::Recorded(_) => Ok(completed(id, "settled", false)),
        Settled::Lost(_) => Err(lease_lost().into()),
    }
}

fn completed(id: Id, state: &str, replayed: bool) -> Answer<Value> {
    Answer(json!({"id": id.0.to_string(), "state": state, "replayed": replayed}))
}

/// Whether an answer with this status is recorded. Any other says "try again" and gives the key back.
fn is_final(route: &Route, status: u16) -> bool {
    StatusCode::from_u16(status).is_ok_and(|status| route.store_statuses.holds(status))
}

/// The outcome as far as the route keeps it.
fn kept(route: &Route, outcome: Outcome) -> Outcome {
    let bytes = outcome.whole().map_or(0, bytes::Bytes::len);
    if bytes <= route.max_response_bytes {
        return outcome;
    }
    Outcome {
        headers: outcome.headers,
        ..Outcome::not_kept(outcome.status)
    }
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
    let Held::Yes(mut lease) = held(found(&app, tenant, id).await?, &body.token) else {
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
    let Held::Yes(lease) = held(found(&app, tenant, id).await?, &body.token) else {
        return Err(lease_lost().into());
    };
    if app.observer.release(&app.engine, *lease).await? {
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

/// The record, if it is this tenant's. A key that was given back or has expired is still one that a token may
/// once have held.
async fn found(app: &App, tenant: Tenant, id: Id) -> Result<Record, Refusal> {
    let found = app.engine.ledger().find(tenant, id.0).await?;
    found.ok_or_else(|| problem::not_found().into())
}

fn held(record: Record, token: &str) -> Held {
    let Some((epoch, owner)) = read_token(token) else {
        return Held::No;
    };
    if let Stored::Settled { outcome, .. } = &record.state {
        // Only the grant of this very epoch is one write before its own settle. Any other token is stale.
        let is_its_own = record.version == epoch.0.next();
        return if is_its_own {
            Held::Settled(outcome.clone())
        } else {
            Held::No
        };
    }
    Lease::of(record, epoch, owner).map_or(Held::No, |lease| Held::Yes(Box::new(lease)))
}

/// The lease as the caller carries it: the fence and the attempt.
pub(super) fn token_of(lease: &Lease) -> String {
    format!("{}-{:032x}", lease.epoch().0.0, lease.owner().as_u128())
}

fn read_token(text: &str) -> Option<(Epoch, Owner)> {
    let (epoch, owner) = text.split_once('-')?;
    let owner = (owner.len() == 32)
        .then(|| u128::from_str_radix(owner, 16).ok())
        .flatten()?;
    Some((Epoch(Version(epoch.parse().ok()?)), Owner::from_u128(owner)))
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
}
