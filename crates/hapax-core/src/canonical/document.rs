//! A checked JSON document that writes its hcj-1 form, whole or in part. It borrows the text
//! and never changes it; what it keeps beside the text is an index of offsets.

use std::sync::Arc;

use super::DEPTH_MAX;
use super::index::Index;
use super::path::{InvalidPath, Path};
use super::reject::Reject;
use super::scan;
use super::sink::{Sha256Sink, Sink};
use super::write::Writer;

/// Which parts of a document count, and where array order does not. The default is everything.
///
/// ```
/// use hapax_core::canonical::{Document, Selection};
///
/// let selection = Selection::new(["created_at"], ["tags"])?;
/// let document = Document::parse(br#"{"created_at":1,"tags":["b","a"],"n":1.0}"#)?;
/// assert_eq!(document.to_vec(&selection), br#"{"n":1,"tags":["a","b"]}"#);
/// assert!(Selection::new([""; 0], ["a..b"]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    exclude: Arc<[String]>,
    unordered: Arc<[Path]>,
}

impl Selection {
    /// Leaves out the top-level members named in `exclude`, and writes the elements of the
    /// arrays at the `unordered` paths sorted by their canonical bytes.
    ///
    /// # Errors
    /// If one of the paths is not a [`Path`].
    pub fn new<E, U>(
        exclude: impl IntoIterator<Item = E>,
        unordered: impl IntoIterator<Item = U>,
    ) -> Result<Self, InvalidPath>
    where
        E: Into<String>,
        U: AsRef<str>,
    {
        let unordered: Result<_, _> = unordered
            .into_iter()
            .map(|path| path.as_ref().parse())
            .collect();
        Ok(Self {
            exclude: exclude.into_iter().map(Into::into).collect(),
            unordered: unordered?,
        })
    }

    /// The top-level members that are left out.
    ///
    /// ```
    /// use hapax_core::canonical::Selection;
    /// assert!(Selection::default().exclude().is_empty());
    /// ```
    #[must_use]
    pub fn exclude(&self) -> &[String] {
        &self.exclude
    }

    /// The arrays whose order does not count.
    ///
    /// ```
    /// use hapax_core::canonical::Selection;
    /// assert!(Selection::default().unordered().is_empty());
    /// ```
    #[must_use]
    pub fn unordered(&self) -> &[Path] {
        &self.unordered
    }

    pub(crate) fn excludes(&self, name: &str) -> bool {
        self.exclude.iter().any(|excluded| excluded == name)
    }
}

/// A JSON text that passed the input rules, ready to be written in hcj-1 form.
///
/// Parsing reads the text once. Beside the text it keeps nothing for parts already in
/// canonical form, else at most 16 bytes per container and 24 per member of a shuffled object.
///
/// ```
/// use hapax_core::canonical::{Document, Reason, Selection};
///
/// let document = Document::parse(br#"{ "b": 1.0, "a": "\u0041" }"#)?;
/// assert_eq!(document.to_vec(&Selection::default()), br#"{"a":"A","b":1}"#);
///
/// let refusal = Document::parse(br#"{"a":1e999}"#).unwrap_err();
/// assert_eq!(refusal.reason, Reason::NumberOutOfRange);
/// # Ok::<(), hapax_core::canonical::Reject>(())
/// ```
pub struct Document<'a> {
    pub(crate) text: &'a str,
    pub(super) index: Index,
}

impl<'a> Document<'a> {
    /// Checks the whole text against the input rules.
    ///
    /// # Errors
    /// The first rule broken, and where: encoding, grammar, a key twice in one object, a lone
    /// surrogate, a number beyond a double, or nesting beyond [`DEPTH_MAX`](super::DEPTH_MAX).
    pub fn parse(input: &'a [u8]) -> Result<Self, Reject> {
        Self::parse_to_depth(input, DEPTH_MAX)
    }

    /// Like [`parse`](Self::parse), with another limit to the nesting.
    pub(super) fn parse_to_depth(input: &'a [u8], depth_max: usize) -> Result<Self, Reject> {
        let text = scan::utf8(input)?;
        Ok(Self {
            text,
            index: Index::build(text, false, depth_max)?,
        })
    }

    /// Like [`parse`](Self::parse), with every container in the index.
    pub(crate) fn parse_whole(input: &'a [u8]) -> Result<Self, Reject> {
        let text = scan::utf8(input)?;
        Ok(Self {
            text,
            index: Index::build(text, true, DEPTH_MAX)?,
        })
    }

    /// Streams the hcj-1 bytes of the selected parts into `sink`.
    ///
    /// ```
    /// # use hapax_core::canonical::{Document, Selection};
    /// let mut bytes = Vec::new();
    /// Document::parse(b"[1.50]")?.write(&Selection::default(), &mut bytes);
    /// assert_eq!(bytes, b"[1.5]");
    /// # Ok::<(), hapax_core::canonical::Reject>(())
    /// ```
    pub fn write(&self, selection: &Selection, sink: &mut impl Sink) {
        Writer::new(self.text, &self.index, sink).root(selection);
    }

    /// The SHA-256 of the hcj-1 bytes, without holding those bytes.
    ///
    /// ```
    /// # use hapax_core::canonical::{Document, Selection};
    /// let one = Document::parse(br#"{"a":1,"b":2}"#)?.sha256(&Selection::default());
    /// let two = Document::parse(br#"{"b":2.0,"a":1}"#)?.sha256(&Selection::default());
    /// assert_eq!(one, two);
    /// # Ok::<(), hapax_core::canonical::Reject>(())
    /// ```
    #[must_use]
    pub fn sha256(&self, selection: &Selection) -> [u8; 32] {
        let mut sink = Sha256Sink::default();
        self.write(selection, &mut sink);
        sink.finish()
    }

    /// The hcj-1 bytes of the selected parts.
    ///
    /// ```
    /// # use hapax_core::canonical::{Document, Selection};
    /// assert_eq!(Document::parse(b" -0 ")?.to_vec(&Selection::default()), b"0");
    /// # Ok::<(), hapax_core::canonical::Reject>(())
    /// ```
    #[must_use]
    pub fn to_vec(&self, selection: &Selection) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.text.len());
        self.write(selection, &mut bytes);
        bytes
    }
}

impl std::fmt::Debug for Document<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The text is the caller's data and stays out of logs.
        f.debug_struct("Document")
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
}
