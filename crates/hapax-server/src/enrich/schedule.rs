//! The graph that sends a batch: what a crash in each step means.
//!
//! | Step | Class | Result | After its runner died |
//! |---|---|---|---|
//! | LOAD | replayable | how many items need asking | looks again; what it settled stays settled |
//! | PROMPT | replayable | model, prompt version, number of lines, their file | makes and uploads them again |
//! | LLM | probe | the provider's batch | looks for a batch with this operation's key, and adopts it |
//! | PARSE | replayable | the provider's id and status | says it again |
//! | WRITE | replayable | how far the batch is | writes it again, by its version |

use std::sync::Arc;
use std::time::Duration;

use hapax::job::{Class, Fault, Node, Plan, Probed, Step};
use hapax_core::Error;
use hapax_core::entry::{Batch, BatchState, BatchStatus, Provider as Ids, Schema};
use hapax_effects::enrich::{FileId, Llm, LlmError, NewBatch};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Semaphore;

use super::find::{MODEL, OP, Sent, WORDS, find};
use super::job::{Errand, LLM, LOAD, PARSE, PROMPT, WRITE};
use super::lines::{self, Loaded, Maker};
use super::row::{Row, rest, standing};
use super::settings::Settings;
use super::trouble::Trouble;

/// The word in a batch's metadata that says: ask again, whatever was paid for before.
pub(crate) const FORCE: &str = "hapax_force";
/// One batch of each schema is uploaded at a time: its file may take 150 MB of the disk.
static UPLOADING: [Semaphore; 2] = [Semaphore::const_new(1), Semaphore::const_new(1)];

/// The longest time between two looks for what others ask.
const WAITING_MAX: Duration = Duration::from_secs(30);

/// How far the sending of a batch is.
#[derive(Clone)]
pub(crate) struct Course {
    pub(super) settings: Arc<Settings>,
    pub(super) row: Row,
    pub(super) errand: Errand,
    loaded: Loaded,
    prompted: Option<Prompted>,
    sent: Sent,
}

/// What every line is made by.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Prompted {
    model: String,
    pub(super) prompt_version: String,
    words: String,
    lines: usize,
    whole: u64,
    sample: u64,
    /// Where they are, if there are any.
    #[serde(default)]
    input_file: Option<String>,
}

/// What the provider calls the batch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Named {
    provider_batch_id: Option<String>,
    status: Option<String>,
}

impl Course {
    pub(super) fn new(settings: &Arc<Settings>, row: Row, errand: Errand) -> Self {
        Self {
            settings: Arc::clone(settings),
            row,
            errand,
            loaded: Loaded::default(),
            prompted: None,
            sent: Sent::default(),
        }
    }

    fn next(&self) -> &'static str {
        let lines = self.prompted.as_ref().map_or(0, |prompted| prompted.lines);
        if lines == 0 { WRITE } else { LLM }
    }

    fn model(&self) -> &str {
        let said = self
            .prompted
            .as_ref()
            .map(|prompted| prompted.model.as_str());
        said.unwrap_or(&self.settings.batch_model)
    }

    fn maker(&self) -> Maker {
        Maker {
            settings: Arc::clone(&self.settings),
            model: self.model().into(),
        }
    }

    fn llm(&self) -> Result<&Llm, Fault> {
        let provider = self.settings.provider.as_ref();
        let off = || Fault::retryable("no provider is configured here");
        provider.map(|provider| &provider.batches).ok_or_else(off)
    }

    /// The batch, while it waits to be sent for this attempt.
    async fn waiting(&self) -> Result<Batch, Fault> {
        let batch = self.row.read().await.map_err(|error| away(&error))?;
        let batch = batch.ok_or_else(|| Fault::fatal("the batch is not there"))?;
        if self.is_ours(&batch) {
            Ok(batch)
        } else {
            Err(Fault::fatal("the batch went on without this job"))
        }
    }

    fn is_ours(&self, batch: &Batch) -> bool {
        batch.state.status == BatchStatus::Queued && batch.state.attempt == self.errand.attempt
    }
}

/// The store could not be asked.
pub(super) fn away(error: &Error) -> Fault {
    if error.is_transient() {
        Fault::retryable(error.to_string())
    } else {
        Fault::fatal(error.to_string())
    }
}

/// The plan that sends a batch.
///
/// # Panics
/// Never: the plan is sound, and a test builds it.
#[must_use]
pub(crate) fn plan() -> Plan<Course> {
    Plan::named("t1-schedule")
        .node(loading())
        .node(prompting())
        .node(sending())
        .node(parsing())
        .node(writing())
        .edge(LOAD, PROMPT)
        .branch(PROMPT, [LLM, WRITE], Course::next)
        .edge(LLM, PARSE)
        .edge(PARSE, WRITE)
        .build()
        .expect("the plan that sends a batch is sound")
}

