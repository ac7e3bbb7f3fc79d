//! What the model said, read once and for all: the same parser for an answer that was waited for and for a line of a
//! batch. It takes an answer whole or refuses it whole.

use std::fmt;

use hapax_core::canonical;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ChatAnswer, Topics};

/// How few keywords an answer may have.
pub const KEYWORDS_MIN: usize = 5;
/// How many keywords are kept.
pub const KEYWORDS_MAX: usize = 12;
/// How long a keyword may be.
pub const KEYWORD_CHARS_MAX: usize = 80;
/// How long a gist may be.
pub const GIST_CHARS_MAX: usize = 600;
/// How large the flags may be, as JSON.
pub const FLAGS_BYTES_MAX: usize = 4096;
/// How much of an answer that was refused is kept.
pub const RAW_BYTES_MAX: usize = 64 << 10;
/// How many containers may stand inside each other in an answer.
const DEPTH_MAX: usize = 16;

/// What enrichment found out about a text.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct T1 {
    /// What it is about: one of the topics.
    pub topic_primary: String,
    /// How sure that is, from 0 to 1.
    pub topic_primary_confidence: f64,
    /// What else it is about: another of the topics.
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
    /// The answer is in a code fence.
    CodeFence,
    /// There are words around the object.
    SurroundingProse,
    /// It is not JSON, or not by our rules.
    BadJson,
    /// It is JSON and not an object.
    NotAnObject,
    /// A field is missing.
    MissingField,
    /// A field is of another type.
    WrongType,
    /// A topic is not on the list.
    UnknownTopic,
    /// A confidence is not from 0 to 1.
    ConfidenceOutOfRange,
    /// There are fewer than five different keywords.
    TooFewKeywords,
    /// A keyword, the gist or the flags are too long.
    TooLong,
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
            Self::CodeFence => "code_fence",
            Self::SurroundingProse => "surrounding_prose",
            Self::BadJson => "bad_json",
            Self::NotAnObject => "not_an_object",
            Self::MissingField => "missing_field",
            Self::WrongType => "wrong_type",
            Self::UnknownTopic => "unknown_topic",
            Self::ConfidenceOutOfRange => "confidence_out_of_range",
            Self::TooFewKeywords => "too_few_keywords",
            Self::TooLong => "too_long",
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
/// // The refusal: right in everything but its shape is refused, and what was said is kept.
/// let fenced = format!("```json\n{said}\n```");
/// let refused = parser.parse(&fenced).unwrap_err();
/// assert_eq!((refused.reason, refused.raw), (Reason::CodeFence, fenced.clone()));
/// assert_eq!(parser.lenient(true).parse(&fenced), Ok(t1));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parser {
    topics: Topics,
    is_lenient: bool,
}

/// A reason and its detail, before the answer is put beside them.
type Refused = (Reason, String);

impl Parser {
    /// A strict parser that knows these topics.
    #[must_use]
    pub fn new(topics: Topics) -> Self {
        Self {
            topics,
            is_lenient: false,
        }
    }

    /// Whether one code fence or words around one object are taken off. What is left is judged as strictly.
    #[must_use]
    pub fn lenient(mut self, is_lenient: bool) -> Self {
        self.is_lenient = is_lenient;
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
        let object = object(raw.trim(), self.is_lenient)?;
        let topic_primary = self.topic(text(&object, "topic_primary")?, "topic_primary")?;
        let topic_primary_confidence = confidence(&object, "topic_primary_confidence")?
            .ok_or_else(|| missing("topic_primary_confidence"))?;
        let (topic_secondary, topic_secondary_confidence) =
            match self.secondary(&object, &topic_primary)? {
                Some((topic, confidence)) => (Some(topic), Some(confidence)),
                None => (None, None),
            };
        Ok(T1 {
            topic_primary,
            topic_primary_confidence,
            topic_secondary,
            topic_secondary_confidence,
            keywords: keywords(&object)?,
            gist: gist(&object)?,
            flags: flags(&object)?,
        })
    }

    fn topic(&self, name: &str, field: &str) -> Result<String, Refused> {
        let found = self.topics.find(name).map(str::to_owned);
        found.ok_or_else(|| {
            let shown: String = printed(name).chars().take(80).collect();
            (
                Reason::UnknownTopic,
                format!("{field} is '{shown}', which is not on the list"),
            )
        })
    }

    /// The secondary topic. None of them, an empty one and the primary one again are the same: there is no second.
    fn secondary(
        &self,
        object: &Map<String, Value>,
        primary: &str,
    ) -> Result<Option<(String, f64)>, Refused> {
        let confidence = confidence(object, "topic_secondary_confidence")?;
        let name = match object.get("topic_secondary") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(name)) if name.trim().is_empty() => return Ok(None),
            Some(Value::String(name)) => name,
            Some(other) => return Err(wrong("topic_secondary", "a text or null", other)),
        };
        let topic = self.topic(name, "topic_secondary")?;
        let confidence = confidence.ok_or_else(|| missing("topic_secondary_confidence"))?;
        Ok((topic != primary).then_some((topic, confidence)))
    }
}

