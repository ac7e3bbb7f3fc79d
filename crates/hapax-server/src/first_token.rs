//! The token of a first start: made once, shown once, kept in DIR/token for the local user.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hapax_core::Tenant;
use hapax_store::{Role, Token};

use crate::keep;
use crate::store::Store;
use crate::token;

/// What a local user can sign in with.
#[derive(Debug)]
pub(crate) enum Credential {
    /// Nothing is needed.
    NotNeeded,
    /// HAPAX_TOKEN.
    Configured,
    /// The token in this file, from an earlier start.
    Kept(PathBuf),
    /// A token made now, and where it is kept.
    Made { text: String, path: PathBuf },
    /// There are tokens, but none that this folder knows.
    Unknown,
}

/// Makes an owner token if this is the first start and none is configured.
///
/// # Errors
/// When the store or the file cannot be written.
pub(crate) async fn ensure(store: &Store, data: &Path, configured: bool) -> Result<Credential> {
    if configured {
        return Ok(Credential::Configured);
    }
    let path = data.join("token");
    if let Some(text) = read(&path)? {
        return kept(store, path, &text).await;
    }
    if !store.tokens.list_tokens().await?.is_empty() {
        return Ok(Credential::Unknown);
    }
    let minted = token::mint(Tenant::DEFAULT, Role::Owner, store.ledger.now())?;
    // The file first: a stored token that nobody was told is of no use.
    if !write(&path, &minted.text)? {
        // Another process made it in this moment.
        return Ok(Credential::Kept(path));
    }
    store.tokens.put_token(minted.token).await?;
    Ok(Credential::Made {
        text: minted.text,
        path,
    })
}

/// The token in the file. A database without any token learns it; one that revoked it keeps it revoked.
async fn kept(store: &Store, path: PathBuf, text: &str) -> Result<Credential> {
    let Some((id, secret_sha256)) = token::read(text.as_bytes()) else {
        tracing::warn!(path = %path.display(), "this file does not hold a token; remove it, or make a token");
        return Ok(Credential::Unknown);
    };
    match store.tokens.find_token(id).await? {
        Some(stored) if stored.revoked_at.is_some() || stored.secret_sha256 != secret_sha256 => {
            Ok(Credential::Unknown)
        }
        Some(_) => Ok(Credential::Kept(path)),
        // A file left over from elsewhere must not become an owner of a database that has owners.
        None if !store.tokens.list_tokens().await?.is_empty() => Ok(Credential::Unknown),
        None => {
            let created_at = store.ledger.now();
            let (tenant, role) = (Tenant::DEFAULT, Role::Owner);
            store
                .tokens
                .put_token(Token {
                    id,
                    tenant,
                    role,
                    secret_sha256,
                    created_at,
                    revoked_at: None,
                    name: None,
                })
                .await?;
            Ok(Credential::Kept(path))
        }
    }
}

fn read(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why).with_context(|| format!("reading the token in {}", path.display())),
    }
}

/// Writes the token for its owner alone. False if the file is there already.
fn write(path: &Path, text: &str) -> Result<bool> {
    keep::write_once(path, &format!("{text}\n"))
        .with_context(|| format!("keeping the token in {}", path.display()))
}
