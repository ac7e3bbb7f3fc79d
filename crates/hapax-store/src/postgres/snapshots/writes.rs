//! What a put writes, column by column, and the orders that write it. It runs none of them.

use std::borrow::Cow;

use uuid::Uuid;

use super::super::columns::Param;
use super::super::jobs::link::Order;
use super::bench::Bench;
use super::puts::Batch;
use super::rows::word;
use crate::snapshot::{OBSERVATIONS_MAX, THERE, signed};

const INSERT: &str = include_str!("../../../sql/postgres/snapshot_insert.sql");
const AGAIN: &str = include_str!("../../../sql/postgres/snapshot_again.sql");
const FILL: &str = include_str!("../../../sql/postgres/snapshot_fill.sql");
const ALIAS_PUT: &str = include_str!("../../../sql/postgres/snapshot_alias_put.sql");
const OBSERVATION_PUT: &str = include_str!("../../../sql/postgres/observation_put.sql");
const ENTITY_PUT: &str = include_str!("../../../sql/postgres/entity_put.sql");

/// Where and when it is written.
struct At<'a> {
    tenant: Uuid,
    collection: &'a str,
    shift_ms: i64,
    room: i64,
}

/// What a put writes.
pub(super) struct Writes<'a> {
    at: At<'a>,
    new: New<'a>,
    current: Current<'a>,
    again: Again,
    filled: Hashes<'a>,
    aliases: Aliases<'a>,
    observed: Observed<'a>,
}

impl<'a> Writes<'a> {
    pub(super) fn of(bench: &Bench, batch: &'a Batch, shift_ms: i64) -> Self {
        Self {
            at: At {
                tenant: batch.shelf.tenant.as_uuid(),
                collection: &batch.shelf.collection,
                shift_ms,
                room: signed(OBSERVATIONS_MAX),
            },
            new: New::of(bench, batch),
            current: Current::of(bench, batch),
            again: Again::of(bench),
            filled: filled(bench, batch),
            aliases: aliases(bench, batch),
            observed: Observed::of(bench, batch),
        }
    }

    /// The orders in their order: who saw a snapshot is numbered by how often it was seen.
    pub(super) fn orders(&self) -> Vec<Order<'_>> {
        let mut orders = Vec::new();
        if !self.new.id.is_empty() {
            orders.push(self.new.order(&self.at));
            orders.push(self.current.order(&self.at));
        }
        if !self.again.id.is_empty() {
            orders.push(self.again.order(&self.at));
        }
        orders.extend(self.filled.order(&self.at.tenant));
        orders.extend(self.aliases.order(&self.at.tenant));
        if !self.observed.id.is_empty() {
            orders.push(self.observed.order(&self.at));
        }
        orders
    }
}

/// New snapshots, column by column.
#[derive(Default)]
struct New<'a> {
    id: Vec<Uuid>,
    entity_id: Vec<Cow<'a, str>>,
    label: Vec<Option<Cow<'a, str>>>,
    hash: Vec<&'a [u8]>,
    payload: Vec<&'a str>,
    seen: Vec<i64>,
}

impl<'a> New<'a> {
    fn of(bench: &Bench, batch: &'a Batch) -> Self {
        let mut columns = Self::default();
        for kept in bench.kept.iter().filter(|kept| kept.is_new()) {
            let Some(at) = kept.of else { continue };
            let new = &batch.all[at];
            columns.id.push(new.id);
            columns.entity_id.push(word(&new.entity_id));
            columns.label.push(new.label.as_deref().map(word));
            columns.hash.push(new.hash.as_bytes());
            columns.payload.push(&batch.columns[at]);
            columns.seen.push(kept.seen);
        }
        columns
    }

    fn order<'o>(&'o self, at: &'o At<'_>) -> Order<'o> {
        let params: Vec<Param<'_>> = vec![
            &at.tenant,
            &at.collection,
            &at.shift_ms,
            &self.id,
            &self.entity_id,
            &self.label,
            &self.hash,
            &self.payload,
            &self.seen,
        ];
        Order::Query(INSERT, params)
    }
}

/// Snapshots that were seen again, column by column.
#[derive(Default)]
struct Again {
    id: Vec<Uuid>,
    seen: Vec<i64>,
}

impl Again {
    fn of(bench: &Bench) -> Self {
        let again = bench.kept.iter();
        let again = again.filter(|kept| !kept.is_new() && kept.seen > 0);
        let (id, seen) = again.map(|kept| (kept.id, kept.seen)).unzip();
        Self { id, seen }
    }

    fn order<'o>(&'o self, at: &'o At<'_>) -> Order<'o> {
        let params: Vec<Param<'_>> = vec![&at.tenant, &at.shift_ms, &self.id, &self.seen];
        Order::Query(AGAIN, params)
    }
}

