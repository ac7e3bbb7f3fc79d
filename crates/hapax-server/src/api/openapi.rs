//! The OpenAPI document, made of the list of routes. What is not on the list is neither routed nor described.

mod refusals;
pub(crate) mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use hapax_core::Policy;
use serde_json::{Map, Value, json};
use utoipa::{PartialSchema, ToSchema};

use super::listed::{Access, COLLECTION, Door, Keyed, Listed};
use super::{doors, snapshots};
use refusals::{CODES, ErrorEnvelope, Facts, Problem};

const ABOUT: &str = "\
A key is claimed once, and its outcome is recorded once.

**Sign in** with `Authorization: Bearer TOKEN`. A token has a role: a viewer reads, a writer works, an owner decides; each \
operation says in `x-role` which it needs. Everything is scoped by the token's tenant.

**Errors** have one envelope, and a code whose page is under `/docs/errors/`; `docs_url` leads there. \
`Accept: application/problem+json` gets RFC 9457 instead. A member `error` is there only if there is an error. Beside what each operation lists, any request can be answered 400 `ambiguous_framing`, and a path that does not take \
a method 405 `method_not_allowed`.

**Lists** answer `items` and `next_cursor`, which is null on the last page; give it as `cursor` for the next one. Times are \
RFC 3339 in UTC. JSON has no duplicate names, no lone surrogates, no number beyond a double, and a depth of at most 128.";

/// The document as text, with its members in one order.
pub(crate) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));
    &TEXT
}

/// The whole document.
fn document() -> Value {
    let mut doors = doors();
    doors.push(snapshots::door());
    let mut whole = Whole::default();
    for door in doors {
        whole.add_door(door);
    }
    whole.schema::<ErrorEnvelope>();
    whole.schema::<Problem>();
    whole.name_items();
    whole.say_what_is_always_there();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "hapax",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Idempotency keys as a service.",
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server that gave this document."}],
        "tags": whole.tags,
        "paths": whole.paths,
        "components": {
            "schemas": whole.schemas,
            "responses": whole.responses,
            "headers": headers(),
            "securitySchemes": {"bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of `hapax token create`, of HAPAX_TOKEN, or of the first start.",
            }, "session": {
                "type": "apiKey",
                "in": "cookie",
                "name": "hapax_session",
                "description": "The cookie of `POST /session`, for browsers; by https its name is `__Host-hapax_session`. With it, any method but GET and HEAD needs `X-Hapax-Csrf: 1` and comes from the same origin, else 403 `forbidden` with the reason csrf.",
            }},
        },
    })
}

/// The document while it grows.
#[derive(Default)]
struct Whole {
    tags: Vec<Value>,
    paths: BTreeMap<String, Map<String, Value>>,
    schemas: BTreeMap<String, Value>,
    responses: BTreeMap<String, Value>,
}

impl Whole {
    fn add_door(&mut self, door: Door) {
        self.tags
            .push(json!({"name": door.name, "description": door.about}));
        for listed in door.routes {
            self.add_route(door.name, door.parameters, listed);
        }
    }

    fn add_route(&mut self, tag: &str, parameters: &[(&str, &str, &str)], listed: Listed) {
        let Listed {
            access,
            keyed,
            deep: _,
            route: (schemas, paths, _),
        } = listed;
        for (name, schema) in schemas {
            self.schemas.insert(name, json!(schema));
        }
        for (path, item) in paths.paths {
            let Value::Object(operations) = json!(item) else {
                continue;
            };
            for (method, mut operation) in operations {
                if !operation.is_object() {
                    continue;
                }
                operation["tags"] = json!([tag]);
                told_in_two(&mut operation);
                left_out(&mut operation);
                in_path(&mut operation, &path, parameters);
                self.finish(&mut operation, &path, access, keyed);
                let item = self.paths.entry(path.clone()).or_default();
                item.insert(method, operation);
            }
        }
    }

