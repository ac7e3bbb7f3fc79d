//! Encryption at rest from outside: the master key in the environment, rotation and shredding by command.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::fixture::{Server, hapax};

const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const NEW: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
const SECRET: &str = "planted-4111-1111";
const DEFAULT: &str = "00000000-0000-0000-0000-000000000000";

fn claim(server: &Server) -> Value {
    let claim = json!({
        "key": "k", "method": "POST", "path": format!("/payments?card={SECRET}"), "body": {"card": SECRET},
    });
    let answer = server.owner("POST", "/v1/keys/claim", &claim.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn pay(server: &Server) {
    let granted = claim(server);
    assert_eq!(granted["action"], "process");
    let path = format!("/v1/keys/{}/complete", granted["id"].as_str().unwrap());
    let outcome = json!({"token": granted["token"], "status": 201, "body": {"paid": SECRET}});
    let completed = server.owner("POST", &path, &outcome.to_string());
    assert_eq!(completed.status, 200, "{}", completed.text());
}

fn replayed(server: &Server) {
    let replay = claim(server);
    assert_eq!(replay["action"], "replay");
    assert_eq!(replay["response"]["body"], json!({"paid": SECRET}));
}

fn vault(data: &Path, arguments: &[&str], keys: &[(&str, &str)]) -> Output {
    hapax()
        .arg("vault")
        .args(arguments)
        .arg("--data")
        .arg(data)
        .arg("--json")
        .envs(keys.iter().copied())
        .output()
        .unwrap()
}

fn said(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn holds(folder: &Path, word: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|file| {
        let path = file.unwrap().path();
        if path.is_dir() {
            return holds(&path, word);
        }
        let bytes = std::fs::read(path).unwrap();
        bytes
            .windows(word.len())
            .any(|part| part == word.as_bytes())
    })
}

#[test]
fn what_is_stored_and_logged_holds_neither_a_body_nor_the_master_key() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_KEK", OLD).env("HAPAX_LOG", "trace");
    });
    pay(&server);
    replayed(&server);
    let data = server.data();
    for word in [SECRET, OLD] {
        assert!(!holds(data.parent().unwrap(), word), "{word}");
    }
    let plain = Server::start();
    pay(&plain);
    assert!(
        holds(&plain.data(), SECRET),
        "the search finds what is there"
    );
}

#[test]
fn a_conflict_under_encryption_is_noted_by_its_count_alone() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_KEK", OLD);
    });
    pay(&server);
    let other = json!({
        "key": "k", "method": "POST", "path": format!("/payments?card={SECRET}"),
        "body": {"card": "another", "plantedname": 1},
    });
    let answer = server.owner("POST", "/v1/keys/claim", &other.to_string());
    assert_eq!(answer.json()["action"], "conflict", "{}", answer.text());
    let trail = server.owner("GET", "/v1/audit?action=idempotency_conflict", "");
    assert_eq!(
        trail.json()["items"][0]["details"],
        json!({"key": "k", "changes_count": 2})
    );
    let hash = answer.json()["conflict"]["original_hash"].clone();
    for word in ["plantedname", hash.as_str().unwrap()] {
        assert!(!holds(&server.data(), word), "{word}");
    }
}

#[test]
fn an_encrypted_store_is_refused_without_its_key_and_says_why() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_KEK", OLD);
    });
    pay(&server);
    let (_, _, folder) = server.stop();
    let data = folder.path().join("data");
    for keys in [&[][..], &[("HAPAX_KEK", NEW)]] {
        let refused = hapax()
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .envs(keys.iter().copied())
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(why.contains("HAPAX_KEK") && !why.contains(NEW), "{why}");
    }
    let wrong = vault(&data, &["rotate"], &[("HAPAX_KEK", "hunter2")]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    assert!(!String::from_utf8_lossy(&wrong.stderr).contains("hunter2"));
}

#[test]
fn the_master_key_is_rotated_beside_a_running_server() {
    let both = [("HAPAX_KEK", NEW), ("HAPAX_KEK_PREVIOUS", OLD)];
    let server = Server::start_with(|command| {
        command.env("HAPAX_KEK", OLD);
    });
    pay(&server);
    let (_, _, folder) = server.stop();
    let server = Server::start_in(folder, |command| {
        command.envs(both);
    });
    replayed(&server);

    assert_eq!(
        said(&vault(&server.data(), &["rotate"], &both)),
        json!({"rotated": 1})
    );
    assert_eq!(
        said(&vault(&server.data(), &["rotate"], &both)),
        json!({"rotated": 0})
    );
    let renewed = said(&vault(&server.data(), &["renew"], &both));
    assert!(renewed["key_id"].is_string(), "{renewed}");
    replayed(&server);

    let (_, _, folder) = server.stop();
    let server = Server::start_in(folder, |command| {
        command.env("HAPAX_KEK", NEW);
    });
    replayed(&server);
}

#[test]
fn a_shredded_tenant_is_an_error_and_never_a_second_execution() {
    let key = [("HAPAX_KEK", OLD)];
    let server = Server::start_with(|command| {
        command.envs(key);
    });
    pay(&server);
    let (_, _, folder) = server.stop();
    let data = folder.path().join("data");
    let unsure = vault(&data, &["shred", "--tenant", DEFAULT], &key);
    assert_eq!(unsure.status.code(), Some(2), "{unsure:?}");
    let shredded = said(&vault(
        &data,
        &["shred", "--tenant", DEFAULT, "--yes"],
        &key,
    ));
    assert_eq!(shredded["shredded"], 1);

    let server = Server::start_in(folder, |command| {
        command.envs(key);
    });
    let claim = json!({"key": "k", "method": "POST", "path": "/payments", "body": {}});
    let answer = server.owner("POST", "/v1/keys/claim", &claim.to_string());
    assert_eq!(answer.status, 500, "{}", answer.text());
    assert!(server.log().contains("is missing"), "the log says why");
}
