//! Many payloads come in. Each is taken or refused by itself.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use hapax::problem::Problem;
use hapax_core::canonical::{Profile, hash};
use hapax_core::snapshot::{NewSnapshot, Put};
use hapax_core::{Fingerprint, Tenant};
use hapax_intake::snapshot::{BatchRefusal, Collection, ITEMS_MAX, Item, read_batch, split};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::super::App;
use super::ingest::{collision, new_snapshot};
use super::shelf;
use super::shown::{Id, KeyMatch, key_match, sent_key};
use crate::answer::Answer;
use crate::auth::Caller;
use crate::body::ReceivedBatch;
use crate::problem::{self, Refusal};

/// The profiles that a client may have made the key of a batch with.
const PROFILES: [Profile; 4] = [
    Profile::Hcj1,
    Profile::PyJson,
    Profile::PyJsonUtf8,
    Profile::JsSorted,
];

/// What came of a batch.
#[derive(Serialize, ToSchema)]
#[schema(as = IngestedBatch)]
pub(in crate::api) struct Batched {
    ok: bool,
    processed: usize,
    succeeded: usize,
    failed: usize,
    results: Vec<Taken>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<Failed>,
}

/// An item that is kept.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = IngestedItem)]
struct Taken {
    index: usize,
    #[serde(flatten)]
    id: Id,
    snapshot_id: String,
    ok: bool,
    idempotent: bool,
}

/// An item that is not.
#[derive(Serialize, ToSchema)]
#[schema(as = RefusedItem)]
struct Failed {
    index: usize,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    id: Option<Id>,
    /// The code.
    error: &'static str,
    #[schema(value_type = Object)]
    details: Value,
}

impl Failed {
    fn new(index: usize, id: Option<Id>, problem: &Problem) -> Self {
        Self {
            index,
            id,
            error: problem.code(),
            details: problem.error()["details"].take(),
        }
    }
}

/// An item on its way to the store.
struct Ready {
    index: usize,
    id: Id,
    hash: Fingerprint,
}

/// What reading a batch came to.
struct Read {
    ready: Vec<Ready>,
    new: Vec<NewSnapshot>,
    failed: Vec<Failed>,
    key_match: Option<&'static str>,
}

/// Keeps many payloads. What can be kept is kept, and the answer says by its place what cannot.
#[utoipa::path(post, path = "/v1/{collection}/ingest/batch", operation_id = "ingest_snapshots",
    params(("Idempotency-Key" = Option<String>, Header,
        description = "A hash of the payload. It is looked at and reported, never trusted.")),
    request_body(content = Vec<Value>, description = "At most 1000 payloads.", example = json!([
        {"course": {"id": "CS101", "name": "Computing"}}, {"course": {"id": "CS102", "name": "Data"}}
    ])),
    responses((status = 200, description = "What came of each.", body = Batched, headers(("X-Idempotency-Key-Match" = String, description = "Which profile makes the key that came along; there if one came.")))))]
pub(in crate::api) async fn batch(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Extension(collection): Extension<Arc<Collection>>,
    headers: HeaderMap,
    ReceivedBatch(bytes): ReceivedBatch,
) -> Result<(KeyMatch, Answer<Batched>), Refusal> {
    let key = sent_key(&headers);
    let reader = Reader {
        tenant,
        by: caller.to_string(),
        collection: Arc::clone(&collection),
        item_bytes_max: app.config.body_bytes_max,
    };
    let sent = key.clone();
    let read = tokio::task::spawn_blocking(move || reader.read(&bytes, sent.as_deref()));
    let mut read = read.await.map_err(|_| problem::internal())??;
    let put = match std::mem::take(&mut read.new) {
        none if none.is_empty() => Vec::new(),
        new => {
            let shelf = shelf(tenant, &collection);
            app.store.snapshots.put_snapshots(shelf, new).await?
        }
    };
    if put.len() != read.ready.len() {
        return Err(problem::internal().into());
    }
    let matched = key_match(key.as_ref(), read.key_match);
    Ok((matched, Answer(settled(read, put))))
}

/// Who sends a batch, and of what.
struct Reader {
    tenant: Tenant,
    by: String,
    collection: Arc<Collection>,
    item_bytes_max: usize,
}

impl Reader {
    fn read(&self, bytes: &[u8], key: Option<&str>) -> Result<Read, Problem> {
        let items = read_batch(bytes, &self.collection).map_err(|refusal| refused(&refusal))?;
        // The items as they stand in the text: what is kept is what was received.
        let texts = split(bytes).map_err(|refusal| refused(&refusal))?;
        let mut read = Read {
            ready: Vec::with_capacity(items.len()),
            new: Vec::with_capacity(items.len()),
            failed: Vec::new(),
            key_match: key.and_then(|key| matching(bytes, key)),
        };
        for (item, text) in items.into_iter().zip(texts) {
            let id = item.entity_id.as_deref();
            let id = id.map(|id| Id::of(&self.collection, id));
            let index = item.index;
            match (self.new_snapshot(item, text), id) {
                (Ok(new), Some(id)) => {
                    let hash = new.hash;
                    read.ready.push(Ready { index, id, hash });
                    read.new.push(new);
                }
                // What was read has an id.
                (Ok(_), None) => return Err(problem::internal()),
                (Err(problem), id) => read.failed.push(Failed::new(index, id, &problem)),
            }
        }
        Ok(read)
    }

