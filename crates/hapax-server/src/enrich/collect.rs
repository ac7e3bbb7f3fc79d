//! The graph that takes a batch's answers in. Every step is replayable: what it settled stays settled, and doing it again
//! changes nothing.
//!
//! | Step | Result | What it does |
//! |---|---|---|
//! | LOAD | the provider's files | reads the row |
//! | PROMPT | how many lines are expected | counts |
//! | LLM | how many lines were what | records each answer on its item, and keeps it under what was asked |
//! | PARSE | how many answers are results | settles those that are none, with what was said |
//! | WRITE | how far the batch is | writes results to items and entries; ends the batch, or has it sent once more |

use std::sync::Arc;

use bytes::Bytes;
use hapax::job::{Class, Fault, Node, Plan, Step};
use hapax_core::Error;
use hapax_core::entry::{Batch, BatchState, BatchStatus, ItemChange, ItemStatus, Provider as Ids};
use hapax_core::job::OpState;
use hapax_effects::enrich::{FileId, Llm};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::find::Sent;
use super::job::{Errand, Graph, LLM, LOAD, PARSE, PROMPT, WRITE};
use super::lines::Maker;
use super::outputs::{self, Expected, Taken};
use super::results::{columns, parse, said, shown};
use super::row::{Row, change, count, end_of, standing};
use super::schedule::{Prompted, away};
use super::settings::Settings;
use super::trouble::Trouble;

/// How far the collecting of a batch is.
#[derive(Clone)]
pub(crate) struct Course {
    pub(super) settings: Arc<Settings>,
    pub(super) row: Row,
    pub(super) errand: Errand,
    loaded: Loaded,
    taken: Taken,
}

/// What the provider made of the batch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Loaded {
    status: Option<String>,
    output_file: Option<String>,
    error_file: Option<String>,
    model: Option<String>,
    #[serde(default)]
    prompt_version: Option<String>,
}

/// How many answers are results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Parsed {
    results: u64,
    parse_errors: u64,
}

/// How a batch stands after its answers are taken in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    status: String,
    attempt: u32,
}

impl Course {
    pub(super) fn new(settings: &Arc<Settings>, row: Row, errand: Errand) -> Self {
        Self {
            settings: Arc::clone(settings),
            row,
            errand,
            loaded: Loaded::default(),
            taken: Taken::default(),
        }
    }

    fn is_ours(&self, batch: &Batch) -> bool {
        batch.state.status == BatchStatus::Collecting && batch.state.attempt == self.errand.attempt
    }

    /// What became of the provider's batch, if it came to nothing.
    fn fate(&self) -> Option<String> {
        let status = self.loaded.status.as_deref();
        let status = status.filter(|status| *status != "completed")?;
        Some(format!("the provider's batch is {status}"))
    }

    /// What a step of the job that sent the batch recorded.
    async fn recorded<T: DeserializeOwned>(
        &self,
        step: &Step,
        kind: &str,
    ) -> Result<Option<T>, Error> {
        let sending = Errand {
            graph: Graph::Schedule,
            ..self.errand
        };
        let held = step.held();
        let found = held.queue().job(held.tenant(), sending.id()).await?;
        let ops = found.map(|(_, ops)| ops).unwrap_or_default();
        let done = { ops.iter() }.rfind(|op| op.kind == kind && op.state == OpState::Done);
        Ok(done.and_then(|op| serde_json::from_str(op.result.as_deref()?).ok()))
    }

    /// The version of the prompt that was sent.
    fn version(&self) -> &str {
        let said = self.loaded.prompt_version.as_deref();
        said.unwrap_or(Settings::version())
    }

    fn model(&self) -> &str {
        let said = self.loaded.model.as_deref();
        said.unwrap_or(&self.settings.batch_model)
    }

    fn llm(&self) -> Result<&Llm, Fault> {
        let provider = self.settings.provider.as_ref();
        let off = || Fault::retryable("no provider is configured here");
        provider.map(|provider| &provider.batches).ok_or_else(off)
    }

