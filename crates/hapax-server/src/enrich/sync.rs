//! The graph of a request that somebody waits for. The request itself drives it, so the text is at hand and is not stored;
//! what is recorded is what was asked, by its key, and what came of it.
//!
//! | Step | Class | Result | After its runner died |
//! |---|---|---|---|
//! | LOAD | replayable | how long the text is | looks again |
//! | PROMPT | replayable | model, version, mode and key | says it again |
//! | LLM | replayable | how many tokens it took | takes the answer that was kept, or asks again |
//! | PARSE | replayable | the result, or a parse error with what was said | reads it again |
//! | WRITE | replayable | the answer | writes it again |

use std::sync::Arc;
use std::time::Duration;

use hapax::job::{Class, Fault, Node, Plan, Step};
use hapax_core::entry::{Asked, Batches, ItemText};
use hapax_core::{Fingerprint, Tenant};
use hapax_effects::enrich::{ChatRequest, Mode, ParseError, Prompt, T1, Usage, request_key};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::job::{LLM, LOAD, PARSE, PROMPT, WRITE};
use super::lines::prompt;
use super::results::{kept, parse};
use super::schedule::away;
use super::settings::{Provider, Settings};
use super::trouble::Trouble;

/// The pauses between tries to keep an answer: the first, and where they end.
const KEEPING: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How long a request asks at most, if its process dies meanwhile. No call takes longer.
const ASKING: Duration = Duration::from_secs(600);

/// What is asked.
pub(crate) struct Question {
    pub(crate) text: ItemText,
    pub(crate) model: String,
    prompt: Prompt,
    /// What makes it the same question.
    pub(crate) key: Fingerprint,
}

impl Question {
    /// This text for the usual model.
    pub(crate) fn new(text: ItemText, settings: &Settings) -> Self {
        let prompt = prompt(&text, &settings.rules);
        let model = settings.default_model.clone();
        Self {
            key: request_key(&model, &prompt),
            text,
            model,
            prompt,
        }
    }
}

/// How far a request is.
#[derive(Clone)]
pub(crate) struct Course {
    pub(super) settings: Arc<Settings>,
    pub(super) batches: Arc<dyn Batches>,
    pub(super) tenant: Tenant,
    pub(super) question: Arc<Question>,
    /// Which asking this is: a request that was asked anew pays again.
    pub(super) round: i64,
    pub(super) parsed: Option<Parsed>,
}

impl Course {
    /// What its answer is kept under.
    fn key(&self) -> Fingerprint {
        let key = self.question.key;
        if self.round < 0 {
            return key;
        }
        let round = self.round.to_be_bytes();
        Fingerprint::of_parts(&[b"hapax t1 asked anew", key.as_bytes(), &round])
    }

    fn provider(&self) -> Result<&Provider, Fault> {
        let provider = self.settings.provider.as_ref();
        provider.ok_or_else(|| Fault::retryable("no provider is configured here"))
    }

    /// Keeps an answer. It was paid for, so a store that is away for a moment is waited for.
    async fn keep(&self, answer: Arc<str>) -> Result<(), Fault> {
        let mut pause = KEEPING.0;
        loop {
            let paid = vec![(self.key(), Arc::clone(&answer))];
            match self.batches.keep_answers(self.tenant, paid).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_transient() && pause < KEEPING.1 => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => return Err(away(&error)),
            }
        }
    }

    /// Wants to ask; says whether it is answered, or asked by somebody else.
    async fn ask(&self) -> Result<Asked, Fault> {
        let keys = vec![self.key()];
        let asked = self.batches.ask(self.tenant, self.asker(), ASKING, keys);
        let asked = asked.await.map_err(|error| away(&error))?;
        Ok({ asked }.pop().unwrap_or(Asked::Theirs))
    }

    /// Lets others ask, who would wait for it otherwise until its time is over.
    async fn stop_asking(&self) {
        if let Err(error) = self.batches.stop_asking(self.tenant, self.asker()).await {
            tracing::warn!(%error, "others wait a while for what was not answered");
        }
    }

    /// Whoever drives this request is the same asker.
    fn asker(&self) -> Uuid {
        let mut id = [0; 16];
        let named = Fingerprint::of_parts(&[b"hapax t1 asker", self.key().as_bytes()]);
        id.copy_from_slice(&named.as_bytes()[..16]);
        uuid::Builder::from_custom_bytes(id).into_uuid()
    }

    async fn answer(&self) -> Result<Option<Arc<str>>, Fault> {
        let found = self
            .batches
            .paid_answers(self.tenant, vec![self.key()])
            .await;
        Ok(found.map_err(|error| away(&error))?.pop().flatten())
    }
}

