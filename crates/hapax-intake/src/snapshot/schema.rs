//! JSON schemas, compiled once. A schema cannot make the program read anything: it follows no reference outside
//! itself. Its patterns run with a limit to their steps.

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::Location;
use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use super::pattern::{self, Pattern, STEPS_MAX};
use super::pointer::Pointer;
use crate::refusal::Faults;

/// How many characters of a fault's message are kept: a message may repeat the schema.
const MESSAGE_CHARS_MAX: usize = 300;

/// A compiled JSON schema. Patterns run in linear time and within a number of steps, so look-around and back-references are
/// not known.
///
/// ```
/// use hapax_intake::snapshot::Schema;
///
/// assert!(Schema::compile(&serde_json::json!({"type": "object"})).is_ok());
/// assert!(Schema::compile(&serde_json::json!({"type": "thing"})).is_err());
/// assert!(Schema::compile(&serde_json::json!({"pattern": "^(?=a)b"})).is_err());
/// assert!(Schema::compile(&serde_json::json!({"$ref": "https://example.org/s.json"})).is_err());
/// ```
#[derive(Clone)]
pub struct Schema(Arc<Compiled>);

struct Compiled {
    validator: Validator,
    /// The patterns of names. What matches names takes no limit, so each name is tried here before.
    names: Vec<Pattern>,
}

impl Schema {
    /// Compiles a schema, draft 2020-12 unless it says another.
    ///
    /// # Errors
    /// [`InvalidSchema`] when it is no schema, or refers to one outside itself.
    pub fn compile(schema: &Value) -> Result<Self, InvalidSchema> {
        let mut names = Vec::new();
        collect_names(schema, &mut names);
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .with_keyword("pattern", text_pattern)
            .offline()
            .build(schema)
            .map_err(|error| {
                InvalidSchema(format!("{error} at '{}'", error.instance_path().as_str()))
            })?;
        Ok(Self(Arc::new(Compiled { validator, names })))
    }

    /// Notes everything in which `document` breaks the schema. One that keeps the patterns busy for too long breaks it.
    pub(super) fn judge(&self, document: &Value, faults: &mut Faults) {
        let judged = pattern::within(STEPS_MAX, || self.faults(document));
        let Some(found) = judged else {
            let why = format!(
                "takes more than {STEPS_MAX} steps to match with the patterns of its schema; send shorter texts"
            );
            return faults.add("", why);
        };
        for (path, message) in found {
            faults.add(path, message);
        }
    }

    fn faults(&self, document: &Value) -> Vec<(String, String)> {
        if !self.0.names.is_empty() {
            try_names(&self.0.names, document);
            if pattern::is_over() {
                return Vec::new();
            }
        }
        let errors = self.0.validator.iter_errors(document);
        errors.map(|error| fault(&error)).collect()
    }
}

fn fault(error: &ValidationError<'_>) -> (String, String) {
    let path = error.instance_path().as_str();
    if let ValidationErrorKind::Required { property } = error.kind() {
        let name = property.as_str().unwrap_or_default();
        return (Pointer::member(path, name), "is required".to_owned());
    }
    // What was sent is masked: a refusal may be logged.
    let message = error.masked_with("the value").to_string();
    let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
    (path.to_owned(), message)
}

/// The keyword `pattern`, which takes steps.
struct TextPattern {
    text: String,
    pattern: Pattern,
}

fn text_pattern<'a>(
    _: &'a Map<String, Value>,
    value: &'a Value,
    _: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    let text = value.as_str().unwrap_or_default();
    match Pattern::compile(text) {
        Some(pattern) => Ok(Box::new(TextPattern {
            text: text.to_owned(),
            pattern,
        })),
        None => Err(ValidationError::custom(format!(
            "{value} is no pattern, has look-around or back-references, or is too large"
        ))),
    }
}

impl<'i> Keyword<'i> for TextPattern {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        let text = &self.text;
        Err(ValidationError::custom(format!(
            "the value does not match \"{text}\""
        )))
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let text = instance.as_str();
        text.is_none_or(|text| self.pattern.is_match(text))
    }
}

/// The patterns that stand as names in `patternProperties`, wherever that is. One that does not compile is the schema's
/// to refuse.
fn collect_names(schema: &Value, names: &mut Vec<Pattern>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(patterns)) = members.get("patternProperties") {
                names.extend(patterns.keys().filter_map(|text| Pattern::compile(text)));
            }
            for member in members.values() {
                collect_names(member, names);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_names(item, names);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Takes the steps that matching every name of a document takes.
fn try_names(patterns: &[Pattern], document: &Value) {
    match document {
        Value::Object(members) => {
            for (name, member) in members {
                for pattern in patterns {
                    pattern.is_match(name);
                }
                try_names(patterns, member);
            }
        }
        Value::Array(items) => {
            for item in items {
                try_names(patterns, item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

/// A document that is not a JSON schema, or not one that stands alone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a usable JSON schema: {0}")]
pub struct InvalidSchema(String);