fn loading() -> Node<Course, Loaded> {
    Node::new(
        LOAD,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            let again = is_forced(&course.waiting().await?);
            let loaded = lines::load(&course.row, &course.maker(), again).await;
            let loaded = loaded.map_err(|error| away(&error))?;
            let settled = loaded.stale + loaded.paid;
            if loaded.waiting > 0 && loaded.queued + settled == 0 {
                let why = format!("{} items wait for what others ask already", loaded.waiting);
                return Err(Fault::retryable(why).after(course.settings.interval.min(WAITING_MAX)));
            }
            Ok(loaded)
        },
    )
    // Other words or another model ask something else.
    .context(
        |course| json!({"words": course.settings.words(), "model": course.settings.batch_model}),
    )
    .apply(|course, loaded| course.loaded = *loaded)
}

fn prompting() -> Node<Course, Prompted> {
    Node::new(
        PROMPT,
        Class::Replayable,
        |step: Step, course: Arc<Course>| async move {
            let mut prompted = Prompted {
                model: course.settings.batch_model.clone(),
                prompt_version: Settings::version().to_owned(),
                words: course.settings.words(),
                lines: 0,
                whole: 0,
                sample: 0,
                input_file: None,
            };
            if course.loaded.queued == 0 {
                return Ok(prompted);
            }
            match upload(&step, &course, &mut prompted).await {
                Ok(()) => Ok(prompted),
                Err(unsent) => Err(unsent.fault(&step)),
            }
        },
    )
    .context(
        |course| json!({"words": course.settings.words(), "model": course.settings.batch_model}),
    )
    .apply(|course, prompted| course.prompted = Some(prompted.clone()))
}

fn sending() -> Node<Course, Sent> {
    Node::new(LLM, Class::Probe, |step: Step, course: Arc<Course>| async move {
        let llm = course.llm()?;
        send(llm, &step, &course).await.map_err(|unsent| unsent.fault(&step))
    })
    .probe(|step: Step, course: Arc<Course>| async move {
        let Ok(llm) = course.llm() else {
            return Probed::Unknown;
        };
        let job = step.held().job();
        match find(llm, step.op().as_str(), job.created_at).await {
            Ok(Some(sent)) => Probed::Happened(sent),
            // The request of the runner that died may still be on its way.
            Ok(None) if is_fresh(&step, &course).await => Probed::Unknown,
            Ok(None) => Probed::DidNot,
            Err(error) => {
                tracing::warn!(job = %job.id, %error, "the provider cannot say whether a batch was created");
                Probed::Unknown
            }
        }
    })
    .apply(|course, sent| course.sent = sent.clone())
}

/// Whether the operation was begun so short a while ago that it may still come to something.
async fn is_fresh(step: &Step, course: &Course) -> bool {
    let held = step.held();
    match held.queue().op(held.tenant(), step.op().clone()).await {
        Ok(Some(op)) => held.queue().time().since(op.started_at) < course.settings.doubt,
        Ok(None) => false,
        Err(_) => true,
    }
}

enum Unsent {
    Fault(Fault),
    Llm(LlmError),
}

impl Unsent {
    fn fault(self, step: &Step) -> Fault {
        match self {
            Unsent::Fault(fault) => fault,
            Unsent::Llm(error) => Trouble::of(&error).fault_of(step.held().job()),
        }
    }
}

impl From<LlmError> for Unsent {
    fn from(error: LlmError) -> Self {
        Unsent::Llm(error)
    }
}

