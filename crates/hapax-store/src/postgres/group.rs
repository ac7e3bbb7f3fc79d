//! One group of moves in one transaction: which were written, and what is stored instead of the others.
//! A group holds at most one move per record. Who is in it, and what is tried again, the batcher says.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

use hapax_core::{Error, Kind, Note, ledger::Write};
use tokio::time::timeout_at;
use tokio_postgres::Row;
use uuid::Uuid;

use super::clock::DbClock;
use super::columns::{self, Columns, Step};
use super::fault::{self, Class};
use super::link::Link;
use super::listener;
use super::notes::NoteColumns;
use super::pipeline::{Request, pipeline};
use super::session::Taken;
use crate::row::Applied;
use crate::row::Row as Stored;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
const OPERATION: &str = "swapping records";
/// Locks are taken in this order within a tenant, and tenants are taken in order, by every node.
const ORDER: [Write; 4] = [Write::Renew, Write::Settle, Write::Replace, Write::Insert];

/// Why a group has no answers.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was written, somebody was in the way; the connection is fine.
    Contention(Error),
    /// Nothing was written, since one of the moves is refused or has to wait for long; the connection is fine.
    Refused(Error),
    /// Nothing was written, and the connection is not to be used again.
    Lost(Error),
    /// It may have been written, and the connection is not to be used again.
    Unknown(Error),
}

type Answer = Result<Vec<Row>, tokio_postgres::Error>;

/// The moves of one tenant, by statement.
struct Part<'a> {
    tenant: Uuid,
    ids: Vec<Uuid>,
    steps: Vec<&'a Step>,
    statements: Vec<(Write, Columns<'a>)>,
}

/// Writes the group in one transaction: two flights, whatever is in it.
pub(super) async fn commit(
    link: &Link,
    clock: &DbClock,
    steps: &[&Step],
    limit: Duration,
) -> Result<Vec<Result<Applied, Error>>, Failure> {
    let deadline = tokio::time::Instant::now() + limit;
    let parts = parts(steps);
    link.take_warning();

    let Ok(written) = timeout_at(deadline, write(link, clock, &parts)).await else {
        return Err(Failure::Lost(fault::timed_out(
            OPERATION,
            Kind::Unavailable,
            limit,
        )));
    };
    let written = match written {
        Ok(written) => written,
        Err(error) => return Err(abandon(link, deadline, &error).await),
    };

    if link.client.is_closed() {
        return Err(Failure::Lost(
            Error::new(Kind::Unavailable, OPERATION).because("the connection was lost"),
        ));
    }
    let started = Instant::now();
    let found = timeout_at(deadline, finish(link, &parts, &written)).await;
    // If nothing was written there is nothing to be in doubt about.
    let kind = if written.is_empty() {
        Kind::Unavailable
    } else {
        Kind::OutcomeUnknown
    };
    let failure = if written.is_empty() {
        Failure::Lost
    } else {
        Failure::Unknown
    };
    let mut found = match found {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            return Err(failure(
                Error::new(kind, OPERATION).because(fault::text(&error)),
            ));
        }
        Err(_) => return Err(failure(fault::timed_out(OPERATION, kind, limit))),
    };
    metrics::histogram!("hapax_ledger_commit_seconds", "store" => "postgres")
        .record(started.elapsed().as_secs_f64());
    if link.take_warning() {
        let why = "the server warned, so the write may not have reached its standby";
        return Err(Failure::Unknown(
            Error::new(Kind::OutcomeUnknown, OPERATION).because(why),
        ));
    }
    Ok(steps
        .iter()
        .map(|step| answer(step, &written, &mut found))
        .collect())
}

/// Sorted by tenant and id, so that every node takes locks in the same order.
fn parts<'a>(steps: &[&'a Step]) -> Vec<Part<'a>> {
    let mut tenants: BTreeMap<Uuid, Vec<&'a Step>> = BTreeMap::new();
    for step in steps {
        tenants.entry(step.row.tenant_id).or_default().push(step);
    }
    tenants
        .into_iter()
        .map(|(tenant, mut steps)| {
            steps.sort_unstable_by_key(|step| step.row.id);
            let statements = ORDER.into_iter().filter_map(|write| {
                let steps: Vec<&Step> = steps
                    .iter()
                    .copied()
                    .filter(|step| step.write == write)
                    .collect();
                (!steps.is_empty()).then(|| (write, Columns::of(write, tenant, &steps)))
            });
            Part {
                tenant,
                statements: statements.collect(),
                ids: steps.iter().map(|step| step.row.id).collect(),
                steps,
            }
        })
        .collect()
}