/// Snapshots that get a hash, or are told why not, column by column.
#[derive(Default)]
pub(super) struct Hashes<'a> {
    id: Vec<Uuid>,
    hash: Vec<Option<&'a [u8]>>,
    state: Vec<&'static str>,
}

impl<'a> Hashes<'a> {
    pub(super) fn add(&mut self, id: Uuid, hash: Option<&'a [u8; 32]>, state: &'static str) {
        self.id.push(id);
        self.hash.push(hash.map(<[u8; 32]>::as_slice));
        self.state.push(state);
    }

    /// The order that stores them, if there are any.
    pub(super) fn order<'o>(&'o self, tenant: &'o Uuid) -> Option<Order<'o>> {
        let params: Vec<Param<'_>> = vec![tenant, &self.id, &self.hash, &self.state];
        (!self.id.is_empty()).then_some(Order::Query(FILL, params))
    }
}

fn filled<'a>(bench: &Bench, batch: &'a Batch) -> Hashes<'a> {
    let mut columns = Hashes::default();
    for kept in bench.kept.iter().filter(|kept| !kept.is_new()) {
        if let Some(at) = kept.of {
            columns.add(kept.id, Some(batch.all[at].hash.as_bytes()), THERE);
        }
    }
    columns
}

/// What older programs call texts, column by column.
#[derive(Default)]
pub(super) struct Aliases<'a> {
    id: Vec<Uuid>,
    nth: Vec<i64>,
    profile: Vec<&'a str>,
    hash: Vec<&'a str>,
}

impl<'a> Aliases<'a> {
    pub(super) fn add(&mut self, id: Uuid, aliases: &'a [(String, String)]) {
        for (nth, (profile, hash)) in aliases.iter().enumerate() {
            self.id.push(id);
            self.nth.push(signed(nth));
            self.profile.push(profile);
            self.hash.push(hash);
        }
    }

    /// The order that stores them, if there are any.
    pub(super) fn order<'o>(&'o self, tenant: &'o Uuid) -> Option<Order<'o>> {
        let params: Vec<Param<'_>> = vec![tenant, &self.id, &self.nth, &self.profile, &self.hash];
        (!self.id.is_empty()).then_some(Order::Query(ALIAS_PUT, params))
    }
}

fn aliases<'a>(bench: &Bench, batch: &'a Batch) -> Aliases<'a> {
    let mut columns = Aliases::default();
    for kept in &bench.kept {
        if let Some(at) = kept.of {
            columns.add(kept.id, &batch.all[at].aliases);
        }
    }
    columns
}

/// Who saw snapshots, column by column.
#[derive(Default)]
struct Observed<'a> {
    id: Vec<Uuid>,
    /// How many saw it later in the same batch.
    back: Vec<i64>,
    by: Vec<Option<Cow<'a, str>>>,
    key_match: Vec<Option<&'a str>>,
}

impl<'a> Observed<'a> {
    fn of(bench: &Bench, batch: &'a Batch) -> Self {
        let mut columns = Self::default();
        let mut left: Vec<i64> = bench.kept.iter().map(|kept| kept.seen).collect();
        for (place, at) in &bench.observed {
            left[*place] -= 1;
            columns.id.push(bench.kept[*place].id);
            columns.back.push(left[*place]);
            columns.by.push(batch.all[*at].by.as_deref().map(word));
            columns.key_match.push(batch.all[*at].key_match.as_deref());
        }
        columns
    }

    fn order<'o>(&'o self, at: &'o At<'_>) -> Order<'o> {
        let params: Vec<Param<'_>> = vec![
            &at.tenant,
            &at.room,
            &self.id,
            &self.back,
            &self.by,
            &self.key_match,
        ];
        Order::Query(OBSERVATION_PUT, params)
    }
}

/// The entities that have something new, column by column.
#[derive(Default)]
struct Current<'a> {
    entity_id: Vec<Cow<'a, str>>,
    label: Vec<Option<Cow<'a, str>>>,
    id: Vec<Uuid>,
    snapshots: Vec<i64>,
}

impl<'a> Current<'a> {
    fn of(bench: &Bench, batch: &'a Batch) -> Self {
        let mut columns = Self::default();
        for changed in bench.changed() {
            let last = &batch.all[changed.last];
            columns.entity_id.push(word(&last.entity_id));
            columns.label.push(last.label.as_deref().map(word));
            columns.id.push(last.id);
            columns.snapshots.push(changed.snapshots);
        }
        columns
    }

    fn order<'o>(&'o self, at: &'o At<'_>) -> Order<'o> {
        let params: Vec<Param<'_>> = vec![
            &at.tenant,
            &at.collection,
            &self.entity_id,
            &self.label,
            &self.id,
            &self.snapshots,
        ];
        Order::Query(ENTITY_PUT, params)
    }
}
