//! Route patterns as people write them, and `hapax routes test`, which says what they do.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::both::claim;
use crate::fixture::{Server, json as printed, path, refused, run, succeed};

fn file(config: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    std::fs::write(&file, config).unwrap();
    (folder, file)
}

/// What `hapax routes test` says of this request under this config.
fn tested(config: &str, method: &str, target: &str) -> Value {
    let (_folder, file) = file(config);
    printed(&["routes", "test", method, target, "--config", path(&file)])
}

#[test]
fn a_real_path_is_the_pattern_of_its_requests() {
    let (_folder, file) = file(
        "[[routes]]\npattern = 'POST:/api/v1/payments/link'\nrequired = true\n\
         [[routes]]\npattern = 'PUT:/api/v2/customers/42'\nttl_seconds = 60\n",
    );
    let server = Server::start_with(|command| {
        command.args(["--config", path(&file)]);
    });
    let keyless = json!({"method": "POST", "path": "/api/v1/payments/link"});
    let answer = server.owner("POST", "/v1/keys/claim", &keyless.to_string());
    let required = (400, "idempotency_key_required".to_owned());
    assert_eq!(answer.refusal(), required);
    let granted = claim(
        &server,
        &json!({"key": "k", "method": "PUT", "path": "/customers/7"}),
    );
    assert_eq!(granted["route_pattern"], "PUT:customers-{id}");
}

#[test]
fn a_pattern_that_no_request_matches_stops_the_start_and_fails_doctor() {
    for (pattern, nearest) in [
        ("POST:payments/link", "POST:payments-link"),
        ("POST:/payments?draft=1", "POST:payments"),
        ("PUT:/customers/{customer_id}", "PUT:customers-{id}"),
        ("PUT:customers{id}", "PUT:customers-{id}"),
        ("PUT:42", "PUT:{id}"),
        ("post:/payments", "POST:payments"),
    ] {
        let (folder, file) = file(&format!("[[routes]]\npattern = '{pattern}'\n"));
        let (data, file) = (path(folder.path()), path(&file));
        let serve = refused(&["serve", "--data", data, "--config", file], 2);
        let upstream = ["--upstream", "http://127.0.0.1:1"];
        let proxy = [&["proxy", "--data", data, "--config", file][..], &upstream].concat();
        let proxy = refused(&proxy, 2);
        let doctor = run(&["doctor", "--data", data, "--config", file]);
        assert_eq!(doctor.status.code(), Some(1), "{pattern}");
        let doctor = String::from_utf8(doctor.stdout).unwrap();
        for said in [serve, proxy, doctor] {
            assert!(
                said.contains(pattern) && said.contains(&format!("'{nearest}'")),
                "{said}"
            );
        }
    }
}

#[test]
fn two_ways_to_write_one_pattern_are_one_too_many() {
    let (_folder, file) = file(
        "[[routes]]\npattern = 'POST:/api/v1/payments/link'\n[[routes]]\npattern = 'POST:payments-link'\n",
    );
    let said = refused(&["serve", "--config", path(&file)], 2);
    assert!(
        said.contains("twice") && said.contains("POST:payments-link"),
        "{said}"
    );
}

#[test]
fn doctor_warns_of_dashes_where_slashes_may_be_meant() {
    let (folder, file) = file("[[routes]]\npattern = 'POST:api-v1-payments'\n");
    let data = folder.path().join("data");
    let listen = ["--listen", "127.0.0.1:0"];
    let command = ["doctor", "--data", path(&data), "--config", path(&file)];
    let report = printed(&[&command[..], &listen].concat());
    let items = report["items"].as_array().unwrap();
    let warned = items
        .iter()
        .find(|item| item["status"] == "warn" && item["check"] == "config");
    let warned = warned.unwrap_or_else(|| panic!("{report}"));
    assert!(
        warned["next"].as_str().unwrap().contains("'POST:payments'"),
        "{warned}"
    );
}

const TABLE: &str = "# A table.\n[[routes]]\npattern = \"*:*\"\nwait_ms = 5\n\n\
    [[routes]]\n# Money.\nrequired = true\npattern = \"POST:/api/v1/payments/*\"\nttl_seconds = 60\n\
    [[routes]]\npattern = \"POST:bookings-*\"\nderive = true\non_lost = \"hold\"\n";

