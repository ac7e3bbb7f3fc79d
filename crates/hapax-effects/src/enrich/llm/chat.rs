//! One question and its answer. What the answer means is the parser's business.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::enrich::parse::{ParseError, Reason};
use crate::enrich::prompt::{Mode, Prompt, chat_body};

/// A question to one model.
#[derive(Clone, PartialEq, Debug)]
pub struct ChatRequest {
    /// The logical model, as LiteLLM knows it.
    pub model: String,
    /// How much of the text it sees, for metrics.
    pub mode: Mode,
    /// The body that is sent.
    pub body: Value,
}

impl ChatRequest {
    /// This prompt for this model.
    #[must_use]
    pub fn new(model: &str, prompt: &Prompt) -> Self {
        Self {
            model: model.to_owned(),
            mode: prompt.mode,
            body: chat_body(model, prompt),
        }
    }
}

/// How many tokens a call took, as far as the provider said.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Usage {
    /// Those that were sent.
    pub prompt_tokens: u64,
    /// Those that were answered.
    pub completion_tokens: u64,
}

/// What one choice of an answer says.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Choice {
    /// What the model said: a text, null, or something else that is no answer.
    pub content: Value,
    /// `stop`, `length`, `content_filter`, …
    pub finish_reason: Option<String>,
    /// Why the model declined, if it did.
    pub refusal: Option<String>,
}

/// The answer to a question. It can be stored and read back.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct ChatAnswer {
    /// The provider's name for it.
    pub id: Option<String>,
    /// The model that answered, as the provider calls it.
    pub model: Option<String>,
    /// The first choice. Only one is asked for.
    pub choice: Option<Choice>,
    /// How many tokens it took.
    pub usage: Usage,
}

impl ChatAnswer {
    /// Reads the body of a chat's answer, whether it came at once or in a line of a batch.
    ///
    /// # Errors
    /// What is wrong with it, if it has no list of choices.
    pub fn read(body: &Value) -> Result<Self, String> {
        let Some(choices) = body["choices"].as_array() else {
            return Err("there is no list of choices".to_owned());
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let count = |name: &str| body["usage"][name].as_u64().unwrap_or(0);
        Ok(Self {
            id: text(&body["id"]),
            model: text(&body["model"]),
            choice: choices.first().map(|choice| Choice {
                content: choice["message"]["content"].clone(),
                finish_reason: text(&choice["finish_reason"]),
                refusal: text(&choice["message"]["refusal"]).filter(|text| !text.is_empty()),
            }),
            usage: Usage {
                prompt_tokens: count("prompt_tokens"),
                completion_tokens: count("completion_tokens"),
            },
        })
    }

    /// What the model said, if it said it whole.
    ///
    /// # Errors
    /// [`ParseError`] when there is no choice, it was declined, it was cut off, or there is no text.
    pub fn content(&self) -> Result<&str, ParseError> {
        let refused = |reason, detail: &str, raw: &str| Err(ParseError::new(reason, detail, raw));
        let Some(choice) = &self.choice else {
            return refused(Reason::NoChoices, "the answer has no choices", "");
        };
        let said = choice.content.as_str();
        let finish = choice.finish_reason.as_deref();
        if let Some(refusal) = &choice.refusal {
            return refused(Reason::Declined, "the model declined to answer", refusal);
        }
        if finish == Some("content_filter") {
            let detail = "a filter took the answer away";
            return refused(Reason::Declined, detail, said.unwrap_or_default());
        }
        if finish == Some("length") {
            let detail = "the answer was cut off at its length limit";
            return refused(Reason::CutOff, detail, said.unwrap_or_default());
        }
        match (&choice.content, said) {
            (_, Some(said)) => Ok(said),
            (Value::Null, None) => refused(Reason::ContentNull, "the answer has no content", ""),
            (other, None) => {
                let raw = other.to_string();
                refused(Reason::ContentNotText, "the content is not a text", &raw)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reason(choices: &Value) -> Result<String, (Reason, String)> {
        let answer = ChatAnswer::read(&json!({"choices": choices})).unwrap();
        let said = answer.content().map(str::to_owned);
        said.map_err(|error| (error.reason, error.raw))
    }

    #[test]
    fn every_answer_without_a_whole_text_has_its_own_reason() {
        let choice = |content: Value, finish: &str| json!([{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}]);
        let none = String::new;
        assert_eq!(reason(&choice(json!("{}"), "stop")), Ok("{}".to_owned()));
        assert_eq!(reason(&json!([])), Err((Reason::NoChoices, none())));
        assert_eq!(
            reason(&choice(Value::Null, "stop")),
            Err((Reason::ContentNull, none()))
        );
        assert_eq!(reason(&json!([{}])), Err((Reason::ContentNull, none())));
        assert_eq!(
            reason(&choice(json!("{\"gi"), "length")),
            Err((Reason::CutOff, "{\"gi".to_owned()))
        );
        assert_eq!(
            reason(&choice(json!("x"), "content_filter")),
            Err((Reason::Declined, "x".to_owned()))
        );
        assert_eq!(
            reason(&choice(json!([{"text": "{}"}]), "stop")),
            Err((Reason::ContentNotText, r#"[{"text":"{}"}]"#.to_owned()))
        );
        let declined = json!([{"message": {"content": null, "refusal": "no"}}]);
        assert_eq!(reason(&declined), Err((Reason::Declined, "no".to_owned())));
    }

    #[test]
    fn an_answer_survives_being_stored_and_what_is_missing_is_none() {
        let body = json!({
            "id": "c-1", "model": "gpt", "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
            "choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}],
        });
        let answer = ChatAnswer::read(&body).unwrap();
        assert_eq!(
            (answer.usage.prompt_tokens, answer.usage.completion_tokens),
            (7, 3)
        );
        let stored = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<ChatAnswer>(&stored).unwrap(), answer);
        for bad in [json!(null), json!([]), json!({"choices": null}), json!("x")] {
            assert!(ChatAnswer::read(&bad).is_err(), "{bad}");
        }
        let bare = ChatAnswer::read(&json!({"choices": [], "usage": null})).unwrap();
        assert_eq!(bare, ChatAnswer::default());
    }
}
