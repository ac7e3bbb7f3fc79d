//! Entries in PostgreSQL. It locks their keys, looks what is there, asks the rule, and writes what it is told.
//!
//! Where to read on: `writes` is the heart, `imports` and `queueing` use it for backlogs; `reads` finds entries,
//! `policies` and `mode` are what people change, `rows` is what is read and written; `t1` holds what is enriched.

/// Runs one transaction of entries on a connection, and again while somebody else is in the way.
macro_rules! trying {
    ($ledger:expr, $operation:expr, $link:ident, $one:block) => {{
        let mut tries = $crate::postgres::jobs::link::Tries::default();
        loop {
            let mut lent = $ledger.jobs.pool.lend_in_turn($operation).await?;
            let $link = &mut lent.link;
            let one: Result<_, $crate::postgres::jobs::link::Failure> = async $one.await;
            match one {
                Ok(value) => {
                    lent.back();
                    break Ok(value);
                }
                Err(failure) => tries.after(failure, lent).await?,
            }
        }
    }};
}

mod imports;
mod mode;
mod policies;
mod queueing;
mod reads;
mod rows;
mod statements;
mod t1;
mod writes;

use hapax_core::entry::{
    Catalog, Chunk, Import, Imports, Incoming, NewImport, Policy, PolicyChange, Row, Search,
    Target, TestMode, Written,
};
use hapax_core::{Answer, Tenant};
use uuid::Uuid;

use super::PgLedger;
use crate::entry::at_most;

impl Catalog for PgLedger {
    fn write_entries(
        &self,
        tenant: Tenant,
        target: Target,
        batch: Vec<Incoming>,
        all_or_nothing: bool,
    ) -> Answer<'_, Written> {
        Box::pin(async move {
            at_most(batch.len())?;
            self.write_batch(tenant, target, batch, all_or_nothing)
                .await
        })
    }

    fn entry(&self, tenant: Tenant, target: Target, entry_id: i64) -> Answer<'_, Option<Row>> {
        Box::pin(self.find_entry(tenant, target, entry_id))
    }

    fn search_entries(
        &self,
        tenant: Tenant,
        target: Target,
        search: Search,
    ) -> Answer<'_, Vec<Row>> {
        Box::pin(self.look_for_entries(tenant, target, search))
    }

    fn entry_revisions(
        &self,
        tenant: Tenant,
        target: Target,
        entry_id: i64,
        before: Option<u32>,
        limit: usize,
    ) -> Answer<'_, Vec<Row>> {
        Box::pin(self.list_revisions(tenant, target, entry_id, before, limit))
    }

    fn policies(&self, tenant: Tenant, target: Target) -> Answer<'_, Vec<Policy>> {
        Box::pin(self.list_policies(tenant, target))
    }

    fn set_policy(
        &self,
        tenant: Tenant,
        target: Target,
        key: String,
        change: PolicyChange,
    ) -> Answer<'_, Policy> {
        Box::pin(self.put_policy(tenant, target, key, change))
    }

    fn remove_policy(&self, tenant: Tenant, target: Target, key: String) -> Answer<'_, bool> {
        Box::pin(self.drop_policy(tenant, target, key))
    }

    fn test_mode(&self, tenant: Tenant) -> Answer<'_, bool> {
        Box::pin(self.read_mode(tenant))
    }

    fn change_test_mode(&self, tenant: Tenant, mode: TestMode) -> Answer<'_, bool> {
        Box::pin(self.write_mode(tenant, mode))
    }
}

impl Imports for PgLedger {
    fn begin_import(&self, tenant: Tenant, new: NewImport) -> Answer<'_, Import> {
        Box::pin(self.begin(tenant, new))
    }

    fn import(&self, tenant: Tenant, id: Uuid) -> Answer<'_, Option<Import>> {
        Box::pin(self.find_import(tenant, id))
    }

    fn imports(
        &self,
        tenant: Tenant,
        after: Option<Uuid>,
        limit: usize,
    ) -> Answer<'_, Vec<Import>> {
        Box::pin(self.list_imports(tenant, after, limit))
    }

    fn import_chunk(&self, tenant: Tenant, id: Uuid, chunk: Chunk) -> Answer<'_, Option<Import>> {
        Box::pin(async move {
            at_most(chunk.entries.len())?;
            self.write_chunk(tenant, id, chunk).await
        })
    }

    fn queue_candidates(
        &self,
        tenant: Tenant,
        id: Uuid,
        batch: Uuid,
    ) -> Answer<'_, Option<Import>> {
        Box::pin(self.queue_batch(tenant, id, batch))
    }

    fn fail_import(&self, tenant: Tenant, id: Uuid, error: String) -> Answer<'_, Option<Import>> {
        Box::pin(self.fail(tenant, id, error))
    }
}
