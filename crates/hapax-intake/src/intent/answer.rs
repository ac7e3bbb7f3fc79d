//! Answers to questions: checked when they are given, and filled into the packet that the question is about.

use hapax_core::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ask::{Clarification, Field};
use super::due::{self, Due, Unread};
use super::member::Form;
use super::packet::{PROSE, Packet, TITLE};
use super::planner::{action, action_words, quoted};
use super::policy::Policy;
use super::project::Match;
use super::word::Words;

const LINE: Form = Form::Line(255);

/// What somebody answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The id of a choice.
    #[serde(rename = "choice_id")]
    Choice(String),
    /// A text of their own.
    #[serde(rename = "answer_text")]
    Text(String),
}

/// An answer that does not answer the question. Nothing is changed by it; another answer may be given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{given}' does not answer the question: {wanted}")]
pub struct Misfit {
    /// The beginning of what was answered.
    pub given: String,
    /// What would fit.
    pub wanted: String,
}

impl Packet {
    /// The packet with the answer filled in. Its key and its canonical form stay those of the text received, so that
    /// the same receipt goes on.
    ///
    /// A text is checked like the member it is about, and `now` is when it was given: `tomorrow` is kept as a date.
    /// To read a packet back with its answers, apply them in order with the times they came at.
    ///
    /// ```
    /// use hapax_core::Time;
    /// use hapax_intake::intent::{Answer, Packet, Plan, Policy, plan};
    ///
    /// let (policy, now) = (Policy::default(), Time::from_ms(0));
    /// let packet = Packet::read(br#"{"kind":"intent","fields":{"title":"Call Ada"}}"#)?;
    /// let Plan::Clarify(question) = plan(&packet, &policy, now) else { panic!("what should be done?") };
    ///
    /// let misfit = packet.answered(&question, &Answer::Choice("dance".into()), &policy, now).unwrap_err();
    /// assert!(misfit.wanted.contains("create_task"), "it says what would fit");
    ///
    /// let packet = packet.answered(&question, &Answer::Choice("create_task".into()), &policy, now)?;
    /// assert!(matches!(plan(&packet, &policy, now), Plan::Actions(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Misfit`] when the choice is not offered or the text does not fit, with what would.
    pub fn answered(
        &self,
        question: &Clarification,
        answer: &Answer,
        policy: &Policy,
        now: Time,
    ) -> Result<Self, Misfit> {
        let mut packet = self.clone();
        match answer {
            Answer::Choice(id) => {
                let chosen = question.choices.iter().find(|choice| choice.id == *id);
                let chosen = chosen.ok_or_else(|| misfit(id, choices_of(question)))?;
                fill(&mut packet, question.field, &chosen.value);
            }
            Answer::Text(text) => {
                let text = text.trim();
                let checked = Check {
                    packet: self,
                    policy,
                    now,
                };
                let (field, value) = checked
                    .text(question.field, text)
                    .map_err(|wanted| misfit(text, wanted))?;
                fill(&mut packet, field, &value);
            }
        }
        Ok(packet)
    }
}

struct Check<'a> {
    packet: &'a Packet,
    policy: &'a Policy,
    now: Time,
}

/// What is filled in where, or what would fit instead.
type Fit = Result<(Field, Value), String>;

