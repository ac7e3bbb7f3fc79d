//! The policies of entries' keys: rows that an owner changes without a release.

use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use hapax_core::entry::{Policy, PolicyChange, Refused, Schema, Target};
use hapax_core::{Action, Error, Note, Tenant};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::{shown, target};
use crate::answer::Answer;
use crate::api::App;
use crate::api::jobs::path_parameter;
use crate::api::openapi::words::{ColumnName, ConflictWord, EntrySchema, SecondaryWord};
use crate::api::query::Query;
use crate::auth::Caller;
use crate::body::Json;
use crate::problem::Refusal;
use crate::store::Store;

/// The longest source and content type, in characters.
const WORD_CHARS_MAX: usize = 100;
/// The most columns that a policy names.
const UPDATE_FIELDS_MAX: usize = 100;

/// The `{policy_key}` of a path.
pub(in crate::api) struct Key(String);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        path_parameter(parts, state, "policy_key").await.map(Self)
    }
}

/// In which schema.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct InSchema {
    /// Which schema; the active one, or for a change both, if it is left out.
    #[param(value_type = Option<EntrySchema>)]
    schema: Option<String>,
}

/// The policies.
#[derive(Serialize, ToSchema)]
#[schema(as = PolicyList)]
pub(crate) struct Listed {
    pub(crate) items: Vec<Item>,
}

/// Lists the policies by name.
#[utoipa::path(get, path = "/v1/policies", operation_id = "list_policies",
    params(InSchema), responses((status = 200, description = "The policies.", body = Listed)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<InSchema>,
) -> Result<Answer<Listed>, Refusal> {
    let target = target(query.schema.as_deref())?;
    let policies = app.store.entries.policies(tenant, target).await?;
    Ok(Answer(Listed {
        items: policies.iter().map(Item::of).collect(),
    }))
}

/// What to change of a policy. What is not said stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SetPolicyBody)]
pub(in crate::api) struct SetBody {
    #[schema(min_length = 1, max_length = 100)]
    source: Option<String>,
    #[schema(min_length = 1, max_length = 100)]
    content_type: Option<String>,
    #[schema(value_type = Option<ConflictWord>)]
    conflict_action: Option<String>,
    /// The columns that an update may change; null for all that come in.
    #[serde(default)]
    #[schema(value_type = Option<Vec<ColumnName>>, max_items = 100)]
    update_fields: UpdateFields,
    #[schema(value_type = Option<SecondaryWord>)]
    secondary_match: Option<String>,
    /// false: entries under it are refused.
    enabled: Option<bool>,
}

/// What a change says of the columns that an update may change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum UpdateFields {
    /// Nothing: they stay.
    #[default]
    Unsaid,
    /// All that come in, which is null in JSON.
    All,
    /// These.
    Only(Vec<String>),
}

impl<'de> Deserialize<'de> for UpdateFields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let said = Option::deserialize(from)?;
        Ok(said.map_or(Self::All, Self::Only))
    }
}

/// Changes a policy, or adds it. Both schemas are changed unless one is named, so that they behave alike.
#[utoipa::path(put, path = "/v1/policies/{policy_key}", operation_id = "set_policy",
    params(InSchema),
    request_body(content = SetBody, example = json!({"conflict_action": "update", "update_fields": ["title", "metadata"]})),
    responses((status = 200, description = "The policy as it is now.", body = Changed)))]
pub(in crate::api) async fn set(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Key(key): Key,
    Query(query): Query<InSchema>,
    Json(body): Json<SetBody>,
) -> Result<Answer<Changed>, Refusal> {
    let asked = Asked {
        schema: match target(query.schema.as_deref())? {
            Target::Active => None,
            Target::Pinned(schema) => Some(schema),
        },
        key,
        source: body.source,
        content_type: body.content_type,
        conflict_action: body.conflict_action,
        update_fields: body.update_fields,
        secondary_match: body.secondary_match,
        enabled: body.enabled,
    };
    let change = asked.change().map_err(|why| shown::refused(&why))?;
    let changed = apply(&app.store, tenant, &asked, change, &caller.to_string()).await?;
    Ok(Answer(changed))
}

/// A change of a policy in a person's words, over HTTP or on the command line.
pub(crate) struct Asked {
    pub(crate) key: String,
    /// Where; `None` for both.
    pub(crate) schema: Option<Schema>,
    pub(crate) source: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) conflict_action: Option<String>,
    pub(crate) update_fields: UpdateFields,
    pub(crate) secondary_match: Option<String>,
    pub(crate) enabled: Option<bool>,
}

