//! What the fake says: good answers that depend on the text alone, and every bad one that was seen.

use serde_json::{Value, json};

use super::{Shape, now_s};
use hapax_core::Fingerprint;

/// What a call gets.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// What a good model would say: a topic of the prompt's list, words of the text, a gist.
    Good,
    /// This content.
    Text(String),
    /// The good answer in a code fence.
    Fenced,
    /// The good answer with words around it.
    Prose,
    /// The good answer with four keywords.
    FourKeywords,
    /// The good answer with a topic that is not on the list.
    UnknownTopic,
    /// The good answer with a list for a gist.
    WrongType,
    /// `content: null`.
    Null,
    /// `choices: []`.
    NoChoices,
    /// Half of the good answer and `finish_reason: "length"`.
    Length,
    /// `refusal` and no content.
    Declined,
    /// 200 and a page of HTML.
    Html,
    /// 429 from the provider, which wants to be left alone for so many seconds.
    RateLimited(u64),
    /// 429 from LiteLLM itself: `retry-after: 5`.
    Cooldown,
    /// This status with the usual error around it.
    Status(u16),
    /// This status with this body.
    Raw(u16, String),
    /// No answer, ever. Nothing is done.
    Hang,
    /// It is done, and there is no answer, ever.
    HangAfter,
    /// The connection breaks off. Nothing is done.
    Cut,
    /// It is done, and the connection breaks off before the answer.
    CutAfter,
    /// It is done, and the connection breaks off in the answer.
    CutBody,
}

impl Reply {
    /// The reply with this name: `good`, `fence`, `prose`, `4-keywords`, `unknown-topic`, `wrong-type`, `null`,
    /// `no-choices`, `length`, `declined`, `html`, `429`, `cooldown`, `hang`, `cut`, `cut-after`, `cut-body`, or a
    /// status.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "good" => Self::Good,
            "fence" => Self::Fenced,
            "prose" => Self::Prose,
            "4-keywords" => Self::FourKeywords,
            "unknown-topic" => Self::UnknownTopic,
            "wrong-type" => Self::WrongType,
            "null" => Self::Null,
            "no-choices" => Self::NoChoices,
            "length" => Self::Length,
            "declined" => Self::Declined,
            "html" => Self::Html,
            "429" => Self::RateLimited(7),
            "cooldown" => Self::Cooldown,
            "hang" => Self::Hang,
            "cut" => Self::Cut,
            "cut-after" => Self::CutAfter,
            "cut-body" => Self::CutBody,
            status => Self::Status(status.parse().ok().filter(|status| *status >= 400)?),
        })
    }

    /// The reply that a text asks for by `fake-reply:NAME`.
    pub(super) fn marked(said: &str) -> Option<Self> {
        let (_, name) = said.split_once("fake-reply:")?;
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let end = name.find(|letter| !is_name(letter)).unwrap_or(name.len());
        Self::named(&name[..end])
    }

    /// The status, the headers and the body of an HTTP answer to a chat with this body.
    pub(super) fn to_chat(&self, shape: Shape, body: &Value) -> Answer {
        let good = || good(body);
        let with = |field: &str, value: Value| {
            let mut good: Value = serde_json::from_str(&good()).unwrap_or_default();
            good[field] = value;
            good.to_string()
        };
        let said = match self {
            Self::Good | Self::HangAfter | Self::CutAfter | Self::CutBody => good(),
            Self::Text(text) => text.clone(),
            Self::Fenced => format!("```json\n{}\n```", good()),
            Self::Prose => format!("Here is the JSON:\n{}\nI hope it helps.", good()),
            Self::FourKeywords => with("keywords", json!(["a", "b", "c", "d", "D "])),
            Self::UnknownTopic => with("topic_primary", json!("astrology-of-cats")),
            Self::WrongType => with("gist", json!(["Tea."])),
            Self::Length => {
                let good = good();
                let half = good.char_indices().nth(good.chars().count() / 2);
                let cut = half.map_or(good.as_str(), |(place, _)| &good[..place]);
                return Answer::ok(&chat(body, &json!(cut), "length"));
            }
            Self::Null => return Answer::ok(&chat(body, &Value::Null, "stop")),
            Self::NoChoices => {
                let mut empty = chat(body, &Value::Null, "stop");
                empty["choices"] = json!([]);
                return Answer::ok(&empty);
            }
            Self::Declined => {
                let mut declined = chat(body, &Value::Null, "stop");
                declined["choices"][0]["message"]["refusal"] = json!("I cannot help with that.");
                return Answer::ok(&declined);
            }
            other => {
                return other
                    .to_other(shape)
                    .unwrap_or_else(|| Answer::ok(&json!({})));
            }
        };
        Answer::ok(&chat(body, &json!(said), "stop"))
    }

    /// The answer of a reply that is the same at every endpoint, if it is one.
    pub(super) fn to_other(&self, shape: Shape) -> Option<Answer> {
        Some(match self {
            Self::Html => Answer {
                content_type: "text/html",
                body: "<html><body>back soon</body></html>".to_owned(),
                ..Answer::ok(&Value::Null)
            },
            Self::RateLimited(seconds) => Answer {
                header: Some(match shape {
                    Shape::LiteLlm => ("llm_provider-retry-after", seconds.to_string()),
                    Shape::OpenAi => ("retry-after", seconds.to_string()),
                }),
                ..error(429, "throttling_error", "429", "slow down")
            },
            Self::Cooldown => Answer {
                header: Some(("retry-after", "5".to_owned())),
                ..error(
                    429,
                    "all_deployments_in_cooldown",
                    "429",
                    "no deployments available",
                )
            },
            Self::Status(status) => {
                let kind = match status {
                    429 => "throttling_error",
                    500.. => "internal_server_error",
                    _ => "invalid_request_error",
                };
                let (code, message) = (status.to_string(), format!("the fake says {status}"));
                error(*status, kind, &code, &message)
            }
            Self::Raw(status, body) => Answer {
                status: *status,
                content_type: "text/plain",
                header: None,
                body: body.clone(),
            },
            _ => return None,
        })
    }
}

