//! One page per error code, embedded at compile time, as HTML and as Markdown. They hold no data.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{ACCEPT, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;

use super::{markdown, reference};
use crate::problem::{self, Refusal};

/// Lists `docs/errors/CODE.md`; the list is checked against the folder by a test.
macro_rules! pages {
    ($($code:literal),+ $(,)?) => {
        &[$(($code, include_str!(concat!("../../../../docs/errors/", $code, ".md")))),+]
    };
}

/// Every error code with its page.
static PAGES: &[(&str, &str)] = pages![
    "ambiguous_framing",
    "bad_json",
    "bad_target",
    "body_unreadable",
    "downstream_failed",
    "erased",
    "downstream_timeout",
    "forbidden",
    "hash_collision",
    "HX001",
    "HX002",
    "HX003",
    "HX004",
    "HX005",
    "HX006",
    "IDEMPOTENCY_CONFLICT",
    "IDEMPOTENCY_IN_DOUBT",
    "IDEMPOTENCY_IN_PROGRESS",
    "idempotency_fields_required",
    "idempotency_key_invalid",
    "idempotency_key_required",
    "internal",
    "key_conflict",
    "lease_lost",
    "llm_not_configured",
    "llm_unavailable",
    "method_not_allowed",
    "not_found",
    "not_supported",
    "overloaded",
    "parse_error",
    "payload_too_large",
    "policy_disabled",
    "principal_required",
    "rate_limited",
    "refusing_dashboard_folder",
    "refusing_unauthenticated_bind",
    "request_timeout",
    "schema_validation_failed",
    "shutting_down",
    "state_transition_denied",
    "store_unavailable",
    "tenant_required",
    "too_many_streams",
    "unauthorized",
    "unknown_policy",
    "unsupported_media_type",
    "unsupported_schema_version",
];

/// The list of all of them.
const LIST: &str = include_str!("../../../../docs/errors/README.md");
/// Where they are.
const FOLDER: &str = "/docs/errors";

/// Lists the codes of all refusals, with the status of each and whether to retry.
#[utoipa::path(get, path = "/docs/errors", operation_id = "list_error_pages",
    responses((status = 200, description = "HTML for people; Markdown where `Accept` asks for it.",
            content((String = "text/html"), (String = "text/markdown"))),
        (status = 304, description = "It has not changed.")))]
pub(super) async fn error_list(headers: HeaderMap) -> Response {
    shown(&headers, "Errors", LIST, wants_markdown(&headers))
}

/// Explains an error: what it means and what to do next. `CODE.md` is the page as Markdown.
#[utoipa::path(get, path = "/docs/errors/{code}", operation_id = "get_error_page",
    responses((status = 200, description = "HTML for people; Markdown where `Accept` or the ending `.md` asks for it.",
            content((String = "text/html"), (String = "text/markdown"))),
        (status = 304, description = "It has not changed.")))]
pub(super) async fn error_page(
    code: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path(name) = code.map_err(|_| problem::not_found())?;
    let (code, is_file) = match name.strip_suffix(".md") {
        Some(code) => (code, true),
        None => (&*name, false),
    };
    let found = PAGES.iter().find(|(known, _)| *known == code);
    let (code, page) = found.ok_or_else(problem::not_found)?;
    Ok(shown(
        &headers,
        code,
        page,
        is_file || wants_markdown(&headers),
    ))
}

/// The page in the form that was asked for.
fn shown(asked: &HeaderMap, title: &str, page: &'static str, as_markdown: bool) -> Response {
    let mut response = if as_markdown {
        let tag = reference::tag(page);
        reference::answer(asked, &tag, "text/markdown; charset=utf-8", page)
    } else {
        let html = whole(title, page);
        let tag = reference::tag(&html);
        reference::answer(asked, &tag, "text/html; charset=utf-8", html)
    };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("accept"));
    response
}

