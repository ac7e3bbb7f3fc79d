//! Recorded answers and requests as the API shows them: whole for a replay, masked for those who look at a record.

use bytes::Bytes;
use data_encoding::BASE64;
use hapax_core::Outcome;
use hapax_core::canonical::Path;
use hapax_core::diff::masked;
use hapax_core::outcome::NOT_KEPT;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::payload::{FORM, Form};

/// A body as the API shows it: JSON or text in `body`, anything else in `body_base64`.
#[derive(Serialize, Default, ToSchema)]
#[schema(as = RecordedBody)]
pub(crate) struct ShownBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    body: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    body_base64: Option<String>,
    /// It could not be kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    body_omitted: bool,
    /// It is there, and this reader may not see it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    body_withheld: bool,
}

impl ShownBody {
    pub(super) fn omitted() -> Self {
        Self {
            body_omitted: true,
            ..Self::default()
        }
    }

    pub(super) fn withheld() -> Self {
        Self {
            body_withheld: true,
            ..Self::default()
        }
    }

    /// The bytes, as JSON if they are `json`, else as text if they can be, else in base64.
    fn of(bytes: &[u8], form: Option<Form>) -> Self {
        let text = (form != Some(Form::Base64))
            .then(|| std::str::from_utf8(bytes).ok())
            .flatten();
        // A string of text, or a document that was checked when it came, is JSON.
        let raw = text.and_then(|text| match form {
            Some(Form::Json) => RawValue::from_string(text.to_owned()).ok(),
            Some(Form::Text | Form::Base64) | None => serde_json::value::to_raw_value(text).ok(),
        });
        match raw {
            Some(raw) => Self {
                body: Some(raw),
                ..Self::default()
            },
            None => Self {
                body_base64: Some(BASE64.encode(bytes)),
                ..Self::default()
            },
        }
    }

    /// The bytes with their secrets masked. What is not JSON cannot be masked: it is withheld where there is
    /// something to mask, else shown.
    fn masked(bytes: &Bytes, form: Option<Form>, masks: &[Path]) -> Self {
        match masked(bytes, masks) {
            Some(text) => Self::of(text.as_bytes(), form),
            None if masks.is_empty() => Self::of(bytes, form),
            None => Self::withheld(),
        }
    }

    /// A stored request's body with its secrets masked.
    pub(super) fn of_request(bytes: &Bytes, is_json: bool, masks: &[Path]) -> Self {
        Self::masked(bytes, is_json.then_some(Form::Json), masks)
    }
}

/// A recorded outcome as the API shows it.
#[derive(Serialize, ToSchema)]
#[schema(as = RecordedAnswer)]
pub(crate) struct Shown {
    status: u16,
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    headers: Value,
    #[serde(flatten)]
    body: ShownBody,
}

impl Shown {
    /// Whole, in the form it was given: a replay.
    pub(super) fn whole(outcome: &Outcome) -> Self {
        let body = match outcome.whole() {
            Some(bytes) => ShownBody::of(bytes, Form::of(outcome)),
            None => ShownBody::omitted(),
        };
        Self::with(outcome, body)
    }

    /// With its secrets masked, for those who look at a record.
    pub(super) fn masked(outcome: &Outcome, masks: &[Path]) -> Self {
        let body = match outcome.whole() {
            Some(bytes) => ShownBody::masked(bytes, Form::of(outcome), masks),
            None => ShownBody::omitted(),
        };
        Self::with(outcome, body)
    }

    /// Without its body.
    pub(super) fn withheld(outcome: &Outcome) -> Self {
        Self::with(outcome, ShownBody::withheld())
    }

    fn with(outcome: &Outcome, body: ShownBody) -> Self {
        Self {
            status: outcome.status,
            headers: shown_headers(outcome),
            body,
        }
    }
}

fn shown_headers(outcome: &Outcome) -> Value {
    let mut headers = Map::new();
    for (name, value) in outcome
        .headers
        .iter()
        .filter(|(name, _)| name != FORM && name != NOT_KEPT)
    {
        let value = String::from_utf8_lossy(value);
        let joined = match headers.get(name).and_then(Value::as_str) {
            Some(before) => format!("{before}, {value}"),
            None => value.into_owned(),
        };
        headers.insert(name.clone(), json!(joined));
    }
    headers.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::payload::Payload;
    use std::collections::BTreeMap;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn json_is_replayed_as_it_was_received() {
        let deep = "[".repeat(128) + &"]".repeat(128);
        for text in ["{ \"b\":1.0,\n\"a\":12345678901234567890123 }", &deep] {
            let payload = Payload::of(Some(&raw(text)), None).unwrap();
            let outcome = payload
                .outcome(200, &BTreeMap::new(), &hapax::layer::Route::default())
                .unwrap();
            let shown = serde_json::to_string(&Shown::whole(&outcome)).unwrap();
            assert!(shown.contains(&format!("\"body\":{text}")), "{shown}");
        }
    }

    #[test]
    fn who_looks_at_a_record_sees_no_secrets() {
        let masks = ["phone".parse().unwrap()];
        let of = |body: &str| {
            let payload = Payload::of(Some(&raw(body)), None).unwrap();
            let outcome = payload
                .outcome(200, &BTreeMap::new(), &hapax::layer::Route::default())
                .unwrap();
            serde_json::to_value(Shown::masked(&outcome, &masks)).unwrap()
        };
        let shown = of(r#"{"phone":1,"token":"t","n":2}"#);
        assert_eq!(
            shown["body"],
            json!({"phone": "***", "token": "***", "n": 2})
        );
        let shown = of(r#""phone=1""#);
        assert_eq!(
            (shown.get("body"), &shown["body_withheld"]),
            (None, &json!(true))
        );
    }
}
