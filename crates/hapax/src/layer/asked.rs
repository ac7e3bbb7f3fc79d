//! What a request asks: its fingerprint and content hash, and the claim made of them.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::canonical::Selection;
use hapax_core::content;
use hapax_core::diff::masked_query;
use hapax_core::{Claim, Fingerprint, Key, Principal, Request, Scope, Space, Subject, Tenant};
use http::{HeaderMap, Method, Uri, header::CONTENT_TYPE};

use super::pattern::holds_id;
use super::route::Route;
use super::{derived, encoded};
use crate::Engine;

/// What a request asks, hashed.
///
/// ```
/// use hapax::layer::{Asked, Route};
/// use http::{HeaderMap, Method};
///
/// let route = Route::default();
/// let asked = |body: &'static str| {
///     Asked::new(&Method::POST, &"/payments".parse().unwrap(), &HeaderMap::new(), body.into(), &route.selection)
/// };
/// let ten = asked(r#"{"amount": 10, "request_id": "a"}"#);
/// assert_eq!(ten.fingerprint(), asked(r#"{"request_id":"b","amount":10.0}"#).fingerprint(), "the same request");
/// assert_ne!(ten.fingerprint(), asked(r#"{"amount":11}"#).fingerprint());
/// ```
#[derive(Clone, Debug)]
pub struct Asked {
    method: Method,
    path: String,
    content_type: String,
    /// Decoded, where that was possible.
    body: Bytes,
    body_hash: Fingerprint,
    /// The hash of the body byte for byte, where it is compared by another.
    bytes_hash: Option<Fingerprint>,
    content_hash: Fingerprint,
}

impl Asked {
    /// Hashes a request: JSON by its canonical form without the excluded fields, `multipart/form-data` by its parts,
    /// anything else by its media type and bytes. A body that is not acceptable JSON, or no whole form, counts as bytes.
    /// One with a `Content-Encoding` counts as what it decodes to, within [`decoded_bytes_max`](super::decoded_bytes_max).
    #[must_use]
    pub fn new(
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: Bytes,
        selection: &Selection,
    ) -> Self {
        let media_type = media_type(headers);
        let decoded = encoded::decoded(headers, &body);
        let bytes_hash = (decoded.is_some() || content::is_form(&media_type))
            .then(|| content::hash_bytes(&media_type, &body));
        let body = decoded.unwrap_or(body);
        let body_hash = if content::is_form(&media_type) && !says_its_boundary(headers, &body) {
            content::hash_bytes(&media_type, &body)
        } else {
            content::hash(&media_type, &body, selection)
        };
        let path = uri
            .path_and_query()
            .map_or_else(|| uri.path().to_owned(), ToString::to_string);
        let content_hash = if uri.query().is_some() || holds_id(uri.path()) {
            Fingerprint::of_parts(&[path.as_bytes(), body_hash.as_bytes()])
        } else {
            body_hash
        };
        Self {
            method: method.clone(),
            path,
            content_type: media_type,
            body,
            body_hash,
            bytes_hash: bytes_hash.filter(|hash| *hash != body_hash),
            content_hash,
        }
    }

    /// The hash of method, concrete path and query, and body: what is stored and compared.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint_with(self.body_hash)
    }

    fn fingerprint_with(&self, body_hash: Fingerprint) -> Fingerprint {
        Fingerprint::of_parts(&[
            self.method.as_str().as_bytes(),
            self.path.as_bytes(),
            body_hash.as_bytes(),
        ])
    }

    /// The first 16 digits of the content hash, for people and for derived keys.
    #[must_use]
    pub fn content_hash(&self) -> String {
        self.content_hash.short()
    }

    /// The key for a request that carries none: tenant, route and content hash. The key of a `principal` holds its hash
    /// too, so that equal requests of two callers are two operations.
    ///
    /// ```
    /// use hapax::core::{Principal, Space, Tenant};
    /// use hapax::layer::{Asked, Route};
    ///
    /// let space = Space::new("POST:orders")?;
    /// let (uri, none) = ("/orders".parse().unwrap(), Default::default());
    /// let asked = Asked::new(&http::Method::POST, &uri, &none, "{}".into(), &Route::default().selection);
    /// let of = |who: Option<&[u8]>| asked.derived_key(Tenant::DEFAULT, &space, who.map(Principal::of));
    /// assert_eq!(of(Some(b"ann")), of(Some(b"ann")));
    /// assert_ne!(of(Some(b"ann")), of(Some(b"bob")));
    /// assert_eq!(of(None).as_str(), "00000000000000000000000000000000:POST:orders:44136fa355b3678a");
    /// # Ok::<(), hapax::core::Invalid>(())
    /// ```
    #[must_use]
    pub fn derived_key(&self, tenant: Tenant, space: &Space, principal: Option<Principal>) -> Key {
        derived::key(tenant, space, self.content_hash, principal)
    }

    /// The claim on `key` for this request.
    #[must_use]
    pub fn claim(
        self,
        scope: Scope,
        key: Key,
        principal: Option<Principal>,
        route: &Route,
    ) -> Claim {
        let fingerprint = self.fingerprint();
        let former = self.bytes_hash.map(|hash| self.fingerprint_with(hash));
        let content_hash = self.content_hash();
        let subject = route.subject.as_deref().and_then(|at| self.subject(at));
        Claim {
            scope,
            key,
            fingerprint,
            former,
            principal,
            owner: Engine::owner(),
            acts_here: false,
            subject,
            policy: route.policy,
            request: Arc::new(Request {
                method: self.method.to_string(),
                // The fingerprint has all of it; what is kept is for people to read.
                path: masked_query(&self.path),
                content_type: self.content_type,
                content_hash,
                body: Some(self.body),
                masks: route.redact.clone(),
            }),
            selection: route.selection.clone(),
        }
    }

    /// Whom the body is about: the string or number at the JSON pointer `at`, if there is one.
    fn subject(&self, at: &str) -> Option<Subject> {
        if !content::is_json(&self.content_type) {
            return None;
        }
        let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        match body.pointer(at)? {
            serde_json::Value::String(name) => Some(Subject::of(name.as_bytes())),
            serde_json::Value::Number(number) => Some(Subject::of(number.to_string().as_bytes())),
            _other => None,
        }
    }
}

/// The media type in lower case, without parameters: a charset does not make it another request.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(CONTENT_TYPE)
        .map(http::HeaderValue::as_bytes)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(value);
    text.split(';')
        .next()
        .unwrap_or("")
        .trim()
        .to_ascii_lowercase()
}

/// Whether the boundary of a form is the one that its media type names: then whoever reads the form sees the same parts.
fn says_its_boundary(headers: &HeaderMap, body: &[u8]) -> bool {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let mut parameters = value.unwrap_or_default().split(';').skip(1);
    let named = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_it = name.trim().eq_ignore_ascii_case("boundary");
        is_it.then(|| value.trim().trim_matches('"').as_bytes())
    });
    named.is_some() && named == content::boundary(body)
}
