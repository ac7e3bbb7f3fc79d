//! One envelope everywhere, and RFC 9457 for those who ask.

use serde_json::json;

use crate::fixture::Server;

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn every_refusal_has_the_envelope_and_its_page() {
    let server = Server::start();
    let big = format!(r#""{}""#, "x".repeat(1 << 20));
    let plain = ("content-type", "text/plain");
    let bearer = format!("Bearer {}", server.token());
    let authorized = ("authorization", bearer.as_str());
    for (method, path, headers, body, status, code) in [
        ("GET", "/v1/keys", &[][..], "", 401, "unauthorized"),
        ("GET", "/v1/nothing", &[authorized], "", 404, "not_found"),
        (
            "GET",
            "/v1/keys/not-an-id",
            &[authorized],
            "",
            404,
            "not_found",
        ),
        ("GET", "/v1/keys/%ff", &[authorized], "", 404, "not_found"),
        ("GET", "/docs/errors/nothing", &[], "", 404, "not_found"),
        ("GET", "/docs/errors/%ff", &[], "", 404, "not_found"),
        ("PUT", "/health", &[], "", 405, "method_not_allowed"),
        (
            "PATCH",
            "/v1/keys",
            &[authorized],
            "",
            405,
            "method_not_allowed",
        ),
        (
            "POST",
            "/v1/echo",
            &[authorized],
            &big,
            413,
            "payload_too_large",
        ),
        (
            "POST",
            "/v1/keys/claim",
            &[authorized],
            &big,
            413,
            "payload_too_large",
        ),
        (
            "POST",
            "/v1/keys/claim",
            &[authorized, plain],
            "{}",
            415,
            "unsupported_media_type",
        ),
        (
            "POST",
            "/v1/keys/claim",
            &[authorized],
            "{",
            400,
            "bad_json",
        ),
        (
            "POST",
            "/v1/keys/claim",
            &[authorized],
            "{}",
            400,
            "schema_validation_failed",
        ),
        (
            "GET",
            "/v1/keys?limit=0",
            &[authorized],
            "",
            400,
            "schema_validation_failed",
        ),
        (
            "GET",
            "/v1/keys?limit=x",
            &[authorized],
            "",
            400,
            "schema_validation_failed",
        ),
        (
            "GET",
            "/v1/keys?nonsense=1",
            &[authorized],
            "",
            400,
            "schema_validation_failed",
        ),
        (
            "GET",
            "/v1/keys?cursor=1",
            &[authorized],
            "",
            400,
            "schema_validation_failed",
        ),
    ] {
        let answer = server.send(method, path, headers, body.as_bytes());
        assert_eq!(
            answer.refusal(),
            (status, code.to_owned()),
            "{method} {path}"
        );
        assert_eq!(answer.header("content-type"), Some("application/json"));

        let accept = [
            headers,
            &[("accept", "text/html, application/problem+json;q=0.9")],
        ]
        .concat();
        let answer = server.send(method, path, &accept, body.as_bytes());
        let document = answer.json();
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{method} {path}"
        );
        assert_eq!(
            (document["status"].as_u64(), document["code"].as_str()),
            (Some(status.into()), Some(code))
        );
        assert!(document["title"].is_string() && document["detail"].is_string());
        let own = format!("http://{}", server.address);
        let page = document["type"].as_str().unwrap();
        assert_eq!(document["docs_url"], page);
        let page = page.strip_prefix(&own).unwrap_or_else(|| panic!("{page}"));
        let page = server.send("GET", page, &[], b"");
        assert_eq!(page.status, 200);
        let failure = json!({
            "code": code, "message": document["detail"], "type": "idempotency_error",
        });
        assert_eq!(document["error"], failure);
        assert!(page.text().contains(&format!("<h1>{code}</h1>")));
    }
}

#[test]
fn a_405_says_which_methods_there_are() {
    let server = Server::start();
    let allow = |path: &str| {
        server
            .owner("PATCH", path, "")
            .header("allow")
            .unwrap()
            .to_owned()
    };
    assert_eq!(allow("/health"), "GET,HEAD");
    assert_eq!(allow("/v1/echo"), "POST");
    let id = allow("/v1/keys/00000000-0000-8000-8000-000000000000");
    assert!(
        ["GET", "HEAD", "DELETE"]
            .iter()
            .all(|method| id.split(',').any(|allowed| allowed == *method)),
        "{id}"
    );
}

#[test]
fn a_schema_error_names_the_path() {
    let server = Server::start();
    let answer = server.owner(
        "POST",
        "/v1/keys/claim",
        r#"{"method":"POST","path":"/a","lease_seconds":"x"}"#,
    );
    let details = answer.json()["error"]["details"].clone();
    assert_eq!(details["errors"][0]["path"], "lease_seconds", "{details}");
    assert!(details["errors"][0]["message"].is_string());
}
