//! Reads the known members of an object one by one and notes every fault on the way.
//! It keeps no value tree: what it does not know stays text.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::refusal::Faults;

/// The members of an object, each still the text that was sent.
pub(super) type Members = BTreeMap<String, Box<RawValue>>;

/// What a text may hold.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// A word or an id: one line, not blank.
    Line(usize),
    /// Something a person wrote: any number of lines, perhaps blank.
    Prose(usize),
}

impl Form {
    const fn chars_max(self) -> usize {
        match self {
            Self::Line(max) | Self::Prose(max) => max,
        }
    }

    /// What is wrong with `text`.
    pub(super) fn fault(self, text: &str) -> Option<String> {
        let chars_max = self.chars_max();
        if text.chars().nth(chars_max).is_some() {
            return Some(format!("is longer than the {chars_max} characters allowed"));
        }
        let (refused, what): (fn(char) -> bool, _) = match self {
            Self::Line(_) if text.trim().is_empty() => return Some("must not be blank".to_owned()),
            Self::Line(_) => (char::is_control, "a control character"),
            Self::Prose(_) => (|c| c == '\0', "the character U+0000"),
        };
        text.contains(refused)
            .then(|| format!("must not hold {what}"))
    }
}

/// A place in the packet under which members are read.
pub(super) struct Reader<'a> {
    members: &'a Members,
    /// The JSON pointer of the object.
    path: &'static str,
    faults: &'a mut Faults,
}

impl<'a> Reader<'a> {
    pub(super) fn new(members: &'a Members, path: &'static str, faults: &'a mut Faults) -> Self {
        Self {
            members,
            path,
            faults,
        }
    }

    /// The member if it is there and not null; a fault and nothing if it is of another kind.
    pub(super) fn get<T: DeserializeOwned>(&mut self, name: &str, kind: &str) -> Option<T> {
        let raw = self.members.get(name)?;
        let read = serde_json::from_str::<Option<T>>(raw.get());
        read.unwrap_or_else(|_| {
            self.fault(name, format!("must be {kind}"));
            None
        })
    }

    /// The text of a member.
    pub(super) fn text(&mut self, name: &str, form: Form) -> Option<String> {
        let text: String = self.get(name, "a string")?;
        if let Some(fault) = form.fault(&text) {
            self.fault(name, fault);
            return None;
        }
        Some(text)
    }

    /// The first of several members that say the same thing. All are checked.
    pub(super) fn either(&mut self, names: &[&str], form: Form) -> Option<String> {
        let texts: Vec<_> = names.iter().map(|name| self.text(name, form)).collect();
        texts.into_iter().flatten().next()
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, name: &str, count_max: usize, form: Form) -> Vec<String> {
        let texts: Vec<String> = self.get(name, "an array of strings").unwrap_or_default();
        if texts.len() > count_max {
            self.fault(
                name,
                format!("has more than the {count_max} elements allowed"),
            );
            return Vec::new();
        }
        for (place, text) in texts.iter().enumerate() {
            if let Some(fault) = form.fault(text) {
                self.fault(&format!("{name}/{place}"), fault);
            }
        }
        texts
    }

    /// The members of an object below this one; none if it is not there.
    pub(super) fn object(&mut self, name: &str) -> Members {
        self.get(name, "an object").unwrap_or_default()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members
            .get(name)
            .is_some_and(|raw| raw.get() != "null")
    }

    pub(super) fn fault(&mut self, name: &str, message: impl Into<String>) {
        self.faults.add(format!("{}/{name}", self.path), message);
    }
}
