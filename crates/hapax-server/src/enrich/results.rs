//! What comes of an answer: the text that is kept of it, the result that an item shows, and the columns of its entry.

use std::sync::Arc;

use hapax_core::entry::{Column, Fields, Item};
use hapax_effects::enrich::{ChatAnswer, ParseError, Parser, Reason, T1};
use serde_json::{Value, json};

use super::settings::Settings;

/// An answer as it is kept until it is parsed.
pub(super) fn kept(answer: &ChatAnswer) -> Arc<str> {
    serde_json::to_string(answer).unwrap_or_default().into()
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
    let content = answer.and_then(|answer| answer.choice).map(|one| one.content);
    match content {
        Some(Value::String(text)) => text.into(),
        Some(_) | None => kept.into(),
    }
}

/// What an item shows as its result.
pub(super) fn shown(t1: &T1, model: &str) -> Value {
    let mut shown = serde_json::to_value(t1).unwrap_or_default();
    shown["model"] = json!(model);
    shown["prompt_version"] = json!(Settings::version());
    shown
}

/// What its entry says from now on.
pub(super) fn columns(t1: T1, model: &str, item: &Item) -> Fields {
    let mut fields = Fields::new();
    fields.put(Column::TopicPrimary, t1.topic_primary);
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
    fields.put(Column::PromptVersion, Settings::version());
    fields.put(Column::EnrichedHash, item.hash.hex());
    fields
}
