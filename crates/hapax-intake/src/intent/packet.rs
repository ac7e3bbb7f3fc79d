//! A packet that asks for something: its known members, checked, and the key of the text as received.
//! It decides nothing about what the packet asks for.

use std::fmt;

use hapax_core::canonical::{Document, Selection};
use sha2::{Digest, Sha256};

use super::member::{Form, Members, Reader};
use super::zone::Zone;
use crate::refusal::{Fault, Faults, Refusal};

const WORD: Form = Form::Line(128);
const ID: Form = Form::Line(255);
pub(super) const TITLE: Form = Form::Prose(2_000);
pub(super) const PROSE: Form = Form::Prose(20_000);
const TAGS_MAX: usize = 50;

/// Who sends packets: a client, a device, a bot. Keys of different sources never meet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Source(String);

impl Source {
    /// The source of a packet that does not say.
    pub const UNKNOWN: &'static str = "unknown";

    /// The source as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the packet is aimed at, such as a list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// `list` or `notes` choose an action when there is no `intent_type`.
    pub kind: Option<String>,
    /// Which one of that kind.
    pub key: Option<String>,
}

/// The known members of `fields`, as they were sent. What is null counts as absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fields {
    /// `title`.
    pub title: Option<String>,
    /// `due`: any text that [`due::read`](super::due::read) may understand.
    pub due: Option<String>,
    /// `priority`.
    pub priority: Option<String>,
    /// `status`.
    pub status: Option<String>,
    /// `project`, else `project_id`.
    pub project: Option<String>,
    /// `task_id`, else `notion_page_id`.
    pub task_id: Option<String>,
    /// `item`: what goes on a list.
    pub item: Option<String>,
    /// `content`, else `note`, else `text`: what a note says.
    pub content: Option<String>,
    /// `notes`: more about a task or an item.
    pub notes: Option<String>,
    /// `tags`.
    pub tags: Vec<String>,
}

/// A packet that was read: `kind` is `intent`, known members have their kind, unknown ones are kept.
///
/// The key is the lower-case hex SHA-256 of the hcj-1 form of the received text: members that are unknown here are
/// part of it, and an answer that is filled in later is not. `source` defaults to [`Source::UNKNOWN`].
///
/// Every known text has a limit, and what stands in `fields` and is unknown here stays in the packet: it is stored
/// and hashed, and no action carries it.
///
/// ```
/// use hapax_intake::intent::Packet;
///
/// let packet = Packet::read(br#"{"kind":"intent","source":"phone","mood":"good"}"#)?;
/// assert_eq!(packet.source.as_str(), "phone");
/// assert_eq!(packet.canonical(), br#"{"kind":"intent","mood":"good","source":"phone"}"#);
/// assert!(Packet::read(br#"{"kind":"intent","timezone":"Middle/Earth"}"#).is_err());
/// # Ok::<(), hapax_intake::Refusal>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Packet {
    key: String,
    canonical: Vec<u8>,
    /// What kind of action is asked for.
    pub intent_type: Option<String>,
    /// Who sent it.
    pub source: Source,
    /// What the person said or wrote.
    pub natural_language: Option<String>,
    /// How sure the sender is, from 0 to 1. Absent means sure.
    pub confidence: Option<f64>,
    /// What it is aimed at.
    pub target: Target,
    /// The particulars.
    pub fields: Fields,
    /// The sender's own id of this request.
    pub request_id: Option<String>,
    /// On whose behalf.
    pub actor: Option<String>,
    /// What other packets it belongs with.
    pub correlation_id: Option<String>,
    /// The sender's trace.
    pub trace_id: Option<String>,
    /// Where the person is; without it the policy's zone counts.
    pub timezone: Option<Zone>,
}

impl Packet {
    /// Reads a packet from the text as received.
    ///
    /// # Errors
    /// [`Refusal::BadJson`] by the input rules of the API; [`Refusal::UnsupportedVersion`] when `schema_version` is
    /// neither absent nor `"v1"`; [`Refusal::Schema`] with every fault of the known members.
    pub fn read(text: &[u8]) -> Result<Self, Refusal> {
        let canonical = Document::parse(text)?.to_vec(&Selection::default());
        let Ok(members) = serde_json::from_slice::<Members>(&canonical) else {
            return Err(Refusal::Schema(vec![Fault::new("", "must be an object")]));
        };
        supported(&members)?;
        let mut faults = Faults::default();

        let mut top = Reader::new(&members, "", &mut faults);
        match top.text("kind", WORD).as_deref() {
            Some("intent") => {}
            Some(_) => top.fault("kind", "must be \"intent\""),
            None if top.has("kind") => {}
            None => top.fault("kind", "is required"),
        }
        let intent_type = top.text("intent_type", WORD);
        let source = top.text("source", WORD);
        let natural_language = top.text("natural_language", PROSE);
        let confidence: Option<f64> = top.get("confidence", "a number");
        if confidence.is_some_and(|sure| !(0.0..=1.0).contains(&sure)) {
            top.fault("confidence", "must be from 0 to 1");
        }
        let request_id = top.text("request_id", ID);
        let actor = top.text("actor", ID);
        let correlation_id = top.text("correlation_id", ID);
        let trace_id = top.text("trace_id", ID);
        let timezone = top.text("timezone", WORD).and_then(|name| {
            name.parse()
                .map_err(|unknown: super::zone::UnknownZone| {
                    top.fault("timezone", unknown.to_string());
                })
                .ok()
        });
        let (target, fields) = (top.object("target"), top.object("fields"));
        let target = target_of(&target, &mut faults);
        let fields = fields_of(&fields, &mut faults);
        faults.settle()?;

        Ok(Self {
            key: data_encoding::HEXLOWER.encode(&Sha256::digest(&canonical)),
            canonical,
            intent_type,
            source: Source(source.unwrap_or_else(|| Source::UNKNOWN.to_owned())),
            natural_language,
            confidence,
            target,
            fields,
            request_id,
            actor,
            correlation_id,
            trace_id,
            timezone,
        })
    }

    /// The idempotency key: lower-case hex SHA-256 of [`canonical`](Self::canonical).
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The hcj-1 form of the text as received, unknown members included.
    #[must_use]
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }
}

fn supported(members: &Members) -> Result<(), Refusal> {
    const SHOWN_CHARS: usize = 40;
    match members.get("schema_version").map(|raw| raw.get()) {
        None | Some("null" | "\"v1\"") => Ok(()),
        Some(other) => {
            let mut shown: String = other.chars().take(SHOWN_CHARS).collect();
            if shown.len() < other.len() {
                shown.push('…');
            }
            Err(Refusal::UnsupportedVersion(shown))
        }
    }
}

fn target_of(members: &Members, faults: &mut Faults) -> Target {
    let mut reader = Reader::new(members, "/target", faults);
    Target {
        kind: reader.text("kind", WORD),
        key: reader.text("key", ID),
    }
}

fn fields_of(members: &Members, faults: &mut Faults) -> Fields {
    let mut reader = Reader::new(members, "/fields", faults);
    Fields {
        title: reader.text("title", TITLE),
        due: reader.text("due", Form::Prose(200)),
        priority: reader.text("priority", Form::Prose(128)),
        status: reader.text("status", Form::Prose(128)),
        project: reader.either(&["project", "project_id"], Form::Prose(255)),
        task_id: reader.either(&["task_id", "notion_page_id"], ID),
        item: reader.text("item", TITLE),
        content: reader.either(&["content", "note", "text"], PROSE),
        notes: reader.text("notes", PROSE),
        tags: reader.texts("tags", TAGS_MAX, WORD),
    }
}
