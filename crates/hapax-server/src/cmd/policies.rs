//! `hapax policies`: lists and changes the policies of entries' keys, beside a running server or without one.

use anyhow::Result;
use hapax_core::entry::{Policy, Target};
use serde_json::json;

use crate::api::entries::policies::{Asked, Item, Listed, UpdateFields, apply};
use crate::cli::{OfTenant, Policies, PoliciesSet};
use crate::config::Config;
use crate::exit::Usage;
use crate::out::{self, Field, Tone, plain};
use crate::store::Store;

const ACTOR: &str = "hapax policies set";
/// What stands for every column that comes in.
const ALL_COLUMNS: &str = "*";

pub(super) async fn run(args: &Policies) -> Result<()> {
    match args {
        Policies::List { schema, of } => {
            let target = schema.map_or(Target::Active, Target::Pinned);
            list(target, of).await
        }
        Policies::Set(args) => set(args).await,
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
    Store::open(&Config::load(&of.plain.store.flags())?).await
}
