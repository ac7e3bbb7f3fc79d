//! Reads what a model answered: one parser for single requests and for lines of a batch. An answer was paid for, so it is
//! refused only where nothing can be made of it: no JSON object, no gist, or fewer than five keywords.

use std::fmt;

use hapax_core::canonical;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ChatAnswer, Topics};

/// How few keywords an answer may have.
pub const KEYWORDS_MIN: usize = 5;
/// How many keywords are kept.
pub const KEYWORDS_MAX: usize = 12;
/// How long a keyword may be. A longer one is left out.
pub const KEYWORD_CHARS_MAX: usize = 80;
/// How long a gist may be. A longer one is cut, with a `…` at its end.
pub const GIST_CHARS_MAX: usize = 600;
/// How many words of a secondary topic are kept.
pub const SECONDARY_WORDS_MAX: usize = 5;
/// How long a topic may be that is not on the list.
pub const TOPIC_CHARS_MAX: usize = 80;
/// How large the flags may be, as JSON. Larger ones are left out.
pub const FLAGS_BYTES_MAX: usize = 4096;
/// How much of an answer that was refused is kept.
pub const RAW_BYTES_MAX: usize = 64 << 10;
/// How many containers may stand inside each other in an answer.
const DEPTH_MAX: usize = 16;

/// What enrichment found out about a text.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct T1 {
    /// What it is about: one of the topics, or `other`.
    pub topic_primary: String,
    /// The model's own word, where the primary topic is `other` because that word is not on the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_said: Option<String>,
    /// How sure that is, from 0 to 1; 0 where the model did not say.
    pub topic_primary_confidence: f64,
    /// What else it is about, in the model's words.
    pub topic_secondary: Option<String>,
    /// How sure that is, from 0 to 1. There if, and only if, the secondary topic is.
    pub topic_secondary_confidence: Option<f64>,
    /// 5 to 12 different words to find it by, lower case.
    pub keywords: Vec<String>,
    /// What it says, on one line.
    pub gist: String,
    /// What else was noticed.
    pub flags: Map<String, Value>,
}

/// Why an answer is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// There is no choice in the answer.
    NoChoices,
    /// The choice has no content.
    ContentNull,
    /// The content is not a text.
    ContentNotText,
    /// The answer was cut off.
    CutOff,
    /// The model or a filter declined to answer.
    Declined,
    /// The answer is empty.
    Empty,
    /// It is not JSON, or not by our rules.
    BadJson,
    /// It is JSON and not an object.
    NotAnObject,
    /// A field is missing.
    MissingField,
    /// A field is of another type.
    WrongType,
    /// There are fewer than five different keywords.
    TooFewKeywords,
    /// The gist says nothing.
    EmptyGist,
}

impl Reason {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoChoices => "no_choices",
            Self::ContentNull => "content_null",
            Self::ContentNotText => "content_not_text",
            Self::CutOff => "cut_off",
            Self::Declined => "declined",
            Self::Empty => "empty",
            Self::BadJson => "bad_json",
            Self::NotAnObject => "not_an_object",
            Self::MissingField => "missing_field",
            Self::WrongType => "wrong_type",
            Self::TooFewKeywords => "too_few_keywords",
            Self::EmptyGist => "empty_gist",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An answer that is refused, with what was said. Neither its text nor its `Debug` shows the answer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParseError {
    /// Which rule it breaks.
    pub reason: Reason,
    /// How it breaks it, in a sentence.
    pub detail: String,
    /// What the model said, at most [`RAW_BYTES_MAX`] bytes of it.
    pub raw: String,
}

impl ParseError {
    /// This reason, for an answer that says `raw`.
    pub fn new(reason: Reason, detail: impl Into<String>, raw: &str) -> Self {
        Self {
            reason,
            detail: detail.into(),
            raw: cut(raw, RAW_BYTES_MAX).to_owned(),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.detail)
    }
}

impl fmt::Debug for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParseError")
            .field("reason", &self.reason)
            .field("detail", &self.detail)
            .field("raw_bytes", &self.raw.len())
            .finish()
    }
}

impl std::error::Error for ParseError {}

