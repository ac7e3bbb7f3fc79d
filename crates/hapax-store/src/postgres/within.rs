//! A claim and its outcome in the caller's own transaction: they commit together with what the caller writes.

use std::time::SystemTime;

use hapax_core::{Claim, Error, Kind, Lease, Move, Outcome, Record, Swap, Time, Verdict, decide};
use tokio_postgres::Transaction;
use uuid::Uuid;

use super::columns::{self, Columns, Step};
use super::{PgLedger, fault, link, tenant_keys};
use crate::vault::{self, Ring, Vault};
use crate::within::{Claimed, Settled};

const SET_TENANT: &str = include_str!("../../sql/postgres/set_tenant.sql");
const FIND_LOCKED: &str = include_str!("../../sql/postgres/find_locked.sql");
const CLOCK: &str = include_str!("../../sql/postgres/clock.sql");

const OPERATION: &str = "claiming within a transaction";
/// Each further try means that somebody else moved the record in between.
const TRIES: usize = 16;

/// The ledger as seen from inside a caller's transaction.
///
/// Once, in the same transaction: the caller's writes and the recorded outcome are committed together or not
/// at all. A second claim of the key waits until the first transaction ends.
///
/// The caller's login needs the rights of the app's role: `GRANT hapax_app TO shop`.
pub struct Within<'a, 't> {
    transaction: &'a Transaction<'t>,
    vault: Option<&'a Vault>,
}

impl std::fmt::Debug for Within<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Within").finish_non_exhaustive()
    }
}

impl PgLedger {
    /// The ledger inside the caller's own transaction.
    ///
    /// ```no_run
    /// use hapax_core::{Claim, Fingerprint, Key, Outcome, Owner, Scope, Tenant};
    /// use hapax_store::{PgLedger, within::Claimed};
    ///
    /// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let scope = Scope::new(Tenant::DEFAULT, "POST:transfers")?;
    /// let claim = Claim::new(scope, Key::new("t-1")?, Fingerprint::of(b"10 EUR"), Owner::from_u128(1));
    /// let mut transaction = client.transaction().await?;
    /// match PgLedger::within(&mut transaction).claim(&claim).await? {
    ///     Claimed::Granted(lease, _) => {
    ///         transaction.execute("UPDATE account SET balance = balance - 10", &[]).await?;
    ///         PgLedger::within(&mut transaction).settle(*lease, Outcome::text(201, "done")).await?;
    ///         transaction.commit().await?; // both, or neither
    ///     }
    ///     // The refusal: nothing runs a second time.
    ///     Claimed::Replay(outcome) => println!("already done: {}", outcome.status),
    ///     other => println!("not now: {other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn within<'a, 't>(transaction: &'a mut Transaction<'t>) -> Within<'a, 't> {
        Within {
            transaction,
            vault: None,
        }
    }
}

