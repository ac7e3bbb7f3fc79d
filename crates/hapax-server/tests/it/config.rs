//! Where a setting comes from: flag, variable, file, default.

use crate::fixture::{Server, hapax, path, refused};

#[test]
fn a_flag_beats_a_variable_and_a_variable_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    std::fs::write(
        &file,
        "body_bytes_max = 10\nmetrics_open = false\ndatabase = 'nonsense'\n",
    )
    .unwrap();
    let database = format!("sqlite:{}", path(&folder.path().join("x.db")));
    let server = Server::start_with(|command| {
        command
            .env("HAPAX_CONFIG", &file)
            .env("HAPAX_BODY_BYTES_MAX", "20")
            .env("HAPAX_DATABASE", "worse");
        command.args(["--database", &database]);
    });
    assert_eq!(
        server.send("GET", "/metrics", &[], b"").status,
        401,
        "the file's"
    );
    assert_eq!(
        server.owner("POST", "/v1/echo", &" ".repeat(21)).status,
        413,
        "the variable's"
    );
    assert_eq!(
        server.owner("POST", "/v1/echo", "\"over 10 bytes\"").status,
        200,
        "not the file's"
    );
    assert!(folder.path().join("x.db").exists(), "the flag's");
}

#[test]
fn the_file_of_defaults_is_accepted_as_it_is() {
    let defaults = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hapax.default.toml");
    let server = Server::start_with(|command| {
        command.args(["--config", defaults]);
    });
    assert_eq!(server.send("GET", "/ready", &[], b"").status, 200);
}

#[test]
fn what_cannot_be_followed_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let data = path(folder.path());
    let file = folder.path().join("hapax.toml");
    std::fs::write(&file, "# one\nlisten = '127.0.0.1:0'\nshutdown = 1\n").unwrap();
    let said = refused(&["serve", "--data", data, "--config", path(&file)], 2);
    assert!(
        said.contains("shutdown") && said.contains("line 3"),
        "{said}"
    );
    assert!(refused(&["serve", "--config", "/no/such/file"], 2).contains("/no/such/file"));
    assert!(refused(&["serve", "--data", data, "--listen", "nowhere"], 2).contains("nowhere"));
    let said = refused(
        &[
            "serve",
            "--data",
            data,
            "--database",
            "mysql://me:secret@h/d",
        ],
        2,
    );
    assert!(
        said.contains("sqlite:PATH") && !said.contains("secret"),
        "{said}"
    );
    assert!(refused(&["serve", "--nonsense"], 2).contains("--nonsense"));
    let output = hapax()
        .args(["sweep", "--data", data])
        .env("HAPAX_CONNECTIONS_MAX", "many")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("HAPAX_CONNECTIONS_MAX"));
}

#[test]
fn a_misspelt_variable_is_noticed() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_SHUTDWON_MS", "1");
    });
    assert!(server.log().contains("HAPAX_SHUTDWON_MS"));
}
