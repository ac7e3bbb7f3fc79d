//! What a caller sends cannot forge, split or colour a line of the log, whatever form the log has.

use serde_json::json;

use crate::fixture::Server;
use crate::http;
use crate::proxy::upstream::Upstream;

/// What would end a line, begin another, or colour it.
const FORGED: &str = "x\r\nFORGED{\"level\":\"ERROR\"}\u{1b}[31m\u{9b}31m\u{2028}";

/// Sends what could forge a line wherever a word of the caller's may be logged.
fn forge(server: &Server) {
    let word = json!(FORGED);
    for (path, body) in [
        (
            "/v1/keys/claim",
            json!({"key": "k", "method": "POST", "path": format!("/{FORGED}"), "body": word}),
        ),
        (
            "/v1/keys/claim",
            json!({"key": word, "method": word, "path": "/a"}),
        ),
        (
            "/v1/intents",
            json!({"kind": "intent", "source": word, "natural_language": word, "request_id": word}),
        ),
        (
            "/v1/jobs",
            json!({"kind": word, "work_id": word, "artifact_id": word, "canonical_url": word}),
        ),
        (
            "/v1/jobs",
            json!({"work_id": word, "artifact_id": word, "canonical_url": "https://127.0.0.1:1/"}),
        ),
        ("/v1/jobs/lease", json!({"owner": word})),
        (
            "/db/insert",
            json!({"source": word, "title": word, "clean_text": word}),
        ),
        (
            "/v1/courses/ingest",
            json!({"course": {"id": word, "name": word}}),
        ),
        ("/import/email/mbox", json!({"mbox_path": word})),
        (
            "/normalize/email",
            json!({"raw": word, "subject": word, "from": word}),
        ),
        ("/enrich/t1", json!({"clean_text": word})),
        ("/session", json!({"token": word})),
    ] {
        server.owner("POST", path, &body.to_string());
    }
    for path in [
        "/%0d%0aFORGED%1b[31m",
        "/v1/keys/%0aFORGED",
        "/v1/keys?q=%0aFORGED&state=%1b",
    ] {
        server.owner("GET", path, "");
    }
    let token = server.token();
    // Bytes that a header may hold, and some that it may not.
    for value in [
        "a\u{9b}31mFORGED",
        "a\tFORGED",
        "a\u{1b}[31mFORGED",
        "a\rFORGED",
        "a\nFORGED",
    ] {
        for name in [
            "idempotency-key",
            "user-agent",
            "x-forwarded-for",
            "traceparent",
            "accept",
            "host",
        ] {
            let head = format!(
                "POST /v1/echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {token}\r\ncontent-length: 2\r\n{name}: {value}\r\n\r\n{{}}"
            );
            http::raw(server.address, head.as_bytes());
        }
    }
}

#[test]
fn nothing_that_is_sent_forges_or_colours_a_line_of_the_log() {
    for format in ["text", "json"] {
        let upstream = Upstream::start();
        let server = Server::start_with(|command| {
            command
                .env("HAPAX_LOG", "trace")
                .env("HAPAX_LOG_FORMAT", format)
                .env("OPENAI_BASE_URL", upstream.url())
                .env("LITELLM_MASTER_KEY", "k");
        });
        forge(&server);
        assert_eq!(server.send("GET", "/health", &[], b"").status, 200);
        let log = server.log();
        assert!(log.contains("FORGED"), "{format}: some of it is logged");
        for line in log.lines() {
            let odd = line
                .chars()
                .find(|character| character.is_control() && *character != '\t');
            assert_eq!(odd, None, "{format}: {line}");
            let is_ours = if format == "json" {
                let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
                parsed.is_ok_and(|line| line["timestamp"].is_string())
            } else {
                line.starts_with("20") && line.get(10..11) == Some("T")
            };
            assert!(is_ours, "{format}: {line}");
        }
    }
}
