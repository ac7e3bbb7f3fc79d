//! /openapi.json and /docs as a browser gets them.

use crate::fixture::Server;
use crate::http::Answer;

const ASSETS: [&str; 3] = [
    "/docs/assets/docs.js",
    "/docs/assets/docs.css",
    "/docs/assets/icon.svg",
];

fn get(server: &Server, path: &str) -> Answer {
    server.send("GET", path, &[], b"")
}

#[test]
fn the_document_is_given_to_everybody_and_only_when_it_has_changed() {
    let server = Server::start();
    let answer = get(&server, "/openapi.json");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.text(), super::FILE);
    let tag = answer.header("etag").unwrap();
    let again = server.send("GET", "/openapi.json", &[("if-none-match", tag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(again.header("etag"), Some(tag));
    let weak = format!("\"x\", W/{tag}");
    let again = server.send("GET", "/openapi.json", &[("if-none-match", &weak)], b"");
    assert_eq!(again.status, 304);
    let other = server.send("GET", "/openapi.json", &[("if-none-match", "\"x\"")], b"");
    assert_eq!(other.status, 200);
}

#[test]
fn the_reference_is_small_and_nothing_in_it_leads_to_another_host() {
    let server = Server::start();
    let mut bytes = 0;
    for path in ["/docs", ASSETS[0], ASSETS[1], ASSETS[2]] {
        let answer = get(&server, path);
        assert_eq!(answer.status, 200, "{path}");
        bytes += answer.body.len();
        let text = answer.text();
        assert!(
            !text.contains("//cdn") && !text.contains("https:"),
            "{path}"
        );
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(answer.header("etag").is_some());
    }
    assert!(bytes <= 60_000, "{bytes}");
}

#[test]
fn the_page_has_no_inline_script_or_style_and_the_script_writes_no_html() {
    let server = Server::start();
    let page = get(&server, "/docs").text();
    assert!(page.starts_with("<!doctype html>"));
    for tag in page.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        assert!(!tag.contains(" style=") && !tag.contains(" on"), "<{tag}>");
        assert!(
            !tag.starts_with("script") || tag.contains("src="),
            "<{tag}>"
        );
        assert!(!tag.starts_with("style"), "<{tag}>");
    }
    let script = get(&server, ASSETS[0]).text();
    for word in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "localStorage",
    ] {
        assert!(!script.contains(word), "{word}");
    }
    for path in ASSETS {
        assert!(page.contains(&path[1..]), "{path}");
    }
    assert_eq!(
        get(&server, "/docs/assets/nothing").refusal(),
        (404, "not_found".to_owned())
    );
}
