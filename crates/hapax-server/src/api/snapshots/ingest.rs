//! One payload comes in: read, hashed, kept once.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use hapax::problem::Problem;
use hapax_core::canonical::Profile;
use hapax_core::snapshot::{NewSnapshot, Put};
use hapax_core::{Fingerprint, Tenant};
use hapax_intake::snapshot::{self, Collection, Snapshot};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::App;
use super::shelf;
use super::shown::{Id, KeyMatch, key_match, sent_key};
use crate::answer::Answer;
use crate::auth::Caller;
use crate::body::Received;
use crate::problem::{self, Refusal};

/// What came of a payload.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct Ingested {
    ok: bool,
    #[serde(flatten)]
    id: Id,
    snapshot_id: String,
    /// Whether it was there before.
    idempotent: bool,
    /// Whether it is the current snapshot of its entity.
    current: bool,
    latest_snapshot_id: String,
}

/// Keeps a payload, or answers the snapshot that it is. The key that comes with it is looked at and trusted for nothing.
#[utoipa::path(post, path = "/v1/{collection}/ingest", operation_id = "ingest_snapshot",
    params(("Idempotency-Key" = Option<String>, Header,
        description = "A hash of the payload. It is looked at and reported, never trusted.")),
    request_body(content = Object, description = "The payload, with its id where the collection says.",
        example = json!({"course": {"id": "CS101", "name": "Computing"}})),
    responses((status = 200, description = "The snapshot that it is.", body = Ingested, headers(("X-Idempotency-Key-Match" = String, description = "Which profile makes the key that came along; there if one came.")))),
    extensions(("x-codes" = json!(["hash_collision"]))))]
pub(in crate::api) async fn ingest(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Extension(collection): Extension<Arc<Collection>>,
    headers: HeaderMap,
    Received(bytes): Received,
) -> Result<(KeyMatch, Answer<Ingested>), Refusal> {
    let key = sent_key(&headers);
    let of = Arc::clone(&collection);
    let (sent, by) = (key.clone(), caller.to_string());
    // A large payload takes longer than a thread of the runtime should be held up.
    let read = tokio::task::spawn_blocking(move || {
        let read = snapshot::read(&bytes, &of).map_err(|refusal| problem::intake(&refusal))?;
        let matched = sent.and_then(|key| snapshot::key_match(&read, &key));
        let text = std::str::from_utf8(&bytes).map_err(|_| problem::internal())?;
        let matched = matched.map(Profile::name);
        let new = new_snapshot(read, tenant, &of, text, &by, matched)?;
        Ok::<_, Problem>((new, matched))
    });
    let (new, matched) = read.await.map_err(|_| problem::internal())??;
    let (entity_id, hash) = (new.entity_id.clone(), new.hash);
    let shelf = shelf(tenant, &collection);
    let mut put = app.store.snapshots.put_snapshots(shelf, vec![new]).await?;
    match put.pop().ok_or_else(problem::internal)? {
        Put::Kept {
            id,
            was_there,
            current,
        } => {
            let ingested = Ingested {
                ok: true,
                id: Id::of(&collection, &entity_id),
                snapshot_id: id.to_string(),
                idempotent: was_there,
                current: id == current,
                latest_snapshot_id: current.to_string(),
            };
            Ok((key_match(key.as_ref(), matched), Answer(ingested)))
        }
        Put::Collision => Err(collision(&hash).into()),
    }
}

/// A payload that was read, as the store takes it.
pub(super) fn new_snapshot(
    read: Snapshot,
    tenant: Tenant,
    collection: &Collection,
    text: &str,
    by: &str,
    key_match: Option<&'static str>,
) -> Result<NewSnapshot, Problem> {
    let aliases = read.aliases.iter();
    Ok(NewSnapshot {
        id: read.id(tenant, &collection.name).as_uuid(),
        hash: Fingerprint::from_hex(&read.hash).map_err(|_| problem::internal())?,
        payload: Arc::from(text),
        aliases: aliases
            .map(|(profile, hash)| (profile.name().to_owned(), hash.clone()))
            .collect(),
        by: Some(by.to_owned()),
        key_match: key_match.map(str::to_owned),
        entity_id: read.entity_id,
        label: read.label,
    })
}

/// Another payload has this hash.
pub(super) fn collision(hash: &Fingerprint) -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "hash_collision",
        "another payload with the same hash is kept; nothing was written. Keep both and report it",
    )
    .with_detail("hash", hash.hex())
}