    /// How the lines were made, if this process would make them in the same words: only then is it known what an answer
    /// is the answer to.
    async fn maker(&self, step: &Step) -> Result<Option<Maker>, Error> {
        let sent: Option<Sent> = self.recorded(step, LLM).await?;
        let is_same = |sent: &Sent| {
            sent.words == Some(self.settings.words()) && sent.model.as_deref() == Some(self.model())
        };
        Ok(sent.filter(is_same).map(|_| Maker {
            settings: Arc::clone(&self.settings),
            model: self.model().into(),
        }))
    }
}

/// The plan that collects a batch.
///
/// # Panics
/// Never: the plan is sound, and a test builds it.
#[must_use]
pub(crate) fn plan() -> Plan<Course> {
    Plan::named("t1-collect")
        .node(loading())
        .node(prompting())
        .node(taking_in())
        .node(parsing())
        .node(writing())
        .edge(LOAD, PROMPT)
        .edge(PROMPT, LLM)
        .edge(LLM, PARSE)
        .edge(PARSE, WRITE)
        .build()
        .expect("the plan that collects a batch is sound")
}

fn loading() -> Node<Course, Loaded> {
    Node::new(
        LOAD,
        Class::Replayable,
        |step: Step, course: Arc<Course>| async move {
            let batch = course.row.read().await.map_err(|error| away(&error))?;
            let batch = batch.ok_or_else(|| Fault::fatal("the batch is not there"))?;
            if !course.is_ours(&batch) {
                return Err(Fault::fatal("the batch went on without this job"));
            }
            let BatchState {
                provider, model, ..
            } = batch.state;
            let prompted = course.recorded::<Prompted>(&step, PROMPT).await;
            let prompted = prompted.map_err(|error| away(&error))?;
            Ok(Loaded {
                prompt_version: prompted.map(|prompted| prompted.prompt_version),
                status: provider.status,
                output_file: provider.output_file,
                error_file: provider.error_file,
                model,
            })
        },
    )
    .apply(|course, loaded| course.loaded = loaded.clone())
}

fn prompting() -> Node<Course, usize> {
    Node::new(
        PROMPT,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            let expected = Expected::of(&course.row, course.errand.attempt).await;
            Ok(expected.map_err(|error| away(&error))?.count())
        },
    )
}

fn taking_in() -> Node<Course, Taken> {
    Node::new(
        LLM,
        Class::Replayable,
        |step: Step, course: Arc<Course>| async move {
            let files = files(&step, &course).await?;
            let taken = take_in(&step, &course, &files).await;
            taken.map_err(|error| away(&error))
        },
    )
    .apply(|course, taken| course.taken = *taken)
}

/// The files that there are. One that the provider refuses often enough is not there.
async fn files(step: &Step, course: &Course) -> Result<Vec<Bytes>, Fault> {
    let mut files = Vec::new();
    let loaded = &course.loaded;
    for name in [&loaded.output_file, &loaded.error_file]
        .into_iter()
        .flatten()
    {
        let Ok(id) = FileId::new(name.as_str()) else {
            continue;
        };
        match course.llm()?.content(&id).await {
            Ok(file) => files.push(file),
            Err(error) => {
                let (trouble, job) = (Trouble::of(&error), step.held().job());
                if !trouble.is_believed(job) {
                    return Err(trouble.fault());
                }
                tracing::error!(job = %job.id, %error, "a file of the provider cannot be read; it is taken for none");
            }
        }
    }
    Ok(files)
}

async fn take_in(step: &Step, course: &Course, files: &[Bytes]) -> Result<Taken, Error> {
    let (row, attempt) = (&course.row, course.errand.attempt);
    let expected = Expected::of(row, attempt).await?;
    let mut found = outputs::take_in(row, files, &expected).await?;
    if let Some(maker) = course.maker(step).await? {
        outputs::share(row, &maker, &mut found).await?;
    }
    let fate = course.fate();
    let missing = outputs::see_to_missing(row, attempt, &found.faults, fate.as_deref()).await?;
    let taken = Taken {
        missing,
        ..found.taken
    };
    taken.count();
    Ok(taken)
}

