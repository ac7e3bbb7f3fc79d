//! Receipts by their status, and questions by theirs. A page looks at a bounded number of receipts, so it may be short.

use axum::Extension;
use axum::extract::State;
use hapax_core::Tenant;
use hapax_core::job::{Job, JobScan, Op, OpState, State as JobState};
use hapax_intake::intent::Packet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::super::App;
use super::super::payload::invalid;
use super::super::query::Query;
use super::{is_receipt, shown};
use crate::answer::Answer;
use crate::intents::inbox::{self, Inbox};
use crate::intents::receipt::{Receipt, shown_question};
use crate::intents::stored::CLARIFY;
use crate::problem::Refusal;

/// How many receipts are read at once.
const AT_ONCE: usize = 100;
/// How many receipts one page looks at. It may have found none by then, and says where to go on.
const LOOKED_MAX: usize = 500;
/// How much of a sentence a list shows, in characters.
const SENTENCE_MAX: usize = 200;
const STATUSES: [&str; 6] = [
    "accepted",
    "planned",
    "executed",
    "failed",
    "needs_clarification",
    "rejected",
];

/// Which to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ListQuery {
    /// Only those with this status.
    status: Option<String>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

/// A page.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// A receipt in a list: with the sentence that people know it by.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct ListedReceipt {
    #[serde(flatten)]
    receipt: Receipt,
    /// What the packet says in words, cut at 200 characters; null if it says nothing.
    natural_language: Option<String>,
    /// What the packet asks for, if it says so.
    intent_type: Option<String>,
}

impl ListedReceipt {
    fn of(job: &Job, receipt: Receipt) -> Self {
        let packet = packet(job);
        Self {
            natural_language: packet.as_ref().and_then(sentence),
            intent_type: packet.and_then(|it| it.intent_type),
            receipt,
        }
    }
}

fn packet(job: &Job) -> Option<Packet> {
    Inbox::of(job).ok().map(|inbox| inbox.packet)
}

/// What a packet says in words, as far as a list shows it.
fn sentence(packet: &Packet) -> Option<String> {
    let said = packet.natural_language.as_deref()?;
    Some(said.chars().take(SENTENCE_MAX).collect())
}

/// A question as it reads.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; what was asked is stored")]
pub(in crate::api) struct Clarification {
    id: String,
    receipt_id: String,
    /// open or answered.
    status: String,
    #[schema(format = DateTime)]
    asked_at: String,
    /// What people read, while it is open.
    #[schema(nullable = false)]
    question: Option<String>,
    /// The member of the packet that it is about.
    #[schema(nullable = false)]
    field: Option<String>,
    /// Why it is asked.
    #[schema(nullable = false)]
    reason: Option<String>,
    #[schema(nullable = false)]
    choices: Option<Vec<ClarificationChoice>>,
    /// What was answered.
    answer: Option<Value>,
    /// What the packet says in words, cut at 200 characters.
    #[schema(nullable = false)]
    natural_language: Option<String>,
}

/// What may be chosen.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; what was asked is stored")]
struct ClarificationChoice {
    id: String,
    label: String,
    value: Value,
}

/// Lists receipts, newest first.
#[utoipa::path(get, path = "/v1/receipts", operation_id = "list_receipts",
    params(ListQuery),
    responses((status = 200, description = "A page of receipts.", body = Page<ListedReceipt>)))]
pub(in crate::api) async fn receipts(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page<ListedReceipt>>, Refusal> {
    if let Some(status) = &query.status
        && !STATUSES.contains(&status.as_str())
    {
        let why = format!("is not one of {}", STATUSES.join(", "));
        return Err(invalid("status", why).into());
    }
    let wanted = query.status.clone();
    let scan = candidates(tenant, wanted.as_deref());
    let page = pages(&app, &query, scan, |found| {
        let receipt = shown(found);
        let is_it = wanted
            .as_ref()
            .is_none_or(|wanted| json!(receipt.status) == wanted.as_str());
        is_it.then(|| ListedReceipt::of(&found.0, receipt))
    });
    page.await.map(Answer)
}

/// Lists questions, those of the newest receipts first.
#[utoipa::path(get, path = "/v1/clarifications", operation_id = "list_clarifications",
    params(ListQuery),
    responses((status = 200, description = "A page of questions.", body = Page<Clarification>)))]
