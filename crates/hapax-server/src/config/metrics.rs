//! The key `metrics_open`: where /metrics answers without a token. Which address was bound is `serve`'s to find out.

use serde::{Deserialize, Serialize};

/// Where /metrics answers without a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "MetricsWord")]
pub(crate) enum MetricsOpen {
    /// Where only this machine can connect.
    Loopback,
    Always,
    Never,
}

/// As it is written: a switch, or a word. A variable is always a word.
#[derive(Deserialize)]
#[serde(untagged)]
enum MetricsWord {
    Switch(bool),
    Word(String),
}

impl TryFrom<MetricsWord> for MetricsOpen {
    type Error = &'static str;

    fn try_from(written: MetricsWord) -> Result<Self, &'static str> {
        let word = match written {
            MetricsWord::Switch(open) => open.to_string(),
            MetricsWord::Word(word) => word.to_ascii_lowercase(),
        };
        match word.as_str() {
            "loopback" => Ok(Self::Loopback),
            "true" | "1" => Ok(Self::Always),
            "false" | "0" => Ok(Self::Never),
            _ => Err("metrics_open is neither \"loopback\" nor true nor false"),
        }
    }
}

impl Serialize for MetricsOpen {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Loopback => serializer.serialize_str("loopback"),
            Self::Always => serializer.serialize_bool(true),
            Self::Never => serializer.serialize_bool(false),
        }
    }
}
