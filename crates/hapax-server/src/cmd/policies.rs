//! `hapax policies`: lists and changes the policies of entries' keys, beside a running server or without one.

use anyhow::Result;
use hapax_core::entry::{Policy, Schema, Target};
use hapax_core::{Action, Note};
use serde_json::json;

use crate::api::entries::policies::{Asked, Item, Listed, UpdateFields, apply};
use crate::cli::{OfTenant, Policies, PoliciesRm, PoliciesSet};
use crate::config::{Config, nearest};
use crate::exit::{Usage, hinted};
use crate::out::{self, Field, Tone, plain};
use crate::store::Store;

const ACTOR: &str = "hapax policies set";
const REMOVER: &str = "hapax policies rm";
/// What stands for every column that comes in.
const ALL_COLUMNS: &str = "*";

pub(super) async fn run(args: &Policies) -> Result<()> {
    match args {
        Policies::List { schema, of } => {
            let target = schema.map_or(Target::Active, Target::Pinned);
            list(target, of).await
        }
        Policies::Set(args) => set(args).await,
        Policies::Rm(args) => remove(args).await,
    }
}

async fn list(target: Target, of: &OfTenant) -> Result<()> {
    let store = open(of).await?;
    let policies = store.entries.policies(of.tenant, target).await?;
    store.close().await;
    if of.plain.json {
        let items = policies.iter().map(Item::of).collect();
        return out::json(&json!(Listed { items }));
    }
    let rows: Vec<_> = policies.iter().map(row).collect();
    out::table(
        &[
            "policy",
            "source",
            "content type",
            "on conflict",
            "update fields",
            "secondary match",
            "enabled",
        ],
        &rows,
    )
}

fn row(policy: &Policy) -> Vec<Field> {
    let fields = policy.update_fields.as_ref();
    let enabled = if policy.enabled {
        ("yes".to_owned(), Tone::Good)
    } else {
        ("no".to_owned(), Tone::Bad)
    };
    vec![
        plain(&policy.key),
        plain(&policy.source),
        plain(&policy.content_type),
        plain(policy.conflict_action.as_str()),
        plain(&fields.map_or(ALL_COLUMNS.to_owned(), |fields| fields.join(","))),
        plain(policy.secondary_match.as_str()),
        enabled,
    ]
}

async fn set(args: &PoliciesSet) -> Result<()> {
    let asked = asked(args);
    let change = asked
        .change()
        .map_err(|refused| Usage::error(refused.message))?;
    let of = &args.of;
    let store = open(of).await?;
    let there = names(&store, args.schema, of).await?;
    if !args.create && !there.contains(&args.key) {
        store.close().await;
        let near = match nearest(&args.key, there.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}? "),
            None => "`hapax policies list` shows those there are; ".to_owned(),
        };
        return Err(unknown(&args.key, format!("{near}--create adds it")));
    }
    let changed = apply(&store, of.tenant, &asked, change, ACTOR).await;
    store.close().await;
    let changed = changed?;
    if of.plain.json {
        return out::json(&json!(changed));
    }
    let Some(policy) = changed.policy else {
        return Ok(());
    };
    let enabled = if policy.enabled {
        "enabled"
    } else {
        "disabled"
    };
    out::line(&format!(
        "policy {} in {}: {} on conflict, {enabled}",
        policy.policy_key,
        changed.schemas.join(" and "),
        policy.conflict_action,
    ))
}

/// The schemas that a command is about.
fn schemas(schema: Option<Schema>) -> Vec<Schema> {
    schema.map_or(Schema::ALL.to_vec(), |schema| vec![schema])
}

/// The names of the policies there.
async fn names(store: &Store, schema: Option<Schema>, of: &OfTenant) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for schema in schemas(schema) {
        let policies = store.entries.policies(of.tenant, Target::Pinned(schema));
        names.extend(policies.await?.into_iter().map(|policy| policy.key));
    }
    Ok(names)
}

fn unknown(key: &str, hint: impl std::fmt::Display) -> anyhow::Error {
    hinted(format!("there is no policy {key}"), hint)
}

/// Removes a policy that somebody added. Those that the program itself writes under stay.
async fn remove(args: &PoliciesRm) -> Result<()> {
    let (key, of) = (&args.key, &args.of);
    if Policy::seeds().iter().any(|seed| seed.key == *key) {
        return Err(Usage::hinted(
            format!("hapax itself keeps entries by the policy {key}"),
            format!("`hapax policies set {key} --enabled false` has it take nothing in"),
        ));
    }
    let store = open(of).await?;
    let mut removed = Vec::new();
    for schema in schemas(args.schema) {
        let target = Target::Pinned(schema);
        let entries = &store.entries;
        if entries
            .remove_policy(of.tenant, target, key.clone())
            .await?
        {
            let note = Note::new(of.tenant, store.ledger.now(), Action::PolicyChanged)
                .by(REMOVER)
                .saying([
                    ("schema", schema.as_str().into()),
                    ("policy_key", json!(key)),
                    ("removed", true.into()),
                ]);
            store.note(vec![note]).await;
            removed.push(schema.as_str());
        }
    }
    store.close().await;
    if removed.is_empty() {
        let hint = "`hapax policies list` shows those there are";
        return Err(unknown(key, hint));
    }
    if of.plain.json {
        return out::json(&json!({"policy_key": key, "schemas": removed, "removed": true}));
    }
    out::line(&format!(
        "policy {key} is removed from {}; entries under it are refused from now on",
        removed.join(" and ")
    ))
}

fn asked(args: &PoliciesSet) -> Asked {
    let update_fields = match args.update_fields.as_deref() {
        None => UpdateFields::Unsaid,
        Some(ALL_COLUMNS) => UpdateFields::All,
        Some(names) => {
            let names = names.split(',').map(|name| name.trim().to_owned());
            UpdateFields::Only(names.collect())
        }
    };
    Asked {
        key: args.key.clone(),
        schema: args.schema,
        source: args.source.clone(),
        content_type: args.content_type.clone(),
        conflict_action: args.conflict_action.clone(),
        update_fields,
        secondary_match: args.secondary_match.clone(),
        enabled: args.enabled,
    }
}

async fn open(of: &OfTenant) -> Result<Store> {
    Store::open_made(&Config::load(&of.plain.store.flags())?).await
}
