//! The keys of a tenant: list, show and remove. Claiming is in `claim`.

mod named;

use axum::Extension;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::request::Parts;
use hapax::layer::Route;
use hapax_core::canonical;
use hapax_core::{Key, Record, RecordId, Scan, Space, State as Stored, Tenant, Time};
use hapax_store::Role;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use self::named::{Named, Place};
use super::App;
use super::openapi::words::KeyState;
use super::payload::invalid;
use super::query::Query;
use super::shown::{Shown, ShownBody};
use crate::answer::Answer;
use crate::auth::Caller;
use crate::problem::{self, Refusal};

/// In how many spaces a key is looked for whose space is not said.
const SPACES_MAX: usize = 200;

/// The `{id}` of a path. What is not an id answers like an id that does not exist.
#[derive(Clone, Copy)]
pub(super) struct Id(pub(super) RecordId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| problem::not_found())?;
        let id = params
            .iter()
            .find(|(name, _)| *name == "id")
            .and_then(|(_, text)| text.parse().ok());
        id.map(Self).ok_or_else(|| problem::not_found().into())
    }
}

/// Which keys to list.
#[derive(Deserialize, Default, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only keys that begin like this. The key that is just this comes first, however old it is. Without `route` that holds for
    /// the first 200 routes of the tenant.
    #[param(min_length = 1, max_length = 255)]
    q: Option<String>,
    /// Only keys of this route pattern, such as `POST:bookings-hold`.
    route: Option<String>,
    /// Only keys in this state.
    #[param(value_type = Option<KeyState>)]
    state: Option<String>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

/// A page of keys.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyPage)]
pub(crate) struct Page {
    pub(crate) items: Vec<Item>,
    pub(crate) next_cursor: Option<String>,
}

/// Lists keys, newest first. For one page no more than 20000 keys are looked at, so with a filter
/// a page may have few items or none and still have a next one.
#[utoipa::path(get, path = "/v1/keys", operation_id = "list_keys",
    params(ListQuery), responses((status = 200, description = "A page of keys.", body = Page)),
    extensions(("x-codes" = json!(["not_supported"]))))]
pub(super) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page>, Refusal> {
    let mut scan = Scan::of(tenant);
    if let Some(route) = &query.route {
        scan.space = Some(Space::new(route).map_err(|why| invalid("route", why.to_string()))?);
    }
    if let Some(state) = &query.state {
        let word = state_word(state)
            .ok_or_else(|| invalid("state", "is not held, in_doubt, settled or erased"))?;
        scan.state = Some(word);
    }
    let no_cursor = || invalid("cursor", "is not a next_cursor of this list");
    if let Some(q) = &query.q {
        scan.prefix = Some(Key::new(q).map_err(|why| invalid("q", why.to_string()))?);
    }
    let place = query.cursor.as_deref().map(Place::read);
    let place = place.map(|read| read.ok_or_else(no_cursor)).transpose()?;
    scan.after = place.as_ref().map(|place| place.after);
    if let Some(limit) = query.limit {
        if !(1..=Scan::LIMIT_MAX).contains(&limit) {
            return Err(invalid("limit", format!("must be from 1 to {}", Scan::LIMIT_MAX)).into());
        }
        scan.limit = limit;
    }
    let ledger = &*app.store.ledger;
    let now = ledger.now();
    let mut page = ledger.scan(scan.clone()).await?;
    let Some(key) = &scan.prefix else {
        return Ok(Answer(shown_page(&page, now)));
    };
    let spaces = match &scan.space {
        Some(space) => vec![space.clone()],
        None => ledger.spaces(tenant, SPACES_MAX).await?,
    };
    let named = match place {
        Some(place) => Named::earlier(spaces, place.named_to.as_ref()),
        None => Named::find(ledger, &scan, key, spaces, now).await?,
    };
    page.records
        .retain(|record| record.key != *key || !named.spaces.contains(&record.scope.space));
    Ok(Answer(named.before(page, scan.limit, now)))
}

/// A page as the API and `hapax keys list` show it.
pub(crate) fn shown_page(page: &hapax_core::Page, now: Time) -> Page {
    Page {
        items: page
            .records
            .iter()
            .map(|record| Item::of(record, now))
            .collect(),
        next_cursor: page.next.map(cursor),
    }
}

/// Shows a key, with what was asked and what was answered, secrets masked.
#[utoipa::path(get, path = "/v1/keys/{id}", operation_id = "get_key",
    responses((status = 200, description = "The key.", body = Whole)))]
pub(super) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(role): Extension<Role>,
    id: Id,
) -> Result<Answer<Whole>, Refusal> {
    let found = app.store.ledger.find(tenant, id.0).await?;
    let record = found.filter(exists).ok_or_else(problem::not_found)?;
    let route = app.route(&record.scope.space);
    // What one principal sent and got is not for the tenant's other readers; an owner has to decide on it.
    let may_see = record.principal.is_none() || role.allows(Role::Owner);
    let now = app.store.ledger.now();
    Ok(Answer(whole(&record, route, may_see, now)))
}

/// A record with what was asked and what was answered.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyRecord)]
pub(crate) struct Whole {
    #[serde(flatten)]
    item: Item,
    request: ShownRequest,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    response: Option<Shown>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = KeyRequest)]
struct ShownRequest {
    method: String,
    path: String,
    content_type: String,
    content_hash: String,
    #[serde(flatten)]
    body: ShownBody,
}

