//! The dashboard: one page and its files, compiled in. They hold no data; the page asks the API for it.
//!
//! The address of a file begins with the hash of all files, so it can be kept for ever: another build has other addresses.

use std::borrow::Cow;
use std::path::{Component, Path as FilePath, PathBuf};
use std::sync::LazyLock;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::App;
use super::reference::is_known;
use crate::problem::{self, Refusal};

/// The page loads from and asks this server, and nothing else; and nothing in it that was not shipped runs.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
/// Asked for again each time, and sent again only when it has changed.
const CHECKED: &str = "no-cache";
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const PAGE: &str = "index.html";
/// Where the page looks for its files.
const ASSETS: &str = "/ui/assets/";

/// Every file by its name, as `build.rs` found them.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

/// The files of this build, and the page that names them by their hash.
struct Built {
    hash: String,
    page: String,
}

static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let mut all = Sha256::new();
    for (name, bytes) in FILES {
        all.update(name.as_bytes());
        all.update([0]);
        all.update(Sha256::digest(bytes));
    }
    let hash = HEXLOWER.encode(&all.finalize())[..16].to_owned();
    let page = String::from_utf8_lossy(embedded(PAGE).unwrap_or_default());
    let page = page.replace(ASSETS, &format!("{ASSETS}{hash}/"));
    Built { hash, page }
});

fn embedded(name: &str) -> Option<&'static [u8]> {
    let found = FILES.binary_search_by_key(&name, |(known, _)| known);
    found.ok().map(|at| FILES[at].1)
}

/// Shows the dashboard.
#[utoipa::path(get, path = "/", operation_id = "get_dashboard",
    responses((status = 200, description = "HTML for people.", body = String, content_type = "text/html"),
        (status = 304, description = "It has not changed.")))]
pub(super) async fn home(State(app): State<App>, headers: HeaderMap) -> Response {
    page(&app, &headers)
}

/// Shows the dashboard's first page.
#[utoipa::path(get, path = "/ui", operation_id = "get_dashboard_home",
    responses((status = 200, description = "HTML for people.", body = String, content_type = "text/html"),
        (status = 304, description = "It has not changed.")))]
pub(super) async fn start(State(app): State<App>, headers: HeaderMap) -> Response {
    page(&app, &headers)
}

/// Shows a page of the dashboard. They are all one; the browser finds what belongs to the address.
#[utoipa::path(get, path = "/ui/{page}", operation_id = "get_dashboard_page",
    responses((status = 200, description = "HTML for people.", body = String, content_type = "text/html"),
        (status = 304, description = "It has not changed.")))]
pub(super) async fn deep(State(app): State<App>, headers: HeaderMap) -> Response {
    page(&app, &headers)
}

/// Gives a file of the dashboard.
#[utoipa::path(get, path = "/ui/assets/{file}", operation_id = "get_dashboard_asset",
    responses((status = 200, description = "The file.", content(
            (String = "text/javascript"), (String = "text/css"), (String = "text/plain"), (String = "text/html"),
            (String = "image/svg+xml"), (String = "image/png"), (String = "font/woff2"), (String = "application/json"))),
        (status = 304, description = "It has not changed.")))]
pub(super) async fn asset(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path(path) = path.map_err(|_| problem::not_found())?;
    if let Some(folder) = &app.dashboard {
        let bytes = from_disk(folder, &path).ok_or_else(problem::not_found)?;
        return Ok(answer(&headers, media_type(&path), CHECKED, bytes.into()));
    }
    let of_build = path
        .strip_prefix(BUILT.hash.as_str())
        .and_then(|rest| rest.strip_prefix('/'));
    let (name, cache) = match of_build {
        Some(name) => (name, FOR_EVER),
        None => (path.as_str(), CHECKED),
    };
    let bytes = embedded(name).ok_or_else(problem::not_found)?;
    Ok(answer(&headers, media_type(name), cache, bytes.into()))
}

fn page(app: &App, headers: &HeaderMap) -> Response {
    let bytes = match &app.dashboard {
        Some(folder) => from_disk(folder, PAGE).unwrap_or_default().into(),
        None => BUILT.page.as_bytes().into(),
    };
    answer(headers, media_type(PAGE), CHECKED, bytes)
}

/// Where a developer has the files, so that a change needs no build: HAPAX_DASHBOARD_DIR, in debug builds only.
pub(crate) fn folder_of_a_developer() -> Option<PathBuf> {
    let named = std::env::var_os("HAPAX_DASHBOARD_DIR").filter(|_| cfg!(debug_assertions));
    named.map(PathBuf::from)
}

fn from_disk(folder: &FilePath, name: &str) -> Option<Vec<u8>> {
    let name = FilePath::new(name);
    let mut parts = name.components();
    let is_beneath = parts.all(|part| matches!(part, Component::Normal(_)));
    is_beneath
        .then(|| std::fs::read(folder.join(name)).ok())
        .flatten()
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        "json" => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

fn answer(
    asked: &HeaderMap,
    media_type: &'static str,
    cache: &'static str,
    bytes: Cow<'static, [u8]>,
) -> Response {
    let hash = HEXLOWER.encode(&Sha256::digest(&bytes));
    let tag = format!("\"{}\"", &hash[..32]);
    let mut response = if is_known(asked, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, media_type)], bytes.into_owned()).into_response()
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    for (name, value) in [
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a first load may weigh, uncompressed.
    const BYTES_MAX: usize = 300_000;

    #[test]
    fn the_page_is_there_and_everything_it_names_is_too() {
        let page = std::str::from_utf8(embedded(PAGE).unwrap()).unwrap();
        let named: Vec<&str> = page
            .split(ASSETS)
            .skip(1)
            .filter_map(|rest| rest.split(['"', '\'']).next())
            .collect();
        for name in &named {
            assert!(embedded(name).is_some(), "{name}");
        }
        assert!(!page.contains("http:") && !page.contains("https:"));
        assert!(!page.contains("<style") && !page.contains("style=") && !page.contains("onload="));
    }

    #[test]
    fn all_files_together_are_light() {
        let bytes: usize = FILES.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes < BYTES_MAX, "{bytes} bytes");
    }

    #[test]
    fn files_are_found_by_name_and_nothing_above_their_folder_is() {
        assert!(FILES.is_sorted());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.js"), "1").unwrap();
        assert_eq!(from_disk(folder.path(), "a.js"), Some(b"1".to_vec()));
        for name in ["../a.js", "/etc/hostname", "b.js", "x/../a.js/.."] {
            assert_eq!(from_disk(folder.path(), name), None, "{name}");
        }
    }
}
