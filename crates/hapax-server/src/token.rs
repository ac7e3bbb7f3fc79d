//! The text of an access token, `hpx_<id>_<secret>`: making, reading and hashing it.
//! Who may do what with it is said in `auth`.

use anyhow::anyhow;
use data_encoding::BASE32_DNSSEC;
use hapax_core::{Tenant, Time};
use hapax_store::{Role, Token, TokenId};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A token that was just made. The text is shown once; only its hash is stored.
pub(crate) struct Minted {
    pub(crate) token: Token,
    pub(crate) text: String,
}

/// The longest name of a token, in characters.
const NAME_CHARS_MAX: usize = 100;

/// A name for a token, if it is one that stands in a line.
///
/// # Errors
/// What a name may be.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    let fits = !text.is_empty()
        && text.chars().nth(NAME_CHARS_MAX).is_none()
        && !text.contains(char::is_control);
    if fits {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "a name has 1 to {NAME_CHARS_MAX} characters and no line breaks"
        ))
    }
}

/// Makes a token with a 256-bit random secret.
///
/// # Errors
/// When the system gives no random bytes.
pub(crate) fn mint(tenant: Tenant, role: Role, now: Time) -> anyhow::Result<Minted> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|why| anyhow!("asking the system for random bytes: {why}"))?;
    let secret = BASE32_DNSSEC.encode(&bytes);
    let id = TokenId(Uuid::new_v4());
    let text = format!("hpx_{id}_{secret}");
    let secret_sha256 = sha256(secret.as_bytes());
    Ok(Minted {
        token: Token {
            id,
            tenant,
            role,
            secret_sha256,
            created_at: now,
            revoked_at: None,
            name: None,
        },
        text,
    })
}

/// The id and the hash of the secret in a token's text, or `None` if it is not of our form.
pub(crate) fn read(text: &[u8]) -> Option<(TokenId, [u8; 32])> {
    let text = std::str::from_utf8(text).ok()?;
    let (id, secret) = text.strip_prefix("hpx_")?.split_once('_')?;
    let is_simple = id.len() == 32
        && id
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_simple || secret.is_empty() {
        return None;
    }
    Some((id.parse().ok()?, sha256(secret.as_bytes())))
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_token_reads_back_as_its_id_and_hash() {
        let minted = mint(Tenant::DEFAULT, Role::Owner, Time::from_ms(0)).unwrap();
        assert_eq!(
            read(minted.text.as_bytes()),
            Some((minted.token.id, minted.token.secret_sha256))
        );
        assert!(
            minted.text.len() >= 4 + 32 + 1 + 52,
            "256 bits take 52 characters"
        );
    }

    #[test]
    fn what_does_not_have_the_form_is_not_a_token() {
        let id = "0123456789abcdef0123456789abcdef";
        for text in [
            "",
            "hpx_",
            "secret123",
            &format!("hpx_{id}"),
            &format!("hpx_{id}_"),
            &format!("hpx_{id}x_s"),
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(
            read(format!("hpx_{}_s", id.to_uppercase()).as_bytes()),
            None,
            "one token has one text"
        );
        assert_eq!(read(b"hpx_\xff"), None);
    }
}
