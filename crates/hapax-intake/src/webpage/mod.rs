//! Web pages: a page's text, or its HTML, becomes the fields of an entry that say what it is worth.
//!
//! No policy is defined for web pages, so the keys are null: a page is inserted as it comes, or written over the entry
//! of the link that led to it.

mod article;
mod parse;

use hapax_core::entry::{Column, Fields};
use serde_json::{Map, Value, json};

use crate::given::Given;
use crate::quality::assess;
use crate::refusal::{Faults, Refusal};
use crate::text::{is_blank, note, remove_nul, tidy};
use crate::url::{Address, Tracking, canonical};

pub use article::{Article, article};
pub use parse::{HTML_BYTES_MAX, NESTED_MAX, NODES_MAX, Unread};

/// The source of every entry that is made here.
pub const SOURCE: &str = "web";

const LINE_CHARS_MAX: usize = 2_000;

/// The fields of a page.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    /// What is known of it. What the caller did not say and the page does not hold is left out, so that writing it over
    /// an entry takes nothing away.
    pub fields: Fields,
    /// There was no text left: there are no retrieval fields, and those of an entry that is there should stay. The
    /// extracted text is what was sent, however blank.
    pub retrieval_update_skipped: bool,
}

impl Page {
    /// As the answer of the API.
    #[must_use]
    pub fn into_json(self) -> Map<String, Value> {
        let mut answer = self.fields.into_json();
        if self.retrieval_update_skipped {
            answer.insert("retrieval_update_skipped".to_owned(), true.into());
        }
        answer
    }
}

/// A page as a client sends it.
///
/// The document has `text`, or else `html`, or else `clean_text`; a `clean_text` is taken as it is, only tidied. It may
/// have `capture_text`, `content_type`, `intent`, `url`, `url_canonical`, `excerpt`, `title` and `author`; of HTML,
/// title and author come from the page if they are not given. Both addresses go through the one canonicaliser.
///
/// # Errors
/// [`Refusal::Schema`] with every fault.
///
/// ```
/// use hapax_core::entry::Column;
/// use hapax_intake::{url::Tracking, webpage::normalize};
/// use serde_json::json;
///
/// let tracking = Tracking::default();
/// let page = normalize(json!({ "text": " Water first. ", "url": "https://example.org/tea/#top" }), &tracking)?;
/// assert_eq!(page.fields.get(Column::CleanText), "Water first.");
/// assert_eq!(page.fields.get(Column::UrlCanonical), "https://example.org/tea");
///
/// let empty = normalize(json!({ "text": " \n " }), &tracking)?;
/// assert!(empty.retrieval_update_skipped);
/// assert_eq!(empty.fields.get(Column::ExtractedText), " \n ");
/// assert!(normalize(json!({ "url": "https://example.org/" }), &tracking).is_err());
/// # Ok::<(), hapax_intake::Refusal>(())
/// ```
pub fn normalize(document: Value, tracking: &Tracking) -> Result<Page, Refusal> {
    let sent = Sent::read(document, tracking)?;
    let clean_text = sent.clean_text();
    let mut fields = Fields::new();
    fields.put(Column::Source, SOURCE);
    fields.put(Column::IdempotencyPolicyKey, Value::Null);
    fields.put(Column::IdempotencyKeyPrimary, Value::Null);
    fields.put(Column::IdempotencyKeySecondary, Value::Null);
    sent.put_known(&mut fields);
    let retrieval_update_skipped = clean_text.is_empty();
    if !retrieval_update_skipped {
        let extracted_char_count = sent.extracted.map(|text| text.chars().count());
        let content_type = sent.content_type.unwrap_or_default();
        assess(&clean_text, extracted_char_count, &content_type)
            .put_into(&mut fields, sent.excerpt.as_deref());
    }
    if retrieval_update_skipped {
        fields.put(Column::ExtractedText, sent.blank_text.unwrap_or_default());
    }
    fields.put(Column::CleanText, clean_text);
    Ok(Page {
        fields,
        retrieval_update_skipped,
    })
}

