//! `hapax keys`: lists, shows and removes the keys of a tenant, beside a running server or without one.

use anyhow::{Result, bail};
use hapax::Engine;
use hapax_core::{Record, RecordId, Scan, Space, State};
use serde_json::json;

use crate::api::keys::{cursor, exists, item, shown_response, state_word};
use crate::cli::{Keys, OfTenant};
use crate::config::Config;
use crate::exit::Usage;
use crate::out::{self, plain};
use crate::store::Store;

pub(super) async fn run(args: &Keys) -> Result<()> {
    match args {
        Keys::List {
            route,
            state,
            limit,
            of,
        } => list(route.as_deref(), state.as_deref(), *limit, of).await,
        Keys::Show { id, of } => show(*id, of).await,
        Keys::Rm { id, of } => remove(*id, of).await,
    }
}

async fn list(route: Option<&str>, state: Option<&str>, limit: usize, of: &OfTenant) -> Result<()> {
    let mut scan = Scan {
        limit: limit.clamp(1, Scan::LIMIT_MAX),
        ..Scan::of(of.tenant)
    };
    scan.space = route
        .map(Space::new)
        .transpose()
        .map_err(|why| Usage::error(why.to_string()))?;
    if let Some(state) = state {
        let word = state_word(state)
            .ok_or_else(|| Usage::error("--state takes held, in_doubt or settled"))?;
        scan.state = Some(word);
    }
    let store = open(of).await?;
    let page = store.ledger.scan(scan).await?;
    store.close().await;
    if of.plain.json {
        let items: Vec<_> = page.records.iter().map(item).collect();
        return out::json(&json!({"items": items, "next_cursor": page.next.map(cursor)}));
    }
    let rows: Vec<_> = page.records.iter().map(row).collect();
    out::table(
        &[
            "id", "route", "key", "state", "status", "created", "expires",
        ],
        &rows,
    )
}

fn row(record: &Record) -> Vec<out::Field> {
    let status = match &record.state {
        State::Settled { outcome, .. } => outcome.status.to_string(),
        State::Held(_) | State::InDoubt { .. } | State::Free | State::Expired => "-".to_owned(),
    };
    vec![
        plain(&record.id),
        plain(&record.scope.space),
        plain(&record.key),
        plain(&record.state.as_str()),
        plain(&status),
        plain(&record.created_at),
        plain(&record.expires_at),
    ]
}

async fn show(id: RecordId, of: &OfTenant) -> Result<()> {
    let store = open(of).await?;
    let found = store.ledger.find(of.tenant, id).await?;
    store.close().await;
    let Some(record) = found.filter(exists) else {
        bail!("tenant {} has no key with the id {id}", of.tenant);
    };
    let shown = shown_response(&record);
    if of.plain.json {
        out::json(&shown)
    } else {
        out::line(&format!("{shown:#}"))
    }
}

async fn remove(id: RecordId, of: &OfTenant) -> Result<()> {
    let store = open(of).await?;
    let removed = Engine::new(store.ledger.clone())
        .delete(of.tenant, id)
        .await?;
    store.close().await;
    let Some(record) = removed else {
        bail!("tenant {} has no key with the id {id}", of.tenant);
    };
    if of.plain.json {
        return out::json(&json!({"id": id.to_string(), "deleted": true}));
    }
    out::line(&format!(
        "key {} of {} is removed; its next use runs as new",
        record.key, record.scope.space
    ))
}

async fn open(of: &OfTenant) -> Result<Store> {
    Store::open(&Config::load(&of.plain.store.flags())?).await
}
