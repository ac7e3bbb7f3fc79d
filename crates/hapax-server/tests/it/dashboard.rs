//! The dashboard's page and files: open to everybody, of this build, and closed to everything from elsewhere.

use crate::fixture::{Server, hapax};
use crate::openapi::{filled, operations};

/// What every page allows: its own scripts, styles and answers, no frame around it, and no text as a script.
const POLICY: [&str; 9] = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
    "form-action ",
];

#[test]
fn every_page_has_the_policy_and_every_answer_is_taken_as_it_says() {
    let server = Server::start();
    let mut pages = 0;
    for operation in operations().filter(|operation| operation.method == "get") {
        let path = filled(operation.path, operation.value);
        if path == "/v1/live" {
            continue;
        }
        let answer = server.owner("GET", &path, "");
        let sniffed = answer.header("x-content-type-options");
        assert_eq!(sniffed, Some("nosniff"), "{path}");
        let kind = answer.header("content-type").unwrap_or_default();
        if !kind.starts_with("text/html") {
            continue;
        }
        pages += 1;
        let policy = answer.header("content-security-policy").unwrap();
        for part in POLICY {
            let has = policy.split("; ").any(|each| each.starts_with(part));
            assert!(has, "{path}: {part} is not in {policy}");
        }
        for loose in ["unsafe", "*", "http:", "https:", "blob:"] {
            assert!(!policy.contains(loose), "{path}: {policy}");
        }
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{path}");
    }
    assert!(pages >= 4, "{pages} pages");
    let refused = server.send("GET", "/v1/%3Cimg%20src=x%20onerror=alert(1)%3E", &[], b"");
    assert_eq!(refused.header("content-type"), Some("application/json"));
    assert_eq!(refused.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn the_page_is_everywhere_under_ui_and_allows_nothing_from_elsewhere() {
    let server = Server::start();
    let home = server.send("GET", "/", &[], b"");
    assert_eq!(home.status, 200);
    assert_eq!(
        home.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = home.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"));
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(home.header(name), Some(value), "{name}");
    }
    for path in ["/ui", "/ui/keys", "/ui/jobs/7/graph", "/ui/keys/a%2Fb?x=1"] {
        assert_eq!(server.send("GET", path, &[], b"").body, home.body, "{path}");
    }
    assert_eq!(server.send("POST", "/ui/keys", &[], b"").status, 405);
}

#[test]
fn files_are_kept_for_ever_under_the_hash_of_their_build_and_asked_for_again_elsewhere() {
    let server = Server::start();
    let page = server.send("GET", "/", &[], b"").text();
    let (_, rest) = page.split_once("href=\"/ui/assets/").unwrap();
    let named = rest.split('"').next().unwrap();
    let (hash, name) = named.split_once('/').unwrap();
    assert_eq!(hash.len(), 16);
    let kept = server.send("GET", &format!("/ui/assets/{named}"), &[], b"");
    assert_eq!(kept.status, 200);
    assert_eq!(
        kept.header("cache-control"),
        Some("public, max-age=31536000, immutable")
    );
    let plain = server.send("GET", &format!("/ui/assets/{name}"), &[], b"");
    assert_eq!(
        (plain.header("cache-control"), &plain.body),
        (Some("no-cache"), &kept.body)
    );
    let tag = plain.header("etag").unwrap();
    let again = server.send(
        "GET",
        &format!("/ui/assets/{name}"),
        &[("if-none-match", tag)],
        b"",
    );
    assert_eq!((again.status, again.body.len()), (304, 0));
    for path in [
        format!("/ui/assets/0000000000000000/{name}"),
        "/ui/assets/nothing.js".to_owned(),
        "/ui/assets/../../etc/passwd".to_owned(),
        "/ui/assets/%2e%2e/%2e%2e/Cargo.toml".to_owned(),
    ] {
        let answer = server.send("GET", &path, &[], b"");
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{path}");
    }
}

#[test]
fn a_developer_serves_files_from_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), "<p>mine</p>").unwrap();
    let server = Server::start_with(|command| {
        command.env("HAPAX_DASHBOARD_DIR", folder.path());
    });
    assert_eq!(server.send("GET", "/ui/x", &[], b"").text(), "<p>mine</p>");
    std::fs::write(folder.path().join("a.js"), "1").unwrap();
    assert_eq!(server.send("GET", "/ui/assets/a.js", &[], b"").text(), "1");
    assert_eq!(
        server.send("GET", "/ui/assets/app.css", &[], b"").status,
        404
    );
}

#[test]
fn files_from_a_folder_are_not_served_off_loopback() {
    let folder = tempfile::tempdir().unwrap();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let output = hapax()
            .args(["serve", "--listen", listen, "--data"])
            .arg(folder.path().join("data"))
            .env("HAPAX_DASHBOARD_DIR", folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("refusing_dashboard_folder"), "{said}");
    }
    assert!(!folder.path().join("data").exists(), "nothing was opened");
}