    /// Adds who may, and what is refused.
    fn finish(&mut self, operation: &mut Value, path: &str, access: Access, keyed: Option<Keyed>) {
        let (role, security) = match access {
            Access::Open => ("none", json!([])),
            Access::Settable => ("none", json!([{}, {"bearer": []}])),
            Access::Role(role) => (role.as_str(), json!([{"bearer": []}, {"session": []}])),
        };
        operation["x-role"] = json!(role);
        operation["security"] = security;
        if keyed.is_some() {
            under_key(operation);
        }
        let has = |place: &str| {
            let parameters = operation["parameters"].as_array();
            let mut parameters = parameters.into_iter().flatten();
            parameters.any(|parameter| parameter["in"] == place)
        };
        let facts = Facts {
            access,
            keyed,
            has_body: operation.get("requestBody").is_some(),
            has_query: has("query"),
            has_path: path.contains('{'),
        };
        let own = operation
            .as_object_mut()
            .and_then(|members| members.remove("x-codes"));
        let own = own.as_ref().and_then(Value::as_array);
        let own = own.into_iter().flatten().filter_map(Value::as_str);
        let shared = refusals::shared(&facts);
        let codes: Vec<&str> = shared.into_iter().chain(own).collect();
        for (status, codes) in by_status(&codes) {
            let name = format!("{status}.{}", codes.join("."));
            let response = self.responses.entry(name.clone());
            response.or_insert_with(|| refusals::response(status, &codes));
            let place = &mut operation["responses"][status.to_string()];
            if place.is_null() {
                *place = json!({"$ref": format!("#/components/responses/{name}")});
            }
        }
        if keyed.is_some() {
            operation["responses"]["422"] = json!({
                "$ref": "#/components/responses/409.IDEMPOTENCY_CONFLICT.IDEMPOTENCY_IN_DOUBT.IDEMPOTENCY_IN_PROGRESS",
                "description": "IDEMPOTENCY_CONFLICT, where the route has mismatch_status = 422.",
            });
        }
        traced(operation);
    }

    /// A page of things that have a name refers to them.
    fn name_items(&mut self) {
        let known = self.schemas.clone();
        for schema in self.schemas.values_mut() {
            let Some(items) = schema.pointer_mut("/properties/items/items") else {
                continue;
            };
            if let Some((name, _)) = known.iter().find(|(_, known)| *known == items) {
                *items = json!({"$ref": format!("#/components/schemas/{name}")});
            }
        }
    }

    /// In an answer, what can be null is there all the same; what can be missing is never null.
    fn say_what_is_always_there(&mut self) {
        let asked = self.reached(|operation| vec![&operation["requestBody"]]);
        let told = self.reached(|operation| {
            let responses = operation["responses"].as_object();
            responses.into_iter().flat_map(Map::values).collect()
        });
        let rows: BTreeSet<String> = words::ROWS.map(str::to_owned).into();
        for name in told.difference(&asked) {
            if let (false, Some(schema)) = (rows.contains(name), self.schemas.get_mut(name)) {
                require_nulls(schema);
            }
        }
    }

    /// The names of the schemas that these parts of the operations lead to.
    fn reached<'a>(&'a self, parts: impl Fn(&'a Value) -> Vec<&'a Value>) -> BTreeSet<String> {
        let operations = self.paths.values().flat_map(Map::values);
        let mut left: Vec<&Value> = operations.flat_map(parts).collect();
        let mut names = BTreeSet::new();
        while let Some(value) = left.pop() {
            match value {
                Value::Object(members) => left.extend(members.values()),
                Value::Array(items) => left.extend(items),
                Value::String(text) => {
                    let name = text.strip_prefix("#/components/schemas/");
                    let schema = name.and_then(|name| self.schemas.get_key_value(name));
                    if let Some((name, schema)) = schema
                        && names.insert(name.clone())
                    {
                        left.push(schema);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        names
    }

    fn schema<T: ToSchema + PartialSchema>(&mut self) {
        let mut within = Vec::new();
        T::schemas(&mut within);
        within.push((T::name().into_owned(), T::schema()));
        for (name, schema) in within {
            self.schemas.insert(name, json!(schema));
        }
    }
}

/// Makes members that can be null required, in all objects of this schema.
fn require_nulls(schema: &mut Value) {
    let is_null = |value: &Value| {
        let kinds = value["type"].as_array().into_iter().flatten();
        let choices = value["oneOf"].as_array().into_iter().flatten();
        kinds
            .chain(choices.map(|choice| &choice["type"]))
            .any(|kind| kind == "null")
    };
    let nulls: Vec<Value> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| is_null(value))
        .map(|(name, _)| json!(name))
        .collect();
    if !nulls.is_empty() {
        let mut names = nulls;
        names.extend(schema["required"].as_array().into_iter().flatten().cloned());
        names.sort_by(|left, right| left.as_str().cmp(&right.as_str()));
        names.dedup();
        schema["required"] = json!(names);
    }
    if let Some(parts) = schema.get_mut("allOf").and_then(Value::as_array_mut) {
        parts.iter_mut().for_each(require_nulls);
    }
}

/// These codes by their status, each once and in the order of the table.
fn by_status<'a>(codes: &[&'a str]) -> BTreeMap<u16, Vec<&'a str>> {
    let mut found: BTreeMap<u16, Vec<&'a str>> = BTreeMap::new();
    for (known, status) in CODES {
        if let Some(code) = codes.iter().find(|code| *code == known) {
            found.entry(*status).or_default().push(code);
        }
    }
    found
}

