//! Entries in the same file: the seam on top of the ledger's one writer and its readers.
//!
//! Where to read on: `writes` writes a batch, `rows` reads and binds entries, `policies` holds policies and the test
//! mode, `search` finds, `imports` reads backlogs in, `t1` holds what is enriched. Entries are not sealed: they are searched, and read by people.

mod imports;
#[cfg(test)]
mod plans;
mod policies;
mod rows;
mod search;
mod statements;
mod t1;
mod writes;

use hapax_core::entry::{
    Catalog, Incoming, Policy, PolicyChange, Row, Search, Target, TestMode, Written,
};
use hapax_core::{Answer, Tenant};

use super::SqliteLedger;
use super::queue::Effect;
use crate::entry::at_most;
use statements::Statements;

const WROTE: Effect = Effect {
    wrote: true,
    purged: 0,
};

impl Catalog for SqliteLedger {
    fn write_entries(
        &self,
        tenant: Tenant,
        target: Target,
        batch: Vec<Incoming>,
        all_or_nothing: bool,
    ) -> Answer<'_, Written> {
        Box::pin(async move {
            at_most(batch.len())?;
            let (count, bytes) = (batch.len().max(1), writes::bytes(&batch));
            let clock = self.clock.clone();
            self.write(count, bytes, move |connection| {
                let (batch, now) = (batch.clone(), clock.now());
                writes::write(connection, tenant, target, batch, all_or_nothing, now)
            })
            .await
        })
    }

    fn entry(&self, tenant: Tenant, target: Target, entry_id: i64) -> Answer<'_, Option<Row>> {
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let schema = policies::schema(&seen, tenant, target)?;
            rows::find(&seen, Statements::of(schema), tenant, entry_id)
        }))
    }

    fn search_entries(
        &self,
        tenant: Tenant,
        target: Target,
        search: Search,
    ) -> Answer<'_, Vec<Row>> {
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let schema = policies::schema(&seen, tenant, target)?;
            search::search(&seen, Statements::of(schema), tenant, &search)
        }))
    }

    fn entry_revisions(
        &self,
        tenant: Tenant,
        target: Target,
        entry_id: i64,
        before: Option<u32>,
        limit: usize,
    ) -> Answer<'_, Vec<Row>> {
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let schema = policies::schema(&seen, tenant, target)?;
            let sql = Statements::of(schema);
            rows::revisions(&seen, sql, tenant, entry_id, before, limit)
        }))
    }

    fn policies(&self, tenant: Tenant, target: Target) -> Answer<'_, Vec<Policy>> {
        Box::pin(async move {
            let there = self.read(move |connection| {
                let seen = connection.unchecked_transaction()?;
                let schema = policies::schema(&seen, tenant, target)?;
                policies::list(&seen, Statements::of(schema), tenant)
            });
            let there = there.await?;
            if !there.is_empty() {
                return Ok(there);
            }
            self.write(1, 0, move |connection| {
                let schema = policies::schema(connection, tenant, target)?;
                let sql = Statements::of(schema);
                let (policies, wrote) = policies::seeded(connection, sql, tenant)?;
                Ok((policies, Effect { wrote, purged: 0 }))
            })
            .await
        })
    }

    fn set_policy(
        &self,
        tenant: Tenant,
        target: Target,
        key: String,
        change: PolicyChange,
    ) -> Answer<'_, Policy> {
        Box::pin(self.write(1, 0, move |connection| {
            let schema = policies::schema(connection, tenant, target)?;
            let sql = Statements::of(schema);
            let set = policies::set(connection, sql, tenant, &key, &change)?;
            Ok((set, WROTE))
        }))
    }

    fn remove_policy(&self, tenant: Tenant, target: Target, key: String) -> Answer<'_, bool> {
        Box::pin(self.write(1, 0, move |connection| {
            let schema = policies::schema(connection, tenant, target)?;
            let wrote = policies::remove(connection, Statements::of(schema), tenant, &key)?;
            Ok((wrote, Effect { wrote, purged: 0 }))
        }))
    }

    fn test_mode(&self, tenant: Tenant) -> Answer<'_, bool> {
        Box::pin(self.read(move |connection| policies::mode(connection, tenant)))
    }

    fn change_test_mode(&self, tenant: Tenant, mode: TestMode) -> Answer<'_, bool> {
        Box::pin(self.write(1, 0, move |connection| {
            Ok((policies::change_mode(connection, tenant, mode)?, WROTE))
        }))
    }
}