impl<'a> Within<'a, '_> {
    /// The same, sealing and opening with `vault`, which must be the ledger's. Without it the records of a tenant
    /// that has keys are neither read nor written.
    #[must_use]
    pub fn sealed(mut self, vault: &'a Vault) -> Self {
        self.vault = Some(vault);
        self
    }

    /// Claims the key. What is granted is seen by others when the transaction commits, and never if it does not.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the database refuses a statement; the transaction is then to be rolled back.
    pub async fn claim(&mut self, claim: &Claim) -> Result<Claimed, Error> {
        for _ in 0..TRIES {
            let seen = self.seen(claim).await?;
            // Read after the lock was had, which may have taken a while.
            let now = self.now().await?;
            let (step, cause) = match decide(seen.as_ref(), claim, now) {
                Verdict::Grant(grant) => (Move::from_seen(seen.as_ref(), grant.next), grant.cause),
                Verdict::Replay(outcome) => return Ok(Claimed::Replay(outcome.clone())),
                Verdict::Busy(until) => return Ok(Claimed::Busy(until)),
                Verdict::Conflict(record) => {
                    return Ok(Claimed::Conflict(Box::new(record.clone())));
                }
                Verdict::Lost(doubt) => return Ok(Claimed::Lost(doubt)),
                Verdict::Erased => return Ok(Claimed::Erased),
            };
            let next = step.next.clone();
            let lease = next
                .hold()
                .and_then(|hold| Lease::of(next, hold.epoch, hold.owner));
            if let (true, Some(lease)) = (self.write(step).await?, lease) {
                return Ok(Claimed::Granted(Box::new(lease), cause));
            }
        }
        Err(Error::new(Kind::Unavailable, OPERATION).because("the record is moved all the time"))
    }

    /// Records the outcome in this transaction. If the lease was lost nothing is written, and the answer is
    /// what is stored: then roll back.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the database refuses a statement; the transaction is then to be rolled back.
    pub async fn settle(&mut self, lease: Lease, outcome: Outcome) -> Result<Settled, Error> {
        let now = self.now().await?;
        self.swap(lease.settle(outcome, now))
            .await
            .map(Settled::from)
    }

    /// Gives the key back in this transaction, so that the next claim runs as new.
    ///
    /// # Errors
    /// As [`Within::settle`].
    pub async fn release(&mut self, lease: Lease) -> Result<Settled, Error> {
        let now = self.now().await?;
        self.swap(lease.release(now)).await.map(Settled::from)
    }

    async fn swap(&mut self, step: Move) -> Result<Swap, Error> {
        let (scope, id) = (step.next.scope.clone(), step.next.id);
        if self.write(step).await? {
            return Ok(Swap::Written);
        }
        Ok(Swap::Stale(
            self.find(scope.tenant.as_uuid(), id.as_uuid())
                .await?
                .map(Box::new),
        ))
    }

    async fn seen(&self, claim: &Claim) -> Result<Option<Record>, Error> {
        match self
            .find(claim.scope.tenant.as_uuid(), claim.id().as_uuid())
            .await?
        {
            Some(record) if record.scope != claim.scope || record.key != claim.key => {
                Err(Error::new(Kind::Corrupt, OPERATION).because("two keys share one id"))
            }
            seen => Ok(seen),
        }
    }

    async fn find(&self, tenant: Uuid, id: Uuid) -> Result<Option<Record>, Error> {
        self.query(SET_TENANT, &[&tenant]).await?;
        let rows = self.query(FIND_LOCKED, &[&tenant, &id]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let row = columns::stored(row)?;
        let ring = if self.vault.is_none() && vault::wanted(&row).is_empty() {
            None
        } else {
            self.ring(tenant).await?
        };
        row.open(ring.as_ref()).map(Some)
    }

    async fn now(&self) -> Result<Time, Error> {
        let rows = self.query(CLOCK, &[]).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::new(Kind::Unavailable, OPERATION))?;
        Ok(columns::get::<SystemTime>(row, 0)?.into())
    }

    /// Whether the move was written.
    async fn write(&self, step: Move) -> Result<bool, Error> {
        let tenant = step.next.scope.tenant.as_uuid();
        self.query(SET_TENANT, &[&tenant]).await?;
        let ring = self.ring(tenant).await?;
        let step = Step::of(step, ring.as_ref())?;
        let columns = Columns::of(step.write, tenant, &[&step]);
        let rows = self.query(link::sql(step.write), &columns.params()).await?;
        Ok(!rows.is_empty())
    }

    /// The tenant's keys, made if there are none. Never remembered: the transaction may be rolled back.
    async fn ring(&self, tenant: Uuid) -> Result<Option<Ring>, Error> {
        let mut rows = self.query(tenant_keys::LIST, &[&tenant]).await?;
        let Some(vault) = self.vault else {
            if rows.is_empty() {
                return Ok(None);
            }
            let why =
                "this tenant's bodies are sealed; give the ledger's vault to `within(…).sealed(…)`";
            return Err(Error::new(Kind::Unsafe, OPERATION).because(why));
        };
        if rows.is_empty() {
            let minted = vault.mint(tenant, None)?;
            self.query(tenant_keys::PUT, &tenant_keys::params(&minted))
                .await?;
            rows = self.query(tenant_keys::LIST, &[&tenant]).await?;
        }
        let stored = rows.iter().map(tenant_keys::wrapped);
        vault.ring(&stored.collect::<Result<Vec<_>, _>>()?)
    }

    async fn query(
        &self,
        sql: &str,
        params: &[columns::Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        self.transaction
            .query(sql, params)
            .await
            .map_err(|error| fault::unwritten(OPERATION, &error))
    }
}
