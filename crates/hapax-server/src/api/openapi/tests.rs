//! What must hold of the document.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::api::docs;
use crate::auth::TELEGRAM_PATH;

fn all_doors() -> Vec<Door> {
    let mut all = doors();
    all.push(snapshots::door());
    all
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        let of = |(method, operation): (&String, &Value)| {
            (path.clone(), method.clone(), operation.clone())
        };
        item.iter().map(of).collect::<Vec<_>>()
    });
    each.collect()
}

fn followed<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(place) => document.pointer(&place[1..]).unwrap(),
        None => value,
    }
}

#[test]
fn what_is_routed_is_described_and_nothing_else() {
    let listed = all_doors().into_iter().flat_map(|door| door.routes);
    let routed: BTreeSet<(String, String)> = listed
        .flat_map(|listed| {
            let item = json!(listed.route.1.paths[listed.path()]);
            let methods: Vec<String> = item.as_object().unwrap().keys().cloned().collect();
            let path = listed.path().to_owned();
            methods
                .into_iter()
                .map(move |method| (path.clone(), method))
        })
        .collect();
    let document = document();
    let described = operations(&document);
    let described: BTreeSet<(String, String)> = described
        .into_iter()
        .map(|(path, method, _)| (path, method))
        .collect();
    assert_eq!(routed, described);
    assert!(routed.len() > 70, "{}", routed.len());
    let webhook = (TELEGRAM_PATH.to_owned(), "post".to_owned());
    assert!(routed.contains(&webhook), "the gate lets its secret in");
}

#[test]
fn every_operation_says_what_it_does_who_may_and_what_it_answers() {
    let document = document();
    let mut names = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let at = format!("{method} {path}");
        let name = operation["operationId"].as_str().unwrap_or_default();
        let is_snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(
            !name.is_empty() && name.chars().all(is_snake),
            "{at}: {name}"
        );
        assert!(names.insert(name.to_owned()), "{at}: {name} is there twice");
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!((5..=90).contains(&summary.len()), "{at}: {summary:?}");
        let role = operation["x-role"].as_str().unwrap_or_default();
        let is_open = role == "none";
        assert!(
            ["none", "viewer", "writer", "owner"].contains(&role),
            "{at}"
        );
        let open = [json!([]), json!([{}, {"bearer": []}])];
        assert_eq!(open.contains(&operation["security"]), is_open, "{at}");
        let responses = operation["responses"].as_object().unwrap();
        let good = responses
            .iter()
            .filter(|(status, _)| status.starts_with('2'));
        let has_none = responses.contains_key("204");
        let shapes = good.map(|(_, response)| &response["content"]);
        assert!(shapes.clone().count() > 0, "{at} never succeeds");
        for content in shapes.filter(|_| !has_none) {
            let content = content.as_object().unwrap();
            assert!(
                content.values().all(|one| one["schema"].is_object()),
                "{at}"
            );
        }
        let refused = |status: &str| responses.contains_key(status);
        assert!(is_open || refused("401") && refused("403"), "{at}");
        if let Some(body) = operation.get("requestBody") {
            let json = &body["content"]["application/json"];
            assert!(!json["example"].is_null(), "{at} has no example");
            assert!(
                ["400", "413", "415"].iter().all(|status| refused(status)),
                "{at}"
            );
        }
    }
}

#[test]
fn every_refusal_names_known_codes_and_has_both_forms() {
    let document = document();
    for (path, method, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = followed(&document, response);
            let Some(codes) = response.get("x-codes") else {
                assert!(
                    ["2", "3"].contains(&&status[..1]) || status == "502",
                    "{method} {path} {status}"
                );
                continue;
            };
            for code in codes.as_array().unwrap() {
                let known = CODES.iter().find(|(known, _)| code == known).unwrap();
                let may = known.1.to_string() == *status || status == "422";
                assert!(may, "{code} under {status}");
                assert!(
                    response["description"]
                        .as_str()
                        .unwrap()
                        .contains(&format!("/docs/errors/{})", known.0))
                );
            }
            let content = response["content"].as_object().unwrap();
            let forms: Vec<&str> = content.keys().map(String::as_str).collect();
            assert_eq!(forms, ["application/json", "application/problem+json"]);
        }
    }
}

#[test]
fn every_code_of_an_operation_exists_in_the_sources_and_has_a_page() {
    let known: BTreeMap<&str, u16> = CODES.iter().copied().collect();
    assert_eq!(known.len(), CODES.len());
    for (code, _) in CODES {
        assert!(
            docs::codes().any(|page| page == *code),
            "{code} has no page"
        );
    }
    let mut own = BTreeSet::new();
    for door in all_doors() {
        for listed in door.routes {
            for item in listed.route.1.paths.values() {
                let item = json!(item);
                let codes = item.as_object().unwrap().values();
                let codes = codes.filter_map(|operation| operation["x-codes"].as_array().cloned());
                own.extend(
                    codes
                        .flatten()
                        .map(|code| code.as_str().unwrap().to_owned()),
                );
            }
        }
    }
    let unknown: Vec<&String> = own
        .iter()
        .filter(|code| !known.contains_key(code.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn one_name_stands_for_one_schema_and_every_reference_leads_somewhere() {
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    for door in all_doors() {
        for listed in door.routes {
            for (name, schema) in listed.route.0 {
                let schema = json!(schema);
                let before = schemas.insert(name.clone(), schema.clone());
                assert!(
                    before.is_none_or(|before| before == schema),
                    "{name} stands for two"
                );
            }
        }
    }
    let document = document();
    let mut left = vec![&document];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(members) => {
                if let Some(place) = members.get("$ref").and_then(Value::as_str) {
                    assert!(
                        document.pointer(&place[1..]).is_some(),
                        "{place} leads nowhere"
                    );
                }
                left.extend(members.values());
            }
            Value::Array(items) => left.extend(items),
            _text => {}
        }
    }
}

#[test]
fn a_parameter_of_a_path_says_what_it_is_and_has_an_example() {
    for (path, method, operation) in operations(&document()) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let at = format!("{method} {path} {}", parameter["name"]);
            assert!(
                parameter["description"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{at}"
            );
            if parameter["in"] == "path" {
                assert!(
                    parameter["example"]
                        .as_str()
                        .is_some_and(|text| !text.is_empty()),
                    "{at}"
                );
            }
        }
    }
    let collection = json!({"type": "string", "default": "courses"});
    let document = document();
    assert_eq!(
        document["paths"]["/v1/{collection}"]["get"]["parameters"][0]["schema"],
        collection
    );
}
