//! One page per error code, embedded at compile time. They hold no data.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

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

/// Explains an error: what it means and what to do next, as Markdown.
#[utoipa::path(get, path = "/docs/errors/{code}", operation_id = "get_error_page",
    responses((status = 200, description = "The page.", body = String, content_type = "text/markdown")))]
pub(super) async fn error_page(
    code: Result<Path<String>, PathRejection>,
) -> Result<impl IntoResponse, Refusal> {
    let Path(code) = code.map_err(|_| problem::not_found())?;
    let page = PAGES
        .iter()
        .find(|(name, _)| *name == code)
        .map(|(_, page)| *page);
    let page = page.ok_or_else(problem::not_found)?;
    Ok(([(CONTENT_TYPE, "text/markdown; charset=utf-8")], page))
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
