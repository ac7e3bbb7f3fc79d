//! `hapax keys`: lists, shows, removes and erases the keys of a tenant, beside a running server or without one.

mod settle;

use anyhow::{Context, Result};
use hapax_core::{OnLost, Record, RecordId, Scan, Space, State, Subject, Time};
use serde_json::json;

use crate::api::keys::{exists, shown_page, state_word, whole};
use crate::cli::{Keys, OfTenant};
use crate::config::Config;
use crate::exit::{self, Usage};
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
        Keys::Settle(args) => settle::run(args).await,
        Keys::Erase { id, subject, of } => erase(*id, subject.as_deref(), of).await,
    }
}

async fn list(route: Option<&str>, state: Option<&str>, limit: usize, of: &OfTenant) -> Result<()> {
    let mut scan = Scan {
        limit,
        ..Scan::of(of.tenant)
    };
    scan.space = route
        .map(Space::new)
        .transpose()
        .map_err(|why| Usage::error(why.to_string()))?;
    if let Some(state) = state {
        let word = state_word(state).ok_or_else(|| {
            Usage::hinted(
                format!("--state {state} is no state of a key"),
                "--state takes held, in_doubt, settled or erased",
            )
        })?;
        scan.state = Some(word);
    }
    let store = open(of).await?;
    let page = store.ledger.scan(scan).await?;
    let now = store.ledger.now();
    store.close().await;
    if of.plain.json {
        return out::json(&json!(shown_page(&page, now)));
    }
    let rows: Vec<_> = page.records.iter().map(|record| row(record, now)).collect();
    out::table(
        &[
            "id", "route", "key", "state", "status", "created", "expires",
        ],
        &rows,
    )
}

fn row(record: &Record, now: Time) -> Vec<out::Field> {
    let status = match &record.state {
        State::Settled { outcome, .. } => outcome.status.to_string(),
        State::Held(_) | State::InDoubt { .. } | State::Free | State::Expired | State::Erased => {
            "-".to_owned()
        }
    };
    vec![
        plain(&record.id),
        plain(&record.scope.space),
        plain(&record.key),
        plain(&record.word(now)),
        plain(&status),
        plain(&record.created_at),
        plain(&record.expires_at),
    ]
}

async fn show(id: RecordId, of: &OfTenant) -> Result<()> {
    let config = Config::load(&of.plain.store.flags())?;
    let store = Store::open_made(&config).await?;
    let found = store.ledger.find(of.tenant, id).await?;
    let now = store.ledger.now();
    store.close().await;
    let Some(record) = found.filter(exists) else {
        return Err(unknown(of, id));
    };
    let routes = config.routes(OnLost::Retry)?;
    let usual = config.usual_route(OnLost::Retry);
    let route = routes.find(record.scope.space.as_str()).unwrap_or(&usual);
    let shown = whole(&record, route, true, now);
    let text = if of.plain.json {
        serde_json::to_string(&shown)
    } else {
        serde_json::to_string_pretty(&shown)
    };
    out::line(&text.context("writing the key as JSON")?)
}

async fn remove(id: RecordId, of: &OfTenant) -> Result<()> {
    let store = open(of).await?;
    let removed = store
        .engine()
        .delete(of.tenant, id, "hapax keys rm")
        .await?;
    store.close().await;
    let Some(record) = removed else {
        return Err(unknown(of, id));
    };
    if of.plain.json {
        return out::json(&json!({"id": id.to_string(), "deleted": true}));
    }
    out::line(&format!(
        "key {} of {} is removed; its next use runs as new",
        record.key, record.scope.space
    ))
}

async fn erase(id: Option<RecordId>, subject: Option<&str>, of: &OfTenant) -> Result<()> {
    if id.is_none() && subject.is_none() {
        return Err(Usage::hinted(
            "nothing names what to erase",
            "give the ID of a key (`hapax keys list` shows them), or --subject S (everything about S)",
        ));
    }
    let store = open(of).await?;
    let engine = store.engine();
    let actor = "hapax keys erase";
    let erased = if let Some(id) = id {
        let erased = engine.erase(of.tenant, id, actor).await?;
        erased.map(|_| 1).ok_or_else(|| unknown(of, id))
    } else {
        let subject = Subject::of(subject.unwrap_or_default().as_bytes());
        Ok(engine.erase_subject(of.tenant, subject, actor).await?)
    };
    store.close().await;
    let erased = erased?;
    if of.plain.json {
        return out::json(&json!({"erased": erased}));
    }
    let (keys, them) = if erased == 1 {
        ("key", "it")
    } else {
        ("keys", "them")
    };
    out::line(&format!(
        "erased what was stored under {erased} {keys}; a later use of {them} is told so and does not run"
    ))
}

fn unknown(of: &OfTenant, id: RecordId) -> anyhow::Error {
    exit::hinted(
        format!("tenant {} has no key with the id {id}", of.tenant),
        "`hapax keys list` shows those there are; --tenant ID those of another tenant",
    )
}

async fn open(of: &OfTenant) -> Result<Store> {
    Store::open_made(&Config::load(&of.plain.store.flags())?).await
}