impl Asked {
    /// The change, with every word of it checked.
    ///
    /// # Errors
    /// The refusal with every fault.
    pub(crate) fn change(&self) -> Result<PolicyChange, Refused> {
        let mut faults = Vec::new();
        let mut fault = |path: &str, why: String| faults.push((path.to_owned(), why));
        for (path, word) in [
            ("/source", &self.source),
            ("/content_type", &self.content_type),
        ] {
            let fits = |word: &String| {
                !word.is_empty()
                    && word.chars().nth(WORD_CHARS_MAX).is_none()
                    && !word.contains(char::is_control)
            };
            if !word.as_ref().is_none_or(fits) {
                let why = format!("is not a word of 1 to {WORD_CHARS_MAX} characters");
                fault(path, why);
            }
        }
        let update_fields = match &self.update_fields {
            UpdateFields::Unsaid => None,
            UpdateFields::All => Some(None),
            UpdateFields::Only(names) => Some(Some(names.clone())),
        };
        if update_fields.iter().flatten().flatten().count() > UPDATE_FIELDS_MAX {
            let why = format!("names more than {UPDATE_FIELDS_MAX} columns");
            fault("/update_fields", why);
        }
        let conflict_action = self.conflict_action.as_deref().map(str::parse).transpose();
        if conflict_action.is_err() {
            fault("/conflict_action", "is neither skip nor update".to_owned());
        }
        let secondary_match = self.secondary_match.as_deref().map(str::parse).transpose();
        if secondary_match.is_err() {
            let why = "is neither always nor only_if_primary_missing";
            fault("/secondary_match", why.to_owned());
        }
        let change = PolicyChange {
            source: self.source.clone(),
            content_type: self.content_type.clone(),
            conflict_action: conflict_action.unwrap_or_default(),
            update_fields,
            secondary_match: secondary_match.unwrap_or_default(),
            enabled: self.enabled,
        };
        if let Err(refused) = change.check(&self.key) {
            faults.extend(refused.faults);
        }
        if faults.is_empty() {
            Ok(change)
        } else {
            Err(Refused::shape(faults))
        }
    }
}

/// Makes a change that was checked, notes it, and answers the policy as it is in the schema that is active, or in the
/// one that was named, with the schemas that were changed.
pub(crate) async fn apply(
    store: &Store,
    tenant: Tenant,
    asked: &Asked,
    change: PolicyChange,
    actor: &str,
) -> Result<Changed, Error> {
    let entries = &store.entries;
    let (schemas, shown) = match asked.schema {
        Some(schema) => (vec![schema], schema),
        None => (
            Schema::ALL.to_vec(),
            Schema::of_test_mode(entries.test_mode(tenant).await?),
        ),
    };
    let mut told = None;
    for schema in &schemas {
        let (target, key) = (Target::Pinned(*schema), asked.key.clone());
        let policy = entries.set_policy(tenant, target, key, change.clone());
        let policy = Item::of(&policy.await?);
        let note = Note::new(tenant, store.ledger.now(), Action::PolicyChanged)
            .by(actor)
            .saying([
                ("schema", schema.as_str().into()),
                ("policy", json!(policy)),
            ]);
        store.note(vec![note]).await;
        if *schema == shown {
            told = Some(policy);
        }
    }
    Ok(Changed {
        policy: told,
        schemas: schemas.iter().map(|schema| schema.as_str()).collect(),
    })
}

/// A policy that was changed, and where.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedPolicy)]
pub(crate) struct Changed {
    /// As it is in the schema that is active, or was named.
    #[serde(flatten)]
    #[schema(value_type = Item)]
    pub(crate) policy: Option<Item>,
    #[schema(value_type = Vec<EntrySchema>)]
    pub(crate) schemas: Vec<&'static str>,
}

/// A policy as the API and `hapax policies` show it.
#[derive(Serialize, ToSchema)]
#[schema(as = Policy)]
pub(crate) struct Item {
    policy_id: i64,
    pub(crate) policy_key: String,
    source: String,
    content_type: String,
    #[schema(value_type = ConflictWord)]
    pub(crate) conflict_action: &'static str,
    /// Null for all columns that come in.
    update_fields: Option<Vec<String>>,
    #[schema(value_type = SecondaryWord)]
    secondary_match: &'static str,
    pub(crate) enabled: bool,
}

impl Item {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self {
            policy_id: policy.id,
            policy_key: policy.key.clone(),
            source: policy.source.clone(),
            content_type: policy.content_type.clone(),
            conflict_action: policy.conflict_action.as_str(),
            update_fields: policy.update_fields.clone(),
            secondary_match: policy.secondary_match.as_str(),
            enabled: policy.enabled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked {
            key: "telegram_link_v1".to_owned(),
            schema: None,
            source: None,
            content_type: None,
            conflict_action: None,
            update_fields: UpdateFields::Unsaid,
            secondary_match: None,
            enabled: None,
        }
    }

    #[test]
    fn every_fault_of_a_change_is_told_at_once() {
        let wrong = Asked {
            key: "a b".to_owned(),
            source: Some("\n".to_owned()),
            conflict_action: Some("replace".to_owned()),
            update_fields: UpdateFields::Only(vec!["title".to_owned(), "entry_id".to_owned()]),
            secondary_match: Some("never".to_owned()),
            ..asked()
        };
        let refused = wrong.change().unwrap_err();
        let paths: Vec<&str> = refused
            .faults
            .iter()
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(
            paths,
            [
                "/source",
                "/conflict_action",
                "/secondary_match",
                "/policy_key",
                "/update_fields/1"
            ]
        );
    }

    #[test]
    fn null_columns_are_all_columns_and_none_said_are_the_old_ones() {
        let said = |text: &str| serde_json::from_str::<SetBody>(text).unwrap().update_fields;
        assert_eq!(said("{}"), UpdateFields::Unsaid);
        assert_eq!(said(r#"{"update_fields":null}"#), UpdateFields::All);
        assert_eq!(
            said(r#"{"update_fields":["title"]}"#),
            UpdateFields::Only(vec!["title".to_owned()])
        );
        let all = Asked {
            update_fields: UpdateFields::All,
            ..asked()
        };
        assert_eq!(all.change().unwrap().update_fields, Some(None));
    }
}
