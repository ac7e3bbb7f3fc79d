//! /openapi.json and /docs: the document, and a page that renders it. Both hold no data and are open to everybody.

use std::borrow::Cow;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::openapi;
use crate::problem::{self, Refusal};

/// The page may load and ask this server, and nothing else; and nothing in it that was not shipped runs.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
/// Asked for again each time, and sent again only when it has changed: a new build may come any moment.
const CACHE: &str = "no-cache";

const PAGE: &str = include_str!("../../assets/docs/index.html");
/// Name, media type and text of what the page needs.
const ASSETS: [(&str, &str, &str); 3] = [
    (
        "docs.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/docs/docs.js"),
    ),
    (
        "docs.css",
        "text/css; charset=utf-8",
        include_str!("../../assets/docs/docs.css"),
    ),
    (
        "icon.svg",
        "image/svg+xml",
        include_str!("../../assets/docs/icon.svg"),
    ),
];

/// Gives this document. With the ETag of an earlier answer in If-None-Match it is not sent again.
#[utoipa::path(get, path = "/openapi.json", operation_id = "get_openapi",
    responses((status = 200, description = "An OpenAPI 3.1 document.", body = Value, content_type = "application/json"),
        (status = 304, description = "It has not changed.")))]
pub(super) async fn document(headers: HeaderMap) -> Response {
    static TAG: LazyLock<String> = LazyLock::new(|| tag(openapi::text()));
    answer(&headers, &TAG, "application/json", openapi::text())
}

/// Shows this reference as a page: every operation, with a form to try it.
#[utoipa::path(get, path = "/docs", operation_id = "get_docs",
    responses((status = 200, description = "HTML for people.", body = String, content_type = "text/html"),
        (status = 304, description = "It has not changed.")))]
pub(super) async fn page(headers: HeaderMap) -> Response {
    answer(&headers, &tag(PAGE), "text/html; charset=utf-8", PAGE)
}

/// Gives a script, a style sheet or the icon of the page.
#[utoipa::path(get, path = "/docs/assets/{name}", operation_id = "get_docs_asset",
    responses((status = 200, description = "The file.",
            content((String = "text/javascript"), (String = "text/css"), (String = "image/svg+xml"))),
        (status = 304, description = "It has not changed.")))]
pub(super) async fn asset(
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path(name) = name.map_err(|_| problem::not_found())?;
    let found = ASSETS.iter().find(|(known, _, _)| *known == name);
    let (_, media_type, text) = found.ok_or_else(problem::not_found)?;
    Ok(answer(&headers, &tag(text), media_type, *text))
}

pub(super) fn tag(text: &str) -> String {
    let hash = HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
    format!("\"{}\"", &hash[..32])
}

/// A file of this build. With the ETag of an earlier answer in If-None-Match it is not sent again.
pub(super) fn answer(
    asked: &HeaderMap,
    tag: &str,
    media_type: &'static str,
    text: impl Into<Cow<'static, str>>,
) -> Response {
    let mut response = if is_known(asked, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, media_type)], text.into()).into_response()
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(ETAG, tag);
    }
    for (name, value) in [
        (CACHE_CONTROL, CACHE),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the client has what it asks for.
pub(super) fn is_known(asked: &HeaderMap, tag: &str) -> bool {
    let named = asked.get_all(IF_NONE_MATCH).iter();
    named.filter_map(|value| value.to_str().ok()).any(|value| {
        value
            .split(',')
            .map(|each| each.trim().trim_start_matches("W/"))
            .any(|each| each == tag || each == "*")
    })
}
