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
fn the_page_of_an_error_is_html_with_ways_back_and_markdown_for_those_who_ask() {
    let server = Server::start();
    let page = get(&server, "/docs/errors/lease_lost");
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(page.header("vary"), Some("accept"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    let text = page.text();
    assert!(text.contains("<h1>lease_lost</h1>"), "{text}");
    for way in ["/docs/errors", "/docs", "/"] {
        assert!(text.contains(&format!("href=\"{way}\"")), "{way}: {text}");
    }
    let tag = page.header("etag").unwrap();
    let again = server.send(
        "GET",
        "/docs/errors/lease_lost",
        &[("if-none-match", tag)],
        b"",
    );
    assert_eq!((again.status, again.body.len()), (304, 0));

    let browser = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let shown = server.send("GET", "/docs/errors/lease_lost", &browser, b"");
    assert_eq!(shown.body, page.body);
    let file = get(&server, "/docs/errors/lease_lost.md");
    let markdown = [("accept", "text/markdown")];
    let asked = server.send("GET", "/docs/errors/lease_lost", &markdown, b"");
    for plain in [file, asked] {
        assert_eq!(
            plain.header("content-type"),
            Some("text/markdown; charset=utf-8")
        );
        assert!(
            plain.text().starts_with("# lease_lost\n"),
            "{}",
            plain.text()
        );
    }
    for missing in ["nothing", "nothing.md", ".md", "README"] {
        let answer = get(&server, &format!("/docs/errors/{missing}"));
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{missing}");
    }
}

#[test]
fn pages_answer_with_a_slash_behind_their_address_too() {
    let server = Server::start();
    let list = get(&server, "/docs/errors").text();
    assert!(list.contains("href=\"/docs/errors/lease_lost\""), "{list}");
    for path in ["/docs", "/docs/errors", "/ui"] {
        let bare = get(&server, path);
        let slashed = get(&server, &format!("{path}/"));
        assert_eq!((slashed.status, &slashed.body), (200, &bare.body), "{path}");
        assert_eq!(
            slashed.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let posted = server.send("POST", &format!("{path}/"), &[], b"");
        assert_eq!(posted.refusal(), (404, "not_found".to_owned()), "{path}");
    }
}

#[test]
fn a_json_answer_ends_with_a_newline_and_so_does_its_replay() {
    let server = Server::start();
    for (path, status) in [
        ("/health", 200),
        ("/ready", 200),
        ("/version", 200),
        ("/openapi.json", 200),
        ("/docs/errors/nothing", 404),
        ("/v1/keys", 401),
    ] {
        let answer = get(&server, path);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.text().ends_with("}\n"), "{path}: {}", answer.text());
        if let Some(length) = answer.header("content-length") {
            assert_eq!(length, answer.body.len().to_string(), "{path}");
        }
        let problem = [("accept", "application/problem+json")];
        let document = server.send("GET", path, &problem, b"");
        assert!(document.text().ends_with("}\n"), "{path}");
    }
    let bearer = format!("Bearer {}", server.token());
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "k"),
    ];
    let echo = |body: &[u8]| server.send("POST", "/v1/echo", &headers, body);
    let (first, again) = (echo(b"{}"), echo(b"{}"));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.body, again.body);
    assert!(first.text().ends_with("}\n") && !first.text().ends_with("\n\n"));
    let conflict = echo(b"[]");
    assert_eq!(conflict.status, 409);
    assert!(conflict.text().ends_with("}\n"));
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
