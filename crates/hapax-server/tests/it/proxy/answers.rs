//! What the proxy adds to the upstream's answer: how long it is recorded, where a refusal is explained, gRPC's own
//! words, and what browsers on other pages need.

use serde_json::json;

use super::upstream::EXPOSED;
use super::{Proxied, is_replay, start};
use crate::http::request;

const PROBLEM: (&str, &str) = ("accept", "application/problem+json");

#[test]
fn a_recorded_answer_says_until_when_it_is_replayed() {
    let proxied = Proxied::with("[[routes]]\npattern = '*:*'\nttl_seconds = 60\n");
    let first = proxied.post("/echo", "k", "1");
    let expires = first.header("idempotency-expires").unwrap();
    assert!(expires.ends_with(" GMT"), "{expires}");
    let again = proxied.post("/echo", "k", "1");
    assert!(is_replay(&again));
    assert_eq!(again.header("idempotency-expires"), Some(expires));
    let busy = proxied.post("/s503", "l", "1");
    assert_eq!(busy.header("idempotency-expires"), None);
}

#[test]
fn no_refusal_of_the_proxy_leads_to_a_path_of_the_upstream() {
    let proxied = Proxied::plain();
    assert_eq!(proxied.post("/echo", "k", "1").status, 200);
    let key = ("idempotency-key", "k");
    for (path, headers, code) in [
        ("/echo", &[key, PROBLEM][..], "IDEMPOTENCY_CONFLICT"),
        ("/echo", &[PROBLEM, ("host", "h/evil")], "bad_target"),
        ("/break", &[PROBLEM], "downstream_failed"),
    ] {
        let document = proxied.send("POST", path, headers, b"2").json();
        assert_eq!(document["type"], format!("urn:hapax:error:{code}"));
        assert!(document.get("docs_url").is_none(), "{document}");
        assert_eq!(document["error"]["code"], code);
        assert_eq!(document["error"]["type"], "idempotency_error");
        assert_eq!(document["error"]["message"], document["detail"]);
    }
    let envelope = proxied.post("/echo", "k", "2").json();
    assert!(envelope["error"].get("docs_url").is_none(), "{envelope}");
}

#[test]
fn a_configured_site_has_the_pages_of_refusals() {
    let proxied = Proxied::with("docs_base_url = 'https://hapax.example/'\n");
    assert_eq!(proxied.post("/echo", "k", "1").status, 200);
    let page = |code: &str| json!(format!("https://hapax.example/docs/errors/{code}"));
    let key = ("idempotency-key", "k");
    let document = proxied.send("POST", "/echo", &[key, PROBLEM], b"2").json();
    assert_eq!(document["type"], page("IDEMPOTENCY_CONFLICT"));
    assert_eq!(document["docs_url"], page("IDEMPOTENCY_CONFLICT"));
    let envelope = proxied.send("POST", "/break", &[], b"2").json();
    assert_eq!(envelope["error"]["docs_url"], page("downstream_failed"));
}

#[test]
fn the_admin_listener_has_the_pages_and_every_way_back_leads_somewhere() {
    let admin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = admin.local_addr().unwrap();
    drop(admin);
    let config = format!("[proxy]\nadmin_listen = '{address}'\n");
    let _proxied = Proxied::with(&config);
    let get = |path: &str| request(address, "GET", path, &[], b"");
    let page = get("/docs/errors/downstream_failed");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<h1>downstream_failed</h1>"));
    let text = page.text();
    let links = text.split("href=\"").skip(1);
    let links: Vec<&str> = links.filter_map(|rest| rest.split('"').next()).collect();
    assert!(links.len() > 4, "{links:?}");
    for link in links {
        assert_eq!(get(link).status, 200, "{link}");
    }
    assert!(
        get("/")
            .text()
            .contains("href=\"/docs/errors/downstream_failed\"")
    );
    for path in ["/health", "/ready", "/version", "/nothing"] {
        assert!(get(path).text().ends_with("}\n"), "{path}");
    }
}

/// What a gRPC client gets: the HTTP status, the gRPC status and its message.
fn called(proxied: &Proxied, path: &str, key: &str, body: &str) -> (u16, String, String) {
    let headers = [
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("idempotency-key", key),
    ];
    let answer = proxied.send("POST", path, &headers, body.as_bytes());
    let header = |name| answer.header(name).unwrap_or_default().to_owned();
    assert!(answer.body.is_empty() || header("grpc-status").is_empty());
    (answer.status, header("grpc-status"), header("grpc-message"))
}

