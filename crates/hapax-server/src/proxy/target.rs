//! The upstream's URL, and the request target made of it. A request chooses the path, never the server.

use anyhow::Result;
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use crate::exit::Usage;

/// Where every request goes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    scheme: Scheme,
    authority: Authority,
    /// What stands before every path: empty, or `/a/b` without a slash at its end.
    base: String,
}

impl Target {
    /// # Errors
    /// [`Usage`] when `url` is not `http://HOST[:PORT][/BASE]` or the same with https.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        if url.is_empty() {
            return Err(Usage::error(
                "no upstream; name the service to stand in front of: --upstream http://127.0.0.1:3000",
            ));
        }
        // What was given may hold a password, so it is not repeated.
        let refused = |why: &str| Usage::error(format!("the upstream {why}; use http://HOST:PORT"));
        let uri: Uri = url.parse().map_err(|_| refused("is not a URL"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(refused("names no server"));
        };
        if ![Scheme::HTTP, Scheme::HTTPS].contains(scheme) {
            return Err(refused("is neither http nor https"));
        }
        if authority.as_str().contains('@') {
            return Err(refused("holds a user; send Authorization instead"));
        }
        if uri.query().is_some() {
            return Err(refused("holds a query"));
        }
        Ok(Self {
            scheme: scheme.clone(),
            authority: authority.clone(),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    pub(super) fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The URL of a request for `path` at the upstream, if that is below its base.
    pub(super) fn uri(&self, path: Option<&PathAndQuery>) -> Option<Uri> {
        let path = path.map_or("/", PathAndQuery::as_str);
        let path = if self.base.is_empty() {
            path.parse().ok()?
        } else if climbs(path) || !path.starts_with('/') {
            return None;
        } else {
            PathAndQuery::try_from(format!("{}{path}", self.base)).ok()?
        };
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()
            .ok()
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.base)
    }
}

/// Whether a path has a segment that could lead out of the base.
fn climbs(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or("").to_ascii_lowercase();
    let path = path
        .replace("%2e", ".")
        .replace("%2f", "/")
        .replace("%5c", "/");
    path.split(['/', '\\']).any(|segment| segment == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(target: &str, path: &str) -> Option<String> {
        let path: PathAndQuery = path.parse().unwrap();
        Target::parse(target)
            .unwrap()
            .uri(Some(&path))
            .map(|uri| uri.to_string())
    }

    #[test]
    fn a_request_chooses_the_path_only() {
        assert_eq!(
            uri("http://up:3000", "/a/b?c=d").unwrap(),
            "http://up:3000/a/b?c=d"
        );
        assert_eq!(
            uri("https://up/", "//evil/x").unwrap(),
            "https://up//evil/x"
        );
        assert_eq!(
            uri("http://up/base/", "/a?b").unwrap(),
            "http://up/base/a?b"
        );
        assert_eq!(uri("http://up", "/../a").unwrap(), "http://up/../a");
    }

    #[test]
    fn no_path_leads_out_of_the_base() {
        for path in [
            "/../a",
            "/a/../../b",
            "/%2e%2E/a",
            "/a/..",
            "/..%2fa",
            "/..\\a",
        ] {
            assert_eq!(uri("http://up/base", path), None, "{path}");
        }
        assert!(uri("http://up/base", "/a..b/...?x=/../").is_some());
    }

    #[test]
    fn only_a_plain_url_names_an_upstream() {
        for url in [
            "",
            "up:3000",
            "/x",
            "ftp://up",
            "http://me:pw@up",
            "http://up?x=1",
            "http://",
        ] {
            let why = Target::parse(url).unwrap_err();
            assert!(
                why.is::<Usage>() && !why.to_string().contains("pw"),
                "{url}: {why}"
            );
        }
    }
}
