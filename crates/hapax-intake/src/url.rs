//! The one spelling of a web address, for the column and for the key.
//!
//! What it changes is written down in [`canonical`]; changing it changes keys, so the table of tracking parameters is
//! the house's own and not a list that updates itself.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use url::Url;

/// The longest address that is read, in bytes.
pub const URL_BYTES_MAX: usize = 64 * 1024;

/// Parameters that say how a reader came, not what is there. `utm_*` is a prefix and stands beside them.
const TRACKING: [&str; 20] = [
    "utm_*",
    "fbclid",
    "gclid",
    "dclid",
    "msclkid",
    "igshid",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "oly_anon_id",
    "oly_enc_id",
    "yclid",
    "twclid",
    "gbraid",
    "wbraid",
    "_hsenc",
    "_hsmi",
    "vero_id",
    "wickedid",
    "s_cid",
];

/// The names of query parameters that a canonical address leaves out.
///
/// Names are compared without regard to ASCII case and as they are spelled: `UTM_Source` is one, `utm%5Fsource` is not.
/// A name that ends in `*` stands for all names that begin with what is before it.
///
/// ```
/// use hapax_intake::url::{Tracking, canonical};
///
/// let tracking = Tracking::with(["ref_*".to_owned()]);
/// let address = canonical("https://example.org/?ref_src=mail&q=tea&utm_source=mail", &tracking)?;
/// assert_eq!(address.canonical, "https://example.org/?q=tea");
/// # Ok::<(), hapax_intake::url::Unfit>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracking {
    names: BTreeSet<String>,
    prefixes: BTreeSet<String>,
}

impl Default for Tracking {
    fn default() -> Self {
        Self::with([])
    }
}

impl Tracking {
    /// The house's table and these names. Blank ones, and a `*` alone, are left out: an address keeps its query.
    #[must_use]
    pub fn with(extra: impl IntoIterator<Item = String>) -> Self {
        let mut tracking = Self {
            names: BTreeSet::new(),
            prefixes: BTreeSet::new(),
        };
        for name in TRACKING.into_iter().map(str::to_owned).chain(extra) {
            let name = name.trim().to_ascii_lowercase();
            let (list, name) = match name.strip_suffix('*') {
                Some(prefix) => (&mut tracking.prefixes, prefix),
                None => (&mut tracking.names, name.as_str()),
            };
            if !name.is_empty() {
                list.insert(name.to_owned());
            }
        }
        tracking
    }

    /// Whether a parameter of this name is left out.
    #[must_use]
    pub fn drops(&self, name: &str) -> bool {
        let begins = |prefix: &String| {
            name.get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        self.prefixes.iter().any(begins) || self.names.contains(&name.to_ascii_lowercase())
    }
}

/// An address that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// As given, trimmed, and without a user name and password.
    pub url: String,
    /// In its one spelling.
    pub canonical: String,
    /// Whether it held a user name or a password, which neither of the two does any more.
    pub credentials_removed: bool,
}

impl Address {
    /// The lower-case hex SHA-256 of the canonical address.
    #[must_use]
    pub fn sha256(&self) -> String {
        data_encoding::HEXLOWER.encode(&Sha256::digest(self.canonical.as_bytes()))
    }
}

/// Why a text is no address that can be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    /// It is longer than [`URL_BYTES_MAX`], as given or in its one spelling.
    #[error("is longer than the {URL_BYTES_MAX} bytes allowed")]
    TooLong,
    /// It is not a URL by the WHATWG standard.
    #[error("must be an absolute URL, such as https://example.org/page")]
    Unreadable,
    /// It is one of another scheme.
    #[error("must begin with http:// or https://")]
    Scheme,
}

/// Reads an address and gives it its one spelling.
///
/// It is parsed by the WHATWG standard, which lower-cases the scheme and the host, writes an international host in
/// ASCII, resolves `.` and `..` and drops a default port. Then these go: user name and password, the fragment, the
/// parameters that [`Tracking`] names, empty parameters, a query with nothing left in it, and slashes at the end of the
/// path, except the root's. What stays keeps its order and its spelling. A canonical address is its own canonical
/// address.
///
/// # Errors
/// [`Unfit`], if it is too long, no URL, or of another scheme than http and https.
///
/// ```
/// use hapax_intake::url::{Tracking, Unfit, canonical};
///
/// let tracking = Tracking::default();
/// let address = canonical("HTTPS://me:secret@Example.COM:443/A/B/?b=2&utm_medium=x&a=1#top", &tracking)?;
/// assert_eq!(address.canonical, "https://example.com/A/B?b=2&a=1");
/// assert!(address.credentials_removed);
/// assert_eq!(canonical("mailto:ada@example.org", &tracking), Err(Unfit::Scheme));
/// # Ok::<(), Unfit>(())
/// ```
pub fn canonical(text: &str, tracking: &Tracking) -> Result<Address, Unfit> {
    let text = text.trim();
    if text.len() > URL_BYTES_MAX {
        return Err(Unfit::TooLong);
    }
    let mut url = Url::parse(text).map_err(|_| Unfit::Unreadable)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Unfit::Scheme);
    }
    let credentials_removed = !url.username().is_empty() || url.password().is_some();
    if credentials_removed {
        // An http URL has a host, so that neither can fail.
        let _ = url.set_username("");
        let _ = url.set_password(None);
    }
    let canonical = spelled(&url, tracking).ok_or(Unfit::Unreadable)?;
    let url = if credentials_removed {
        url.into()
    } else {
        text.to_owned()
    };
    // Escapes make it longer than what was given.
    if canonical.len().max(url.len()) > URL_BYTES_MAX {
        return Err(Unfit::TooLong);
    }
    Ok(Address {
        url,
        canonical,
        credentials_removed,
    })
}

fn spelled(url: &Url, tracking: &Tracking) -> Option<String> {
    let mut spelled = format!("{}://{}", url.scheme(), url.host_str()?);
    if let Some(port) = url.port() {
        spelled.push(':');
        spelled.push_str(&port.to_string());
    }
    match url.path().trim_end_matches('/') {
        "" => spelled.push('/'),
        path => spelled.push_str(path),
    }
    let mut mark = '?';
    for pair in url.query().unwrap_or_default().split('&') {
        let name = pair.split('=').next().unwrap_or_default();
        if !pair.is_empty() && !tracking.drops(name) {
            spelled.push(mark);
            spelled.push_str(pair);
            mark = '&';
        }
    }
    Some(spelled)
}