/// The page as HTML, with the ways back.
fn whole(title: &str, page: &str) -> String {
    let body = markdown::html(page, FOLDER);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} - hapax</title>\n\
         <link rel=\"icon\" href=\"/docs/assets/icon.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"/docs/assets/docs.css\">\n</head>\n<body>\n\
         <header><a href=\"{FOLDER}\">All errors</a> <a href=\"/docs\">API reference</a> <a href=\"/\">Dashboard</a></header>\n\
         <main class=\"page\">\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Whether the caller asks for Markdown, or for text and not for HTML.
fn wants_markdown(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted: Vec<&str> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let asks = |media_type: &str| accepted.iter().any(|value| value.contains(media_type));
    asks("text/markdown") || (asks("text/plain") && !asks("text/html"))
}

/// The codes that have a page.
#[cfg(test)]
pub(super) fn codes() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(code, _)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path as File;

    fn listed() -> BTreeSet<String> {
        PAGES.iter().map(|(code, _)| (*code).to_owned()).collect()
    }

    fn root() -> &'static File {
        File::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn every_page_of_the_folder_is_served() {
        let files = std::fs::read_dir(root().join("docs/errors")).unwrap();
        let stems = files.map(|file| {
            file.unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        });
        let stems: BTreeSet<_> = stems.filter(|stem| stem != "README").collect();
        assert_eq!(stems, listed());
    }

    #[test]
    fn every_page_is_rendered_whole() {
        for (code, page) in PAGES.iter().chain(&[("Errors", LIST)]) {
            let html = whole(code, page);
            assert!(html.contains(&format!("<h1>{code}</h1>")), "{code}");
            for unknown in ["](", "<p>#", "<p>&gt;", "<p>1. ", "<p>* ", "```"] {
                assert!(
                    !html.contains(unknown),
                    "{code} uses {unknown}, which is not rendered"
                );
            }
            let links = html.split("<main").nth(1).unwrap().split("href=\"").skip(1);
            for link in links.filter_map(|rest| rest.split('"').next()) {
                let is_page = link
                    .strip_prefix("/docs/errors/")
                    .is_some_and(|page| listed().contains(page));
                assert!(
                    is_page || link.starts_with("https://"),
                    "{code} leads to {link}"
                );
            }
        }
    }

    #[test]
    fn every_page_names_its_code_and_says_whether_to_retry() {
        for (code, page) in PAGES {
            assert!(page.starts_with(&format!("# {code}\n")), "{code}");
            assert!(
                page.contains("\nRetry: "),
                "{code} says nothing on retrying"
            );
        }
    }

    /// Every string that follows `Problem::new(status,` or a `code()` arm is a code.
    #[test]
    fn every_code_in_the_code_has_a_page() {
        let mut missing = BTreeSet::new();
        let mut seen = 0;
        for name in ["hapax", "hapax-server", "hapax-core"] {
            for file in sources(&root().join("crates").join(name).join("src")) {
                let text = std::fs::read_to_string(&file).unwrap();
                for code in codes(&text) {
                    seen += 1;
                    if !listed().contains(&code) {
                        missing.insert(code);
                    }
                }
            }
        }
        assert!(seen > 15, "the search finds codes");
        assert!(missing.is_empty(), "no page in docs/errors for {missing:?}");
    }

    fn sources(folder: &File) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        let below = folders.iter().flat_map(|folder| sources(folder));
        files
            .into_iter()
            .filter(|file| file.extension().is_some_and(|ext| ext == "rs"))
            .chain(below)
            .collect()
    }

    /// The first literal after each `Problem::new(StatusCode::…,` and each `=> "HX…"`.
    fn codes(text: &str) -> Vec<String> {
        let text = text.split("#[cfg(test)]").next().unwrap();
        let calls = text
            .match_indices("Problem::new(")
            .chain(text.match_indices("Self::new(\n            StatusCode::"));
        let of_calls = calls.filter_map(|(at, _)| {
            let call: String = text[at..].chars().take(200).collect();
            let (_, rest) = call.split_once("StatusCode::")?;
            let literal = rest.split_once(',')?.1.trim_start().strip_prefix('"')?;
            Some(literal.split('"').next()?.to_owned())
        });
        let kinds = text
            .match_indices("\"HX0")
            .map(|(at, _)| text[at + 1..at + 6].to_owned());
        of_calls.chain(kinds).collect()
    }
}
