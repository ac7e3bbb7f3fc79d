//! The remote side of a lease's end: complete, renew or release with the token that the claim gave.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use hapax::Settled;
use hapax::layer::Route;
use hapax::problem::Problem;
use hapax_core::{
    Doubt, Epoch, Lease, NotKept, Outcome, Owner, Record, State as Stored, Tenant, Version,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::App;
use super::keys::Id;
use super::openapi::words::CompletedState;
use super::payload::Payload;
use crate::answer::Answer;
use crate::body::{Json, Wrapped};
use crate::problem::{self, Refusal};

/// The end of a claim.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteBody {
    /// The token of the claim.
    token: String,
    /// The status that was answered. One that says "try again" (5xx, 408, 425, 429), or that a credential was refused (401,
    /// 403, 407), gives the key back. One of the route's `on_status_hold` leaves it in doubt.
    #[schema(minimum = 200, maximum = 599)]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The body as text or as JSON; it is replayed in the form it was given.
    #[schema(value_type = Option<Value>)]
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
    /// `false` if there is an answer that cannot be kept, because it is too large or is a stream: that it was given is
    /// recorded, and a replay answers `IDEMPOTENCY_IN_DOUBT` with the reason `response_not_stored`.
    #[serde(default = "yes")]
    stored: bool,
    /// Why it cannot be kept, where `stored` is false.
    why: Option<WhyNot>,
}

/// Why an answer cannot be kept.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhyNot {
    TooLarge,
    Stream,
    Trailers,
}

impl From<WhyNot> for NotKept {
    fn from(why: WhyNot) -> Self {
        match why {
            WhyNot::TooLarge => Self::TooLarge,
            WhyNot::Stream => Self::Stream,
            WhyNot::Trailers => Self::Trailers,
        }
    }
}

const fn yes() -> bool {
    true
}

/// What became of a key.
#[derive(Serialize, ToSchema)]
pub(super) struct Completed {
    pub(super) id: String,
    /// `settled`, or `released`: the next claim runs as new, or `in_doubt`: nobody runs it before a person decides.
    #[schema(value_type = CompletedState)]
    pub(super) state: &'static str,
    /// Whether the same was said before.
    pub(super) replayed: bool,
}

/// Records the outcome, once. Sent again with the same outcome it answers the same.
#[utoipa::path(post, path = "/v1/keys/{id}/complete", operation_id = "complete_key",
    request_body(content = CompleteBody, example = json!({
        "token": "1760000000000000-0123456789abcdef0123456789abcdef", "status": 201, "body": {"hold": 7}
    })),
    responses((status = 200, description = "It is recorded, given back, or in doubt.", body = Completed)),
    extensions(("x-codes" = json!(["lease_lost"]))))]
pub(super) async fn complete(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    id: Id,
    Wrapped(body): Wrapped<CompleteBody>,
) -> Result<Answer<Completed>, Refusal> {
    let payload = Payload::of(body.body.as_deref(), body.body_base64.as_deref())?;
    let record = found(&app, tenant, id).await?;
    let route = app.route(&record.scope.space);
    let given = payload.outcome(body.status, &body.headers, route)?;
    let end = End::of(route, given.status);
    let most = route.max_response_bytes;
    let outcome = if body.stored {
        kept(given, most)
    } else {
        unkept(given, body.why.map(NotKept::from))
    };
    let lease = match held(record, &body.token) {
        Held::Yes(lease) => *lease,
        Held::Settled(recorded) if *recorded == outcome => {
            return Ok(completed(id, "settled", true));
        }
        Held::Settled(_) | Held::No => return Err(lease_lost().into()),
    };
    let (observer, engine) = (&app.observer, &app.engine);
    let is_written = match end {
        End::Settled => matches!(
            observer.settle(engine, lease, outcome).await?,
            Settled::Recorded(_)
        ),
        End::Released => observer.release(engine, lease).await?,
        End::InDoubt => {
            observer
                .hold_in_doubt(engine, lease, Doubt::OutcomeUnknown)
                .await?
        }
    };
    if is_written {
        Ok(completed(id, end.as_str(), false))
    } else {
        Err(lease_lost().into())
    }
}

fn completed(id: Id, state: &'static str, replayed: bool) -> Answer<Completed> {
    let id = id.0.to_string();
    Answer(Completed {
        id,
        state,
        replayed,
    })
}

/// How an answer ends the claim.
#[derive(Clone, Copy)]
enum End {
    Settled,
    /// It says "try again", or refuses a credential.
    Released,
    /// It does not say whether the request was carried out.
    InDoubt,
}

impl End {
    fn of(route: &Route, status: u16) -> Self {
        match StatusCode::from_u16(status) {
            Ok(status) if route.on_status_hold.holds(status) => Self::InDoubt,
            Ok(status) if route.store_statuses.holds(status) => Self::Settled,
            Ok(_) | Err(_) => Self::Released,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Released => "released",
            Self::InDoubt => "in_doubt",
        }
    }
}

