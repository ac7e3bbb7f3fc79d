//! The secret of the server that sessions are signed with, beside the stored hash of their token. It is in no database, so
//! whoever can only read the database can make no cookie.

use std::path::Path;

use anyhow::{Context, Result, bail};
use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;

use crate::exit::Usage;
use crate::{keep, token};

/// The file in the data folder that keeps it.
const FILE: &str = "session-secret";

/// The secret. It is never shown.
#[derive(Clone)]
pub(crate) struct SessionSecret([u8; 32]);

impl SessionSecret {
    /// HAPAX_SESSION_SECRET; else made of HAPAX_TOKEN, which nodes share; else kept in the data folder.
    ///
    /// # Errors
    /// When the variable is too short, or the file cannot be kept or is not what was written.
    pub(crate) fn of(data: &Path, configured: Option<&str>) -> Result<Self> {
        if let Some(text) = in_variable()? {
            return Ok(Self::made_of("variable", &text));
        }
        if let Some(text) = configured {
            return Ok(Self::made_of("token", text));
        }
        Self::kept_in(data)
    }

    /// A secret that nobody else has: no session from elsewhere is one here.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub(crate) fn of_nobody() -> Result<Self> {
        Ok(Self(random()?))
    }

    fn made_of(what: &str, text: &str) -> Self {
        let labelled = format!("hapax session secret v1\0{what}\0{text}");
        Self(token::sha256(labelled.as_bytes()))
    }

    fn kept_in(data: &Path) -> Result<Self> {
        let path = data.join(FILE);
        let context = || format!("keeping the secret of sessions in {}", path.display());
        let fresh = random()?;
        let text = format!("{}\n", HEXLOWER.encode(&fresh));
        if !path.exists() && keep::write_once(&path, &text).with_context(context)? {
            return Ok(Self(fresh));
        }
        let text = std::fs::read_to_string(&path).with_context(context)?;
        let bytes = HEXLOWER.decode(text.trim().as_bytes()).ok();
        match bytes.and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => Ok(Self(bytes)),
            None => bail!(
                "{} does not hold 64 hexadecimal digits; delete it, and everybody signs in again",
                path.display()
            ),
        }
    }

    /// What the sessions of the token with this stored hash are signed with.
    pub(super) fn key_of(&self, hash: &[u8; 32]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut made = [0; 32];
        made.copy_from_slice(hmac::sign(&key, hash).as_ref());
        made
    }
}

fn random() -> Result<[u8; 32]> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(|why| anyhow::anyhow!("asking for chance: {why}"))?;
    Ok(fresh)
}

/// The variable that holds the secret that nodes sign sessions with.
pub(crate) const VARIABLE: &str = "HAPAX_SESSION_SECRET";
/// A secret that people make up is at least this long.
const CHARS_MIN: usize = 32;

/// The secret that nodes sign sessions with, if it is set.
///
/// # Errors
/// [`Usage`] when it is not text, or too short to be a secret.
fn in_variable() -> Result<Option<String>> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    match value.to_str().map(str::trim) {
        Some(text) if text.chars().count() >= CHARS_MIN => Ok(Some(text.to_owned())),
        Some(_) | None => Err(Usage::error(format!(
            "{VARIABLE} is not text of at least {CHARS_MIN} characters; make one with: openssl rand -hex 32"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_its_owners_alone_and_gives_the_same_secret_again() {
        let folder = tempfile::tempdir().unwrap();
        let first = SessionSecret::kept_in(folder.path()).unwrap();
        let again = SessionSecret::kept_in(folder.path()).unwrap();
        assert_eq!(first.0, again.0);
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(first.0, SessionSecret::kept_in(other.path()).unwrap().0);
    }

    #[test]
    fn a_file_that_holds_something_else_is_refused_with_a_way_out() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "abc", &"0".repeat(63), &"g".repeat(64)] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            let why = SessionSecret::kept_in(folder.path()).err().unwrap();
            assert!(why.to_string().contains("delete it"), "{why}");
        }
    }

    #[test]
    fn a_key_is_of_the_secret_and_of_the_hash() {
        let [one, two] = ["one", "two"].map(|text| SessionSecret::made_of("variable", text));
        assert_ne!(one.key_of(&[7; 32]), two.key_of(&[7; 32]));
        assert_ne!(one.key_of(&[7; 32]), one.key_of(&[8; 32]));
        assert_ne!(one.key_of(&[7; 32]), [7; 32]);
        let token = SessionSecret::made_of("token", "one");
        assert_ne!(one.key_of(&[7; 32]), token.key_of(&[7; 32]));
    }
}
