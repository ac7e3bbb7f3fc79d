//! What a start prints and makes, and the routes that answer everybody.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::fixture::{Server, hapax, path, refused};

#[test]
fn the_first_line_says_where_it_listens_and_the_rest_can_be_pasted() {
    let server = Server::start();
    assert_eq!(
        server.first_line,
        format!("listening on http://{}\n", server.address)
    );
    assert_eq!(
        server.send("GET", "/health", &[], b"").status,
        200,
        "it answers once it says so"
    );
    let (token, address) = (server.token(), server.address);
    let (_, rest, _) = server.stop();
    assert!(
        rest.contains(&token),
        "the first start shows the token: {rest}"
    );
    assert!(
        rest.contains(&format!("curl -i http://{address}/v1/echo")),
        "{rest}"
    );
    let dashboard = format!("the dashboard: http://{address}/");
    assert!(rest.contains(&dashboard), "{rest}");
}

#[test]
fn a_second_start_keeps_the_token_and_does_not_show_it_again() {
    let first = Server::start();
    let token = first.token();
    let (_, _, folder) = first.stop();
    let second = Server::start_in(folder, |_| {});
    assert_eq!(second.bearing(&token, "GET", "/v1/keys", "").status, 200);
    let (_, rest, _) = second.stop();
    assert!(!rest.contains(&token), "{rest}");
    assert!(rest.contains("$(cat "), "{rest}");
}

#[test]
fn what_a_start_makes_is_for_its_owner_alone() {
    let server = Server::start();
    let mode = |name: &str| {
        std::fs::metadata(server.data().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(""), 0o700);
    assert_eq!(mode("token"), 0o600);
}

#[test]
fn health_ready_version_and_metrics_answer_everybody() {
    let server = Server::start();
    let health = server.send("GET", "/health", &[], b"").json();
    assert_eq!(
        (health["status"].as_str(), health["store"].as_str()),
        (Some("ok"), Some("sqlite"))
    );
    assert_eq!(health["durability"], "full");
    assert!(health["uptime_s"].is_u64() && health["version"].is_string());
    assert_eq!(
        server.send("GET", "/ready", &[], b"").json()["status"],
        "ready"
    );
    assert_eq!(
        server.send("GET", "/version", &[], b"").json()["name"],
        "hapax"
    );
    let metrics = server.send("GET", "/metrics", &[], b"");
    assert!(
        metrics
            .header("content-type")
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    let counted = "hapax_http_requests_total{method=\"GET\",route=\"/health\",status=\"200\"} 1";
    assert!(metrics.text().contains(counted), "{}", metrics.text());
}

#[test]
fn head_answers_like_get_without_a_body() {
    let server = Server::start();
    for path in ["/health", "/ready", "/version", "/metrics", "/"] {
        let answer = server.send("HEAD", path, &[], b"");
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{path}");
    }
}

#[test]
fn every_answer_carries_a_trace_id_and_continues_the_callers() {
    let server = Server::start();
    assert_eq!(
        server
            .send("GET", "/health", &[], b"")
            .header("x-trace-id")
            .unwrap()
            .len(),
        32
    );
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let answer = server.send("GET", "/v1/keys", &[("traceparent", parent)], b"");
    assert_eq!(answer.status, 401);
    assert_eq!(
        answer.header("x-trace-id"),
        Some("4bf92f3577b34da6a3ce929d0e0e4736")
    );
    assert!(
        server.log().contains("4bf92f3577b34da6a3ce929d0e0e4736"),
        "the log has it too"
    );
}

#[test]
fn relaxed_durability_is_said() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_DURABILITY", "relaxed");
    });
    assert_eq!(
        server.send("GET", "/health", &[], b"").json()["durability"],
        "relaxed"
    );
}

#[test]
fn a_busy_port_is_named_with_a_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, folder) = (
        taken.local_addr().unwrap().to_string(),
        tempfile::tempdir().unwrap(),
    );
    let said = refused(
        &["serve", "--listen", &address, "--data", path(folder.path())],
        1,
    );
    assert!(
        said.contains(&address) && said.contains("--listen"),
        "{said}"
    );
    assert!(
        std::fs::read_dir(folder.path()).unwrap().next().is_none(),
        "nothing is left behind"
    );
}

#[test]
fn an_open_server_off_loopback_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let said = refused(
            &[
                "serve",
                "--listen",
                listen,
                "--insecure-no-auth",
                "--data",
                path(folder.path()),
            ],
            1,
        );
        assert!(said.contains("refusing_unauthenticated_bind"), "{said}");
    }
    assert!(
        !folder.path().join("hapax.db").exists(),
        "nothing was opened"
    );
}

#[test]
fn on_loopback_an_open_server_serves_this_machine_and_no_web_page() {
    let server = Server::start_with(|command| {
        command.arg("--insecure-no-auth");
    });
    assert_eq!(server.send("GET", "/v1/keys", &[], b"").status, 200);
    assert!(!server.data().join("token").exists());
    let page = server.send(
        "POST",
        "/v1/echo",
        &[("origin", "http://evil.example")],
        b"{}",
    );
    assert_eq!(page.refusal(), (403, "forbidden".to_owned()));
    let rebound = format!(
        "GET /v1/keys HTTP/1.1\r\nhost: evil.example:{}\r\nconnection: close\r\n\r\n",
        server.address.port()
    );
    let answer = crate::http::parse(&crate::http::raw(server.address, rebound.as_bytes())).unwrap();
    assert_eq!(answer.status, 403, "a name that was made to point here");
}

#[test]
fn two_servers_share_one_data_folder() {
    let first = Server::start();
    let data = first.data();
    let second = Server::start_with(|command| {
        command.env(
            "HAPAX_DATABASE",
            format!("sqlite:{}", path(&data.join("hapax.db"))),
        );
    });
    let token = first.token();
    let keyed = |server: &Server| {
        let headers = [
            ("authorization", &*format!("Bearer {token}")),
            ("idempotency-key", "shared"),
        ];
        server.send("POST", "/v1/echo", &headers, b"{}")
    };
    let (one, two) = (keyed(&first), keyed(&second));
    assert_eq!((one.status, two.status), (200, 200));
    assert_eq!(one.body, two.body);
    assert_eq!(two.header("idempotency-replayed"), Some("true"));
}

#[test]
fn a_server_whose_output_nobody_reads_goes_on() {
    let server = Server::start_unread();
    for _ in 0..3 {
        assert_eq!(server.owner("POST", "/v1/echo", "{}").status, 200);
    }
}

#[test]
fn plain_hapax_serves() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = hapax();
    command
        .env("HAPAX_LISTEN", "no-port")
        .current_dir(folder.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("no-port"),
        "it tried to listen: {output:?}"
    );
}