/// The one object of the answer.
fn object(said: &str, is_lenient: bool) -> Result<Map<String, Value>, Refused> {
    if said.is_empty() {
        return Err((Reason::Empty, "the answer is empty".to_owned()));
    }
    let bare = bare(said);
    let inside = match bare {
        Ok(()) => said,
        Err(_) if is_lenient => unwrapped(said)?,
        Err(refused) => return Err(refused),
    };
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

/// Whether the answer is an object and nothing else, as far as its shape shows.
fn bare(said: &str) -> Result<(), Refused> {
    if said.starts_with("```") {
        let detail = "the object is in a code fence".to_owned();
        return Err((Reason::CodeFence, detail));
    }
    let prose = |detail: &str| Err((Reason::SurroundingProse, detail.to_owned()));
    if !said.starts_with('{') {
        // A bare number or list is left to the JSON rules.
        return if said.contains('{') && !said.starts_with('[') {
            prose("there are words before the object")
        } else {
            Ok(())
        };
    }
    match first_value_bytes(said) {
        Some(bytes) if bytes < said.len() => prose("there are words after the object"),
        _ => Ok(()),
    }
}

/// The object without one code fence, or without the words around it. A second object is none of them.
fn unwrapped(said: &str) -> Result<&str, Refused> {
    let bad = |detail: &str| (Reason::BadJson, detail.to_owned());
    let start = said
        .find('{')
        .ok_or_else(|| bad("there is no object in the answer"))?;
    let bytes = first_value_bytes(&said[start..])
        .ok_or_else(|| bad("the object in the answer is not JSON"))?;
    let (object, rest) = said[start..].split_at(bytes);
    if rest.contains('{') {
        return Err((
            Reason::SurroundingProse,
            "there is more than one object".to_owned(),
        ));
    }
    Ok(object)
}

/// How long the JSON value is that the text begins with, if it does.
fn first_value_bytes(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> Result<&'a str, Refused> {
    match object.get(field) {
        None => Err(missing(field)),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(wrong(field, "a text", other)),
    }
}

/// A confidence that may be missing or null.
fn confidence(object: &Map<String, Value>, field: &str) -> Result<Option<f64>, Refused> {
    let number = match object.get(field) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_f64().unwrap_or(f64::NAN),
        Some(other) => return Err(wrong(field, "a number", other)),
    };
    if (0.0..=1.0).contains(&number) {
        // Minus zero is a zero.
        Ok(Some(number.abs()))
    } else {
        let detail = format!("{field} is {number}, which is not from 0 to 1");
        Err((Reason::ConfidenceOutOfRange, detail))
    }
}

/// Lower case, so that one word in two spellings is one keyword; the first twelve different ones.
fn keywords(object: &Map<String, Value>) -> Result<Vec<String>, Refused> {
    let given = match object.get("keywords") {
        None => return Err(missing("keywords")),
        Some(Value::Array(given)) => given,
        Some(other) => return Err(wrong("keywords", "a list of texts", other)),
    };
    let mut keywords: Vec<String> = Vec::new();
    for value in given {
        let Value::String(value) = value else {
            return Err(wrong("a keyword", "a text", value));
        };
        let keyword = printed(value).to_lowercase();
        if keyword.chars().count() > KEYWORD_CHARS_MAX {
            return Err((
                Reason::TooLong,
                format!("a keyword has more than {KEYWORD_CHARS_MAX} characters"),
            ));
        }
        // Beyond the twelfth they are looked at and not kept, so this list stays short.
        if !keyword.is_empty() && keywords.len() < KEYWORDS_MAX && !keywords.contains(&keyword) {
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

fn gist(object: &Map<String, Value>) -> Result<String, Refused> {
    let gist = printed(text(object, "gist")?);
    if gist.is_empty() {
        return Err((Reason::EmptyGist, "the gist says nothing".to_owned()));
    }
    if gist.chars().count() > GIST_CHARS_MAX {
        return Err((
            Reason::TooLong,
            format!("the gist has more than {GIST_CHARS_MAX} characters"),
        ));
    }
    Ok(gist)
}

fn flags(object: &Map<String, Value>) -> Result<Map<String, Value>, Refused> {
    let flags = match object.get("flags") {
        None | Some(Value::Null) => return Ok(Map::new()),
        Some(Value::Object(flags)) => flags.clone(),
        // A list of words says that each of them holds.
        Some(Value::Array(words)) if words.iter().all(Value::is_string) => words
            .iter()
            .filter_map(Value::as_str)
            .map(|word| (word.to_owned(), Value::Bool(true)))
            .collect(),
        Some(other) => return Err(wrong("flags", "an object", other)),
    };
    if Value::Object(flags.clone()).to_string().len() > FLAGS_BYTES_MAX {
        return Err((
            Reason::TooLong,
            format!("the flags have more than {FLAGS_BYTES_MAX} bytes"),
        ));
    }
    if flags
        .iter()
        .any(|(name, value)| name.contains('\0') || holds_nul(value))
    {
        let detail = "the flags hold a NUL, which no column takes";
        return Err((Reason::WrongType, detail.to_owned()));
    }
    Ok(flags)
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

fn missing(field: &str) -> Refused {
    (Reason::MissingField, format!("{field} is missing"))
}

fn wrong(field: &str, wanted: &str, found: &Value) -> Refused {
    let found = kind(found);
    let detail = format!("{field} is {found}, and {wanted} is needed");
    (Reason::WrongType, detail)
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
