//! The planner: a packet and the rules in, a plan out. It asks one question at a time and guesses nothing.

use hapax_core::Time;
use serde_json::{Map, Value, json};

use super::ask::{Choice, Clarification, Field, Why};
use super::due::{self, Due, Unread};
use super::packet::Packet;
use super::plan::{Action, ActionName, Plan, Rejection, RejectionCode};
use super::policy::Policy;
use super::project::{Match, Project};
use super::word::Words;
use super::zone::Zone;

/// How much of a person's text a question or a title repeats.
const QUOTED_CHARS: usize = 80;
const TITLE_CHARS: usize = 200;

/// Decides what is to be done about a packet.
///
/// `now` is when the packet was received, not when this is called: a receipt that is resumed tomorrow then still
/// means the same day by `today`. The same packet, policy and time give the same plan.
///
/// - A packet that is less sure than the policy asks for is rejected; one that does not say is sure.
/// - `intent_type` chooses the action; without it `target.kind` does, `list` or `notes`; without both it is asked
///   for. An `intent_type` that is not an action here is rejected.
/// - Whatever the action needs and the packet lacks is asked for, and so is what cannot be read: see
///   [`Policy`] for what may be inferred.
/// - An update may take a due date away (`none`); a null changes nothing.
#[must_use]
pub fn plan(packet: &Packet, policy: &Policy, now: Time) -> Plan {
    let planner = Planner {
        packet,
        policy,
        zone: packet.timezone.as_ref().unwrap_or(&policy.timezone),
        now,
    };
    planner.plan().unwrap_or_else(|stop| match *stop {
        Stop::Ask(question) => Plan::Clarify(question),
        Stop::Reject(rejection) => Plan::Reject(rejection),
    })
}

/// Why there are no actions.
enum Stop {
    Ask(Clarification),
    Reject(Rejection),
}

type Step<T> = Result<T, Box<Stop>>;

struct Planner<'a> {
    packet: &'a Packet,
    policy: &'a Policy,
    zone: &'a Zone,
    now: Time,
}

