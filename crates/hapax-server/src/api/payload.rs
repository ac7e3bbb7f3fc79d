//! Bodies inside JSON: `body` as text or as JSON, or `body_base64`. How they are shown again is in `shown`.

use std::collections::BTreeMap;

use axum::http::{HeaderName, HeaderValue};
use bytes::Bytes;
use data_encoding::BASE64;
use hapax::layer::Route;
use hapax::problem::Problem;
use hapax_core::Outcome;
use serde_json::value::RawValue;

use crate::problem;

/// The stored header that remembers in which form a body was given.
pub(super) const FORM: &str = "x-hapax-body-form";
const HEADERS_MAX: usize = 64;

/// In which form a body was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Json,
    Text,
    Base64,
}

impl Form {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Form::Json => "json",
            Form::Text => "text",
            Form::Base64 => "base64",
        }
    }

    /// The form that a recorded body was given in; none for one that was recorded by the layer.
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        let (_, word) = outcome.headers.iter().find(|(name, _)| name == FORM)?;
        [Form::Json, Form::Text, Form::Base64]
            .into_iter()
            .find(|form| form.as_str().as_bytes() == word.as_ref())
    }
}

/// A body and the form it was given in.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) bytes: Bytes,
    form: Option<Form>,
}

impl Payload {
    /// A string stands for its text, any other JSON for its own bytes as received, nothing for nothing.
    pub(super) fn of(body: Option<&RawValue>, base64: Option<&str>) -> Result<Self, Problem> {
        match (body, base64) {
            (Some(_), Some(_)) => Err(invalid("body", "give either body or body_base64, not both")),
            (None, None) => Ok(Self {
                bytes: Bytes::new(),
                form: None,
            }),
            (None, Some(text)) => {
                let bytes = BASE64
                    .decode(text.as_bytes())
                    .map_err(|_| invalid("body_base64", "is not base64"))?;
                Ok(Self {
                    bytes: bytes.into(),
                    form: Some(Form::Base64),
                })
            }
            (Some(raw), None) if raw.get().starts_with('"') => {
                let text: String = serde_json::from_str(raw.get())
                    .map_err(|why| invalid("body", why.to_string()))?;
                Ok(Self {
                    bytes: text.into(),
                    form: Some(Form::Text),
                })
            }
            (Some(raw), None) => Ok(Self {
                bytes: raw.get().to_owned().into(),
                form: Some(Form::Json),
            }),
        }
    }

    /// The media type of the body unless the caller names one.
    pub(super) fn content_type(&self) -> Option<&'static str> {
        match self.form? {
            Form::Json => Some("application/json"),
            Form::Text => Some("text/plain"),
            Form::Base64 => Some("application/octet-stream"),
        }
    }

    /// The outcome with this status and these headers, as far as the route stores them.
    pub(super) fn outcome(
        self,
        status: u16,
        headers: &BTreeMap<String, String>,
        route: &Route,
    ) -> Result<Outcome, Problem> {
        if !(200..=599).contains(&status) {
            return Err(invalid("status", "must be from 200 to 599"));
        }
        if headers.len() > HEADERS_MAX {
            return Err(invalid(
                "headers",
                format!("at most {HEADERS_MAX} are kept"),
            ));
        }
        let mut outcome = Outcome::new(status, self.bytes);
        for (name, value) in headers {
            let wrong = |why: &str| invalid(&format!("headers.{name}"), why);
            let name: HeaderName = name.parse().map_err(|_| wrong("is not a header name"))?;
            let value: HeaderValue = value.parse().map_err(|_| wrong("is not a header value"))?;
            if hapax::layer::is_stored(&name, route) {
                outcome =
                    outcome.with_header(name.as_str(), Bytes::copy_from_slice(value.as_bytes()));
            }
        }
        Ok(match self.form {
            Some(form) => outcome.with_header(FORM, form.as_str()),
            None => outcome,
        })
    }
}

pub(super) fn invalid(path: &str, message: impl Into<String>) -> Problem {
    problem::schema(&[(path.to_owned(), message.into())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::shown::Shown;
    use serde_json::{Value, json};

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn round(body: Option<&str>, base64: Option<&str>) -> Value {
        let body = body.map(raw);
        let payload = Payload::of(body.as_deref(), base64).unwrap();
        shown(
            &payload
                .outcome(200, &BTreeMap::new(), &Route::default())
                .unwrap(),
        )
    }

    fn shown(outcome: &Outcome) -> Value {
        serde_json::to_value(Shown::whole(outcome)).unwrap()
    }

    #[test]
    fn a_body_comes_back_in_the_form_it_was_given() {
        assert_eq!(round(Some(r#"{"a":1}"#), None)["body"], json!({"a": 1}));
        assert_eq!(
            round(Some(r#""{\"a\":1}""#), None)["body"],
            json!("{\"a\":1}")
        );
        assert_eq!(round(None, Some("/wAB"))["body_base64"], json!("/wAB"));
        assert_eq!(round(None, Some("YWJj"))["body_base64"], json!("YWJj"));
        assert_eq!(round(None, None)["body"], json!(""));
    }

    #[test]
    fn json_is_kept_as_it_was_received() {
        let payload =
            Payload::of(Some(&raw("{ \"b\":1.0,\n\"a\":9007199254740993 }")), None).unwrap();
        assert_eq!(payload.bytes, "{ \"b\":1.0,\n\"a\":9007199254740993 }");
    }

    #[test]
    fn secrets_are_not_stored() {
        let headers =
            [("Set-Cookie", "s=1"), ("Location", "/7")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        let outcome = Payload::of(None, None)
            .unwrap()
            .outcome(201, &headers.into(), &Route::default())
            .unwrap();
        assert_eq!(shown(&outcome)["headers"], json!({"location": "/7"}));
    }

    #[test]
    fn what_cannot_be_a_response_is_refused() {
        let refused = |status, name: &str, value: &str| {
            let headers = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            Payload::of(None, None)
                .unwrap()
                .outcome(status, &headers, &Route::default())
                .unwrap_err()
                .code()
        };
        assert_eq!(refused(99, "a", "b"), "schema_validation_failed");
        assert_eq!(refused(200, "a b", "b"), "schema_validation_failed");
        assert_eq!(refused(200, "a", "b\r\nc: d"), "schema_validation_failed");
        assert!(Payload::of(Some(&raw("1")), Some("")).is_err());
        assert!(Payload::of(None, Some("%%%")).is_err());
    }
}