#[test]
fn routes_test_says_what_applies_and_which_line_says_so() {
    let link = tested(TABLE, "post", "/api/v1/payments/link?draft=1");
    assert_eq!(
        (
            &link["pattern"],
            &link["key"],
            &link["ttl_seconds"],
            &link["wait_ms"]
        ),
        (
            &json!("POST:payments-link"),
            &json!("required"),
            &json!(60),
            &json!(0)
        )
    );
    let on_lost = (&link["on_lost"], &link["on_lost_proxy"]);
    assert_eq!(on_lost, (&json!("retry"), &json!("hold")));
    assert_eq!(link["entry"]["pattern"], "POST:/api/v1/payments/*");
    assert_eq!(
        (&link["entry"]["index"], &link["entry"]["line"]),
        (&json!(1), &json!(9))
    );

    let booking = tested(TABLE, "POST", "/bookings/hold");
    assert_eq!(
        (&booking["key"], &booking["ttl_seconds"]),
        (&json!("derived"), &json!(1800))
    );
    assert_eq!(booking["on_lost_proxy"], booking["on_lost"]);
    let why = booking["why"].as_str().unwrap();
    assert!(
        why.contains(":12: ") && why.contains("*:bookings-hold"),
        "{why}"
    );

    let other = tested(TABLE, "DELETE", "/things/7");
    assert_eq!(
        (&other["pattern"], &other["wait_ms"]),
        (&json!("DELETE:things-{id}"), &json!(5))
    );
    assert_eq!(other["entry"]["index"], 0);
}

#[test]
fn routes_test_says_what_is_not_keyed_and_why() {
    let read = tested(TABLE, "GET", "/bookings/hold");
    assert_eq!(
        (&read["keyed"], &read["key"]),
        (&json!(false), &json!("none"))
    );
    assert!(read["why"].as_str().unwrap().contains("PATCH"), "{read}");
    let unlisted = tested("[[routes]]\npattern = 'POST:a'\n", "POST", "/b");
    assert_eq!(
        (&unlisted["keyed"], &unlisted["entry"]),
        (&json!(false), &Value::Null)
    );
    let free = tested("", "POST", "/api/v1/payments/link");
    assert_eq!(
        (&free["keyed"], &free["key"]),
        (&json!(true), &json!("optional"))
    );
    assert_eq!(free["ttl_seconds"], 604_800);
    assert!(
        free["why"].as_str().unwrap().contains("*:payments-link"),
        "{free}"
    );
}

#[test]
fn routes_test_prints_lines_for_people_and_refuses_what_is_no_path() {
    let (_folder, file) = file(TABLE);
    let file = path(&file);
    let said = succeed(&["routes", "test", "POST", "/payments/link", "--config", file]);
    for line in [
        "pattern\tPOST:payments-link\n",
        "key\trequired: a request without one is a 400 idempotency_key_required\n",
        "ttl\t60 s\n",
        "wait\t0 ms\n",
        "on_lost\thold in hapax proxy, retry for claims over the API; the entry does not say\n",
        "hapax.toml:9: pattern = \"POST:/api/v1/payments/*\" is the longest that matches\n",
    ] {
        assert!(said.contains(line), "{line:?} in {said}");
    }
    let wrong = refused(&["routes", "test", "POST", "payments", "--config", file], 2);
    assert!(wrong.contains("begin it with a slash"), "{wrong}");
}

#[test]
fn routes_test_shows_which_statuses_leave_a_key_in_doubt() {
    let config = "[[routes]]\npattern = 'POST:pay'\non_status_hold = [502, 504]\n";
    let pay = tested(config, "POST", "/pay");
    assert_eq!(pay["on_status_hold"], json!(["502", "504"]));
    assert_eq!(tested("", "POST", "/pay")["on_status_hold"], json!([]));
    let (_folder, file) = file(config);
    let said = succeed(&["routes", "test", "POST", "/pay", "--config", path(&file)]);
    let line = "on_status_hold\t502, 504: such an answer leaves the key in doubt\n";
    assert!(said.contains(line), "{said}");
}
