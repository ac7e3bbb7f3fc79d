//! JSON schemas, compiled once. A schema cannot make the program read anything: it follows no reference outside
//! itself.

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::pointer::Pointer;
use crate::refusal::Faults;

/// How many characters of a fault's message are kept: a message may repeat the schema.
const MESSAGE_CHARS_MAX: usize = 300;

/// A compiled JSON schema. Patterns run in linear time, so look-around and back-references are not known.
///
/// ```
/// use hapax_intake::snapshot::Schema;
///
/// assert!(Schema::compile(&serde_json::json!({"type": "object"})).is_ok());
/// assert!(Schema::compile(&serde_json::json!({"type": "thing"})).is_err());
/// assert!(Schema::compile(&serde_json::json!({"$ref": "https://example.org/s.json"})).is_err());
/// ```
#[derive(Clone)]
pub struct Schema(Arc<Validator>);

impl Schema {
    /// Compiles a schema, draft 2020-12 unless it says another.
    ///
    /// # Errors
    /// [`InvalidSchema`] when it is no schema, or refers to one outside itself.
    pub fn compile(schema: &Value) -> Result<Self, InvalidSchema> {
        jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .offline()
            .build(schema)
            .map(|validator| Self(Arc::new(validator)))
            .map_err(|error| {
                InvalidSchema(format!("{error} at '{}'", error.instance_path().as_str()))
            })
    }

    /// Notes everything in which `document` breaks the schema.
    pub(super) fn judge(&self, document: &Value, faults: &mut Faults) {
        for error in self.0.iter_errors(document) {
            let path = error.instance_path().as_str();
            if let ValidationErrorKind::Required { property } = error.kind() {
                let name = property.as_str().unwrap_or_default();
                faults.add(Pointer::member(path, name), "is required");
            } else {
                // What was sent is masked: a refusal may be logged.
                let message = error.masked_with("the value").to_string();
                let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
                faults.add(path, message);
            }
        }
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
