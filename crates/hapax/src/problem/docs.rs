//! Where the pages of errors are. What is on them is not its business.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;

/// A site that has a page for each error: `BASE/docs/errors/CODE`. Every running `hapax serve` is one.
///
/// ```
/// use hapax::problem::DocsBase;
///
/// let base = DocsBase::new("https://hapax.example/")?;
/// assert_eq!(base.page("erased"), "https://hapax.example/docs/errors/erased");
/// // The refusal: a path is none, since whoever reads the answer cannot tell whose path it is.
/// assert!(DocsBase::new("/docs").is_err());
/// # Ok::<(), hapax::problem::InvalidDocsBase>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocsBase(Arc<str>);

/// A text that is no absolute http or https URL without credentials, query and fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidDocsBase(String);

impl fmt::Display for InvalidDocsBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is no base URL; write http:// or https:// and a host, as in https://hapax.example",
            self.0
        )
    }
}

impl std::error::Error for InvalidDocsBase {}

impl DocsBase {
    /// The site at this absolute URL.
    ///
    /// # Errors
    /// [`InvalidDocsBase`] when it is not absolute, or says more than where the site is.
    pub fn new(url: &str) -> Result<Self, InvalidDocsBase> {
        let invalid = || InvalidDocsBase(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let is_http = uri
            .scheme()
            .is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
        let host = uri.authority().map_or("", |authority| authority.as_str());
        if !is_http || host.is_empty() || host.contains('@') || url.contains(['?', '#']) {
            return Err(invalid());
        }
        Ok(Self(url.trim_end_matches('/').into()))
    }

    /// The page of this code.
    #[must_use]
    pub fn page(&self, code: &str) -> String {
        format!("{}/docs/errors/{code}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_absolute_url_without_secrets_is_a_base() {
        for wrong in [
            "",
            "/docs",
            "docs.example",
            "ftp://docs.example",
            "https://",
            "https://me:pw@docs.example",
            "https://docs.example?x=1",
            "https://docs.example#x",
            "https://docs example",
        ] {
            assert!(DocsBase::new(wrong).is_err(), "{wrong}");
        }
        let below = DocsBase::new("http://127.0.0.1:8088/hapax/").unwrap();
        assert_eq!(below.page("c"), "http://127.0.0.1:8088/hapax/docs/errors/c");
    }
}
