//! What every HTTP client of this crate needs: the crypto of the process, and errors told without their URL.

use std::error::Error as StdError;

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

/// reqwest is built without a crypto provider of its own: it takes the one of the process.
pub(crate) fn install_provider() {
    use rustls::crypto::{CryptoProvider, aws_lc_rs};
    if CryptoProvider::get_default().is_none() {
        // An error says that somebody else installed one just now: as good.
        let _installed = aws_lc_rs::default_provider().install_default();
    }
}
