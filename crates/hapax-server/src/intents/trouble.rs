//! Why an action is not done: the error text of its operation, small JSON that a receipt can show.

use serde::{Deserialize, Serialize};

/// The gateway answered, and not with a 2xx, or could not be reached.
pub(super) const FAILED: &str = "downstream_failed";
/// The action may have happened: there was no answer.
pub(super) const TIMED_OUT: &str = "downstream_timeout";
/// There is no connection to the gateway, so far.
pub(super) const UNREACHABLE: &str = "downstream_unreachable";
/// Actions were to be carried out when the receipt was planned, and are not any more.
pub(super) const SWITCHED_OFF: &str = "execution_switched_off";
/// The receipt was given up for another reason than the gateway.
pub(super) const GIVEN_UP: &str = "given_up";

/// Why an action is not done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Trouble {
    pub(super) code: String,
    pub(super) status_code: Option<u16>,
    pub(super) message: String,
}

impl Trouble {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            status_code: None,
            message: message.into(),
        }
    }

    pub(super) fn with_status(mut self, status: u16) -> Self {
        self.status_code = Some(status);
        self
    }

    /// Reads the error of an operation. What is not ours was said by a person, and is a failure in their words.
    pub(super) fn read(error: &str) -> Self {
        serde_json::from_str(error).unwrap_or_else(|_| Self::new(FAILED, error))
    }

    /// The error of an operation.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| self.message.clone())
    }
}