impl Check<'_> {
    fn text(&self, field: Field, text: &str) -> Fit {
        let value = match field {
            Field::IntentType => match action(text) {
                Some(name) => name.as_str().into(),
                None => return Err(format!("say one of {}", action_words().join(", "))),
            },
            Field::List | Field::Task => shaped(text, LINE)?,
            Field::Title | Field::Item | Field::Content if text.is_empty() => {
                return Err("say something".to_owned());
            }
            Field::Title | Field::Item => shaped(text, TITLE)?,
            Field::Content => shaped(text, PROSE)?,
            Field::Due => self.due(text)?,
            Field::Priority => word(text, &self.policy.priorities)?,
            Field::Status => word(text, &self.policy.statuses)?,
            Field::Project => self.project(text)?,
            Field::Change => return self.change(text),
        };
        Ok((field, value))
    }

    fn due(&self, text: &str) -> Result<Value, String> {
        let zone = self.packet.timezone.as_ref();
        match due::read(text, zone.unwrap_or(&self.policy.timezone), self.now) {
            Ok(Due::On(day)) => Ok(day.into()),
            Ok(Due::Never) => Ok(Value::Null),
            Err(Unread::Unclear) => Err(
                "say a date like 2026-11-17, today, tomorrow, a weekday, next week, in 3 days or none"
                    .to_owned(),
            ),
            Err(Unread::Twofold([earlier, later])) => {
                Err(format!("the clocks change then; say {earlier} or {later}"))
            }
        }
    }

    fn project(&self, text: &str) -> Result<Value, String> {
        let Some(projects) = &self.policy.projects else {
            return shaped(text, LINE);
        };
        match projects.find(text) {
            Match::One(project) => Ok(project.id.clone().into()),
            Match::Many(close) | Match::None(close) if !close.is_empty() => {
                let names: Vec<&str> = close.iter().map(|item| item.name.as_str()).collect();
                Err(format!("say one of {}", names.join(", ")))
            }
            Match::Many(_) | Match::None(_) => Err("say the name of a project".to_owned()),
        }
    }

    /// Whichever of the three the text can be.
    fn change(&self, text: &str) -> Fit {
        let words = [
            (Field::Status, word(text, &self.policy.statuses)),
            (Field::Priority, word(text, &self.policy.priorities)),
            // "none" here rather means that nothing should change.
            (Field::Due, self.due(text).and_then(day)),
        ];
        words
            .into_iter()
            .find_map(|(field, fit)| Some((field, fit.ok()?)))
            .ok_or_else(|| "say a status, a priority or a due date".to_owned())
    }
}

fn day(due: Value) -> Result<Value, String> {
    if due.is_null() {
        Err("say a day".to_owned())
    } else {
        Ok(due)
    }
}

fn word(text: &str, known: &Words) -> Result<Value, String> {
    known.find(text).map(Value::from).ok_or_else(|| {
        let words: Vec<&str> = known.values().collect();
        format!("say one of {}", words.join(", "))
    })
}

fn shaped(text: &str, form: Form) -> Result<Value, String> {
    match form.fault(text) {
        None => Ok(text.into()),
        Some(fault) => Err(format!("a text that fits is asked for; this one {fault}")),
    }
}

/// Puts a checked value where the question asked for it. A null takes away what was there.
fn fill(packet: &mut Packet, field: Field, value: &Value) {
    let text = value.as_str().map(str::to_owned);
    let fields = &mut packet.fields;
    match field {
        Field::IntentType => packet.intent_type = text,
        Field::List => packet.target.key = text,
        Field::Title => fields.title = text,
        // An update has to tell "take the date away" from "say nothing about it".
        Field::Due => fields.due = text.or_else(|| Some("none".to_owned())),
        Field::Priority => fields.priority = text,
        Field::Status => fields.status = text,
        Field::Project => fields.project = text,
        Field::Task => fields.task_id = text,
        Field::Item => fields.item = text,
        Field::Content => fields.content = text,
        Field::Change => {
            for (name, field) in [
                ("status", Field::Status),
                ("priority", Field::Priority),
                ("due", Field::Due),
            ] {
                if let Some(value) = value.get(name) {
                    fill(packet, field, value);
                }
            }
        }
    }
}

fn choices_of(question: &Clarification) -> String {
    let ids: Vec<&str> = question
        .choices
        .iter()
        .map(|choice| choice.id.as_str())
        .collect();
    if ids.is_empty() {
        "there is nothing to choose from; answer with a text".to_owned()
    } else {
        format!("choose one of {}", ids.join(", "))
    }
}

fn misfit(given: &str, wanted: String) -> Misfit {
    Misfit {
        given: quoted(given),
        wanted,
    }
}