/// What was sent of a page, and what was found on it.
struct Sent {
    /// The text that was sent, else the article; not blank.
    extracted: Option<String>,
    /// The text that was sent, if it is blank.
    blank_text: Option<String>,
    clean_text: Option<String>,
    capture_text: Option<String>,
    excerpt: Option<String>,
    content_type: Option<String>,
    intent: Option<String>,
    title: Option<String>,
    author: Option<String>,
    url: Option<Address>,
    url_canonical: Option<Address>,
    nul_removed: bool,
}

impl Sent {
    fn read(mut document: Value, tracking: &Tracking) -> Result<Self, Refusal> {
        let nul_removed = remove_nul(&mut document);
        let mut given = Given::document(document)?;
        let mut faults = Faults::default();
        let texts = ["text", "html", "clean_text"];
        if !texts.iter().any(|name| given.has(name)) {
            given.fault("text", "is required, or html, or clean_text", &mut faults);
        }
        let text = given.text("text", &mut faults);
        let (blank_text, text) = match text {
            Some(text) if is_blank(&text) => (Some(text), None),
            text => (None, text),
        };
        let html = given.text("html", &mut faults).filter(|_| text.is_none());
        let found = html.map_or_else(Article::default, |html| {
            article(&html).unwrap_or_else(|unread| {
                given.fault("html", unread.to_string(), &mut faults);
                Article::default()
            })
        });
        let found_text = Some(found.text).filter(|text| !is_blank(text));
        let title = given.line("title", LINE_CHARS_MAX, &mut faults);
        let author = given.line("author", LINE_CHARS_MAX, &mut faults);
        let sent = Self {
            extracted: text.or(found_text),
            blank_text,
            clean_text: given.text("clean_text", &mut faults),
            capture_text: given.text("capture_text", &mut faults),
            excerpt: given.text("excerpt", &mut faults),
            content_type: given.line("content_type", LINE_CHARS_MAX, &mut faults),
            intent: given.line("intent", LINE_CHARS_MAX, &mut faults),
            title: title.or(found.title),
            author: author.or(found.author),
            url: address(&mut given, "url", tracking, &mut faults),
            url_canonical: address(&mut given, "url_canonical", tracking, &mut faults),
            nul_removed,
        };
        faults.settle()?;
        Ok(sent)
    }

    fn clean_text(&self) -> String {
        let texts = [&self.clean_text, &self.extracted];
        let mut tidied = texts.into_iter().flatten().map(|text| tidy(text));
        tidied.find(|text| !text.is_empty()).unwrap_or_default()
    }

    fn put_known(&self, fields: &mut Fields) {
        let url = self.url.as_ref();
        let spelled = self.url_canonical.as_ref().or(url);
        for (column, value) in [
            (Column::ContentType, self.content_type.as_deref()),
            (Column::Intent, self.intent.as_deref()),
            (Column::Title, self.title.as_deref()),
            (Column::Author, self.author.as_deref()),
            (Column::CaptureText, self.capture_text.as_deref()),
            (Column::ExtractedText, self.extracted.as_deref()),
            (Column::Url, url.map(|url| url.url.as_str())),
            (
                Column::UrlCanonical,
                spelled.map(|url| url.canonical.as_str()),
            ),
        ] {
            if let Some(value) = value {
                fields.put(column, value);
            }
        }
        let credentials_removed = [&self.url, &self.url_canonical]
            .into_iter()
            .flatten()
            .any(|address| address.credentials_removed);
        for (name, said) in [
            ("nul_removed", self.nul_removed),
            ("credentials_removed", credentials_removed),
        ] {
            if said {
                note(fields, &json!({ name: true }));
            }
        }
    }
}

fn address(
    given: &mut Given,
    name: &str,
    tracking: &Tracking,
    faults: &mut Faults,
) -> Option<Address> {
    let text = given.text(name, faults)?;
    if is_blank(&text) {
        return None;
    }
    canonical(&text, tracking)
        .map_err(|unfit| given.fault(name, unfit.to_string(), faults))
        .ok()
}
