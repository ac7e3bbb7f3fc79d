//! Names that follow from what they name: hashes and ids over the canonical form of a small document.

use hapax_core::canonical::{Document, Selection};
use serde_json::Value;
use uuid::Uuid;

/// The lower-case hex SHA-256 of the hcj-1 form of a document that this crate made itself.
pub(crate) fn hex(document: &Value) -> String {
    data_encoding::HEXLOWER.encode(&digest(document))
}

/// A UUID of version 8 from the first bytes of the hash: the same parts give the same id everywhere.
pub(crate) fn id(parts: &[&str]) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest(&parts.into())[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

fn digest(document: &Value) -> [u8; 32] {
    Document::parse(document.to_string().as_bytes())
        .expect("a document of strings and small numbers has a canonical form")
        .sha256(&Selection::default())
}
