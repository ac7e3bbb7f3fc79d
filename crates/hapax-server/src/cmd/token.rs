//! `hapax token`: makes, lists and revokes access tokens, beside a running server or without one.

use anyhow::Result;
use hapax_core::Tenant;
use hapax_store::Role;
use serde_json::{Value, json};

use crate::cli::{Plain, Token};
use crate::config::Config;
use crate::exit::hinted;
use crate::out::{self, plain};
use crate::store::Store;
use crate::token;

pub(super) async fn run(args: &Token) -> Result<()> {
    match args {
        Token::Create {
            name,
            tenant,
            role,
            plain,
        } => create(name.as_deref(), *tenant, *role, plain).await,
        Token::List { plain } => list(plain).await,
        Token::Revoke { id, plain } => revoke(*id, plain).await,
    }
}

async fn create(name: Option<&str>, tenant: Tenant, role: Role, args: &Plain) -> Result<()> {
    // The one of these commands that may be the first on a database.
    let store = Store::open(&Config::load(&args.store.flags())?).await?;
    let mut minted = token::mint(tenant, role, store.ledger.now())?;
    minted.token.name = name.map(Into::into);
    let id = minted.token.id.to_string();
    store.tokens.put_token(minted.token).await?;
    store.close().await;
    if args.json {
        let tenant = tenant.to_string();
        let mut made =
            json!({"id": id, "token": minted.text, "tenant": tenant, "role": role.as_str()});
        if let Some(name) = name {
            made["name"] = name.into();
        }
        return out::json(&made);
    }
    out::note(&format!(
        "token {id}{} for tenant {tenant} with the role {role}; it is shown only now:",
        name.map_or(String::new(), |name| format!(" ({name})"))
    ));
    out::line(&minted.text)
}

async fn list(args: &Plain) -> Result<()> {
    let store = open(args).await?;
    let tokens = store.tokens.list_tokens().await?;
    store.close().await;
    if args.json {
        let items: Vec<Value> = tokens.iter().map(item).collect();
        return out::json(&json!({"items": items}));
    }
    let rows: Vec<_> = tokens
        .iter()
        .map(|token| {
            let revoked = token
                .revoked_at
                .map_or(String::from("-"), |at| at.to_string());
            vec![
                plain(&token.id),
                plain(token.name.as_deref().unwrap_or("-")),
                plain(&token.tenant),
                plain(&token.role),
                plain(&token.created_at),
                plain(&revoked),
            ]
        })
        .collect();
    out::table(
        &["id", "name", "tenant", "role", "created", "revoked"],
        &rows,
    )
}

fn item(token: &hapax_store::Token) -> Value {
    json!({
        "id": token.id.to_string(),
        "name": token.name.as_deref(),
        "tenant": token.tenant.to_string(),
        "role": token.role.as_str(),
        "created_at": token.created_at.to_string(),
        "revoked_at": token.revoked_at.map(|at| at.to_string()),
    })
}

async fn revoke(id: hapax_store::TokenId, args: &Plain) -> Result<()> {
    let store = open(args).await?;
    let found = store.tokens.revoke_token(id).await?;
    store.close().await;
    if !found {
        return Err(hinted(
            format!("there is no token {id}"),
            "`hapax token list` shows those there are",
        ));
    }
    if args.json {
        return out::json(&json!({"id": id.to_string(), "revoked": true}));
    }
    out::line(&format!(
        "token {id} is revoked; a running server refuses it within a second"
    ))
}

async fn open(args: &Plain) -> Result<Store> {
    Store::open_made(&Config::load(&args.store.flags())?).await
}
