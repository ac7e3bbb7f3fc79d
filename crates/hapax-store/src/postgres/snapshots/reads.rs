//! What is read of snapshots: one, an entity's, entities, and who saw them.

use std::cmp::Reverse;

use hapax_core::snapshot::{Entity, EntityScan, Observation, Shelf, Snapshot};
use hapax_core::{Error, Tenant};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PgLedger;
use super::super::columns::{Param, get};
use super::super::pack::aside;
use super::super::reader::SET_TENANT;
use super::rows::{self, get_time, get_word_if_any, word};
use crate::snapshot::{OBSERVATIONS_MAX, page, signed};
use crate::vault::Ring;

const FIND: &str = include_str!("../../../sql/postgres/snapshot_find.sql");
const LIST: &str = include_str!("../../../sql/postgres/snapshot_list.sql");
const ENTITY: &str = include_str!("../../../sql/postgres/entity_find.sql");
const ENTITIES: &str = include_str!("../../../sql/postgres/entity_list.sql");
const OBSERVATIONS: &str = include_str!("../../../sql/postgres/observation_list.sql");

impl PgLedger {
    pub(super) async fn find_snapshot(
        &self,
        on: Shelf,
        id: Uuid,
    ) -> Result<Option<Snapshot>, Error> {
        let (to, collection, ids) = (on.tenant.as_uuid(), &*on.collection, vec![id]);
        let params: [Param<'_>; 3] = [&to, &collection, &ids];
        let operation = "finding the snapshot";
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, FIND, &params)
            .await?;
        let found = self.read_all(on.tenant, rows, rows::snapshot).await?;
        Ok(found.into_iter().next())
    }

    pub(super) async fn list_snapshots(
        &self,
        on: Shelf,
        entity: String,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Snapshot>, Error> {
        let (to, collection, entity) = (on.tenant.as_uuid(), &*on.collection, word(&entity));
        let (before, limit) = (before.unwrap_or(i64::MAX), page(limit));
        let params: [Param<'_>; 5] = [&to, &collection, &entity, &before, &limit];
        let operation = "listing snapshots";
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, LIST, &params)
            .await?;
        self.read_all(on.tenant, rows, rows::snapshot).await
    }

    pub(super) async fn find_entity(&self, on: Shelf, id: String) -> Result<Option<Entity>, Error> {
        let (to, collection, id) = (on.tenant.as_uuid(), &*on.collection, word(&id));
        let params: [Param<'_>; 3] = [&to, &collection, &id];
        let operation = "finding the entity";
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, ENTITY, &params)
            .await?;
        let found = self.read_all(on.tenant, rows, rows::entity).await?;
        Ok(found.into_iter().next())
    }

    pub(super) async fn list_entities(
        &self,
        on: Shelf,
        scan: EntityScan,
    ) -> Result<Vec<Entity>, Error> {
        let (to, collection) = (on.tenant.as_uuid(), &*on.collection);
        let search = scan.search.as_deref().map(word);
        let (limit, offset) = (page(scan.limit), signed(scan.offset));
        let params: [Param<'_>; 5] = [&to, &collection, &search, &limit, &offset];
        let operation = "listing entities";
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, ENTITIES, &params)
            .await?;
        let mut found = self.read_all(on.tenant, rows, rows::entity).await?;
        found.sort_by_key(|entity| Reverse(entity.current.seq));
        Ok(found)
    }

    pub(super) async fn list_observations(
        &self,
        on: Shelf,
        id: Uuid,
        limit: usize,
    ) -> Result<Vec<Observation>, Error> {
        let (to, collection) = (on.tenant.as_uuid(), &*on.collection);
        let limit = signed(limit.min(OBSERVATIONS_MAX));
        let params: [Param<'_>; 4] = [&to, &collection, &id, &limit];
        let operation = "listing observations";
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, OBSERVATIONS, &params)
            .await?;
        let read = |row: &Row| {
            Ok(Observation {
                at: get_time(row, 0)?,
                by: get_word_if_any(row, 1)?,
                key_match: get(row, 2)?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// What is in these rows, opened.
    async fn read_all<T: Send + 'static>(
        &self,
        tenant: Tenant,
        rows: Vec<Row>,
        read: fn(&Row, Option<&Ring>, Tenant) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let columns: Vec<&str> = rows.iter().map(rows::payload).collect::<Result<_, _>>()?;
        let bytes = columns.iter().map(|column| column.len()).sum();
        let wanted = rows::wanted(columns.into_iter());
        let ring = self.ring_with(tenant, &wanted).await?;
        let read = move |row: &Row| read(row, ring.as_deref(), tenant);
        aside(bytes, move || rows.iter().map(read).collect()).await?
    }
}
