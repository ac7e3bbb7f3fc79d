//! Claiming and settling inside a caller's own transaction on the ledger's file.
//! It neither begins nor ends a transaction, and it waits for nobody.

use hapax_core::{Claim, Error, Kind, Lease, Move, Outcome, Record, Swap, Time, Verdict, decide};
use rusqlite::{Connection, Transaction};
use uuid::Uuid;

use super::SqliteLedger;
use super::fault::{Fault, failed};
use super::moves;
use super::pack::Packed;
use super::tenant_keys;
use crate::row::Applied;
use crate::vault::{Rings, Vault};
use crate::within::{Claimed, Settled};

/// How often a claim is tried. Two are enough under the write lock; the rest is for bugs.
const TRIES_MAX: usize = 4;

/// The ledger within a caller's own transaction. See [`SqliteLedger::within`].
#[derive(Debug)]
pub struct Within<'t> {
    connection: &'t Connection,
    vault: Option<&'t Vault>,
}

impl SqliteLedger {
    /// The ledger within `transaction`, on a connection of the caller's to the ledger's file. What the caller
    /// writes and the outcome that is recorded commit together: once, in the same transaction.
    ///
    /// Use [`rusqlite::TransactionBehavior::Immediate`], or make the claim the transaction's first statement:
    /// a transaction that has read cannot write once somebody else has. Give the ledger's `now`. While the
    /// transaction is open, every other writer of the file waits, so keep it short.
    ///
    /// ```
    /// use hapax_core::{Claim, Fingerprint, Key, Ledger, Outcome, Owner, Scope, Tenant};
    /// use hapax_store::{SqliteLedger, sqlite::rusqlite, within::{Claimed, Settled}};
    /// use rusqlite::{Connection, TransactionBehavior::Immediate};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("shop.db");
    /// let ledger = SqliteLedger::open(&path, Default::default())?;
    /// let mut shop = Connection::open(&path)?;
    /// shop.execute_batch("CREATE TABLE payment (amount INTEGER NOT NULL)")?;
    /// let paid = |shop: &Connection| shop.query_row("SELECT count(1) FROM payment", [], |row| row.get::<_, i64>(0));
    ///
    /// let scope = Scope::new(Tenant::DEFAULT, "POST:payments")?;
    /// let claim = Claim::new(scope, Key::new("order-7")?, Fingerprint::of(b"pay 10"), Owner::from_u128(1));
    ///
    /// // A transaction that is rolled back leaves neither a payment nor a claim.
    /// let tx = shop.transaction_with_behavior(Immediate)?;
    /// assert!(matches!(SqliteLedger::within(&tx).claim(&claim, ledger.now())?, Claimed::Granted(..)));
    /// tx.execute("INSERT INTO payment (amount) VALUES (10)", [])?;
    /// tx.rollback()?;
    /// assert_eq!(paid(&shop)?, 0);
    ///
    /// // The payment and its outcome commit together.
    /// let tx = shop.transaction_with_behavior(Immediate)?;
    /// let Claimed::Granted(lease, _) = SqliteLedger::within(&tx).claim(&claim, ledger.now())? else { unreachable!() };
    /// tx.execute("INSERT INTO payment (amount) VALUES (10)", [])?;
    /// let settled = SqliteLedger::within(&tx).settle(*lease, Outcome::text(201, "paid"), ledger.now())?;
    /// assert!(matches!(settled, Settled::Recorded));
    /// tx.commit()?;
    ///
    /// // The refusal: a second claim gets the recorded outcome, and nothing is paid again.
    /// let again = Claim { owner: Owner::from_u128(2), ..claim };
    /// let tx = shop.transaction_with_behavior(Immediate)?;
    /// let Claimed::Replay(outcome) = SqliteLedger::within(&tx).claim(&again, ledger.now())? else { unreachable!() };
    /// assert_eq!(outcome.status, 201);
    /// drop(tx);
    /// assert_eq!(paid(&shop)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn within<'t>(transaction: &'t Transaction<'_>) -> Within<'t> {
        Within {
            connection: transaction,
            vault: None,
        }
    }
}

impl<'t> Within<'t> {
    /// The same, sealing and opening with `vault`, which must be the ledger's. Without it the records of a tenant
    /// that has keys are neither read nor written.
    #[must_use]
    pub fn sealed(self, vault: &'t Vault) -> Self {
        Self {
            vault: Some(vault),
            ..self
        }
    }