/// A record with what was asked and what was answered, masked as is stored with it and as its route says now.
pub(crate) fn whole(record: &Record, route: &Route, may_see: bool, now: Time) -> Whole {
    let request = &record.request;
    let masks = request.masks_with(&route.redact);
    let is_json = ["", "application/json"].contains(&request.content_type.as_str())
        || request.content_type.ends_with("+json");
    let body = match &request.body {
        None => ShownBody::default(),
        Some(_) if !may_see => ShownBody::withheld(),
        Some(bytes) => {
            let is_json = is_json && canonical::check(bytes).is_ok();
            ShownBody::of_request(bytes, is_json, &masks)
        }
    };
    let response = match &record.state {
        Stored::Settled { outcome, .. } if may_see => Some(Shown::masked(outcome, &masks)),
        Stored::Settled { outcome, .. } => Some(Shown::withheld(outcome)),
        Stored::Held(_)
        | Stored::InDoubt { .. }
        | Stored::Free
        | Stored::Expired
        | Stored::Erased => None,
    };
    Whole {
        item: Item::of(record, now),
        request: ShownRequest {
            method: request.method.clone(),
            path: if may_see {
                request.path.as_str()
            } else {
                without_query(&request.path)
            }
            .to_owned(),
            content_type: request.content_type.clone(),
            content_hash: request.content_hash.clone(),
            body,
        },
        response,
    }
}

/// That a key is gone.
#[derive(Serialize, ToSchema)]
#[schema(as = DeletedKey)]
pub(super) struct Deleted {
    id: String,
    deleted: bool,
}

/// Removes a key: its next use runs as new.
#[utoipa::path(delete, path = "/v1/keys/{id}", operation_id = "delete_key",
    responses((status = 200, description = "It is gone.", body = Deleted)))]
pub(super) async fn remove(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    id: Id,
) -> Result<Answer<Deleted>, Refusal> {
    let removed = app
        .engine
        .delete(tenant, id.0, &caller.to_string())
        .await?
        .ok_or_else(problem::not_found)?;
    tracing::info!(id = %removed.id, tenant = %tenant, "a key was deleted");
    Ok(Answer(Deleted {
        id: removed.id.to_string(),
        deleted: true,
    }))
}

/// Whether a record is there for anyone to see; freed and swept ones are not.
pub(crate) fn exists(record: &Record) -> bool {
    match record.state {
        Stored::Held(_) | Stored::InDoubt { .. } | Stored::Settled { .. } | Stored::Erased => true,
        Stored::Free | Stored::Expired => false,
    }
}

/// A record as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = Key)]
pub(crate) struct Item {
    id: String,
    key: String,
    #[schema(example = "POST:bookings-hold")]
    route_pattern: String,
    #[schema(value_type = KeyState)]
    state: &'static str,
    method: String,
    path: String,
    /// The first digits of the fingerprint.
    content_hash: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
    /// While it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    lease_expires_at: Option<String>,
    /// Why it is in doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<&'static str>,
    /// The recorded status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    settled_at: Option<String>,
}

impl Item {
    fn of(record: &Record, now: Time) -> Self {
        let path = record.request.path.as_str();
        let path = if record.principal.is_some() {
            without_query(path)
        } else {
            path
        };
        let mut item = Self {
            id: record.id.to_string(),
            key: record.key.to_string(),
            route_pattern: record.scope.space.to_string(),
            state: record.word(now),
            method: record.request.method.clone(),
            path: path.to_owned(),
            content_hash: record.request.content_hash.clone(),
            created_at: record.created_at.to_string(),
            expires_at: record.expires_at.to_string(),
            lease_expires_at: None,
            reason: None,
            status: None,
            settled_at: None,
        };
        match &record.state {
            Stored::Held(hold) => item.lease_expires_at = Some(hold.until.to_string()),
            Stored::InDoubt { reason, .. } => item.reason = Some(reason.as_str()),
            Stored::Settled { outcome, at } => {
                item.status = Some(outcome.status);
                item.settled_at = Some(at.to_string());
            }
            Stored::Free | Stored::Expired | Stored::Erased => {}
        }
        item
    }
}

/// A query may carry what only its sender should see.
fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

/// The word of a state that can be listed.
pub(crate) fn state_word(text: &str) -> Option<&'static str> {
    ["held", "in_doubt", "settled", "erased"]
        .into_iter()
        .find(|word| *word == text)
}

pub(crate) fn cursor((time, id): (Time, RecordId)) -> String {
    format!("{}_{}", time.as_ms(), id.as_uuid().simple())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{Claim, Fingerprint, Outcome, Owner, Principal, Request, Scope, Version};

    #[test]
    fn what_a_principal_sent_and_got_is_withheld_from_other_readers() {
        let scope = Scope::new(Tenant::DEFAULT, "POST:pay").unwrap();
        let (key, owner) = (Key::new("k").unwrap(), Owner::from_u128(1));
        let mut claim = Claim::new(scope, key, Fingerprint::of(b"1"), owner);
        claim.principal = Some(Principal::of(b"ann"));
        claim.request = std::sync::Arc::new(Request {
            path: "/pay?planted=1".to_owned(),
            body: Some(r#"{"planted":2}"#.into()),
            ..Request::default()
        });
        let now = Time::from_ms(0);
        let record = Record::granted(&claim, Version(1), now);
        let record = record.settled(Outcome::text(200, "planted"), now);
        let shown = |may_see| {
            let whole = whole(&record, &Route::default(), may_see, now);
            serde_json::to_string(&whole).unwrap()
        };
        assert!(!shown(false).contains("planted"), "{}", shown(false));
        assert!(shown(false).contains("body_withheld"));
        assert!(shown(true).contains(r#"{"planted":2}"#));
        let item = serde_json::to_string(&Item::of(&record, now)).unwrap();
        assert!(!item.contains("planted"), "{item}");
    }
}