/// An answer over HTTP.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) header: Option<(&'static str, String)>,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn ok(body: &Value) -> Self {
        Self {
            status: 200,
            content_type: "application/json",
            header: None,
            body: body.to_string(),
        }
    }
}

/// An error in the usual shape; its code is a text.
pub(super) fn error(status: u16, kind: &str, code: &str, message: &str) -> Answer {
    let error = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    Answer {
        status,
        ..Answer::ok(&error)
    }
}

/// The body of a chat's answer.
fn chat(request: &Value, content: &Value, finish_reason: &str) -> Value {
    let asked = request["messages"].to_string().len();
    let said = content.as_str().map_or(0, str::len);
    let hash = Fingerprint::of(request.to_string().as_bytes());
    json!({
        "id": format!("chatcmpl-{}", hash.short()),
        "object": "chat.completion",
        "created": now_s(),
        "model": request["model"],
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": content, "refusal": null},
            "logprobs": null,
            "finish_reason": finish_reason,
        }],
        "usage": {
            "prompt_tokens": asked / 4, "completion_tokens": said / 4, "total_tokens": asked / 4 + said / 4,
        },
    })
}

/// What a good model would say to this request. The same request always gets the same answer.
fn good(request: &Value) -> String {
    let said = |role: &str| {
        let messages = request["messages"].as_array();
        let mut messages = messages.into_iter().flatten();
        let found = messages.find(|message| message["role"] == role);
        let content = found.and_then(|message| message["content"].as_str());
        content.unwrap_or_default().to_owned()
    };
    let (system, user) = (said("system"), said("user"));
    let topics = system
        .rsplit_once("Topics: ")
        .map_or("other", |(_, list)| list);
    let topics: Vec<&str> = topics.trim_end_matches('.').split(", ").collect();
    let text = user
        .split_once("\ntext:\n")
        .map_or(user.as_str(), |(_, rest)| rest);
    let text = text
        .rsplit_once("\nEND TEXT-")
        .map_or(text, |(text, _)| text);
    let pick = usize::from(Fingerprint::of(text.as_bytes()).as_bytes()[0]);
    let mut keywords: Vec<String> = Vec::new();
    let words = text
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| (4..30).contains(&word.chars().count()))
        .map(str::to_lowercase);
    for word in words.chain((1..=5).map(|number| format!("filler{number}"))) {
        if keywords.len() < 8 && !keywords.contains(&word) {
            keywords.push(word);
        }
    }
    let begins: String = text.chars().take(60).collect();
    json!({
        "topic_primary": topics[pick % topics.len()],
        "topic_primary_confidence": 0.9,
        "topic_secondary": null,
        "topic_secondary_confidence": null,
        "keywords": keywords,
        "gist": format!("A text that begins with: {}", begins.trim()),
        "flags": {},
    })
    .to_string()
}
