//! The reqwest client underneath: TLS by aws-lc-rs, no retries of its own, and no redirect to a stranger.

use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{StatusCode, Url};

/// The most redirects that one try follows.
const REDIRECTS_MAX: usize = 5;

/// Builds the client. What `setup` says about retries and redirects does not count.
pub(super) fn build(
    setup: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> Result<reqwest::Client, reqwest::Error> {
    install_provider();
    let agent = concat!("hapax/", env!("CARGO_PKG_VERSION"));
    setup(reqwest::Client::builder().user_agent(agent))
        .referer(false)
        .retry(reqwest::retry::never())
        .redirect(Policy::custom(redirect))
        .build()
}

/// reqwest is built without a crypto provider of its own: it takes the one of the process.
fn install_provider() {
    use rustls::crypto::{CryptoProvider, aws_lc_rs};
    if CryptoProvider::get_default().is_none() {
        // An error says that somebody else installed one just now: as good.
        let _installed = aws_lc_rs::default_provider().install_default();
    }
}

/// Follows where method, body and key stay the same and go to the same origin; else the 3xx is the answer.
fn redirect(attempt: Attempt) -> Action {
    let keeps_request = matches!(
        attempt.status(),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    );
    let same_origin = attempt
        .previous()
        .last()
        .is_some_and(|from| is_same_origin(from, attempt.url()));
    // The first of the previous ones is no redirect.
    if keeps_request && same_origin && attempt.previous().len() <= REDIRECTS_MAX {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn is_same_origin(from: &Url, to: &Url) -> bool {
    from.origin() == to.origin()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_scheme_host_or_port_is_another_origin() {
        let origin = |text: &str| Url::parse(text).unwrap();
        let from = origin("https://pay.example/a");
        for (to, same) in [
            ("https://pay.example/b?c", true),
            ("https://pay.example:443/a", true),
            ("https://pay.example:444/a", false),
            ("http://pay.example/a", false),
            ("https://pay.example.evil/a", false),
        ] {
            assert_eq!(is_same_origin(&from, &origin(to)), same, "{to}");
        }
    }
}
