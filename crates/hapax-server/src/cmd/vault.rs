//! `hapax vault`: rotates the master key, renews and deletes tenants' keys, beside a running server or without one.

use anyhow::Result;
use hapax_core::Tenant;
use serde_json::json;

use crate::cli::{Plain, Vault};
use crate::config::Config;
use crate::exit::Usage;
use crate::out;
use crate::store::Store;

pub(super) async fn run(args: &Vault) -> Result<()> {
    match args {
        Vault::Rotate { plain } => rotate(plain).await,
        Vault::Renew { of } => renew(of.tenant, &of.plain).await,
        Vault::Shred { tenant, yes, plain } => shred(*tenant, *yes, plain).await,
    }
}

/// Step by step until nothing is left; what was done before an interruption stays done.
async fn rotate(args: &Plain) -> Result<()> {
    let store = open(args).await?;
    let mut rotated = 0;
    loop {
        match store.tenant_keys.rotate().await? {
            0 => break,
            step => rotated += step,
        }
    }
    store.close().await;
    if args.json {
        return out::json(&json!({"rotated": rotated}));
    }
    let keys = if rotated == 1 {
        "tenant key is"
    } else {
        "tenant keys are"
    };
    out::line(&format!(
        "{rotated} {keys} now wrapped by HAPAX_KEK; HAPAX_KEK_PREVIOUS can go once every server has it"
    ))
}

/// Step by step as well: what was sealed before an interruption stays so, and the next call goes on.
async fn renew(tenant: Tenant, args: &Plain) -> Result<()> {
    let store = open(args).await?;
    let key_id = store.tenant_keys.renew_key(tenant).await?;
    let sealed = store.tenant_keys.seal_all(tenant).await?;
    store.close().await;
    if args.json {
        let (tenant, key_id) = (tenant.to_string(), key_id.to_string());
        return out::json(&json!({"tenant": tenant, "key_id": key_id, "sealed": sealed}));
    }
    out::line(&format!(
        "tenant {tenant} has the new key {key_id}, and everything of it is sealed ({sealed} rows were written now); a running \
         server uses the key, and refuses what is not sealed, within half a minute"
    ))
}

async fn shred(tenant: Tenant, yes: bool, args: &Plain) -> Result<()> {
    if !yes {
        return Err(Usage::hinted(
            format!("this makes everything stored for tenant {tenant} unreadable for good"),
            "add --yes to do it",
        ));
    }
    let store = open(args).await?;
    let shredded = store.tenant_keys.shred(tenant).await?;
    store.close().await;
    if args.json {
        return out::json(&json!({"tenant": tenant.to_string(), "shredded": shredded}));
    }
    let (keys, them) = if shredded == 1 {
        ("key", "it")
    } else {
        ("keys", "them")
    };
    out::line(&format!(
        "deleted {shredded} {keys} of tenant {tenant}; a running server forgets {them} within half a minute"
    ))
}

async fn open(args: &Plain) -> Result<Store> {
    Store::open_made(&Config::load(&args.store.flags())?).await
}
