//! What every HTTP client of this crate needs: the crypto of the process, and errors told without their URL.

use std::error::Error as StdError;

use url::Url;

/// The causes of an error without the URL, which may hold a secret.
pub(crate) fn told(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes.dedup();
    if causes.is_empty() {
        "the request could not be sent".to_owned()
    } else {
        causes.join(": ")
    }
}

/// The place that a secret may be sent to: one scheme, host and port, and what is beneath one path.
///
/// ```text
/// https://gateway.example/base  +  ["v1", "tasks"]  =  https://gateway.example/base/v1/tasks
/// ```
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Base(Url);

impl Base {
    /// The place that `url` names, without a slash at its end.
    pub(crate) fn new(mut url: Url) -> Self {
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Self(url)
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// The URL of these segments beneath it, each encoded; `None` if they lead elsewhere.
    pub(crate) fn join<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<Url> {
        let mut url = self.0.clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(path);
        self.holds(&url).then_some(url)
    }

    /// Whether a secret of this place may be sent to `url`. To be asked of the very URL that is sent, before a secret goes
    /// with it.
    pub(crate) fn holds(&self, url: &Url) -> bool {
        let is_there = url.scheme() == self.0.scheme()
            && url.host_str() == self.0.host_str()
            && url.port_or_known_default() == self.0.port_or_known_default();
        let is_bare =
            url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let beneath = url.path().strip_prefix(self.0.path().trim_end_matches('/'));
        let is_beneath = beneath.is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'));
        is_there && is_bare && is_beneath
    }
}

/// reqwest is built without a crypto provider of its own: it takes the one of the process.
pub(crate) fn install_provider() {
    use rustls::crypto::{CryptoProvider, aws_lc_rs};
    if CryptoProvider::get_default().is_none() {
        // An error says that somebody else installed one just now: as good.
        let _installed = aws_lc_rs::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> Base {
        Base::new(Url::parse(text).unwrap())
    }

    #[test]
    fn what_is_joined_stays_beneath_the_base_whatever_it_says() {
        for (at, text) in [
            ("http://gateway:8077/", "http://gateway:8077"),
            ("http://gateway//", "http://gateway"),
            ("https://x.example/a/b//", "https://x.example/a/b"),
        ] {
            let base = base(at);
            assert_eq!(base.as_str(), text);
            let joined = base.join(["v1", "tasks"]).unwrap();
            assert_eq!(joined.as_str(), format!("{text}/v1/tasks"));
        }
        for segment in [
            "@evil",
            ":1@evil",
            "//evil/x",
            "../../x",
            "x?y",
            "x#z",
            "%2e%2e",
            "\\evil",
            "..\\x",
            "http://evil",
        ] {
            let base = base("http://gateway:8077/base");
            let joined = base.join([segment]).unwrap();
            assert!(
                joined.as_str().starts_with("http://gateway:8077/base/"),
                "{joined}"
            );
            assert_eq!(joined.path_segments().unwrap().count(), 2, "{joined}");
        }
        assert_eq!(base("http://gateway/base").join([".."]), None);
        assert_eq!(base("http://gateway/base").join([]), None);
    }

    #[test]
    fn a_secret_goes_to_its_own_scheme_host_port_and_path_and_nowhere_else() {
        let base = base("https://gateway.example/base");
        for own in [
            "https://gateway.example/base/x",
            "https://gateway.example:443/base/x?page=2",
        ] {
            assert!(base.holds(&Url::parse(own).unwrap()), "{own}");
        }
        for other in [
            "http://gateway.example/base/x",
            "https://gateway.example:444/base/x",
            "https://evil/base/x",
            "https://gateway.example@evil/base/x",
            "https://me@gateway.example/base/x",
            "https://:secret@gateway.example/base/x",
            "https://gateway.example.evil/base/x",
            "https://gateway.example/basement/x",
            "https://gateway.example/base",
            "https://gateway.example/base/",
            "https://gateway.example/base/../x",
            "https://gateway.example/base/%2e%2e/x",
            "https://gateway.example//evil/x",
            "https://gateway.example/base/x#y",
        ] {
            assert!(!base.holds(&Url::parse(other).unwrap()), "{other}");
        }
    }
}