    fn new_snapshot(&self, item: Item, text: &str) -> Result<NewSnapshot, Problem> {
        let most = self.item_bytes_max;
        if text.len() > most {
            let message = format!("a payload has at most {most} bytes, in a batch as alone");
            return Err(problem::too_large(message).with_detail("bytes_max", most));
        }
        let read = item.result.map_err(|refusal| problem::intake(&refusal))?;
        new_snapshot(read, self.tenant, &self.collection, text, &self.by, None)
    }
}

/// Which profile makes this key of the whole batch. Only what can be a hash is worth the reading.
fn matching(bytes: &[u8], key: &str) -> Option<&'static str> {
    let key = key.trim().trim_matches('"');
    if key.len() != 64 || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let makes =
        |profile: &Profile| hash(bytes, *profile).is_ok_and(|hash| hash.eq_ignore_ascii_case(key));
    PROFILES.into_iter().find(makes).map(Profile::name)
}

fn refused(refusal: &BatchRefusal) -> Problem {
    match refusal {
        BatchRefusal::Text(refusal) => problem::intake(refusal),
        BatchRefusal::TooMany { items } => {
            let message = format!("a batch has at most {ITEMS_MAX} items; send several");
            problem::too_large(message)
                .with_detail("items_max", ITEMS_MAX)
                .with_detail("items", *items)
        }
    }
}

fn settled(read: Read, put: Vec<Put>) -> Batched {
    let mut results = Vec::with_capacity(put.len());
    let mut errors = read.failed;
    for (Ready { index, id, hash }, put) in read.ready.into_iter().zip(put) {
        match put {
            Put::Kept {
                id: snapshot,
                was_there,
                ..
            } => results.push(Taken {
                index,
                id,
                snapshot_id: snapshot.to_string(),
                ok: true,
                idempotent: was_there,
            }),
            Put::Collision => errors.push(Failed::new(index, Some(id), &collision(&hash))),
        }
    }
    errors.sort_by_key(|failed| failed.index);
    let (succeeded, failed) = (results.len(), errors.len());
    Batched {
        ok: failed == 0,
        processed: succeeded + failed,
        succeeded,
        failed,
        results,
        errors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;

    fn read(text: &str) -> Read {
        let reader = Reader {
            tenant: Tenant::DEFAULT,
            by: "me".to_owned(),
            collection: Arc::new(Collection::courses()),
            item_bytes_max: 60,
        };
        reader.read(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn a_collision_and_a_refusal_are_told_by_their_places() {
        let long = "x".repeat(60);
        let text = format!(
            r#"[{{"course":{{"id":"a","name":"A"}}}}, {{"course":{{"id":"b"}}}}, {{"course":{{"id":"c","name":"C"}}}}, 7,
                {{"course":{{"id":"d","name":"{long}"}}}}]"#
        );
        let read = read(&text);
        assert_eq!(&*read.new[1].payload, r#"{"course":{"id":"c","name":"C"}}"#);
        let kept = Put::Kept {
            id: Uuid::nil(),
            was_there: true,
            current: Uuid::nil(),
        };
        let told = serde_json::to_value(settled(read, vec![Put::Collision, kept])).unwrap();
        assert_eq!(
            (
                &told["ok"],
                &told["processed"],
                &told["succeeded"],
                &told["failed"]
            ),
            (&json!(false), &json!(5), &json!(1), &json!(4))
        );
        assert_eq!(
            told["results"],
            json!([{"index": 2, "courseId": "c", "snapshotId": Uuid::nil(), "ok": true, "idempotent": true}])
        );
        let errors: Vec<_> = told["errors"].as_array().unwrap().iter().collect();
        let codes: Vec<&Value> = errors.iter().map(|error| &error["error"]).collect();
        assert_eq!(
            codes,
            [
                "hash_collision",
                "schema_validation_failed",
                "schema_validation_failed",
                "payload_too_large"
            ]
        );
        let ids: Vec<Option<&Value>> = errors.iter().map(|error| error.get("courseId")).collect();
        let (a, b, d) = (json!("a"), json!("b"), json!("d"));
        assert_eq!(ids, [Some(&a), Some(&b), None, Some(&d)]);
        assert_eq!(errors[1]["details"]["errors"][0]["path"], "/course/name");
    }
}