/// Reads answers.
///
/// ```
/// use hapax_effects::enrich::{Parser, Reason, Topics};
///
/// let parser = Parser::new(Topics::default());
/// let said = r#"{"topic_primary":"Food","topic_primary_confidence":0.9,"topic_secondary":null,
///     "keywords":["tea","leaves","water","kettle","cup"],"gist":"Tea is a drink.","flags":{}}"#;
/// let t1 = parser.parse(said).unwrap();
/// assert_eq!((t1.topic_primary.as_str(), t1.keywords.len()), ("food", 5));
///
/// // What stands around the object is taken off.
/// assert_eq!(parser.parse(&format!("Here it is:\n```json\n{said}\n```")), Ok(t1));
///
/// // The refusal keeps what was said.
/// let refused = parser.parse("I cannot help with that.").unwrap_err();
/// assert_eq!((refused.reason, refused.raw.as_str()), (Reason::BadJson, "I cannot help with that."));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parser {
    topics: Topics,
    is_strict: bool,
}

/// A reason and its detail, before the answer is put beside them.
type Refused = (Reason, String);

impl Parser {
    /// A parser that knows these topics.
    #[must_use]
    pub fn new(topics: Topics) -> Self {
        Self {
            topics,
            is_strict: false,
        }
    }

    /// Whether a secondary topic must be on the list, too. One that is not is left out.
    #[must_use]
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.is_strict = is_strict;
        self
    }

    /// Reads the answer of a chat.
    ///
    /// # Errors
    /// [`ParseError`] when there is no content, it was cut off, or what it says is refused.
    pub fn answer(&self, answer: &ChatAnswer) -> Result<T1, ParseError> {
        self.parse(answer.content()?)
    }

    /// Reads what a model said. Time and memory are linear in its length.
    ///
    /// # Errors
    /// [`ParseError`] with the first rule that it breaks.
    pub fn parse(&self, raw: &str) -> Result<T1, ParseError> {
        self.read(raw)
            .map_err(|(reason, detail)| ParseError::new(reason, detail, raw))
    }

    fn read(&self, raw: &str) -> Result<T1, Refused> {
        let object = object(raw)?;
        // Refusals first: the rest takes what there is.
        let (gist, keywords) = (gist(&object)?, keywords(&object)?);
        let said = words(object.get("topic_primary"));
        let listed = said.as_deref().and_then(|said| self.topics.find(said));
        let topic_primary = listed.unwrap_or(OTHER).to_owned();
        let topic_said = said.filter(|_| listed.is_none());
        let topic_secondary = self
            .secondary(object.get("topic_secondary"))
            .filter(|topic| *topic != topic_primary && Some(topic) != topic_said.as_ref());
        let sure = |field: &str| object.get(field).map_or(0.0, confidence);
        Ok(T1 {
            topic_primary_confidence: sure("topic_primary_confidence"),
            topic_secondary_confidence: topic_secondary
                .as_ref()
                .map(|_| sure("topic_secondary_confidence")),
            topic_primary,
            topic_said,
            topic_secondary,
            keywords,
            gist,
            flags: flags(object.get("flags")),
        })
    }

    /// The secondary topic in the list's spelling, or in the model's first few words. An empty one is none.
    fn secondary(&self, value: Option<&Value>) -> Option<String> {
        let said = words(value)?;
        if let Some(listed) = self.topics.find(&said) {
            return Some(listed.to_owned());
        }
        let few: Vec<&str> = said.split(' ').take(SECONDARY_WORDS_MAX).collect();
        (!self.is_strict).then(|| few.join(" "))
    }
}

/// The primary topic of an answer whose own is not on the list.
const OTHER: &str = "other";

/// The one object of the answer: without a byte order mark, a code fence, and words before and after it.
fn object(raw: &str) -> Result<Map<String, Value>, Refused> {
    let said = raw.trim_matches(|letter: char| letter == '\u{feff}' || letter.is_whitespace());
    if said.is_empty() {
        return Err((Reason::Empty, "the answer is empty".to_owned()));
    }
    let inside = unwrapped(said)?;
    if let Err(reject) = canonical::check_with_depth(inside.as_bytes(), DEPTH_MAX) {
        return Err((Reason::BadJson, format!("{}: {reject}", reject.reason)));
    }
    match serde_json::from_str(inside) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err((
            Reason::NotAnObject,
            format!("the answer is {}", kind(&other)),
        )),
        Err(error) => Err((Reason::BadJson, error.to_string())),
    }
}

/// The JSON in the answer. A second object behind the first makes it unclear which one is meant.
fn unwrapped(said: &str) -> Result<&str, Refused> {
    if said.starts_with('[') {
        return Ok(said);
    }
    let Some(start) = object_start(said) else {
        // A bare number or text is left to the JSON rules.
        return Ok(said);
    };
    let bad = |detail: &str| (Reason::BadJson, detail.to_owned());
    let bytes = first_value_bytes(&said[start..])
        .ok_or_else(|| bad("the object in the answer is not JSON"))?;
    let (object, rest) = said[start..].split_at(bytes);
    let second = object_start(rest).and_then(|start| first_value_bytes(&rest[start..]));
    if second.is_some() {
        return Err(bad("there is more than one object in the answer"));
    }
    Ok(object)
}

