//! A received packet as the job that is stored before anything else happens, and read back from it.

use hapax_core::job::{Job, JobId, JobKind, NewJob, Place};
use hapax_core::{Invalid, Tenant, Time};
use hapax_intake::intent::{Origin, Packet};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

/// How often a receipt is tried before it is given up. A gateway that does not answer is asked for days: a call that
/// may have happened is no failure.
const ATTEMPTS_MAX: u32 = 10_000;

/// The kind of these jobs.
///
/// # Panics
/// Never: the word has the form of a kind.
pub(crate) fn kind() -> JobKind {
    JobKind::new("intent").expect("it has the form of a kind")
}

/// Where receipts are worked on: by this program, and by no worker that leases over the API.
///
/// # Panics
/// Never: the word has the form of a place.
pub(crate) fn place() -> Place {
    Place::new("hapax:intents").expect("it has the form of a place")
}

/// What stands before the id of a receipt in the URL of its job.
const URL: &str = "intent:";

/// Whether the URL is that of a receipt's job.
pub(crate) fn is_own_url(url: &str) -> bool {
    let id = url.strip_prefix(URL);
    id.is_some_and(|id| Uuid::try_parse(id).is_ok())
}

/// What the door knows of a packet beside its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    pub(crate) at: Time,
    pub(crate) trace_id: String,
    pub(crate) correlation_id: Option<String>,
    pub(crate) actor: Option<String>,
}

/// The job of a packet that was read from `text`. The same packet of the same source and tenant is always the same
/// job.
///
/// # Errors
/// [`Invalid`] when the packet is too large for a job.
pub(crate) fn job(
    tenant: Tenant,
    packet: &Packet,
    text: &str,
    received: &Received,
) -> Result<NewJob, Invalid> {
    let mut beside = json!({ "received_at": received.at.as_ms(), "trace_id": received.trace_id });
    for (name, said) in [
        ("correlation_id", &received.correlation_id),
        ("actor", &received.actor),
    ] {
        if let Some(said) = said {
            beside[name] = said.as_str().into();
        }
    }
    // The text goes in as it came: numbers and spellings stay what they were.
    let payload = format!("{{\"packet\":{text},{}", &beside.to_string()[1..]);
    let receipt = Origin::of(tenant, packet).receipt_id().to_string();
    let url = format!("{URL}{receipt}");
    NewJob::new(kind(), packet.source.as_str(), packet.key(), &url)?
        .with_id(JobId::new(&receipt)?)
        .max_attempts(ATTEMPTS_MAX)
        .in_place(place())
        .with_payload(&payload)
}

#[derive(Deserialize)]
struct Read {
    packet: Box<RawValue>,
    received_at: Option<Value>,
    trace_id: Option<String>,
    correlation_id: Option<String>,
    actor: Option<String>,
}

/// A packet as it came in.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Inbox {
    pub(crate) packet: Packet,
    pub(crate) origin: Origin,
    pub(crate) received: Received,
    pub(crate) request_id: String,
}

impl Inbox {
    /// Reads it back from its job. What the door did not say, the packet may.
    ///
    /// # Errors
    /// Why the job holds no packet: it was not planned by [`job`].
    pub(crate) fn of(job: &Job) -> Result<Self, String> {
        let payload = job.payload.as_deref().unwrap_or("null");
        let read: Read = serde_json::from_str(payload)
            .map_err(|error| format!("the job holds no packet: {error}"))?;
        let packet =
            Packet::read(read.packet.get().as_bytes()).map_err(|refusal| refusal.to_string())?;
        let at = read.received_at.as_ref().and_then(Value::as_i64);
        let trace_id = read.trace_id.or_else(|| packet.trace_id.clone());
        Ok(Self {
            received: Received {
                at: at.map_or(job.created_at, Time::from_ms),
                trace_id: trace_id.unwrap_or_default(),
                correlation_id: read
                    .correlation_id
                    .or_else(|| packet.correlation_id.clone()),
                actor: read.actor.or_else(|| packet.actor.clone()),
            },
            request_id: packet
                .request_id
                .clone()
                .unwrap_or_else(|| job.id.to_string()),
            origin: Origin::of(job.tenant, &packet),
            packet,
        })
    }
}