/// The first sentence of what is said of a handler is its summary; all of it is its description.
fn told_in_two(operation: &mut Value) {
    let text = |name: &str| {
        let text = operation[name].as_str().unwrap_or_default();
        text.replace('\n', " ").trim().to_owned()
    };
    let (first, rest) = (text("summary"), text("description"));
    let sentence = first.split(". ").next().unwrap_or(&first);
    let summary = sentence.trim_end_matches('.').to_owned();
    let whole = format!("{first}\n\n{rest}").trim().to_owned();
    operation["summary"] = json!(summary);
    operation["description"] = json!(whole);
}

/// A body that may be left out is none, and not null.
fn left_out(operation: &mut Value) {
    let place = "/requestBody/content/application~1json/schema";
    let Some(schema) = operation.pointer_mut(place) else {
        return;
    };
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    let whole: Vec<Value> = choices
        .filter(|one| one["type"] != "null")
        .cloned()
        .collect();
    if let [only] = &whole[..] {
        *schema = only.clone();
        operation["requestBody"]["required"] = json!(false);
    }
}

/// Adds the parameters that stand in the path.
fn in_path(operation: &mut Value, path: &str, known: &[(&str, &str, &str)]) {
    let mut parameters = Vec::new();
    for name in path
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
    {
        let known = known.iter().find(|(known, _, _)| *known == name);
        let (about, example) = known.map_or(("", ""), |(_, about, example)| (about, example));
        let mut schema = json!({"type": "string"});
        if format!("{{{name}}}") == COLLECTION {
            schema["default"] = json!(example);
        }
        parameters.push(json!({
            "name": name, "in": "path", "required": true,
            "description": about, "schema": schema, "example": example,
        }));
    }
    if let Some(others) = operation["parameters"].as_array() {
        parameters.extend(others.iter().cloned());
    }
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
}

/// Adds what the idempotency layer takes and gives.
fn under_key(operation: &mut Value) {
    let key = json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": false,
        "description": "1 to 255 visible ASCII characters, bare or quoted. The same key with the same body answers what was recorded.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "example": "first-call",
    });
    match operation["parameters"].as_array_mut() {
        Some(parameters) => parameters.push(key),
        None => operation["parameters"] = json!([key]),
    }
    // How long an answer is replayed, unless the route table says otherwise.
    operation["x-idempotency-ttl"] = json!(Policy::default().ttl.as_secs());
    let names = [
        "Idempotency-Expires",
        "Idempotency-Replayed",
        "X-Idempotency-Replay",
        "X-Idempotency-Expired",
    ];
    for name in names {
        operation["responses"]["200"]["headers"][name] =
            json!({"$ref": format!("#/components/headers/{name}")});
    }
}

/// Says of every response that it has a trace id, and of headers that are known what they are.
fn traced(operation: &mut Value) {
    let Some(responses) = operation["responses"].as_object_mut() else {
        return;
    };
    for response in responses.values_mut() {
        if response.get("$ref").is_some() {
            continue;
        }
        response["headers"]["X-Trace-Id"] = Value::Null;
        let known = headers();
        for (name, header) in response["headers"].as_object_mut().into_iter().flatten() {
            if known.get(name).is_some() {
                *header = json!({"$ref": format!("#/components/headers/{name}")});
            }
        }
    }
}

fn headers() -> Value {
    let yes =
        |about: &str| json!({"description": about, "schema": {"type": "string", "const": "true"}});
    json!({
        "X-Trace-Id": {
            "description": "Ties the answer to the server's log. An incoming `traceparent` is continued.",
            "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        },
        "Retry-After": {
            "description": "When to send the same request again, in seconds. Without it, a retry changes nothing.",
            "schema": {"type": "integer", "minimum": 1},
        },
        "Idempotency-Expires": {
            "description": "There with an answer that is recorded, the first one too: until when it is replayed, as an HTTP date.",
            "schema": {"type": "string"},
        },
        "Idempotency-Replayed": yes("There if the answer was recorded earlier, and nothing ran."),
        "X-Idempotency-Replay": yes("The same under its older name."),
        "X-Idempotency-Expired": yes("There if the key was known and its time was over, so the request ran as new."),
        "X-Idempotency-Key-Match": {
            "description": "Which profile makes the Idempotency-Key that came along of the payload; there if a key came.",
            "schema": {"type": "string", "enum": ["hcj-1", "py-json", "py-json-utf8", "js-sorted", "thorbis16", "none"]},
        },
    })
}

#[cfg(test)]
mod tests;
