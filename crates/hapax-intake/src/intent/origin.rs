//! Where a receipt comes from, and the ids that follow from it. Nothing here is random.

use std::fmt;

use hapax_core::Tenant;
use uuid::Uuid;

use super::packet::{Packet, Source};
use super::plan::Action;
use crate::derive;

/// The id of a receipt. The same packet of the same source and tenant has the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReceiptId(Uuid);

/// The id of an intent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IntentId(Uuid);

impl ReceiptId {
    /// The id as a UUID, of version 8.
    #[must_use]
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl IntentId {
    /// The id as a UUID, of version 8.
    #[must_use]
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for ReceiptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What makes a receipt the only one of its kind: the tenant, the source and the packet's key.
///
/// ```
/// use hapax_core::Tenant;
/// use hapax_intake::intent::{Origin, Packet};
///
/// let phone = Packet::read(br#"{"kind":"intent","source":"phone"}"#)?;
/// let origin = Origin::of(Tenant::DEFAULT, &phone);
/// assert_eq!(origin.receipt_id(), Origin::of(Tenant::DEFAULT, &phone).receipt_id());
/// assert_ne!(origin.receipt_id().as_uuid(), origin.intent_id().as_uuid());
///
/// let elsewhere = Tenant::from_uuid(origin.receipt_id().as_uuid());
/// assert_ne!(origin.receipt_id(), Origin::of(elsewhere, &phone).receipt_id(), "tenants never meet");
/// # Ok::<(), hapax_intake::Refusal>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    tenant: Tenant,
    source: Source,
    key: String,
}

impl Origin {
    /// The origin of a packet that `tenant` received.
    #[must_use]
    pub fn of(tenant: Tenant, packet: &Packet) -> Self {
        Self {
            tenant,
            source: packet.source.clone(),
            key: packet.key().to_owned(),
        }
    }

    /// The id of the receipt.
    #[must_use]
    pub fn receipt_id(&self) -> ReceiptId {
        ReceiptId(self.named("receipt"))
    }

    /// The id of the intent.
    #[must_use]
    pub fn intent_id(&self) -> IntentId {
        IntentId(self.named("intent"))
    }

    /// The key under which the gateway does an action once: `action:` and the SHA-256 of the hcj-1 form of
    /// `{v, tenant, source, receipt_key, step, action, payload}`, with `replay` only when it is over 0.
    ///
    /// It stays the same over retries and restarts, and changes when the receipt is replayed on purpose.
    #[must_use]
    pub fn action_key(&self, action: &Action, replay: u32) -> String {
        let mut preimage = serde_json::json!({
            "v": 1,
            "tenant": self.tenant.to_string(),
            "source": self.source.as_str(),
            "receipt_key": self.key,
            "step": action.step,
            "action": action.name.as_str(),
            "payload": action.payload,
        });
        if replay > 0 {
            preimage["replay"] = replay.into();
        }
        format!("action:{}", derive::hex(&preimage))
    }

    fn named(&self, what: &str) -> Uuid {
        let tenant = self.tenant.to_string();
        derive::id(&[what, &tenant, self.source.as_str(), &self.key])
    }
}
