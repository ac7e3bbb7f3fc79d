//! Where downloads must not go, and what is told of it: a host that answers a name with an inner address teaches nobody
//! where that is.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::token_of;
use crate::both::{Store, on_both_stores};
use crate::fixture::Server;

const ADA: &str = "a1a1a1a1-1111-4111-8111-111111111111";

on_both_stores!(
    the_address_that_a_download_is_kept_from_is_told_to_the_log_alone,
    what_a_cloud_tells_its_machines_is_not_downloaded,
);

/// A server, and a token of a tenant that is not its operator's.
fn serve(store: Store) -> (Server, String) {
    let store = store.flags();
    let server = Server::start_with(|command| {
        command.args(&store);
    });
    let token = token_of(&server, &store, ADA, "writer");
    (server, token)
}

/// The job of a download once it was given up, and everything that the API says of it.
fn given_up(server: &Server, token: &str, url: &str) -> (Value, String) {
    let job = json!({"work_id": "w", "artifact_id": url, "canonical_url": url}).to_string();
    let planned = server.bearing(token, "POST", "/v1/jobs", &job);
    assert_eq!(planned.status, 201, "{}", planned.text());
    let id = planned.json()["job_id"].as_str().unwrap().to_owned();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let told = server.bearing(token, "GET", &format!("/v1/jobs/{id}"), "");
        let job = told.json();
        if job["state"] == "DEAD" {
            let listed = server
                .bearing(token, "GET", "/v1/jobs?state=DEAD", "")
                .text();
            return (job, format!("{}{listed}", told.text()));
        }
        assert!(Instant::now() < end, "{job}");
        std::thread::yield_now();
    }
}

fn the_address_that_a_download_is_kept_from_is_told_to_the_log_alone(store: Store) {
    let (server, token) = serve(store);
    let port = server.address.port();
    for host in ["localhost", "0x7f.1", "2130706433", "[::ffff:7f00:1]"] {
        let (job, told) = given_up(&server, &token, &format!("http://{host}:{port}/file"));
        let error = job["error"].as_str().unwrap();
        assert!(error.contains("ssrf_blocked"), "{host}: {error}");
        for address in ["127.0.0.1", "::1", "7f00:1]:", "localdomain"] {
            assert!(!error.contains(address), "{host}: {error}");
        }
        assert!(!told.contains("127.0.0.1"), "{host}: {told}");
        assert_eq!(
            error.contains("localhost"),
            host == "localhost",
            "a name is told: {error}"
        );
    }
    let log = server.log();
    assert!(
        log.contains("127.0.0.1") || log.contains("::1"),
        "the operator is told: {log}"
    );
    assert!(log.contains(r#""host":"localhost""#), "{log}");
}

fn what_a_cloud_tells_its_machines_is_not_downloaded(store: Store) {
    let (server, token) = serve(store);
    for url in [
        "http://168.63.129.16/?comp=versions",
        "http://0xa83f8110/machine",
        "http://[::ffff:168.63.129.16]/",
        "http://[64:ff9b::168.63.129.16]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.100.100.200/latest/meta-data/",
        "http://192.0.0.192/opc/v2/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://169.254.169.254./latest/meta-data/",
        "http://0251.0376.0251.0376./",
        "http://169\u{3002}254\u{3002}169\u{3002}254\u{3002}/",
    ] {
        let (job, _) = given_up(&server, &token, url);
        let error = job["error"].as_str().unwrap();
        assert!(error.contains("ssrf_blocked"), "{url}: {error}");
    }
}
