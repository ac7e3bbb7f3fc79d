//! The OpenAPI document against the program: the file is what the program prints, what it describes is routed, and every
//! answer that any test gets from a server is one that it describes.

mod pages;
mod routed;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
pub(crate) use routed::filled;
use serde_json::{Value, json};

use crate::fixture::succeed;
use crate::http::Answer;

const FILE: &str = include_str!("../../../../spec/openapi.json");

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(FILE).unwrap());

/// An operation, with where it stands.
pub(crate) struct Operation {
    pub(crate) path: &'static str,
    pub(crate) method: &'static str,
    pub(crate) value: &'static Value,
}

pub(crate) fn operations() -> impl Iterator<Item = Operation> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        let each = item.as_object().unwrap().iter();
        each.map(move |(method, value)| Operation {
            path,
            method,
            value,
        })
    })
}

/// Fails unless the document has this answer to this request. What is not routed at all is not its business.
pub(crate) fn check(method: &str, target: &str, answer: &Answer) {
    let path = target.split('?').next().unwrap();
    let Some(template) = template(path) else {
        return;
    };
    let method = method.to_ascii_lowercase();
    let operation = &DOCUMENT["paths"][template][&method];
    if operation.is_null() {
        return;
    }
    let at = format!("{method} {target}: {}", answer.status);
    let text = answer.text();
    // Any request can be answered so, before it is looked at.
    if answer.status == 400 && text.contains("\"ambiguous_framing\"") {
        return;
    }
    let status = answer.status.to_string();
    let mut place = format!("/paths/{}/{method}/responses/{status}", escaped(template));
    let response = DOCUMENT.pointer(&place);
    let response = response.unwrap_or_else(|| panic!("{at} is not described; {text}"));
    let mut response = response;
    if let Some(reference) = response["$ref"].as_str() {
        reference[1..].clone_into(&mut place);
        response = DOCUMENT.pointer(&place).unwrap();
    }
    let Some(content) = response.get("content") else {
        assert!(answer.body.is_empty(), "{at} has a body; {text}");
        return;
    };
    let kind = answer.header("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap();
    let known = content
        .as_object()
        .unwrap()
        .keys()
        .any(|known| known == kind);
    assert!(known, "{at} as {kind:?} is not described; {text}");
    if kind.ends_with("json") {
        assert!(text.ends_with('\n'), "{at} does not end with a newline");
        let place = format!("{place}/content/{}/schema", escaped(kind));
        match serde_json::from_slice(&answer.body) {
            Ok(value) => {
                assert!(!has_null_error(&value), "{at} says \"error\": null; {text}");
                validate(&place, &value, &at);
            }
            // Deeper than this reader goes, which some tests want to be.
            Err(why) => assert!(why.to_string().contains("recursion limit"), "{at}: {why}"),
        }
    }
}

/// Whether `error` stands anywhere without there being one: clients take the member itself for a failure.
fn has_null_error(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.get("error").is_some_and(Value::is_null) || members.values().any(has_null_error)
        }
        Value::Array(items) => items.iter().any(has_null_error),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Fails unless the value has the schema at this place.
pub(crate) fn validate(place: &str, value: &Value, at: &str) {
    static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> =
        LazyLock::new(Mutex::default);
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let validator = *validators
        .entry(place.to_owned())
        .or_insert_with(|| Box::leak(Box::new(validator(place))));
    drop(validators);
    let faults: Vec<String> = validator
        .iter_errors(value)
        .map(|fault| format!("{} at {}", fault, fault.instance_path()))
        .collect();
    assert!(
        faults.is_empty(),
        "{at} is not as described: {faults:#?}\n{value:#}"
    );
}

fn validator(place: &str) -> Validator {
    // The document is the root, so that what it refers to is found in it.
    let mut root = DOCUMENT.clone();
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["$ref"] = json!(format!(
        "#{}",
        place.replace('{', "%7B").replace('}', "%7D")
    ));
    jsonschema::validator_for(&root).unwrap_or_else(|why| panic!("{place}: {why}"))
}

fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// The path of the document that a router would choose: letter for letter rather than by a parameter.
fn template(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let mut each = template.split('/').zip(&parts);
        template.split('/').count() == parts.len()
            && each
                .all(|(known, part)| known == *part || known.starts_with('{') && !part.is_empty())
    };
    let found = DOCUMENT["paths"].as_object().unwrap().keys();
    let found = found.map(String::as_str).filter(|template| fits(template));
    found.min_by_key(|template| {
        let parts: Vec<bool> = template
            .split('/')
            .map(|part| part.starts_with('{'))
            .collect();
        parts
    })
}

#[test]
fn the_document_in_the_repository_is_what_the_program_prints() {
    let printed = succeed(&["openapi"]);
    assert!(
        printed == FILE,
        "spec/openapi.json is out of date; run: cargo run -- openapi > spec/openapi.json"
    );
}

#[test]
fn no_answer_may_have_an_error_that_is_null() {
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap();
    let parts = schemas.iter().flat_map(|(name, schema)| {
        let all = schema["allOf"].as_array().into_iter().flatten();
        all.chain([schema]).map(move |part| (name, part))
    });
    let mut seen = 0;
    for (name, part) in parts {
        let error = &part["properties"]["error"];
        // What callers send may be null: it is then as if it were left out.
        if error.is_null() || name.ends_with("Body") || name == "SettleJobsItem" {
            continue;
        }
        seen += 1;
        assert!(!error.to_string().contains("\"null\""), "{name}: {error}");
        let holds_always = ["ErrorEnvelope", "Problem", "RefusedItem"].contains(&name.as_str());
        let required = part["required"].as_array().into_iter().flatten();
        let is_required = required.into_iter().any(|required| required == "error");
        assert_eq!(is_required, holds_always, "{name}");
    }
    assert!(seen > 8, "{seen}");
    assert!(has_null_error(&json!({"items": [{"error": null}]})));
    assert!(!has_null_error(
        &json!({"items": [{"error": "no"}], "errors": null})
    ));
}
