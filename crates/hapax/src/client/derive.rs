//! The key of a request that brings none: random, or made from the content.

use bytes::Bytes;
use hapax_core::canonical::{self, Profile};
use hapax_core::{Fingerprint, Key};
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, Method};
use reqwest::Url;
use serde_json::json;

/// Hashing more than this leaves the async thread.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// A new UUIDv7: unique, and ordered by time, which databases like.
pub(super) fn random() -> Key {
    Key::new(&uuid::Uuid::now_v7().to_string()).expect("a UUID is visible ASCII")
}

/// The hcj-1 hash of `{"body_sha256", "method", "url"}`, where a JSON body is hashed in its hcj-1 form and
/// any other as its bytes.
pub(super) async fn derived(method: &Method, url: &Url, headers: &HeaderMap, body: &Bytes) -> Key {
    let is_json = headers.get(CONTENT_TYPE).is_some_and(is_json);
    let body_hash = if body.len() <= INLINE_BYTES_MAX {
        hash(body, is_json)
    } else {
        let bytes = body.clone();
        let hashed = tokio::task::spawn_blocking(move || hash(&bytes, is_json)).await;
        // The runtime is stopping; the answer is the same, and nobody is kept waiting any more.
        hashed.unwrap_or_else(|_| hash(body, is_json))
    };
    let document =
        json!({"body_sha256": body_hash, "method": method.as_str(), "url": named(url).as_str()});
    let key = canonical::hash(document.to_string().as_bytes(), Profile::Hcj1)
        .expect("three strings are valid JSON");
    Key::new(&key).expect("hexadecimal digits are visible ASCII")
}

/// The URL without what does not name the resource: the fragment and the credentials.
pub(super) fn named(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_fragment(None);
    // Both refuse only where a URL cannot have credentials, and then it has none.
    let _none = (url.set_username(""), url.set_password(None));
    url
}

fn hash(body: &[u8], is_json: bool) -> String {
    let canonical = if is_json {
        canonical::hash(body, Profile::Hcj1).ok()
    } else {
        None
    };
    canonical.unwrap_or_else(|| Fingerprint::of(body).hex())
}

fn is_json(content_type: &HeaderValue) -> bool {
    let media_type = content_type
        .to_str()
        .unwrap_or("")
        .split(';')
        .next()
        .unwrap_or("");
    let media_type = media_type.trim().to_ascii_lowercase();
    media_type == "application/json" || media_type.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn key(method: Method, url: &str, content_type: &'static str, body: &str) -> Key {
        let headers = [(CONTENT_TYPE, HeaderValue::from_static(content_type))]
            .into_iter()
            .collect();
        derived(
            &method,
            &Url::parse(url).unwrap(),
            &headers,
            &Bytes::copy_from_slice(body.as_bytes()),
        )
        .await
    }

    #[tokio::test]
    async fn the_same_request_has_the_same_key_however_its_json_is_spelled() {
        let plain = key(
            Method::POST,
            "http://h/a?b=1",
            "application/json",
            r#"{"b":1,"a":2}"#,
        )
        .await;
        let spelled = key(
            Method::POST,
            "http://H:80/a?b=1#c",
            "application/vnd.x+json; charset=utf-8",
            r#"{ "a": 2.0, "b": 1 }"#,
        );
        assert_eq!(plain, spelled.await);
        assert_eq!(plain.as_str().len(), 64);
    }

    #[tokio::test]
    async fn credentials_in_the_url_do_not_count() {
        let with = key(Method::PUT, "http://u:p@h/a", "text/plain", "x").await;
        assert_eq!(
            with,
            key(Method::PUT, "http://h/a", "text/plain", "x").await
        );
    }

    #[tokio::test]
    async fn another_method_url_or_body_has_another_key() {
        let keys = [
            key(Method::POST, "http://h/a", "application/json", "[1]").await,
            key(Method::PUT, "http://h/a", "application/json", "[1]").await,
            key(Method::POST, "http://h/b", "application/json", "[1]").await,
            key(Method::POST, "http://h/a?q", "application/json", "[1]").await,
            key(Method::POST, "http://h/a", "application/json", "[2]").await,
            key(Method::POST, "http://h/a", "application/json", "[2").await,
        ];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[tokio::test]
    async fn the_form_is_one_that_other_languages_can_make() {
        let key = key(Method::POST, "http://h/a", "application/json", "[1.0]").await;
        let body_hash = Fingerprint::of(b"[1]").hex();
        let document =
            format!(r#"{{"body_sha256":"{body_hash}","method":"POST","url":"http://h/a"}}"#);
        assert_eq!(key.as_str(), Fingerprint::of(document.as_bytes()).hex());
    }

    #[tokio::test]
    async fn a_large_body_is_hashed_alike_off_the_async_thread() {
        let large = format!("[{}]", vec!["1.0"; INLINE_BYTES_MAX].join(","));
        let spelled = large.replace("1.0", "1");
        let first = key(Method::POST, "http://h/a", "application/json", &large).await;
        assert_eq!(
            first,
            key(Method::POST, "http://h/a", "application/json", &spelled).await
        );
    }
}
