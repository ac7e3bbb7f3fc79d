//! What comes of an answer: the text that is kept of it, the result that an item shows, and the columns of its entry.

use std::sync::Arc;

use hapax_core::entry::{Column, Fields, Item};
use hapax_effects::enrich::{ChatAnswer, ParseError, Parser, Reason, T1};
use serde_json::{Value, json};

/// How much of an answer is kept, in bytes. A result is far smaller, so what is cut was none.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// An answer as it is kept until it is parsed.
pub(super) fn kept(mut answer: ChatAnswer) -> Arc<str> {
    if let Some(choice) = &mut answer.choice {
        if let Value::String(text) = &mut choice.content {
            cut(text);
        } else if choice.content.to_string().len() > KEPT_BYTES_MAX {
            choice.content = json!([]);
        }
        if let Some(refusal) = &mut choice.refusal {
            cut(refusal);
        }
    }
    serde_json::to_string(&answer).unwrap_or_default().into()
}

fn cut(text: &mut String) {
    let is_whole = |end: &usize| text.is_char_boundary(*end);
    let end = KEPT_BYTES_MAX.min(text.len());
    let end = (0..=end).rev().find(is_whole).unwrap_or(0);
    text.truncate(end);
}

/// Reads an answer that was kept.
pub(super) fn parse(parser: &Parser, kept: &str) -> Result<T1, ParseError> {
    match serde_json::from_str::<ChatAnswer>(kept) {
        Ok(answer) => parser.answer(&answer),
        Err(error) => Err(ParseError::new(Reason::BadJson, error.to_string(), kept)),
    }
}

/// What the model said, without what stood around it.
pub(super) fn said(kept: &str) -> Arc<str> {
    let answer: Option<ChatAnswer> = serde_json::from_str(kept).ok();
    let content = answer
        .and_then(|answer| answer.choice)
        .map(|one| one.content);
    match content {
        Some(Value::String(text)) => text.into(),
        Some(_) | None => kept.into(),
    }
}

/// What an item shows as its result.
pub(super) fn shown(t1: &T1, model: &str, version: &str) -> Value {
    let mut shown = serde_json::to_value(t1).unwrap_or_default();
    shown["model"] = json!(model);
    shown["prompt_version"] = json!(version);
    shown
}

/// What its entry says from now on.
pub(super) fn columns(t1: T1, model: &str, version: &str, item: &Item) -> Fields {
    let mut fields = Fields::new();
    fields.put(Column::TopicPrimary, t1.topic_primary);
    if let Some(said) = t1.topic_said {
        // Merged into the metadata that the entry has.
        fields.put(Column::Metadata, json!({"t1": {"topic_said": said}}));
    }
    fields.put(Column::TopicPrimaryConfidence, t1.topic_primary_confidence);
    fields.put(Column::TopicSecondary, t1.topic_secondary);
    fields.put(
        Column::TopicSecondaryConfidence,
        t1.topic_secondary_confidence,
    );
    fields.put(Column::Keywords, t1.keywords);
    fields.put(Column::Gist, t1.gist);
    fields.put(Column::Flags, Value::Object(t1.flags));
    fields.put(Column::EnrichmentStatus, "completed");
    fields.put(Column::EnrichmentModel, model);
    fields.put(Column::PromptVersion, version);
    fields.put(Column::EnrichedHash, item.hash.hex());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_effects::enrich::Topics;

    fn answer(content: &Value) -> ChatAnswer {
        let body = json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]});
        ChatAnswer::read(&body).unwrap()
    }

    #[test]
    fn an_answer_is_kept_whole_unless_it_is_larger_than_any_result() {
        let parser = Parser::new(Topics::default());
        let good = r#"{"topic_primary":"food","topic_primary_confidence":1,"keywords":["a","b","c","d","e"],"gist":"g","flags":{}}"#;
        let text = kept(answer(&json!(good)));
        assert_eq!(
            (&*said(&text), parse(&parser, &text).unwrap().gist.as_str()),
            (good, "g")
        );
        for (content, reason) in [
            (json!("é".repeat(1 << 20)), Reason::BadJson),
            (json!(["x".repeat(1 << 20)]), Reason::ContentNotText),
            (Value::Null, Reason::ContentNull),
        ] {
            let text = kept(answer(&content));
            assert!(text.len() < KEPT_BYTES_MAX + 1000);
            assert_eq!(parse(&parser, &text).unwrap_err().reason, reason);
        }
        assert_eq!(parse(&parser, "cut off").unwrap_err().raw, "cut off");
    }
}
