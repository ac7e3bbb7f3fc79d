//! Queueing the candidates of an import for enrichment, a batch at a time.

use hapax_core::entry::{Import, ImportBatch, ImportStatus, Step, Target};
use hapax_core::{Error, Tenant};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PgLedger;
use super::super::columns::{Param, get, moment};
use super::super::jobs::link::{Failure, Link, Order};
use super::imports::{Stored, locked, none, signed};
use super::statements::Statements;
use super::writes::lock_key;
use crate::import::end;

/// How many candidates are looked at for each that a batch may hold: many may need no enrichment.
const LOOKED_AT: u32 = 4;

/// What becomes of the candidates that were looked at.
#[derive(Default)]
struct Picked {
    queued: Vec<i64>,
    hashes: Vec<Vec<u8>>,
    dropped: Vec<i64>,
    /// Whether there are no more.
    is_all: bool,
}

impl PgLedger {
    pub(super) async fn queue_batch(
        &self,
        tenant: Tenant,
        id: Uuid,
        batch: Uuid,
    ) -> Result<Option<Import>, Error> {
        let to = tenant.as_uuid();
        trying!(self, "queueing for enrichment", link, {
            let Some(mut import) = locked(link, tenant, id).await? else {
                return none(link).await;
            };
            if import.status != ImportStatus::Running || import.step != Step::Queueing {
                return none(link).await;
            }
            // Two imports with the same row must not both find that it is not queued.
            let (target, locks) = (Target::Pinned(import.schema), vec![lock(tenant, &import)]);
            let at = self.go_on_at(link, tenant, target, &locks).await?;
            let Some(picked) = pick(link, to, &import, batch).await? else {
                link.finish(Vec::new(), false).await?;
                return Ok(Some(import));
            };
            let request_count = picked.queued.len() as u64;
            if request_count > 0 {
                import.batches.push(ImportBatch {
                    batch_id: batch,
                    status: "queued".to_owned(),
                    request_count,
                });
                import.counts.tier1_enqueued_items += request_count;
            }
            if picked.is_all {
                end(&mut import);
            }
            import.updated_at = at.now.max(import.updated_at);
            let (statements, now) = (Statements::of(import.schema), moment(at.now.as_ms()));
            let count = signed(request_count);
            let mut orders = Vec::new();
            if request_count > 0 {
                let window = &import.asked.completion_window;
                let params: Vec<Param<'_>> = vec![&to, &batch, &id, window, &count, &now];
                orders.push(Order::Query(&statements.batch_insert, params));
                let params: Vec<Param<'_>> =
                    vec![&to, &batch, &now, &picked.queued, &picked.hashes];
                orders.push(Order::Query(&statements.candidate_queue, params));
            }
            if !picked.dropped.is_empty() {
                let params: Vec<Param<'_>> = vec![&to, &picked.dropped];
                orders.push(Order::Query(&statements.candidate_drop, params));
            }
            let written = Stored::of(tenant, &import);
            orders.push(written.order());
            link.finish(orders, true).await?;
            Ok(Some(import))
        })
    }
}

/// The candidates that get into the batch; `None` if the batch is there already.
async fn pick(
    link: &mut Link,
    tenant: Uuid,
    import: &Import,
    batch: Uuid,
) -> Result<Option<Picked>, Failure> {
    let statements = Statements::of(import.schema);
    let size = usize::try_from(import.asked.batch_size).unwrap_or(usize::MAX);
    let looked_at = i64::from(import.asked.batch_size.saturating_mul(LOOKED_AT));
    let orders = vec![
        Order::Query(&statements.batch_there, vec![&tenant, &batch]),
        Order::Query(
            &statements.candidate_list,
            vec![&tenant, &import.id, &looked_at],
        ),
    ];
    let answers = link.look(orders).await?;
    let [there, candidates] = &answers[..] else {
        return Ok(None);
    };
    if !there.is_empty() {
        return Ok(None);
    }
    let is_whole = signed(candidates.len() as u64) < looked_at;
    match picked(candidates, size, is_whole) {
        Ok(picked) => Ok(Some(picked)),
        Err(error) => Err(link.give_up(error).await),
    }
}

fn picked(candidates: &[Row], size: usize, is_whole: bool) -> Result<Picked, Error> {
    let mut picked = Picked::default();
    let mut seen = 0;
    for row in candidates {
        match get::<Option<Vec<u8>>>(row, 1)? {
            Some(_) if picked.queued.len() == size => break,
            Some(hash) => {
                picked.queued.push(get(row, 0)?);
                picked.hashes.push(hash);
            }
            None => picked.dropped.push(get(row, 0)?),
        }
        seen += 1;
    }
    picked.is_all = is_whole && seen == candidates.len();
    Ok(picked)
}

fn lock(tenant: Tenant, import: &Import) -> i64 {
    let mut hash = Sha256::new();
    hash.update(b"queueing");
    hash.update(import.schema.as_str());
    hash.update(tenant.as_uuid().as_bytes());
    lock_key(&hash.finalize().into())
}
