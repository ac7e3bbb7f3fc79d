//! What is described is routed, and what is routed is described: asked of a running server.

use serde_json::Value;

use super::{operations, validate};
use crate::fixture::Server;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// The path with what the document gives as examples.
pub(crate) fn filled(path: &str, operation: &Value) -> String {
    let mut filled = path.to_owned();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == "path" {
            let name = parameter["name"].as_str().unwrap();
            let example = parameter["example"].as_str().unwrap();
            filled = filled.replace(&format!("{{{name}}}"), example);
        }
    }
    filled
}

#[test]
fn every_operation_is_there_and_asks_for_a_token_unless_it_says_that_it_is_open() {
    let server = Server::start();
    for operation in operations() {
        let path = filled(operation.path, operation.value);
        let method = operation.method.to_uppercase();
        let answer = server.send(&method, &path, &[], b"");
        let is_open = operation.value["x-role"] == "none";
        assert_eq!(answer.status != 401, is_open, "{method} {path}: {answer:?}");
        assert!(
            answer.status != 404 && answer.status != 405,
            "{method} {path}: {answer:?}"
        );
    }
}

#[test]
fn every_operation_asks_for_the_role_that_it_says() {
    let server = Server::start();
    let tokens = ["viewer", "writer", "owner"].map(|role| server.mint("default", role).1);
    for operation in operations() {
        let role = operation.value["x-role"].as_str().unwrap();
        let Some(needed) = ["viewer", "writer", "owner"]
            .iter()
            .position(|known| *known == role)
        else {
            continue;
        };
        let path = filled(operation.path, operation.value);
        let method = operation.method.to_uppercase();
        if let Some(below) = needed.checked_sub(1) {
            let answer = server.bearing(&tokens[below], &method, &path, "");
            assert_eq!(
                answer.refusal(),
                (403, "forbidden".to_owned()),
                "{method} {path}"
            );
        }
        // A stream does not end; that it asks for its role is seen above and where streams are tested.
        if path == "/v1/live" {
            continue;
        }
        // What does nothing without a body can be tried.
        if operation.value.get("requestBody").is_some() || method == "GET" {
            let answer = server.bearing(&tokens[needed], &method, &path, "7");
            let told = answer.text();
            assert!(
                !told.contains("this needs a token with the role"),
                "{method} {path}: {told}"
            );
        }
    }
}

#[test]
fn a_method_that_is_not_described_is_not_routed() {
    let server = Server::start();
    let mut described: Vec<(String, String)> = Vec::new();
    for operation in operations() {
        let path = filled(operation.path, operation.value);
        described.push((path, operation.method.to_uppercase()));
    }
    let paths: std::collections::BTreeSet<&String> =
        described.iter().map(|(path, _)| path).collect();
    for path in paths {
        // Another path can be this one: an entity may have the id `ingest`.
        if path == "/v1/courses/ingest" {
            continue;
        }
        for method in METHODS {
            if described.contains(&(path.clone(), method.to_owned())) {
                continue;
            }
            let answer = server.owner(method, path, "");
            assert_eq!(
                answer.refusal(),
                (405, "method_not_allowed".to_owned()),
                "{method} {path} is routed and not described"
            );
        }
    }
}

#[test]
fn every_example_has_the_form_that_it_is_an_example_of_and_is_understood() {
    let server = Server::start();
    for operation in operations() {
        let Some(body) = operation.value.get("requestBody") else {
            continue;
        };
        let (method, path) = (operation.method.to_uppercase(), operation.path);
        let example = &body["content"]["application/json"]["example"];
        let place = format!(
            "/paths/{}/{}/requestBody/content/application~1json/schema",
            path.replace('/', "~1"),
            operation.method
        );
        validate(&place, example, path);
        let path = filled(path, operation.value);
        // The answer is held against the document where it is received.
        let answer = server.owner(&method, &path, &example.to_string());
        let told = (answer.status, answer.text());
        assert!(
            ![400, 413, 415, 500].contains(&answer.status),
            "{method} {path}: {told:?}"
        );
    }
}