/// Where an object begins: at a brace before a name or another brace, unlike the `{braces}` of prose.
fn object_start(text: &str) -> Option<usize> {
    let mut braces = text.match_indices('{').map(|(start, _)| start);
    braces.find(|start| text[start + 1..].trim_start().starts_with(['"', '}']))
}

/// How long the JSON value is that the text begins with, if it does.
fn first_value_bytes(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// A text on one line; `None` where it is none, is empty or is longer than a topic.
fn words(value: Option<&Value>) -> Option<String> {
    let text = printed(value?.as_str()?);
    (1..=TOPIC_CHARS_MAX)
        .contains(&text.chars().count())
        .then_some(text)
}

/// A number from 0 to 1, also as a text or in percent. Anything else says nothing, which is 0.
fn confidence(value: &Value) -> f64 {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().trim_end_matches('%').trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    match number {
        Some(number) if (0.0..=1.0).contains(&number) => number.abs(),
        Some(percent) if (1.0..=100.0).contains(&percent) => percent / 100.0,
        Some(_) | None => 0.0,
    }
}

/// Lower case, so that one word in two spellings is one keyword; the first twelve different ones.
fn keywords(object: &Map<String, Value>) -> Result<Vec<String>, Refused> {
    let given: Vec<String> = match object.get("keywords") {
        Some(Value::Array(values)) => values.iter().filter_map(keyword).collect(),
        Some(Value::String(line)) => line.split([',', ';', '\n']).map(printed).collect(),
        _none => Vec::new(),
    };
    let mut keywords: Vec<String> = Vec::new();
    for keyword in given.iter().map(|keyword| keyword.to_lowercase()) {
        let is_of_use = (1..=KEYWORD_CHARS_MAX).contains(&keyword.chars().count());
        if is_of_use && keywords.len() < KEYWORDS_MAX && !keywords.contains(&keyword) {
            keywords.push(keyword);
        }
    }
    if keywords.len() < KEYWORDS_MIN {
        let found = keywords.len();
        return Err((
            Reason::TooFewKeywords,
            format!("there are {found} different keywords, and {KEYWORDS_MIN} are needed"),
        ));
    }
    Ok(keywords)
}

fn keyword(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(printed(text)),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn gist(object: &Map<String, Value>) -> Result<String, Refused> {
    let said = match object.get("gist") {
        None | Some(Value::Null) => {
            return Err((Reason::MissingField, "gist is missing".to_owned()));
        }
        Some(Value::String(said)) => said,
        Some(other) => {
            let detail = format!("gist is {}, and a text is needed", kind(other));
            return Err((Reason::WrongType, detail));
        }
    };
    let gist = printed(said);
    if gist.is_empty() {
        return Err((Reason::EmptyGist, "the gist says nothing".to_owned()));
    }
    if gist.chars().count() <= GIST_CHARS_MAX {
        return Ok(gist);
    }
    let beginning: String = gist.chars().take(GIST_CHARS_MAX - 1).collect();
    Ok(format!("{}…", beginning.trim_end()))
}

/// The flags as an object; words that are listed are each true. What no column takes is left out.
fn flags(value: Option<&Value>) -> Map<String, Value> {
    let words = |words: &[&str]| {
        let said = words.iter().map(|word| printed(word));
        let said = said.filter(|word| !word.is_empty());
        said.map(|word| (word, Value::Bool(true))).collect()
    };
    let flags: Map<String, Value> = match value {
        Some(Value::Object(flags)) => flags.clone(),
        Some(Value::Array(values)) => {
            let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            words(&texts)
        }
        Some(Value::String(text)) => words(&[text.as_str()]),
        _none => Map::new(),
    };
    let is_storable = |(name, value): &(&String, &Value)| !name.contains('\0') && !holds_nul(value);
    let flags: Map<String, Value> = flags
        .iter()
        .filter(is_storable)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if Value::Object(flags.clone()).to_string().len() > FLAGS_BYTES_MAX {
        return Map::new();
    }
    flags
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || holds_nul(value)),
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A text on one line, with single spaces and without control characters.
fn printed(text: &str) -> String {
    let is_gap = |letter: char| letter.is_whitespace() || letter.is_control();
    let words: Vec<&str> = text.split(is_gap).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// The beginning of a text, cut between characters.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
