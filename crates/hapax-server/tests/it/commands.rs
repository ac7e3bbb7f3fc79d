//! The commands beside the server: tokens, keys, migrate, doctor, sweep, and their exit codes.

use serde_json::{Value, json as value};

use crate::fixture::{Server, json, path, refused, run, succeed};

#[test]
fn a_token_lives_from_create_to_revoke() {
    let folder = tempfile::tempdir().unwrap();
    let data = path(folder.path());
    let none = refused(&["token", "list", "--data", data], 1);
    assert!(none.contains("there is no database of hapax"), "{none}");
    let tenant = "11111111-1111-1111-1111-111111111111";
    let made = json(&[
        "token", "create", "--tenant", tenant, "--role", "writer", "--data", data,
    ]);
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        (&made["tenant"], &made["role"]),
        (&value!(tenant), &value!("writer"))
    );
    assert!(
        made["token"]
            .as_str()
            .unwrap()
            .starts_with(&format!("hpx_{id}_"))
    );

    let listed = json(&["token", "list", "--data", data]);
    assert_eq!(
        (&listed["items"][0]["id"], &listed["items"][0]["revoked_at"]),
        (&made["id"], &Value::Null)
    );
    assert!(
        !listed.to_string().contains(made["token"].as_str().unwrap()),
        "a secret is shown once"
    );
    let plain = succeed(&["token", "list", "--data", data]);
    assert_eq!(
        plain.lines().count(),
        1,
        "no head and no frame in a pipe: {plain}"
    );
    assert_eq!(plain.split('\t').next(), Some(id));

    assert_eq!(
        json(&["token", "revoke", id, "--data", data])["revoked"],
        true
    );
    assert!(json(&["token", "list", "--data", data])["items"][0]["revoked_at"].is_string());
    let unknown = refused(
        &[
            "token",
            "revoke",
            "00000000000000000000000000000000",
            "--data",
            data,
        ],
        1,
    );
    assert!(unknown.contains("token list"), "{unknown}");
}

#[test]
fn the_plain_form_of_create_prints_the_token_alone() {
    let folder = tempfile::tempdir().unwrap();
    let printed = succeed(&[
        "token",
        "create",
        "--tenant",
        "default",
        "--role",
        "viewer",
        "--data",
        path(folder.path()),
    ]);
    assert!(
        printed.starts_with("hpx_") && printed.lines().count() == 1,
        "{printed}"
    );
}

#[test]
fn wrong_use_is_exit_code_2() {
    for arguments in [
        &["token", "create", "--tenant", "acme", "--role", "owner"][..],
        &["token", "create", "--tenant", "default", "--role", "king"],
        &["token", "create", "--name", ""],
        &["token", "revoke", "x"],
        &["keys", "show", "x"],
        &["keys", "list", "--state", "lost"],
        &["nonsense"],
        &["key", "--canon", "--json"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["serve", "--help"],
        &["token", "--help"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn migrate_says_what_ran_and_the_second_time_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let first = json(&["migrate", "--data", path(folder.path())]);
    assert_eq!(first["ran"][0], "0001_idempotency_keys");
    assert_eq!(
        json(&["migrate", "--data", path(folder.path())])["ran"],
        value!([])
    );
    assert!(succeed(&["migrate", "--data", path(folder.path())]).contains("up to date"));
}

#[test]
fn doctor_finds_a_healthy_setup_healthy() {
    let server = Server::start();
    let (data, listen) = (server.data(), server.address.to_string());
    let report = json(&["doctor", "--data", path(&data), "--listen", &listen]);
    let items = report["items"].as_array().unwrap();
    for check in [
        "config",
        "data folder",
        "disk",
        "database",
        "durability",
        "clock",
        "port",
    ] {
        let item = items
            .iter()
            .find(|item| item["check"] == check)
            .unwrap_or_else(|| panic!("{check}: {report}"));
        assert_ne!(item["status"], "fail", "{item}");
    }
}

#[test]
fn doctor_names_what_is_wrong_and_exits_1() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    std::fs::write(
        folder.path().join("hapax.db"),
        "this is no database, whatever it says on the tin",
    )
    .unwrap();
    // Nobody answers there: the listener takes the connection, and then closes it.
    let closing = std::thread::spawn(move || drop(taken.accept()));
    let output = run(&[
        "doctor",
        "--json",
        "--data",
        path(folder.path()),
        "--listen",
        &listen,
    ]);
    closing.join().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let status = |check: &str| {
        let items = report["items"].as_array().unwrap();
        items.iter().find(|item| item["check"] == check).unwrap()["status"].clone()
    };
    assert_eq!(
        (status("database"), status("port")),
        (value!("fail"), value!("fail")),
        "{report}"
    );
}

#[test]
fn doctor_survives_a_config_that_cannot_be_read() {
    let output = run(&["doctor", "--config", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("/no/such/file"));
}

#[test]
fn keys_are_listed_shown_and_removed_beside_a_running_server() {
    let server = Server::start();
    let data = server.data();
    let bearer = format!("Bearer {}", server.token());
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
    let first = server.send("POST", "/v1/echo", &headers, b"{}").json();

    let listed = json(&["keys", "list", "--data", path(&data)]);
    let id = listed["items"][0]["id"].as_str().unwrap();
    assert_eq!(
        (&listed["items"][0]["key"], &listed["items"][0]["status"]),
        (&value!("k"), &value!(200))
    );
    assert!(
        succeed(&["keys", "list", "--data", path(&data)]).contains("POST:echo\tk\tsettled\t200")
    );
    assert_eq!(
        json(&["keys", "show", id, "--data", path(&data)])["state"],
        "settled"
    );
    assert_eq!(
        json(&[
            "keys",
            "list",
            "--route",
            "POST:other",
            "--data",
            path(&data)
        ])["items"],
        value!([])
    );

    assert_eq!(
        json(&["keys", "rm", id, "--data", path(&data)])["deleted"],
        true
    );
    assert!(refused(&["keys", "rm", id, "--data", path(&data)], 1).contains(id));
    assert!(refused(&["keys", "show", id, "--data", path(&data)], 1).contains(id));
    let second = server.send("POST", "/v1/echo", &headers, b"{}");
    assert_eq!(
        second.header("idempotency-replayed"),
        None,
        "the server's cache has forgotten it too"
    );
    assert_ne!(second.json()["id"], first["id"]);
}

#[test]
fn sweep_removes_what_has_expired() {
    let server = Server::start();
    let claim = r#"{"key":"k","method":"POST","path":"/a","ttl_seconds":0,"lease_seconds":0}"#;
    assert_eq!(
        server.owner("POST", "/v1/keys/claim", claim).json()["action"],
        "process"
    );
    let live = r#"{"key":"live","method":"POST","path":"/a"}"#;
    assert_eq!(
        server.owner("POST", "/v1/keys/claim", live).json()["action"],
        "process"
    );
    let data = server.data();
    // The shortest lease is a millisecond; it has run out by the time the command runs.
    assert_eq!(json(&["sweep", "--data", path(&data)])["swept"], 1);
    assert_eq!(json(&["sweep", "--data", path(&data)])["swept"], 0);
    let listed = json(&["keys", "list", "--data", path(&data)]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let again = server.owner("POST", "/v1/keys/claim", claim).json();
    assert_eq!(
        (&again["action"], &again["expired"]),
        (&value!("process"), &value!(true))
    );
}
