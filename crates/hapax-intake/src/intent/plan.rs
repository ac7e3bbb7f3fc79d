//! What is to be done about a packet, as a value to store. A plan is kept before any of it is carried out.

use std::fmt;

use hapax_core::canonical::{Profile, canonical};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ask::Clarification;
use crate::derive;

/// What the gateway can be asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionName {
    /// Makes a task.
    CreateTask,
    /// Changes a task.
    UpdateTask,
    /// Puts an item on a list.
    ListAddItem,
    /// Keeps a note.
    NoteCapture,
}

impl ActionName {
    /// Every action.
    pub const ALL: [Self; 4] = [
        Self::CreateTask,
        Self::UpdateTask,
        Self::ListAddItem,
        Self::NoteCapture,
    ];

    /// The word in the API and in storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CreateTask => "create_task",
            Self::UpdateTask => "update_task",
            Self::ListAddItem => "list_add_item",
            Self::NoteCapture => "note_capture",
        }
    }

    /// Where the gateway takes it.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::CreateTask => "/v1/notion/tasks/create",
            Self::UpdateTask => "/v1/notion/tasks/update",
            Self::ListAddItem => "/v1/notion/lists/add_item",
            Self::NoteCapture => "/v1/notion/notes/capture",
        }
    }
}

impl fmt::Display for ActionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One call of the gateway. Where it goes follows from its name: a path that is stored beside it is not read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Action {
    /// Its place in the plan, from 1.
    pub step: u32,
    /// What is done.
    #[serde(rename = "action")]
    pub name: ActionName,
    /// What the gateway is given: `{task}`, `{notion_page_id, patch}`, `{list_item}` or `{note}`.
    pub payload: Value,
}

impl Action {
    pub(super) fn only(name: ActionName, payload: Value) -> Plan {
        Plan::Actions(vec![Self {
            step: 1,
            name,
            payload,
        }])
    }

    /// The action as people see it, with the path that it goes to.
    fn shown(&self) -> Value {
        json!({ "step": self.step, "action": self.name, "path": self.name.path(), "payload": self.payload })
    }
}

/// Why nothing is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectionCode {
    /// The sender is not sure enough.
    LowConfidence,
    /// Nothing here does what is asked.
    UnsupportedIntentType,
}

/// Why nothing is done, for programs and for people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rejection {
    /// The code.
    pub code: RejectionCode,
    /// What people read.
    pub reason: String,
}

/// What is to be done about a packet.
///
/// ```
/// use hapax_core::Time;
/// use hapax_intake::intent::{Packet, Plan, Policy, plan};
///
/// let packet = Packet::read(br#"{"kind":"intent","target":{"kind":"notes"},"natural_language":"Ideas"}"#)?;
/// let planned = plan(&packet, &Policy::default(), Time::from_ms(0));
/// let artifact = planned.artifact();
/// assert_eq!(serde_json::from_str::<Plan>(&artifact.text)?, planned);
/// assert_eq!(planned.envelope()["actions"][0]["path"], "/v1/notion/notes/capture");
///
/// let unsure = Packet::read(br#"{"kind":"intent","confidence":0.2}"#)?;
/// let rejected = plan(&unsure, &Policy::default(), Time::from_ms(0));
/// assert!(matches!(&rejected, Plan::Reject(_)));
/// assert_eq!(rejected.envelope(), serde_json::json!({"actions": []}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub enum Plan {
    /// These, in order.
    Actions(Vec<Action>),
    /// First this has to be answered.
    Clarify(Clarification),
    /// Nothing, for good.
    Reject(Rejection),
}

impl Plan {
    /// The plan as a document of its own: the hcj-1 form of what is shown, paths included, and the hash of it.
    ///
    /// # Panics
    /// Never: a plan is made of texts and small numbers.
    #[must_use]
    pub fn artifact(&self) -> Artifact {
        let mut document = json!(self);
        if let Self::Actions(actions) = self {
            document["actions"] = actions.iter().map(Action::shown).collect();
        }
        let bytes = canonical(document.to_string().as_bytes(), Profile::Hcj1)
            .expect("texts and small numbers have a canonical form");
        Artifact {
            text: String::from_utf8(bytes).expect("canonical JSON is UTF-8"),
            hash: derive::hex(&document),
        }
    }

    /// The `plan` of the envelope: `{actions[]}`, empty when there is none.
    #[must_use]
    pub fn envelope(&self) -> Value {
        match self {
            Self::Actions(actions) => {
                let shown: Vec<Value> = actions.iter().map(Action::shown).collect();
                json!({ "actions": shown })
            }
            Self::Clarify(_) | Self::Reject(_) => json!({ "actions": [] }),
        }
    }
}

/// A plan as a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Artifact {
    /// The hcj-1 text, which [`Plan`] can be read from.
    pub text: String,
    /// The lower-case hex SHA-256 of the text.
    pub hash: String,
}

/// The stored form: an `outcome`, and under its own name what goes with it.
#[derive(Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum Stored {
    Actions { actions: Vec<Action> },
    Clarify { clarification: Clarification },
    Reject { rejection: Rejection },
}

impl From<Stored> for Plan {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Actions { actions } => Self::Actions(actions),
            Stored::Clarify { clarification } => Self::Clarify(clarification),
            Stored::Reject { rejection } => Self::Reject(rejection),
        }
    }
}

impl From<Plan> for Stored {
    fn from(plan: Plan) -> Self {
        match plan {
            Plan::Actions(actions) => Self::Actions { actions },
            Plan::Clarify(clarification) => Self::Clarify { clarification },
            Plan::Reject(rejection) => Self::Reject { rejection },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_path_is_not_read_and_none_is_stored() {
        for path in [
            "@evil/x",
            ":1@evil/x",
            "//evil/x",
            "/../../x",
            "https://evil/",
            "",
        ] {
            let action = json!({"step": 1, "action": "update_task", "path": path, "payload": {}});
            let stored = json!({"outcome": "actions", "actions": [action]});
            let plan: Plan = serde_json::from_value(stored).unwrap();
            assert_eq!(
                plan.envelope()["actions"][0]["path"],
                "/v1/notion/tasks/update"
            );
            assert!(!json!(plan).to_string().contains("path"), "{plan:?}");
        }
    }
}
