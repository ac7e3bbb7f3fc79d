//! A packet comes in: it is stored before anything else happens, and its receipt is answered.

use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hapax::Claimed;
use hapax::layer::{Asked, Route, conflict_details};
use hapax::problem::{Problem, TraceId};
use hapax_core::canonical::Selection;
use hapax_core::{Claim, Fingerprint, Key, Outcome, Policy, Scope, Space, Tenant};
use hapax_intake::intent::Packet;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::super::App;
use super::super::payload::invalid;
use super::{Envelope, settled};
use crate::body::Received;
use crate::intents::inbox;
use crate::intents::receipt::Receipt;
use crate::problem::{self, Refusal};

/// A packet as it is read. Members that are not here are kept and hashed.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; hapax-intake reads packets")]
pub(in crate::api) struct IntentPacket {
    /// `intent`.
    #[schema(pattern = "^intent$")]
    kind: String,
    /// create_task or update_task; without one the target's kind decides, or somebody is asked.
    #[schema(max_length = 128)]
    intent_type: Option<String>,
    /// Who sends it; keys of different sources never meet.
    #[schema(max_length = 128)]
    source: Option<String>,
    #[schema(max_length = 20_000)]
    natural_language: Option<String>,
    /// Below 0.75 it is rejected; left out it is sure.
    #[schema(minimum = 0, maximum = 1)]
    confidence: Option<f64>,
    target: Option<IntentTarget>,
    /// title, due, priority, status, project, task_id, item, content, notes, tags, and what else the sender keeps there.
    fields: Option<Map<String, Value>>,
    /// The sender's own id; with another packet it is refused.
    #[schema(max_length = 255)]
    request_id: Option<String>,
    #[schema(max_length = 255)]
    actor: Option<String>,
    #[schema(max_length = 255)]
    correlation_id: Option<String>,
    #[schema(max_length = 255)]
    trace_id: Option<String>,
    /// A name of the time zone database, for dates without one.
    #[schema(max_length = 128)]
    timezone: Option<String>,
    /// `v1`, if it is there.
    #[schema(pattern = "^v1$")]
    schema_version: Option<String>,
}

/// What a packet is aimed at.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; hapax-intake reads packets")]
struct IntentTarget {
    /// `list` or `notes`.
    #[schema(max_length = 128)]
    kind: Option<String>,
    #[schema(max_length = 255)]
    key: Option<String>,
}

/// Takes a packet. The same one again answers its receipt as it stands, and runs nothing.
#[utoipa::path(post, path = "/v1/intents", operation_id = "send_intent",
    request_body(content = IntentPacket, example = json!({
        "kind": "intent", "intent_type": "create_task", "source": "phone", "natural_language": "buy milk tomorrow",
        "fields": {"title": "Buy milk", "due": "tomorrow"}, "confidence": 0.93, "request_id": "r-1"
    })),
    responses((status = 200, description = "The receipt as it stands.", body = Receipt, headers(("Idempotency-Replayed" = String, description = "true, if the same was sent before and nothing ran."))),
        (status = 502, description = "It failed at the gateway; the receipt says how.", body = Receipt, headers(("Idempotency-Replayed" = String, description = "true, if the same was sent before and nothing ran.")))),
    extensions(("x-codes" = json!(["unsupported_schema_version", "IDEMPOTENCY_CONFLICT"]))))]
pub(in crate::api) async fn send(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(trace): Extension<TraceId>,
    Received(bytes): Received,
) -> Result<Response, Refusal> {
    let packet = Packet::read(&bytes).map_err(|refusal| problem::intake(&refusal))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| problem::internal())?;
    let received = inbox::Received {
        at: app.store.queue.time(),
        trace_id: trace.as_str().to_owned(),
        correlation_id: packet.correlation_id.clone(),
        actor: packet.actor.clone(),
    };
    let job = inbox::job(tenant, &packet, text, &received).map_err(|why| match why.what() {
        "payload" => {
            problem::too_large("the packet is too large to be kept with what is known of it")
        }
        what => invalid(what, why.to_string()),
    })?;
    let named = match &packet.request_id {
        Some(request_id) => {
            let source = packet.source.as_str();
            Named::claim(&app, tenant, (source, request_id), &bytes).await?
        }
        None => None,
    };
    let waiter = app.desk.waiter();
    let planned = app.store.queue.plan(tenant, vec![job]).await?.pop();
    let planned = planned.ok_or_else(problem::internal)?;
    if let Some(named) = named {
        named.settle(&app, planned.job.id.as_str()).await?;
    }
    let id = &planned.job.id;
    let receipt = if planned.planned {
        settled(&app, tenant, id, waiter).await?
    } else {
        super::shown(&super::find(&app, tenant, id).await?)
    };
    Ok(Envelope {
        receipt,
        was_there: !planned.planned,
    }
    .into_response())
}

/// A request id that stands for one packet of a source, from now on.
struct Named(hapax_core::Lease);

impl Named {
    /// Claims the id for these bytes. `None` when it stands for them already.
    async fn claim(
        app: &App,
        tenant: Tenant,
        (source, request_id): (&str, &str),
        bytes: &Bytes,
    ) -> Result<Option<Self>, Refusal> {
        let mut route = Route {
            selection: Selection::default(),
            ..Route::default()
        };
        route.policy.ttl = Policy::TTL_MAX;
        let claim = claim(tenant, (source, request_id), bytes, &route)?;
        match app.engine.claim(claim.clone()).await? {
            Claimed::Granted(lease, _) => Ok(Some(Self(lease))),
            Claimed::Replay(_) | Claimed::Busy(_) | Claimed::Lost(_) | Claimed::Erased => Ok(None),
            Claimed::Conflict(record) => {
                let now = app.engine.ledger().now();
                let details = conflict_details(&record, &claim, &route, now);
                let message = "another intent of this source had the same request_id";
                let mut problem =
                    Problem::new(StatusCode::CONFLICT, "IDEMPOTENCY_CONFLICT", message);
                if let Value::Object(details) = details {
                    for (name, value) in details {
                        problem = problem.with_detail(&name, value);
                    }
                }
                Err(problem.into())
            }
        }
    }

    /// Records what it stands for. If that fails the packet is stored all the same, and a retry finds it.
    async fn settle(self, app: &App, receipt: &str) -> Result<(), Refusal> {
        let outcome = Outcome::text(200, receipt);
        app.engine.settle(self.0, outcome).await?;
        Ok(())
    }
}

fn claim(
    tenant: Tenant,
    (source, request_id): (&str, &str),
    bytes: &Bytes,
    route: &Route,
) -> Result<Claim, Refusal> {
    let internal = || Refusal::from(problem::internal());
    let name = Fingerprint::of_parts(&[b"intent", source.as_bytes(), request_id.as_bytes()]);
    let key = Key::new(&name.hex()).map_err(|_| internal())?;
    let scope = Scope {
        tenant,
        space: Space::new("POST:intents").map_err(|_| internal())?,
    };
    let json = HeaderValue::from_static("application/json");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
    let uri = Uri::from_static("/v1/intents");
    let asked = Asked::new(
        &Method::POST,
        &uri,
        &headers,
        bytes.clone(),
        &route.selection,
    );
    Ok(asked.claim(scope, key, None, route))
}
