//! Items of batches: read with their texts, and settled with their entries.

use std::collections::HashSet;
use std::sync::Arc;

use hapax_core::entry::{Item, ItemChange, ItemScan, ItemStatus, Row, Schema, Target};
use hapax_core::{Error, Tenant};
use uuid::Uuid;

use super::super::super::PgLedger;
use super::super::super::columns::{Param, moment};
use super::super::super::jobs::link::{Failure, Link, Order};
use super::super::super::pack::aside;
use super::super::super::reader::SET_TENANT;
use super::super::rows as entries;
use super::super::statements::Statements as EntryStatements;
use super::batches::read;
use super::rows::{self, Seen};
use super::settling::Settling;
use super::statements::Statements;
use crate::t1::{page, taken_change};

impl PgLedger {
    pub(super) async fn list_items(
        &self,
        tenant: Tenant,
        schema: Schema,
        batch: Uuid,
        scan: ItemScan,
    ) -> Result<Vec<Item>, Error> {
        let (to, most) = (tenant.as_uuid(), page(scan.limit));
        let after = scan.after.unwrap_or(i64::MIN);
        let status = scan.status.map(ItemStatus::as_str);
        let text_bytes = i64::try_from(ItemScan::TEXT_BYTES).unwrap_or(i64::MAX);
        let params: [Param<'_>; 7] = [
            &to,
            &batch,
            &after,
            &status,
            &most,
            &scan.with_text,
            &text_bytes,
        ];
        let sql = &Statements::of(schema).item_list;
        let found = self
            .reader
            .scoped("listing items of a batch", SET_TENANT, &to, sql, &params)
            .await?;
        let bytes = found.iter().map(tokio_postgres::Row::raw_size_bytes).sum();
        aside(bytes, move || found.iter().map(rows::item).collect()).await?
    }

    pub(super) async fn settle(
        &self,
        tenant: Tenant,
        schema: Schema,
        batch: Uuid,
        changes: Vec<ItemChange>,
    ) -> Result<Vec<Option<ItemStatus>>, Error> {
        let (to, statements) = (tenant.as_uuid(), Statements::of(schema));
        let changes: Arc<[ItemChange]> = changes.into_iter().map(taken_change).collect();
        let items: Vec<i64> = changes.iter().map(|change| change.item_id).collect();
        trying!(self, "settling items", link, {
            let target = Target::Pinned(schema);
            let at = self.begin_at(link, tenant, target, &Vec::new()).await?;
            // Whoever settles locks items before entries, each in their order; whoever writes entries locks no item.
            let orders = vec![Order::Query(
                &statements.item_lock,
                vec![&to, &batch, &items],
            )];
            let answers = link.look(orders).await?;
            let seen = answers.iter().flatten().map(rows::seen).collect();
            let seen: Vec<Seen> = read(link, seen).await?;
            let (found, bytes) = entries_of(link, to, schema, &changes, &seen).await?;
            let changes = Arc::clone(&changes);
            let settling = aside(bytes, move || Settling::of(&changes, seen, found, at.now)).await;
            let settling = read(link, settling).await?;
            let now = moment(at.now.as_ms());
            let mut orders = Vec::new();
            for part in &settling.items {
                orders.push(Order::Query(
                    &statements.item_settle,
                    part.params(&to, &batch, &now),
                ));
            }
            let home = EntryStatements::of(schema);
            for part in &settling.updates {
                orders.push(Order::Query(&home.update, part.updating(&to)));
            }
            for part in &settling.replaced {
                orders.push(Order::Query(&home.revision_put, part.params(&to, &now)));
            }
            let is_written = !orders.is_empty();
            link.finish(orders, is_written).await?;
            Ok(settling.settled)
        })
    }
}

/// The entries that results are for, locked in their order; and roughly how much there is to do.
async fn entries_of(
    link: &mut Link,
    tenant: Uuid,
    schema: Schema,
    changes: &[ItemChange],
    seen: &[Seen],
) -> Result<(Vec<Row>, usize), Failure> {
    let bytes = changes.iter().map(bytes).sum();
    let with_result = changes.iter().filter(|change| change.entry.is_some());
    let with_result: HashSet<i64> = with_result.map(|change| change.item_id).collect();
    let seen = seen
        .iter()
        .filter(|seen| with_result.contains(&seen.item_id));
    let numbers: Vec<i64> = seen.filter_map(|seen| seen.entry_id).collect();
    if numbers.is_empty() {
        return Ok((Vec::new(), bytes));
    }
    let (texts, ids) = (Vec::<&str>::new(), Vec::<Uuid>::new());
    let params: Vec<Param<'_>> = vec![&tenant, &texts, &texts, &texts, &texts, &numbers, &ids];
    let orders = vec![Order::Query(&EntryStatements::of(schema).found, params)];
    let answers = link.look(orders).await?;
    let found = answers.into_iter().next().unwrap_or_default();
    let more: usize = found.iter().map(tokio_postgres::Row::raw_size_bytes).sum();
    let rows = aside(more, move || entries::rows(&found)).await;
    let rows = read(link, rows.and_then(|rows| rows)).await?;
    Ok((rows, bytes + more))
}

/// Roughly how many bytes a change holds.
fn bytes(change: &ItemChange) -> usize {
    let raw = change.raw.as_ref().map_or(0, |raw| raw.len());
    let fields = change
        .entry
        .as_ref()
        .map_or(0, hapax_core::entry::Fields::weight);
    // A result is made of the answer, so it is about as long.
    512 + 2 * raw + fields
}