#[test]
fn a_refused_grpc_call_gets_its_grpc_status() {
    let config =
        "[[routes]]\npattern = '*:*'\nmax_body_bytes = 5\n[proxy]\nhosts = ['h', '127.0.0.1']\n";
    let proxied = Proxied::with(config);
    assert_eq!(called(&proxied, "/echo", "k", "1").0, 200);
    assert_eq!(called(&proxied, "/break", "doubt", "1").1, "14");
    for (path, key, body, status, code) in [
        ("/echo", "k", "2", "10", "IDEMPOTENCY_CONFLICT"),
        ("/break", "doubt", "1", "9", "IDEMPOTENCY_IN_DOUBT"),
        ("/echo", "l", "123456", "8", "payload_too_large"),
        ("/echo", "\u{e9}", "1", "3", "idempotency_key_invalid"),
    ] {
        let (http, grpc, message) = called(&proxied, path, key, body);
        assert_eq!((http, grpc.as_str()), (200, status), "{message}");
        assert!(message.starts_with(&format!("{code}: ")), "{message}");
        assert!(message.is_ascii(), "{message}");
    }
    std::thread::scope(|scope| {
        let first = scope.spawn(|| called(&proxied, "/gate", "busy", "{}"));
        proxied.upstream.until_calls(3);
        let (http, grpc, message) = called(&proxied, "/gate", "busy", "{}");
        proxied.upstream.open();
        assert_eq!(first.join().unwrap().0, 201);
        assert_eq!((http, grpc.as_str()), (200, "14"), "{message}");
    });
    let other = [("host", "elsewhere"), ("content-type", "application/grpc")];
    let refused = proxied.send("POST", "/echo", &other, b"");
    assert_eq!(
        (refused.status, refused.header("grpc-status")),
        (200, Some("3"))
    );
}

#[test]
fn an_upstream_that_is_down_is_unavailable_to_grpc() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", held.local_addr().unwrap());
    drop(held);
    let proxy = start(tempfile::tempdir().unwrap(), &url, "", None);
    let headers = [
        ("content-type", "application/grpc"),
        ("idempotency-key", "k"),
    ];
    let answer = request(proxy.address, "POST", "/a", &headers, b"x");
    assert_eq!(
        (answer.status, answer.header("grpc-status")),
        (200, Some("14"))
    );
}

#[test]
fn a_preflight_passes_and_is_never_keyed() {
    let proxied = Proxied::with("[[routes]]\npattern = '*:*'\nrequired = true\n");
    let headers = [
        ("origin", "https://shop.example"),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "content-type,idempotency-key",
        ),
    ];
    let preflight = proxied.send("OPTIONS", "/cors", &headers, b"");
    assert_eq!(preflight.status, 204);
    assert_eq!(
        preflight.header("access-control-allow-headers"),
        Some("Content-Type, Idempotency-Key")
    );
    assert_eq!(
        preflight.header("access-control-allow-origin"),
        Some("https://shop.example")
    );
    let seen = proxied.upstream.calls();
    assert_eq!(
        seen[0].header("access-control-request-headers"),
        Some("content-type,idempotency-key")
    );
}

#[test]
fn a_replay_is_readable_on_another_page_where_its_route_stores_what_browsers_need() {
    let stored =
        "store_headers = ['access-control-allow-origin', 'access-control-expose-headers', 'vary']";
    let proxied = Proxied::with(&format!("[[routes]]\npattern = '*:*'\n{stored}\n"));
    let first = proxied.post("/cors", "k", "{}");
    let again = proxied.post("/cors", "k", "{}");
    assert!(is_replay(&again));
    for answer in [first, again] {
        let exposed = answer.header("access-control-expose-headers").unwrap();
        let exposed: Vec<&str> = exposed.split(", ").collect();
        for name in EXPOSED {
            assert!(exposed.contains(&name), "{name} in {exposed:?}");
        }
        assert_eq!(
            answer.header("access-control-allow-origin"),
            Some("https://shop.example")
        );
    }
}

#[test]
fn the_guide_to_cors_names_every_header_to_expose() {
    let guide = include_str!("../../../../../docs/guides/cors.md");
    let line = format!("Access-Control-Expose-Headers: {}", EXPOSED.join(", "));
    assert!(guide.contains(&line), "{line}");
}
