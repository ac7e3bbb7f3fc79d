//! Takes the known members of an object one by one and notes every fault on the way. Null counts as absent.

use serde_json::{Map, Value};

use crate::refusal::{Fault, Faults, Refusal};

/// An object that was given, and where it stands.
pub(crate) struct Given {
    members: Map<String, Value>,
    /// The JSON pointer of the object.
    path: String,
}

impl Given {
    /// The document itself.
    ///
    /// # Errors
    /// The refusal, if it is no object.
    pub(crate) fn document(document: Value) -> Result<Self, Refusal> {
        match document {
            Value::Object(members) => Ok(Self {
                members,
                path: String::new(),
            }),
            _ => Err(Refusal::Schema(vec![Fault::new("", "must be an object")])),
        }
    }

    /// Whether there is such a member.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|value| !value.is_null())
    }

    /// The member, whatever it is.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name).filter(|value| !value.is_null())
    }

    /// The member, if it is an object; an empty one if there is none.
    pub(crate) fn object(&mut self, name: &str, faults: &mut Faults) -> Self {
        let members = match self.take(name) {
            Some(Value::Object(members)) => members,
            None => Map::new(),
            Some(_) => {
                self.fault(name, "must be an object", faults);
                Map::new()
            }
        };
        Self {
            members,
            path: self.place(name),
        }
    }

    /// The member, if it is a text.
    pub(crate) fn text(&mut self, name: &str, faults: &mut Faults) -> Option<String> {
        let value = self.take(name)?;
        if let Value::String(text) = value {
            return Some(text);
        }
        self.fault(name, "must be a string", faults);
        None
    }

    /// The member, if it is a text that fits on a line of so many characters; nothing if it is blank.
    pub(crate) fn line(
        &mut self,
        name: &str,
        chars_max: usize,
        faults: &mut Faults,
    ) -> Option<String> {
        let line = crate::text::one_line(&self.text(name, faults)?);
        if line.chars().nth(chars_max).is_some() {
            let message = format!("is longer than the {chars_max} characters allowed");
            self.fault(name, message, faults);
        }
        Some(line).filter(|line| !line.is_empty())
    }

    /// The member, if it is a whole number, or a text with nothing but its digits.
    pub(crate) fn integer(&mut self, name: &str, faults: &mut Faults) -> Option<i64> {
        let value = self.take(name)?;
        let number = match &value {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        if number.is_none() {
            self.fault(name, "must be an integer of 64 bits", faults);
        }
        number
    }

    pub(crate) fn fault(&self, name: &str, message: impl Into<String>, faults: &mut Faults) {
        faults.add(self.place(name), message);
    }

    fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}