    /// Claims a key at `now`. A granted claim is written in this transaction and in force once it commits.
    /// Blocks for the disk only.
    ///
    /// # Errors
    /// Those of [`hapax_core::Ledger::swap`]. After [`Kind::Unavailable`] roll back and try again.
    pub fn claim(&self, claim: &Claim, now: Time) -> Result<Claimed, Error> {
        let mut seen: Option<Record> = None;
        for _ in 0..TRIES_MAX {
            let grant = match decide(seen.as_ref(), claim, now) {
                Verdict::Grant(grant) => grant,
                Verdict::Replay(outcome) => return Ok(Claimed::Replay(outcome.clone())),
                Verdict::Busy(until) => return Ok(Claimed::Busy(until)),
                Verdict::Conflict(record) => {
                    return Ok(Claimed::Conflict(Box::new(record.clone())));
                }
                Verdict::Lost(doubt) => return Ok(Claimed::Lost(doubt)),
                Verdict::Erased => return Ok(Claimed::Erased),
            };
            match self.swap(Move::from_seen(seen.as_ref(), grant.next.clone()), now)? {
                Swap::Written => {
                    return leased(grant.next)
                        .map(|lease| Claimed::Granted(Box::new(lease), grant.cause));
                }
                Swap::Stale(stored) => seen = stored.map(|record| *record),
            }
        }
        Err(Error::new(Kind::Unavailable, "claiming a key")
            .because("it changed under the transaction; roll back"))
    }

    /// Records the outcome at `now`, if the lease is still the holder's. It is in force once the transaction
    /// commits. Blocks for the disk only.
    ///
    /// # Errors
    /// Those of [`hapax_core::Ledger::swap`]. After [`Kind::Unavailable`] roll back and try again.
    pub fn settle(&self, lease: Lease, outcome: Outcome, now: Time) -> Result<Settled, Error> {
        let (epoch, owner) = (lease.epoch(), lease.owner());
        let stored = match self.swap(lease.settle(outcome.clone(), now), now)? {
            Swap::Written => return Ok(Settled::Recorded),
            Swap::Stale(stored) => stored,
        };
        // A renewal since the lease was seen raised the version; the hold is the same.
        let current = stored
            .as_ref()
            .and_then(|record| Lease::of((**record).clone(), epoch, owner));
        match current {
            Some(lease) => self
                .swap(lease.settle(outcome, now), now)
                .map(Settled::from),
            None => Ok(Settled::LeaseLost(stored)),
        }
    }

    /// One move, all of it or nothing.
    fn swap(&self, step: Move, now: Time) -> Result<Swap, Error> {
        let operation = "moving a record in a transaction";
        let execute = |command: &str| {
            self.connection
                .execute_batch(command)
                .map_err(|error| failed(operation, error))
        };
        execute("SAVEPOINT hapax_move")?;
        match self.apply(step, now) {
            Ok(applied) => {
                execute("RELEASE hapax_move")?;
                Ok(applied)
            }
            Err(fault) => {
                // An error that ended the whole transaction took the savepoint along.
                if !self.connection.is_autocommit() {
                    execute("ROLLBACK TO hapax_move; RELEASE hapax_move")?;
                }
                Err(fault.into_error(operation))
            }
        }
    }

    fn apply(&self, step: Move, now: Time) -> Result<Swap, Fault> {
        let (tenant, purges) = (step.next.scope.tenant.as_uuid(), step.purges);
        let rings = self.rings(tenant, now)?;
        let packed = Packed::of(step, rings.get(tenant))?;
        let applied = self.overwriting(|connection| moves::apply(connection, &packed))?;
        if purges && matches!(applied, Applied::Written) {
            // Caches are told by the next write of any ledger on the file. Until then they are not wrong: within
            // a transaction only an outcome whose time is over is taken back, and those are not replayed.
            moves::raise_purge_count(self.connection, 0, 1)?;
        }
        Ok(applied.open(&rings)?)
    }

    /// Does something so that what is removed is overwritten, whatever the caller's connection does otherwise: erasing a key
    /// later would not find what was left of it.
    fn overwriting<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let set = |to: &str| {
            let told = |_: &rusqlite::Row<'_>| Ok(());
            self.connection
                .pragma_update_and_check(None, "secure_delete", to, told)
        };
        let before = self
            .connection
            .pragma_query_value(None, "secure_delete", |row| row.get(0))?;
        set("ON")?;
        let done = work(self.connection);
        set(match before {
            0 => "OFF",
            1 => "ON",
            _ => "FAST",
        })?;
        done
    }

    fn rings(&self, tenant: Uuid, now: Time) -> Result<Rings, Fault> {
        let mut rings = Rings::default();
        match self.vault {
            Some(vault) => {
                if let Some(ring) = tenant_keys::within(self.connection, vault, tenant, now)? {
                    rings.insert(tenant, ring);
                }
            }
            None if tenant_keys::has_keys(self.connection, tenant)? => {
                let why = "this tenant's bodies are sealed; give the ledger's vault to `within(…).sealed(…)`";
                return Err(Error::new(Kind::Unsafe, "claiming a key")
                    .because(why)
                    .into());
            }
            None => {}
        }
        Ok(rings)
    }
}

fn leased(record: Record) -> Result<Lease, Error> {
    let lost =
        || Error::new(Kind::Corrupt, "claiming a key").because("a granted record is not held");
    let hold = record.hold().ok_or_else(lost)?;
    Lease::of(record, hold.epoch, hold.owner).ok_or_else(lost)
}