fn parsing() -> Node<Course, Parsed> {
    Node::new(
        PARSE,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            let parsed = settle_parse_errors(&course).await;
            parsed.map_err(|error| away(&error))
        },
    )
}

async fn settle_parse_errors(course: &Course) -> Result<Parsed, Error> {
    let mut parsed = Parsed::default();
    let mut after = None;
    loop {
        let page = course
            .row
            .page(Some(ItemStatus::Answered), after, false)
            .await?;
        let Some(last) = page.last() else {
            return Ok(parsed);
        };
        after = Some(last.item_id);
        let mut changes = Vec::new();
        for item in &page {
            let kept = item.raw.as_deref().unwrap_or_default();
            match parse(&course.settings.parser, kept) {
                Ok(_) => parsed.results += 1,
                Err(refused) => {
                    parsed.parse_errors += 1;
                    changes.push(ItemChange {
                        error: Some(refused.to_string()),
                        raw: Some(refused.raw.into()),
                        ..change(item, ItemStatus::Answered, ItemStatus::ParseError)
                    });
                }
            }
        }
        course.row.settle(changes).await?;
    }
}

fn writing() -> Node<Course, Ended> {
    Node::new(
        WRITE,
        Class::Replayable,
        |step: Step, course: Arc<Course>| async move {
            let now = step.held().queue().time();
            let wrote = async {
                write_results(&course).await?;
                course
                    .row
                    .change(|batch| next_state(&course, batch, now))
                    .await
            };
            let batch = wrote.await.map_err(|error| away(&error))?;
            let batch = batch.ok_or_else(|| Fault::fatal("the batch is not there"))?;
            Ok(Ended {
                status: batch.state.status.as_str().to_owned(),
                attempt: batch.state.attempt,
            })
        },
    )
}

/// Writes the results of answered items, and with them what their entries say.
async fn write_results(course: &Course) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = course
            .row
            .page(Some(ItemStatus::Answered), after, false)
            .await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.item_id);
        let mut changes = Vec::new();
        for item in &page {
            let kept = item.raw.as_deref().unwrap_or_default();
            let to = |to| change(item, ItemStatus::Answered, to);
            changes.push(match parse(&course.settings.parser, kept) {
                Ok(t1) => ItemChange {
                    raw: Some(said(kept)),
                    result: Some(shown(&t1, course.model(), course.version())),
                    entry: item
                        .entry_id
                        .map(|_| columns(t1, course.model(), course.version(), item)),
                    ..to(ItemStatus::Completed)
                },
                Err(refused) => ItemChange {
                    error: Some(refused.to_string()),
                    raw: Some(refused.raw.into()),
                    ..to(ItemStatus::ParseError)
                },
            });
        }
        course.row.settle(changes).await?;
    }
}

/// How a batch goes on when its answers are taken in.
fn next_state(course: &Course, batch: &Batch, now: hapax_core::Time) -> Option<BatchState> {
    if !course.is_ours(batch) {
        return None;
    }
    let left = count(batch, ItemStatus::Queued);
    let waiting = count(batch, ItemStatus::Waiting);
    let told = [
        standing(batch),
        course.fate(),
        course.taken.complaint(),
        (left > 0).then(|| format!("{left} items are sent once more")),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    let error = (!told.is_empty()).then(|| told.join("; "));
    let state = BatchState {
        failures: 0,
        next_at: now,
        ..batch.state.clone()
    };
    if left + waiting > 0 {
        return Some(BatchState {
            status: BatchStatus::Queued,
            attempt: batch.state.attempt + 1,
            provider: Ids::default(),
            error,
            ..state
        });
    }
    Some(BatchState {
        status: end_of(batch),
        error,
        ..state
    })
}
