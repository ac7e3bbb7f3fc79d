//! /v1/settings and /v1/collections: how this server is set up, without any secret.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use hapax_intake::snapshot::Collection;
use hapax_store::Role;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::App;
use super::openapi::words::DurabilityWord;
use crate::answer::Answer;
use crate::problem::{self, Refusal};
use crate::store::Database;

/// The collections of a server.
pub(crate) type Collections = Arc<[Arc<Collection>]>;

/// How a server is set up.
#[derive(Serialize, ToSchema)]
#[schema(as = ServerSettings)]
pub(super) struct Settings {
    version: &'static str,
    /// What keeps the data.
    store: &'static str,
    /// Where, without a password. A viewer is not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    database: Option<String>,
    #[schema(value_type = DurabilityWord)]
    durability: &'static str,
    /// Which process answered.
    node: String,
    #[schema(format = DateTime)]
    started_at: String,
    /// The address that was bound.
    listen: String,
    /// What a request may be, and how long it may take.
    limits: Map<String, Value>,
    /// Every key of the config file with its value now. Addresses are shown without user, password and query. A viewer
    /// is not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    config: Option<Map<String, Value>>,
}

/// Tells how this server is set up, without secrets. Where its data is and how it is configured is for writers and owners.
#[utoipa::path(get, path = "/v1/settings", operation_id = "get_settings",
    responses((status = 200, description = "The settings.", body = Settings)))]
pub(super) async fn show(
    State(app): State<App>,
    Extension(role): Extension<Role>,
) -> Result<Answer<Settings>, Refusal> {
    let is_told = role.allows(Role::Writer);
    let unshown = |why: anyhow::Error| {
        tracing::error!(error = %format!("{why:#}"), "the settings cannot be shown");
        Refusal::from(problem::internal())
    };
    let table = app.config.table().map_err(unshown)?;
    let database = Database::of(&app.config).map_err(unshown)?.to_string();
    let mut config: Map<String, Value> = table
        .into_iter()
        .map(|(key, value)| (key, json!(value)))
        .collect();
    config.insert("database".to_owned(), json!(database));
    config.values_mut().for_each(mask);
    let is_limit = |key: &str| key.ends_with("_max") || key.ends_with("_timeout_ms");
    let limits = config.iter().filter(|(key, _)| is_limit(key));
    let ledger = &app.store.ledger;
    Ok(Answer(Settings {
        version: env!("CARGO_PKG_VERSION"),
        store: ledger.name(),
        durability: ledger.durability().as_str(),
        node: app.node.clone(),
        started_at: app.started_at.to_string(),
        listen: app.listen.clone(),
        limits: limits
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        database: is_told.then_some(database),
        config: is_told.then_some(config),
    }))
}

/// Takes user, password and query out of addresses, wherever they stand.
fn mask(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((scheme, rest)) = text.split_once("://") {
                let rest = rest.split(['?', '#']).next().unwrap_or_default();
                let (place, path) = rest.split_once('/').map_or((rest, ""), |parts| parts);
                let place = place.rsplit('@').next().unwrap_or_default();
                let slash = if rest.contains('/') { "/" } else { "" };
                *text = format!("{scheme}://{place}{slash}{path}");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(members) => members.values_mut().for_each(mask),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The collections of this server.
#[derive(Serialize, ToSchema)]
pub(super) struct CollectionList {
    items: Vec<CollectionItem>,
}

#[derive(Serialize, ToSchema)]
struct CollectionItem {
    name: String,
    /// Where the id stands in a payload, as a JSON pointer.
    #[schema(example = "/course/id")]
    id_path: String,
}

/// Lists the collections of snapshots that are set up.
#[utoipa::path(get, path = "/v1/collections", operation_id = "list_collections",
    responses((status = 200, description = "The collections by name.", body = CollectionList)))]
pub(super) async fn collections(
    Extension(collections): Extension<Collections>,
) -> Answer<CollectionList> {
    let mut items: Vec<CollectionItem> = collections
        .iter()
        .map(|collection| CollectionItem {
            name: collection.name.to_string(),
            id_path: collection.id.to_string(),
        })
        .collect();
    items.sort_by(|one, other| one.name.cmp(&other.name));
    Answer(CollectionList { items })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_address_carries_beside_its_place_is_not_shown() {
        let mut value = json!({
            "a": "https://me:planted@h.example:1/x/y?key=planted#planted",
            "b": ["postgres://me:pl@nted@h/db", "plain/planted?", 7],
            "c": {"d": "http://h.example"},
        });
        mask(&mut value);
        let shown = json!({
            "a": "https://h.example:1/x/y",
            "b": ["postgres://h/db", "plain/planted?", 7],
            "c": {"d": "http://h.example"},
        });
        assert_eq!(value, shown);
    }
}