async fn send(llm: &Llm, step: &Step, course: &Course) -> Result<Sent, Unsent> {
    let (op, job) = (step.op().as_str(), step.held().job());
    // An earlier attempt may have created it without hearing of it.
    if job.attempts > 1 {
        match find(llm, op, job.created_at).await {
            Ok(Some(sent)) => return Ok(sent),
            Ok(None) => {}
            // It has no list: what cannot be found is not there.
            Err(error) if cannot_list(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let batch = course.waiting().await.map_err(Unsent::Fault)?;
    let Some(mut prompted) = course.prompted.clone() else {
        return Ok(Sent::default());
    };
    // What was refused may be a file that the provider lost.
    let was_refused = job.error.as_deref().map(Trouble::read);
    if was_refused.is_some_and(|error| !error.is_transient) {
        upload(step, course, &mut prompted).await?;
    }
    let Some(file) = prompted.input_file else {
        return Ok(Sent::default());
    };
    let file = FileId::new(file).map_err(|why| Unsent::Fault(Fault::fatal(why.to_string())))?;
    let new = new_batch(file, &batch, op, course)?;
    match llm.create_batch(&new).await {
        Ok(created) => Ok(Sent {
            words: Some(course.settings.words()),
            model: Some(course.model().to_owned()),
            ..Sent::of(created)
        }),
        Err(error) if error.may_have_happened() => {
            if let Ok(Some(sent)) = find(llm, op, job.created_at).await {
                return Ok(sent);
            }
            // It may turn up yet: the next attempt looks before it creates, and leaves it some time.
            let fault = Trouble::of(&error).fault_of(job);
            let after = fault.after.unwrap_or_default().max(course.settings.doubt);
            Err(Unsent::Fault(fault.after(after)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes the lines of the batch and uploads them, if there are any.
async fn upload(step: &Step, course: &Course, prompted: &mut Prompted) -> Result<(), Unsent> {
    let batch = course.waiting().await.map_err(Unsent::Fault)?;
    let llm = course.llm().map_err(Unsent::Fault)?;
    let lane = &UPLOADING[usize::from(course.row.schema == Schema::PkmTest)];
    let lost = |_| Unsent::Fault(Fault::retryable("this process stops"));
    let _alone = lane.acquire().await.map_err(lost)?;
    let (maker, attempt) = (course.maker(), course.errand.attempt);
    let lines = lines::build(&course.row, &maker, attempt, is_forced(&batch)).await;
    let lines = lines.map_err(|error| Unsent::Fault(away(&error)))?;
    prompted.lines = lines.count;
    prompted.whole = lines.whole;
    prompted.sample = lines.sample;
    if lines.count > 0 {
        let name = format!("{}.jsonl", step.held().job().id);
        let file = llm.upload(lines.file, &name).await?;
        prompted.input_file = Some(file.into());
    }
    Ok(())
}

/// Whether its caller wants to pay again for what was answered.
fn is_forced(batch: &Batch) -> bool {
    batch.metadata.get(FORCE) == Some(&json!(true))
}

/// Whether the provider has no list of batches.
fn cannot_list(error: &LlmError) -> bool {
    matches!(error, LlmError::Refused { status, .. } if [404, 405, 501].contains(status))
}

fn new_batch(file: FileId, batch: &Batch, op: &str, course: &Course) -> Result<NewBatch, Unsent> {
    let metadata = [
        (OP, op.to_owned()),
        (WORDS, course.settings.words()),
        (MODEL, course.model().to_owned()),
        ("hapax_batch", batch.id.to_string()),
        ("hapax_schema", batch.schema.to_string()),
    ];
    let new = NewBatch::new(file, &batch.completion_window, metadata)
        .map_err(|why| Unsent::Fault(Fault::fatal(why.to_string())))?;
    Ok(new.with_model(course.model()))
}

fn parsing() -> Node<Course, Named> {
    Node::new(
        PARSE,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            Ok::<_, Fault>(Named {
                provider_batch_id: course.sent.batch_id.clone(),
                status: course.sent.status.clone(),
            })
        },
    )
}

fn writing() -> Node<Course, String> {
    Node::new(
        WRITE,
        Class::Replayable,
        |step: Step, course: Arc<Course>| async move {
            let now = step.held().queue().time();
            let written = course.row.change(|batch| {
                course.is_ours(batch).then(|| {
                    let status = match course.sent.batch_id {
                        Some(_) => BatchStatus::Submitted,
                        // Nothing had to be sent: what is answered already is taken in.
                        None => BatchStatus::Collecting,
                    };
                    let wait = match status {
                        BatchStatus::Submitted => rest(course.settings.interval, 1, None),
                        _ => Duration::ZERO,
                    };
                    let others = course.sent.others;
                    let error = (others > 0).then(|| {
                        format!(
                            "the provider has {others} more of this batch, which nobody collects"
                        )
                    });
                    BatchState {
                        status,
                        attempt: course.errand.attempt,
                        failures: 0,
                        next_at: now.plus(wait),
                        model: Some(course.model().to_owned()),
                        provider: Ids {
                            batch_id: course.sent.batch_id.clone(),
                            status: course.sent.status.clone(),
                            input_file: course.sent.input_file.clone(),
                            ..Ids::default()
                        },
                        error: error.or_else(|| standing(batch)),
                    }
                })
            });
            let batch = written.await.map_err(|error| away(&error))?;
            let status = batch.map_or("gone", |batch| batch.state.status.as_str());
            Ok(status.to_owned())
        },
    )
}
