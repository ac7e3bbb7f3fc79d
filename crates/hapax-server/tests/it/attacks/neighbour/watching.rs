//! Watching: what a tenant can do to the metrics and to the live streams of others.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;

use crate::both::{Store, claim, on_both_stores};
use crate::fixture::Server;
use crate::http;
use crate::proxy::upstream::Upstream;

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

on_both_stores! {
    the_paths_that_a_tenant_makes_up_are_no_labels,
    one_tenant_leaves_live_streams_to_others,
}

fn the_paths_that_a_tenant_makes_up_are_no_labels(store: Store) {
    let server = store.serve("[[routes]]\npattern = '*:*'\n[[routes]]\npattern = 'POST:pay'\n");
    let plain = store.serve("");
    for n in 0..20 {
        let made_up = json!({"key": "k", "method": "POST", "path": format!("/made-up-{n}")});
        claim(&server, &made_up);
        claim(&plain, &made_up);
        server.owner("GET", &format!("/made-up-{n}"), "");
        let job = json!({"kind": format!("made-up-{n}"), "work_id": "w", "artifact_id": "a", "canonical_url": "https://example.org/"});
        let planned = server.owner("POST", "/v1/jobs", &job.to_string());
        assert!(planned.status < 300, "{}", planned.text());
    }
    let known = json!({"key": "k", "method": "POST", "path": "/pay"});
    claim(&server, &known);
    let hold = json!({"key": "k", "method": "POST", "path": "/api/v1/bookings/hold"});
    claim(&plain, &hold);
    let metrics = |server: &Server| server.send("GET", "/metrics", &[], b"").text();
    let (ours, plain) = (metrics(&server), metrics(&plain));
    assert!(
        !ours.contains("made-up") && !plain.contains("made-up"),
        "{ours}"
    );
    for (metrics, label) in [
        (&ours, "*:*"),
        (&ours, "POST:pay"),
        (&plain, "other"),
        (&plain, "*:bookings-hold"),
    ] {
        let series = format!("hapax_requests_total{{route=\"{label}\",action=\"process\"}}");
        assert!(metrics.contains(&series), "{series} in {metrics}");
    }
}

/// Opens a stream; its status, and the connection.
fn watch(server: &Server, token: &str) -> (u16, BufReader<TcpStream>) {
    let mut stream = http::connect(server.address);
    let head = format!(
        "GET /v1/live HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    (first.split(' ').nth(1).unwrap().parse().unwrap(), reader)
}

fn one_tenant_leaves_live_streams_to_others(store: Store) {
    let server = store.serve("");
    let greedy = server.token_of("default", "viewer");
    let other = server.token_of(OTHER, "viewer");
    let streams: Vec<_> = (0..70).map(|_| watch(&server, &greedy)).collect();
    let refused = streams.iter().filter(|(status, _)| *status == 503).count();
    assert_eq!(refused, 6, "64 are one tenant's");
    assert_eq!(watch(&server, &other).0, 200);
}

/// The port that it listens on, on loopback.
fn local(server: &Server) -> SocketAddr {
    ([127, 0, 0, 1], server.address.port()).into()
}

#[test]
fn metrics_off_loopback_need_a_token_unless_they_are_opened() {
    let server = Server::start_on("0.0.0.0:0", |_| {});
    let bearer = format!("Bearer {}", server.token());
    let with = |server: &Server, headers: &[(&str, &str)]| {
        http::request(local(server), "GET", "/metrics", headers, b"").status
    };
    // Whatever a stranger says of where it comes from.
    for headers in [
        &[][..],
        &[("x-forwarded-for", "127.0.0.1")],
        &[("host", "localhost")],
    ] {
        assert_eq!(with(&server, headers), 401, "{headers:?}");
    }
    assert_eq!(with(&server, &[("authorization", &bearer)]), 200);
    let open = Server::start_on("0.0.0.0:0", |command| {
        command.env("HAPAX_METRICS_OPEN", "true");
    });
    assert_eq!(with(&open, &[]), 200);
    let local_only = Server::start();
    assert_eq!(with(&local_only, &[]), 200);
}

#[test]
fn metrics_of_the_proxy_off_loopback_need_a_token_too() {
    let upstream = Upstream::start();
    let mut proxy = Server::proxy_in(tempfile::tempdir().unwrap(), |command| {
        command
            .args(["--upstream", &upstream.url()])
            .env("HAPAX_PROXY_ADMIN_LISTEN", "0.0.0.0:0")
            .env("HAPAX_TOKEN", "a-long-configured-token");
    });
    let lines = [proxy.next_line(), proxy.next_line()];
    let admin = lines[1].strip_prefix("health and metrics on http://0.0.0.0:");
    let admin: SocketAddr = format!("127.0.0.1:{}", admin.unwrap()).parse().unwrap();
    let ask = |path: &str, headers: &[(&str, &str)]| {
        http::request(admin, "GET", path, headers, b"").status
    };
    assert_eq!((ask("/health", &[]), ask("/ready", &[])), (200, 200));
    assert_eq!(ask("/metrics", &[]), 401);
    let bearer = [("authorization", "Bearer a-long-configured-token")];
    assert_eq!(ask("/metrics", &bearer), 200);
}