/// How long the text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Loaded {
    clean_char_count: usize,
}

/// What makes the call the same call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Prompted {
    model: String,
    prompt_version: String,
    prompt_mode: Mode,
    request_key: String,
}

/// What the call took, and whether it was paid for earlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Called {
    was_paid: bool,
    usage: Usage,
}

/// What was made of the answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Parsed {
    Result(T1),
    Refused(ParseError),
}

/// What the caller is told, but for what the text itself says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) parsed: Parsed,
    pub(crate) model: String,
    pub(crate) prompt_version: String,
    pub(crate) prompt_mode: Mode,
}

/// The plan of a request.
///
/// # Panics
/// Never: the plan is sound, and a test builds it.
#[must_use]
pub(crate) fn plan() -> Plan<Course> {
    Plan::named("t1-sync")
        .node(loading())
        .node(prompting())
        .node(asking())
        .node(parsing())
        .node(writing())
        .edge(LOAD, PROMPT)
        .edge(PROMPT, LLM)
        .edge(LLM, PARSE)
        .edge(PARSE, WRITE)
        .build()
        .expect("the plan of a request is sound")
}

fn loading() -> Node<Course, Loaded> {
    Node::new(
        LOAD,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            let clean_char_count = course.question.text.clean_text.chars().count();
            Ok::<_, Fault>(Loaded { clean_char_count })
        },
    )
}

fn prompting() -> Node<Course, Prompted> {
    Node::new(
        PROMPT,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            let Question {
                prompt, model, key, ..
            } = course.question.as_ref();
            Ok::<_, Fault>(Prompted {
                model: model.clone(),
                prompt_version: prompt.version.clone(),
                prompt_mode: prompt.mode,
                request_key: key.hex(),
            })
        },
    )
}

fn asking() -> Node<Course, Called> {
    Node::new(
        LLM,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            match course.ask().await? {
                Asked::Paid(_) => {
                    return Ok(Called {
                        was_paid: true,
                        usage: Usage::default(),
                    });
                }
                Asked::Theirs => return Err(Trouble::under_way().fault()),
                Asked::Ours => {}
            }
            let question = course.question.as_ref();
            let request = ChatRequest::new(&question.model, &question.prompt);
            let answer = match course.provider()?.chats.chat(&request).await {
                Ok(answer) => answer,
                Err(error) => {
                    course.stop_asking().await;
                    return Err(Trouble::of(&error).fault());
                }
            };
            let usage = answer.usage;
            course.keep(kept(answer)).await?;
            Ok(Called {
                was_paid: false,
                usage,
            })
        },
    )
}

fn parsing() -> Node<Course, Parsed> {
    Node::new(
        PARSE,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            let answer = course.answer().await?;
            let answer = answer.ok_or_else(|| Fault::fatal("the answer that was kept is gone"))?;
            Ok(match parse(&course.settings.parser, &answer) {
                Ok(t1) => Parsed::Result(t1),
                Err(refused) => Parsed::Refused(refused),
            })
        },
    )
    .apply(|course, parsed| course.parsed = Some(parsed.clone()))
}

fn writing() -> Node<Course, Written> {
    Node::new(
        WRITE,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            let parsed = course.parsed.clone();
            let parsed = parsed.ok_or_else(|| Fault::fatal("there is nothing to write"))?;
            Ok(Written {
                parsed,
                model: course.question.model.clone(),
                prompt_version: course.question.prompt.version.clone(),
                prompt_mode: course.question.prompt.mode,
            })
        },
    )
}