impl Planner<'_> {
    fn plan(&self) -> Step<Plan> {
        self.sure_enough()?;
        let name = self.action_name()?;
        let payload = match name {
            ActionName::CreateTask => json!({ "task": self.new_task()? }),
            ActionName::UpdateTask => self.change()?,
            ActionName::ListAddItem => json!({ "list_item": self.list_item()? }),
            ActionName::NoteCapture => json!({ "note": self.note()? }),
        };
        Ok(Action::only(name, payload))
    }

    fn sure_enough(&self) -> Step<()> {
        let least = self.policy.confidence_min;
        match self.packet.confidence {
            Some(sure) if sure < least => reject(
                RejectionCode::LowConfidence,
                format!("the confidence {sure} is below {least}"),
            ),
            Some(_) | None => Ok(()),
        }
    }

    fn action_name(&self) -> Step<ActionName> {
        if let Some(asked) = &self.packet.intent_type {
            return match action(asked) {
                Some(name) => Ok(name),
                None => reject(
                    RejectionCode::UnsupportedIntentType,
                    format!(
                        "intent_type '{}' is none of {}",
                        quoted(asked),
                        action_words().join(", ")
                    ),
                ),
            };
        }
        match self.packet.target.kind.as_deref() {
            Some("list") => Ok(ActionName::ListAddItem),
            Some("notes") => Ok(ActionName::NoteCapture),
            Some(_) | None => ask(
                Field::IntentType,
                Why::Missing,
                "What should be done with this?",
                vec![
                    Choice::new("create_task", "make a task", "create_task"),
                    Choice::new("update_task", "change a task", "update_task"),
                    Choice::new("list_add_item", "put it on a list", "list_add_item"),
                    Choice::new("note_capture", "keep it as a note", "note_capture"),
                ],
            ),
        }
    }

    fn new_task(&self) -> Step<Map<String, Value>> {
        let fields = &self.packet.fields;
        let mut task = Map::new();
        task.insert("title".to_owned(), self.title()?.into());
        if let Some(Due::On(due)) = self.due()? {
            task.insert("due".to_owned(), due.into());
        }
        self.words(&mut task)?;
        self.project(&mut task)?;
        put(&mut task, "notes", fields.notes.as_deref());
        self.tags(&mut task);
        Ok(task)
    }

    fn change(&self) -> Step<Value> {
        let Some(task) = said(self.packet.fields.task_id.as_deref()) else {
            return ask(
                Field::Task,
                Why::Missing,
                "Which task should be changed? Give its id.",
                Vec::new(),
            );
        };
        let mut patch = Map::new();
        match self.due()? {
            Some(Due::On(due)) => _ = patch.insert("due".to_owned(), due.into()),
            Some(Due::Never) => _ = patch.insert("due".to_owned(), Value::Null),
            None => {}
        }
        self.words(&mut patch)?;
        if patch.is_empty() {
            let choice = |status: &str| {
                let label = format!("set the status to {status}");
                Choice::new(slug(status), label, json!({ "status": status }))
            };
            return ask(
                Field::Change,
                Why::Missing,
                "What should change: the status, the priority or the due date?",
                self.policy.statuses.values().map(choice).collect(),
            );
        }
        Ok(json!({ "notion_page_id": task, "patch": patch }))
    }

    fn list_item(&self) -> Step<Map<String, Value>> {
        let fields = &self.packet.fields;
        let Some(list) = said(self.packet.target.key.as_deref()) else {
            return ask(
                Field::List,
                Why::Missing,
                "Which list should it go on?",
                Vec::new(),
            );
        };
        let sayings = [&fields.item, &fields.title, &self.packet.natural_language];
        let Some(item) = sayings.into_iter().find_map(|text| said(text.as_deref())) else {
            return ask(
                Field::Item,
                Why::Missing,
                "What should go on the list?",
                Vec::new(),
            );
        };
        let mut entry = Map::new();
        put(&mut entry, "list_key", Some(list));
        put(&mut entry, "item", Some(item));
        put(&mut entry, "notes", fields.notes.as_deref());
        Ok(entry)
    }

    fn note(&self) -> Step<Map<String, Value>> {
        let fields = &self.packet.fields;
        let sayings = [&fields.content, &self.packet.natural_language];
        let Some(content) = sayings.into_iter().find_map(|text| said(text.as_deref())) else {
            return ask(
                Field::Content,
                Why::Missing,
                "What should the note say?",
                Vec::new(),
            );
        };
        let mut note = Map::new();
        put(&mut note, "content", Some(content));
        put(&mut note, "title", fields.title.as_deref());
        put(&mut note, "key", self.packet.target.key.as_deref());
        self.tags(&mut note);
        Ok(note)
    }

    fn title(&self) -> Step<String> {
        if let Some(title) = said(self.packet.fields.title.as_deref()) {
            return Ok(title.to_owned());
        }
        // Only a text that a title can hold whole may serve as one.
        let words = said(self.packet.natural_language.as_deref())
            .filter(|words| words.chars().nth(TITLE_CHARS).is_none() && !words.contains('\n'));
        match words {
            Some(words) if self.policy.title_from_words => Ok(words.to_owned()),
            words => ask(
                Field::Title,
                Why::Missing,
                "What should the task be called?",
                words
                    .map(|words| Choice::new("as_said", quoted(words), words))
                    .into_iter()
                    .collect(),
            ),
        }
    }

    fn due(&self) -> Step<Option<Due>> {
        let Some(text) = said(self.packet.fields.due.as_deref()) else {
            return Ok(None);
        };
        let unread = match due::read(text, self.zone, self.now) {
            Ok(due) => return Ok(Some(due)),
            Err(unread) => unread,
        };
        match unread {
            Unread::Unclear => {
                let offers = due::offers(self.zone, self.now);
                let mut choices: Vec<Choice> = offers
                    .into_iter()
                    .map(|(id, words, day)| Choice::new(id, format!("{words} ({day})"), day))
                    .collect();
                choices.push(Choice::new("none", "no due date", Value::Null));
                ask(
                    Field::Due,
                    Why::Unreadable,
                    format!("When is it due? '{}' cannot be read.", quoted(text)),
                    choices,
                )
            }
            Unread::Twofold([earlier, later]) => ask(
                Field::Due,
                Why::Ambiguous,
                format!(
                    "The clocks change on that day: which moment is '{}'?",
                    quoted(text)
                ),
                vec![
                    Choice::new("earlier", earlier.clone(), earlier),
                    Choice::new("later", later.clone(), later),
                ],
            ),
        }
    }

    fn words(&self, into: &mut Map<String, Value>) -> Step<()> {
        let (fields, policy) = (&self.packet.fields, self.policy);
        let members = [
            (
                "priority",
                Field::Priority,
                &fields.priority,
                &policy.priorities,
            ),
            ("status", Field::Status, &fields.status, &policy.statuses),
        ];
        for (name, field, text, known) in members {
            let Some(text) = said(text.as_deref()) else {
                continue;
            };
            let Some(word) = known.find(text) else {
                return ask(
                    field,
                    Why::Unknown,
                    format!("Which {name} is '{}'?", quoted(text)),
                    word_choices(known),
                );
            };
            put(into, name, Some(word));
        }
        Ok(())
    }

    fn project(&self, into: &mut Map<String, Value>) -> Step<()> {
        let Some(text) = said(self.packet.fields.project.as_deref()) else {
            return Ok(());
        };
        let Some(projects) = &self.policy.projects else {
            put(into, "project", Some(text));
            return Ok(());
        };
        let (why, offered) = match projects.find(text) {
            Match::One(project) => {
                put(into, "project", Some(&project.name));
                put(into, "project_id", Some(&project.id));
                return Ok(());
            }
            Match::Many(offered) => (Why::Ambiguous, offered),
            Match::None(offered) => (Why::Unknown, offered),
        };
        let choice = |(place, project): (usize, &Project)| {
            let label = project.name.clone();
            Choice::new(format!("project_{place}"), label, project.id.clone())
        };
        let mut choices: Vec<Choice> = (1..).zip(offered).map(choice).collect();
        choices.push(Choice::new("none", "no project", Value::Null));
        ask(
            Field::Project,
            why,
            format!("Which project is '{}'?", quoted(text)),
            choices,
        )
    }

    fn tags(&self, into: &mut Map<String, Value>) {
        let tags = &self.packet.fields.tags;
        if !tags.is_empty() {
            into.insert("tags".to_owned(), json!(tags));
        }
    }
}

/// The action that a word means.
pub(super) fn action(word: &str) -> Option<ActionName> {
    let word = word.trim();
    ActionName::ALL
        .into_iter()
        .find(|name| name.as_str() == word)
}

pub(super) fn action_words() -> [&'static str; 4] {
    ActionName::ALL.map(ActionName::as_str)
}

fn word_choices(words: &Words) -> Vec<Choice> {
    let choice = |word: &str| Choice::new(slug(word), word, word);
    words.values().map(choice).collect()
}

fn ask<T>(field: Field, reason: Why, question: impl Into<String>, choices: Vec<Choice>) -> Step<T> {
    Err(Box::new(Stop::Ask(Clarification {
        question: question.into(),
        field,
        reason,
        choices,
    })))
}

fn reject<T>(code: RejectionCode, reason: String) -> Step<T> {
    Err(Box::new(Stop::Reject(Rejection { code, reason })))
}

/// The text without blanks around it, if there is one.
fn said(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

fn put(into: &mut Map<String, Value>, name: &str, text: Option<&str>) {
    if let Some(text) = said(text) {
        into.insert(name.to_owned(), text.into());
    }
}

fn slug(word: &str) -> String {
    word.to_lowercase().replace(' ', "_")
}

pub(super) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTED_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
