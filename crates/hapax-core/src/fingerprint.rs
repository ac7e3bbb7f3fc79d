//! What was asked, and by whom, as 256-bit hashes. They are compared whole; only people see them cut short.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::error::Invalid;

/// The sha256 of what was asked. Two claims with the same key and different fingerprints conflict.
///
/// ```
/// use hapax_core::Fingerprint;
///
/// let asked = Fingerprint::of(b"POST /payments\n{\"amount\":10}");
/// assert_eq!(asked, Fingerprint::from_hex(&asked.hex())?);
/// assert_eq!(asked.short().len(), 16);
/// assert!(Fingerprint::from_hex("a1b2").is_err(), "a prefix is shown, never compared");
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The fingerprint of several parts. Each part is length-prefixed, so parts never run into each other.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// Takes 32 bytes as they are.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads 64 lower-case hexadecimal digits.
    ///
    /// # Errors
    /// [`Invalid`] when the text is anything else.
    pub fn from_hex(text: &str) -> Result<Self, Invalid> {
        HEXLOWER
            .decode(text.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| Invalid::new("fingerprint", "is not 64 lower-case hexadecimal digits"))
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// All 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// The first 16 hexadecimal digits, for people. Never compare these.
    #[must_use]
    pub fn short(&self) -> String {
        HEXLOWER.encode(&self.0[..8])
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({})", self.hex())
    }
}

/// The sha256 of who asked, such as of an Authorization header. The secret itself is never kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Principal(Fingerprint);

impl Principal {
    /// The principal behind this secret or name.
    #[must_use]
    pub fn of(secret: &[u8]) -> Self {
        Self(Fingerprint::of_parts(&[b"hapax principal", secret]))
    }

    /// The principal of all who say nothing of themselves. It tells no two callers apart.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::of(b"")
    }

    /// The principal of several parts from one kind of source, such as a cookie: another kind, another order or other
    /// bounds between the parts are another principal.
    ///
    /// ```
    /// use hapax_core::Principal;
    ///
    /// let sid = Principal::of_parts("cookie", &[b"sid", b"a1"]);
    /// assert_eq!(sid, Principal::of_parts("cookie", &[b"sid", b"a1"]));
    /// assert_ne!(sid, Principal::of_parts("cookie", &[b"sida", b"1"]));
    /// assert_ne!(sid, Principal::of_parts("headers", &[b"sid", b"a1"]));
    /// ```
    #[must_use]
    pub fn of_parts(source: &str, parts: &[&[u8]]) -> Self {
        let domain = format!("hapax principal {source}");
        let all: Vec<&[u8]> = [domain.as_bytes()]
            .into_iter()
            .chain(parts.iter().copied())
            .collect();
        Self(Fingerprint::of_parts(&all))
    }

    /// Takes 32 stored bytes as they are.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Fingerprint(bytes))
    }

    /// The 32 bytes to store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

/// The sha256 of whom a request is about, so that everything about them can be erased. The name is never kept.
///
/// ```
/// use hapax_core::{Principal, Subject};
///
/// let alice = Subject::of(b"customer 7");
/// assert_eq!(alice, Subject::from_bytes(*alice.as_bytes()));
/// assert_ne!(alice, Subject::of(b"Customer 7"), "a name is taken as it is");
/// assert_ne!(alice.as_bytes(), Principal::of(b"customer 7").as_bytes());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subject([u8; 32]);

impl Subject {
    /// The subject with this name, such as a customer's number. Other casing or spacing is another subject.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        Self(*Fingerprint::of_parts(&[b"hapax subject", name]).as_bytes())
    }

    /// Takes 32 stored bytes as they are.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes to store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}
