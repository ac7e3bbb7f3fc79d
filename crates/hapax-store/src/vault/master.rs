//! The master key: read from text, named by an id that tells nothing about it, and used to wrap tenant keys.
//! It never leaves the process and is never shown.

use std::fmt;

use aws_lc_rs::{aead, hmac};
use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};
use hapax_core::{Error, Kind};
use zeroize::Zeroizing;

use super::cipher::Cipher;

const OPERATION: &str = "reading a master key";
/// How many bytes a master key has.
const KEY_BYTES: usize = 32;
/// How many bytes of the id are shown: enough to tell keys apart.
const ID_BYTES: usize = 8;

/// A master key: 32 random bytes that wrap the keys of every tenant.
///
/// ```
/// use hapax_store::vault::MasterKey;
///
/// let key = MasterKey::parse("q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=")?;
/// assert_eq!(format!("{key:?}"), format!("MasterKey({})", key.id()), "the key itself is not shown");
///
/// // The refusal: a password is not a key, and what was given is not repeated.
/// let why = MasterKey::parse("correct horse battery staple").unwrap_err().to_string();
/// assert!(why.contains("32 bytes") && !why.contains("horse"));
/// # Ok::<(), hapax_core::Error>(())
/// ```
pub struct MasterKey {
    id: String,
    cipher: Cipher,
}

impl MasterKey {
    /// The key in `text`: 32 bytes in hex or base64. Spaces around it do not count.
    ///
    /// # Errors
    /// [`Kind::Unsafe`] when it is anything else. The text is not repeated.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim().as_bytes();
        let forms = [
            HEXLOWER_PERMISSIVE,
            BASE64,
            BASE64_NOPAD,
            BASE64URL,
            BASE64URL_NOPAD,
        ];
        let bytes = forms
            .iter()
            .filter_map(|form| form.decode(text).ok())
            .map(Zeroizing::new)
            .find(|bytes| bytes.len() == KEY_BYTES);
        let Some(bytes) = bytes else {
            return Err(refused(
                "it is not 32 bytes in hex or base64; `openssl rand -base64 32` makes one",
            ));
        };
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            return Err(refused(
                "it is one byte over and over; `openssl rand -base64 32` makes a random one",
            ));
        }
        Self::from_bytes(&bytes)
    }

    /// One key for its name, one for its work: neither tells anything about the other.
    fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let root = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let name = hmac::sign(&root, b"hapax master key id 1");
        let wrapping = Zeroizing::new(
            hmac::sign(&root, b"hapax master key wrapping 1")
                .as_ref()
                .to_vec(),
        );
        Ok(Self {
            id: data_encoding::HEXLOWER.encode(&name.as_ref()[..ID_BYTES]),
            cipher: Cipher::new(&wrapping).ok_or_else(|| refused("the cipher refuses it"))?,
        })
    }

    /// Its name: made from the key, and telling nothing about it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `secret` for whoever has this key and names the same `context`.
    pub(super) fn wrap(&self, context: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
        self.cipher.seal(&[], aead::Aad::from(context), secret)
    }

    /// The secret, if it was wrapped by this key for this context.
    pub(super) fn unwrap(&self, context: &[u8], wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut copy = Zeroizing::new(wrapped.to_vec());
        let range = self.cipher.open(0, aead::Aad::from(context), &mut copy)?;
        Some(Zeroizing::new(copy[range].to_vec()))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id)
    }
}

fn refused(why: &str) -> Error {
    Error::new(Kind::Unsafe, OPERATION).because(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vec<u8> {
        (0..32).collect()
    }

    #[test]
    fn hex_and_base64_of_the_same_bytes_are_the_same_key() {
        let id = MasterKey::from_bytes(&bytes()).unwrap().id().to_owned();
        for text in [
            HEXLOWER_PERMISSIVE.encode(&bytes()),
            HEXLOWER_PERMISSIVE.encode(&bytes()).to_uppercase(),
            BASE64.encode(&bytes()),
            BASE64URL_NOPAD.encode(&bytes()),
            format!(" {}\n", BASE64.encode(&bytes())),
        ] {
            assert_eq!(MasterKey::parse(&text).unwrap().id(), id);
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_repeated() {
        let short = BASE64.encode(&bytes()[..31]);
        for text in ["", "hunter2", &short, &"00".repeat(32)] {
            let error = MasterKey::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsafe);
            assert!(text.is_empty() || !error.to_string().contains(text));
        }
    }

    #[test]
    fn a_secret_comes_back_only_to_its_key_and_context() {
        let (one, mut other) = (MasterKey::from_bytes(&bytes()).unwrap(), bytes());
        other[0] = 99;
        let other = MasterKey::from_bytes(&other).unwrap();
        let wrapped = one.wrap(b"here", b"secret").unwrap();
        assert_eq!(&**one.unwrap(b"here", &wrapped).unwrap(), b"secret");
        assert!(one.unwrap(b"there", &wrapped).is_none());
        assert!(other.unwrap(b"here", &wrapped).is_none());
        assert!(one.unwrap(b"here", &wrapped[..9]).is_none());
    }
}
