//! GET /config: what a client may know, and no secret.

use serde_json::{Value, json};

use crate::fixture::{Server, path, refused};

#[test]
fn it_names_schemas_limits_and_what_is_configured() {
    let server = Server::start_with(|command| {
        command
            .arg("--no-worker")
            .env("GATEWAY_BASE_URL", "http://127.0.0.1:1")
            .env("GATEWAY_BEARER_TOKEN", "planted-gateway")
            .env("LITELLM_MASTER_KEY", "planted-litellm")
            .env("OPENAI_BASE_URL", "http://planted-host/v1")
            .env("HAPAX_TELEGRAM_SECRET", "planted-telegram");
    });
    let answer = server.owner("GET", "/config", "");
    let config = answer.json();
    assert_eq!(config["schemas"], json!(["pkm", "pkm_test"]));
    assert_eq!(config["limits"]["batch_body_bytes_max"], 33_554_432);
    assert_eq!(config["limits"]["batch_items_max"], 2000);
    assert_eq!(config["retrieval"]["excerpt_chars_max"], 320);
    assert!(config["version"].is_string());
    let configured = json!({"litellm": true, "gateway": true, "email_import_root": false, "telegram_secret": true});
    assert_eq!(config["configured"], configured);
    for secret in ["planted", &server.token(), path(&server.data())] {
        assert!(!answer.text().contains(secret), "{secret}");
    }
}

#[test]
fn what_is_not_configured_is_false() {
    let server = Server::start();
    let config = server.owner("GET", "/config", "").json();
    let configured = config["configured"].as_object().unwrap();
    assert!(
        configured
            .values()
            .all(|value| *value == Value::Bool(false)),
        "{configured:?}"
    );
}

#[test]
fn tracking_parameters_that_are_none_are_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    for wrong in [
        "['']", "['*']", "['a b']", "['a=b']", "['a*b']", "'ref'", "['ы']",
    ] {
        std::fs::write(&file, format!("tracking_parameters = {wrong}\n")).unwrap();
        let data = folder.path().join("data");
        let said = refused(
            &["serve", "--config", path(&file), "--data", path(&data)],
            2,
        );
        assert!(said.contains("tracking_parameters"), "{wrong}: {said}");
    }
}
