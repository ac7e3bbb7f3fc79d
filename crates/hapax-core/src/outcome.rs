//! What happened under a key, final, and what the caller is given for it.

use std::sync::Arc;

use bytes::Bytes;

use crate::record::RecordId;
use crate::time::Time;

/// The stored header that says why a body is not kept. It is never sent: there is no replay.
pub const NOT_KEPT: &str = "x-hapax-not-kept";

/// Why a body is not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NotKept {
    /// It is larger than what is kept.
    TooLarge,
    /// It is a stream that did not end within what is kept.
    Stream,
    /// Trailers came with it, which a replay could not give.
    Trailers,
}

impl NotKept {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::TooLarge, Self::Stream, Self::Trailers];

    /// The word used in storage and in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Stream => "stream",
            Self::Trailers => "trailers",
        }
    }
}

/// The body of an outcome, or the fact that it could not be kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// The body, byte for byte.
    Whole(Bytes),
    /// The body went to its first caller only; a replay cannot give it and says so.
    Omitted,
}

/// What happened, final. Status, headers and body for HTTP; the other doors use status and body.
///
/// ```
/// use hapax_core::Outcome;
///
/// let outcome = Outcome::text(201, "{\"id\":7}").with_header("content-type", "application/json");
/// assert_eq!(outcome.status, 201);
/// assert_eq!(outcome.whole().map(|body| body.as_ref()), Some(&b"{\"id\":7}"[..]));
/// assert!(Outcome::not_kept(200).whole().is_none(), "an omitted body is never replayed as an empty one");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The status code.
    pub status: u16,
    /// Allow-listed headers: lower-case names, values as received.
    pub headers: Vec<(String, Bytes)>,
    /// The body.
    pub body: Body,
}

impl Outcome {
    /// An outcome with this status and body.
    #[must_use]
    pub fn new(status: u16, body: Bytes) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Whole(body),
        }
    }

    /// An outcome with this status and text.
    #[must_use]
    pub fn text(status: u16, body: &str) -> Self {
        Self::new(status, Bytes::copy_from_slice(body.as_bytes()))
    }

    /// An outcome whose body could not be kept.
    #[must_use]
    pub fn not_kept(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Omitted,
        }
    }

    /// The same outcome with the reason why its body is not kept.
    ///
    /// ```
    /// use hapax_core::{Outcome, outcome::NotKept};
    ///
    /// let outcome = Outcome::not_kept(200).because(NotKept::Trailers);
    /// assert_eq!(outcome.reason(), Some(NotKept::Trailers));
    /// assert_eq!(Outcome::text(200, "kept").reason(), None);
    /// ```
    #[must_use]
    pub fn because(self, reason: NotKept) -> Self {
        self.with_header(NOT_KEPT, reason.as_str())
    }

    /// Why its body is not kept, if that was said.
    #[must_use]
    pub fn reason(&self) -> Option<NotKept> {
        let named = |(name, _): &&(String, Bytes)| name == NOT_KEPT;
        let (_, word) = self.headers.iter().find(named)?;
        let mut all = NotKept::ALL.into_iter();
        all.find(|reason| reason.as_str().as_bytes() == word)
            .filter(|_| self.whole().is_none())
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The body, if it was kept.
    #[must_use]
    pub fn whole(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Whole(bytes) => Some(bytes),
            Body::Omitted => None,
        }
    }
}

/// What a caller gets: the outcome, and whether it was recorded for this call or an earlier one.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The record behind it.
    pub id: RecordId,
    /// What happened.
    pub outcome: Arc<Outcome>,
    /// When it was recorded, on the ledger's clock.
    pub settled_at: Time,
    /// Until when it answers for its key.
    pub expires_at: Time,
    /// Whether an earlier call made it.
    pub replayed: bool,
}