/// The first flight: everything up to the commit. Returns what is written if the commit succeeds.
async fn write(
    link: &Link,
    clock: &DbClock,
    parts: &[Part<'_>],
) -> Result<HashSet<(Uuid, Uuid)>, tokio_postgres::Error> {
    let mut requests: Vec<Request<'_, Answer>> = vec![Box::pin(async {
        let begin = link.speech.begin(BEGIN, Taken::App);
        link.client.batch_execute(&begin).await.map(|()| Vec::new())
    })];
    let mut of = vec![None];
    for (at, part) in parts.iter().enumerate() {
        requests.push(set_tenant(link, part, (at == 0).then_some(clock)));
        of.push(None);
        for (write, columns) in &part.statements {
            requests.push(Box::pin(async move {
                link.statement(*write)
                    .query(&link.client, &columns.params())
                    .await
            }));
            of.push(Some(part.tenant));
        }
    }
    let mut written = HashSet::new();
    for (tenant, answer) in of.into_iter().zip(pipeline(requests).await) {
        let rows = answer?;
        let Some(tenant) = tenant else { continue };
        for row in rows {
            written.insert((tenant, row.try_get(0)?));
        }
    }
    Ok(written)
}

/// The second flight: what is stored instead of what was not written, the notes and the wake-ups of what was, and
/// the commit.
async fn finish(
    link: &Link,
    parts: &[Part<'_>],
    written: &HashSet<(Uuid, Uuid)>,
) -> Result<HashMap<(Uuid, Uuid), Result<Stored, Error>>, tokio_postgres::Error> {
    let mut requests: Vec<Request<'_, Answer>> = Vec::new();
    let mut ended = Vec::new();
    for part in parts {
        let stale: Vec<Uuid> = part
            .ids
            .iter()
            .copied()
            .filter(|id| !written.contains(&(part.tenant, *id)))
            .collect();
        let done = || part.steps.iter().filter(|step| was_written(step, written));
        let notes: Vec<&Note> = done().filter_map(|step| step.note.as_deref()).collect();
        ended.extend(done().filter(|step| step.ends).map(|step| step.row.id));
        if stale.is_empty() && notes.is_empty() {
            continue;
        }
        if parts.len() > 1 {
            requests.push(set_tenant(link, part, None));
        }
        if !stale.is_empty() {
            requests.push(Box::pin(async move {
                // Only this one answers rows of this width.
                link.stored
                    .query(&link.client, &[&part.tenant, &stale])
                    .await
            }));
        }
        if !notes.is_empty() {
            let columns = NoteColumns::of(part.tenant, &notes);
            requests.push(Box::pin(async move {
                link.note.query(&link.client, &columns.params()).await
            }));
        }
    }
    if !ended.is_empty() {
        let payloads = listener::payloads(&ended);
        requests.push(Box::pin(async move {
            link.notify.query(&link.client, &[&payloads]).await
        }));
    }
    requests.push(command(link, "COMMIT"));
    let mut found = HashMap::new();
    for answer in pipeline(requests).await {
        for row in answer?.iter().filter(|row| row.len() > 2) {
            found.insert((row.try_get(1)?, row.try_get(0)?), columns::stored(row));
        }
    }
    Ok(found)
}

fn was_written(step: &Step, written: &HashSet<(Uuid, Uuid)>) -> bool {
    written.contains(&(step.row.tenant_id, step.row.id))
}

fn command<'a>(link: &'a Link, command: &'static str) -> Request<'a, Answer> {
    Box::pin(async move {
        link.client
            .batch_execute(command)
            .await
            .map(|()| Vec::new())
    })
}

/// Shows the tenant's rows to what follows, and learns the time where a clock is given.
fn set_tenant<'a>(
    link: &'a Link,
    part: &'a Part<'_>,
    clock: Option<&'a DbClock>,
) -> Request<'a, Answer> {
    Box::pin(async move {
        let sent = Instant::now();
        let rows = link.set_tenant.query(&link.client, &[&part.tenant]).await?;
        if let (Some(clock), Some(row)) = (clock, rows.first()) {
            clock.observe(
                sent,
                Instant::now(),
                row.try_get::<_, SystemTime>(1)?.into(),
            );
        }
        Ok(rows)
    })
}

/// Takes the transaction back. Nothing was committed, since the commit was not sent.
async fn abandon(
    link: &Link,
    deadline: tokio::time::Instant,
    error: &tokio_postgres::Error,
) -> Failure {
    let answer = fault::unwritten(OPERATION, error);
    if link.client.is_closed()
        || !matches!(
            timeout_at(deadline, link.client.batch_execute("ROLLBACK")).await,
            Ok(Ok(()))
        )
    {
        return Failure::Lost(Error::new(Kind::Unavailable, OPERATION).because(fault::text(error)));
    }
    match fault::class(error) {
        Class::Contention => Failure::Contention(answer),
        Class::Locked | Class::Refused => Failure::Refused(answer),
        Class::Forbidden | Class::Down => Failure::Lost(answer),
    }
}

fn answer(
    step: &Step,
    written: &HashSet<(Uuid, Uuid)>,
    found: &mut HashMap<(Uuid, Uuid), Result<Stored, Error>>,
) -> Result<Applied, Error> {
    let at = (step.row.tenant_id, step.row.id);
    if written.contains(&at) {
        return Ok(Applied::Written);
    }
    match found.remove(&at).transpose()? {
        Some(row) if !step.is_about(&row) => {
            Err(Error::new(Kind::Corrupt, OPERATION).because("two keys share one id"))
        }
        stored => Ok(Applied::Stale(stored.map(Box::new))),
    }
}