pub(in crate::api) async fn clarifications(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page<Value>>, Refusal> {
    let wanted = match query.status.as_deref() {
        None => None,
        Some("open") => Some(OpState::Waiting),
        Some("answered") => Some(OpState::Done),
        Some(_) => return Err(invalid("status", "is not one of open, answered").into()),
    };
    let scan = JobScan {
        waits_in: (wanted == Some(OpState::Waiting)).then(|| CLARIFY.to_owned()),
        ..JobScan::of(tenant)
    };
    let page = pages(&app, &query, scan, |(job, ops)| {
        // A question from before a replay is no longer asked. Each receipt asks one at a time: the last one counts.
        let asked = ops.iter().rev();
        let mut asked = asked.filter(|op| op.kind == CLARIFY && op.epoch > job.redone);
        let is_it = |op: &&Op| match wanted {
            Some(state) => op.state == state,
            None => matches!(op.state, OpState::Waiting | OpState::Done),
        };
        asked.find(is_it).map(|op| question(job, op))
    });
    page.await.map(Answer)
}

fn question(job: &Job, op: &Op) -> Value {
    let is_open = op.state == OpState::Waiting;
    let mut shown = if is_open {
        shown_question(op).unwrap_or_else(|| json!({}))
    } else {
        let answer = op.result.as_deref().map(serde_json::from_str::<Value>);
        json!({ "answer": answer.and_then(Result::ok) })
    };
    if let Some(said) = packet(job).and_then(|it| sentence(&it)) {
        shown["natural_language"] = said.into();
    }
    shown["id"] = op.key.as_str().into();
    shown["receipt_id"] = job.id.as_str().into();
    shown["status"] = if is_open { "open" } else { "answered" }.into();
    shown["asked_at"] = op.started_at.to_string().into();
    shown
}

/// Goes through receipts, newest first, and keeps what `pick` makes of each, until the page is full.
async fn pages<T>(
    app: &App,
    query: &ListQuery,
    scan: JobScan,
    pick: impl Fn(&(Job, Vec<Op>)) -> Option<T>,
) -> Result<Page<T>, Refusal> {
    let limit = query.limit.unwrap_or(50);
    if !(1..=JobScan::LIMIT_MAX).contains(&limit) {
        let most = JobScan::LIMIT_MAX;
        return Err(invalid("limit", format!("must be from 1 to {most}")).into());
    }
    let mut scan = JobScan {
        kind: Some(inbox::kind()),
        limit: limit.max(AT_ONCE),
        ..scan
    };
    if let Some(cursor) = &query.cursor {
        let place = cursor.parse();
        scan.before =
            Some(place.map_err(|_| invalid("cursor", "is not a next_cursor of this list"))?);
    }
    let mut items = Vec::new();
    let mut looked = 0;
    loop {
        let page = app.store.queue.jobs(scan.clone()).await?;
        let asked = page.jobs.iter().map(|job| (job.id.clone(), job.seq));
        let ops = app.store.queue.ops_of(scan.tenant, asked.collect()).await?;
        let last = page.jobs.last().map(|job| job.seq);
        for found in page.jobs.into_iter().zip(ops) {
            looked += 1;
            let seq = found.0.seq;
            if is_receipt(&found.0) {
                items.extend(pick(&found));
            }
            if items.len() >= limit && (page.next.is_some() || Some(seq) != last) {
                let next_cursor = Some(seq.to_string());
                return Ok(Page { items, next_cursor });
            }
        }
        match page.next {
            Some(next) if looked >= LOOKED_MAX => {
                let next_cursor = Some(next.to_string());
                return Ok(Page { items, next_cursor });
            }
            Some(next) => scan.before = Some(next),
            None => {
                return Ok(Page {
                    items,
                    next_cursor: None,
                });
            }
        }
    }
}

/// The receipts that can have this status: the others are not looked at.
fn candidates(tenant: Tenant, status: Option<&str>) -> JobScan {
    let mut scan = JobScan::of(tenant);
    match status {
        None => {}
        Some("needs_clarification") => scan.waits_in = Some(CLARIFY.to_owned()),
        // What was carried out or refused ends as INDEXED, by its outcome.
        Some("failed") => scan.not_in = &[JobState::Indexed],
        Some("accepted") => {
            scan.not_in = &[
                JobState::Indexed,
                JobState::Deduped,
                JobState::SkippedDuplicate,
                JobState::Dead,
            ];
        }
        Some(_) => scan.not_in = &[JobState::Dead],
    }
    scan
}