/// The outcome with its body, if that is not over `most` bytes.
fn kept(outcome: Outcome, most: usize) -> Outcome {
    let bytes = outcome.whole().map_or(0, bytes::Bytes::len);
    if bytes <= most {
        return outcome;
    }
    unkept(outcome, Some(NotKept::TooLarge))
}

/// The outcome without its body, and why, if that is known.
fn unkept(outcome: Outcome, reason: Option<NotKept>) -> Outcome {
    let unkept = Outcome {
        headers: outcome.headers,
        ..Outcome::not_kept(outcome.status)
    };
    match reason {
        Some(reason) => unkept.because(reason),
        None => unkept,
    }
}

/// The holder's token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenBody {
    token: String,
}

/// A lease that goes on.
#[derive(Serialize, ToSchema)]
pub(super) struct Renewed {
    id: String,
    token: String,
    #[schema(format = DateTime)]
    lease_expires_at: String,
}

/// Extends the lease.
#[utoipa::path(post, path = "/v1/keys/{id}/renew", operation_id = "renew_key",
    request_body(content = TokenBody, example = json!({"token": "1760000000000000-0123456789abcdef0123456789abcdef"})),
    responses((status = 200, description = "The lease with its new end.", body = Renewed)),
    extensions(("x-codes" = json!(["lease_lost"]))))]
pub(super) async fn renew(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    id: Id,
    Json(body): Json<TokenBody>,
) -> Result<Answer<Renewed>, Refusal> {
    let Held::Yes(mut lease) = held(found(&app, tenant, id).await?, &body.token) else {
        return Err(lease_lost().into());
    };
    if !app.engine.renew(&mut lease).await? {
        return Err(lease_lost().into());
    }
    Ok(Answer(Renewed {
        id: id.0.to_string(),
        token: token_of(&lease),
        lease_expires_at: lease.until().to_string(),
    }))
}

/// Gives the key back, so that the next claim runs as new.
#[utoipa::path(post, path = "/v1/keys/{id}/release", operation_id = "release_key",
    request_body(content = TokenBody, example = json!({"token": "1760000000000000-0123456789abcdef0123456789abcdef"})),
    responses((status = 200, description = "It is given back.", body = Completed)),
    extensions(("x-codes" = json!(["lease_lost"]))))]
pub(super) async fn release(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    id: Id,
    Json(body): Json<TokenBody>,
) -> Result<Answer<Completed>, Refusal> {
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
    let Some(token) = Token::read(token) else {
        return Held::No;
    };
    if let Stored::Settled { outcome, .. } = &record.state {
        // Only the grant or renewal of this very token is one write before its own settle. Any other token is stale.
        let is_its_own = record.version == token.seen.next();
        return if is_its_own {
            Held::Settled(outcome.clone())
        } else {
            Held::No
        };
    }
    Lease::of(record, token.epoch, token.owner).map_or(Held::No, |lease| Held::Yes(Box::new(lease)))
}

/// The lease as the caller carries it: the fence, the attempt, and after a renewal the version that it wrote.
struct Token {
    epoch: Epoch,
    owner: Owner,
    seen: Version,
}

/// The lease as the caller carries it.
pub(super) fn token_of(lease: &Lease) -> String {
    let (epoch, owner, seen) = (
        lease.epoch().0,
        lease.owner().as_u128(),
        lease.record().version,
    );
    let granted = format!("{}-{owner:032x}", epoch.0);
    if seen == epoch {
        granted
    } else {
        format!("{granted}-{}", seen.0)
    }
}

impl Token {
    fn read(text: &str) -> Option<Self> {
        let (epoch, rest) = text.split_once('-')?;
        let (owner, seen) = match rest.split_once('-') {
            Some((owner, seen)) => (owner, seen),
            None => (rest, epoch),
        };
        let owner = (owner.len() == 32)
            .then(|| u128::from_str_radix(owner, 16).ok())
            .flatten()?;
        Some(Self {
            epoch: Epoch(Version(epoch.parse().ok()?)),
            owner: Owner::from_u128(owner),
            seen: Version(seen.parse().ok()?),
        })
    }
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
        let read = Token::read(&text).unwrap();
        assert!((read.epoch, read.owner, read.seen) == (epoch, owner, epoch.0));
        let renewed = Token::read(&format!("{text}-1760000000000002")).unwrap();
        assert!((renewed.epoch, renewed.owner) == (epoch, owner));
        assert_eq!(renewed.seen, Version(1_760_000_000_000_002));
        for wrong in [
            "",
            "-",
            "1-",
            "x-00000000000000000000000000000007",
            "1-7",
            &format!("{text}0"),
            &format!("{text}-"),
            &format!("{text}-1-1"),
        ] {
            assert!(Token::read(wrong).is_none(), "{wrong}");
        }
    }
}
