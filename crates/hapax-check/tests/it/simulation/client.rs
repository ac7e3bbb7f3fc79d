//! What simulated clients do: claim and act, give up half-way, or speak as an operator. Whatever they ask and are told,
//! they write into the history.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax::{Claimed, Engine, Ruled, Settled};
use hapax_check::{Act, Cause, Dice, History, KeyId, OpId, Told};
use hapax_core::{
    Claim, Doubt, Error, Fingerprint, Key, Kind, Lease, OnLost, Outcome, Owner, Policy, RecordId,
    Tenant,
};

use super::paced::{Paced, scope};

/// How long a lease lasts in the simulated world.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// What all clients share.
pub(crate) struct World {
    pub(crate) ledger: Arc<Paced>,
    pub(crate) history: RefCell<History>,
    pub(crate) runs: RefCell<u64>,
    pub(crate) ttl: Duration,
}

/// A key that clients know.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) tenant: Tenant,
    pub(crate) key: Key,
    pub(crate) holds: bool,
    pub(crate) id: KeyId,
}

impl Name {
    fn record(&self) -> RecordId {
        RecordId::of(&scope(self.tenant), &self.key)
    }

    pub(crate) fn claim(&self, world: &World, asked: u64, owner: Owner) -> Claim {
        let on_lost = if self.holds {
            OnLost::Hold
        } else {
            OnLost::Retry
        };
        let policy = Policy {
            ttl: world.ttl,
            lease: LEASE,
            wait: Duration::ZERO,
            on_lost,
        };
        let asked = Fingerprint::of(&asked.to_be_bytes());
        Claim::new(scope(self.tenant), self.key.clone(), asked, owner).with_policy(policy)
    }
}

/// An act under way; if its client dies meanwhile, nobody knows what became of it.
struct Begun {
    world: Rc<World>,
    op: Option<OpId>,
}

impl Begun {
    fn new(world: &Rc<World>, client: u64, key: KeyId, act: Act) -> Self {
        let op = world.history.borrow_mut().invoke(client, key, act);
        Self {
            world: Rc::clone(world),
            op: Some(op),
        }
    }

    fn ok(mut self, told: Told) {
        let op = self.op.take().unwrap();
        self.world.history.borrow_mut().ok(op, told);
    }

    fn fail(mut self) {
        let op = self.op.take().unwrap();
        self.world.history.borrow_mut().fail(op);
    }

    /// The lease is lost. If the ledger fails at times, a first try may have been written and followed by others since,
    /// so that only the last try is known to have changed nothing.
    fn lost(self) {
        if self.world.ledger.may_fail() {
            drop(self);
        } else {
            self.ok(Told::Refused);
        }
    }

    /// The ledger could not say.
    fn failed(self, error: &Error) {
        match error.kind() {
            Kind::Unavailable => self.fail(),
            Kind::OutcomeUnknown => drop(self),
            other @ (Kind::Corrupt | Kind::Limit | Kind::Unsafe | Kind::Unsupported) => {
                panic!("{other:?}: {error}")
            }
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(op) = self.op.take() {
            self.world.history.borrow_mut().unknown(op);
        }
    }
}

/// One client's visit to one key.
pub(crate) struct Client {
    pub(crate) world: Rc<World>,
    pub(crate) engine: Engine,
    pub(crate) number: u64,
    pub(crate) name: Name,
    pub(crate) dice: Dice,
    /// Whether it is between asking for a lease and being answered.
    pub(crate) is_asking: Rc<Cell<bool>>,
}

impl Client {
    /// Claims, and acts if it may.
    pub(crate) async fn visit(mut self) {
        let asked = 1 + u64::from(self.dice.rarely(8));
        // One attempt keeps its number however often it must ask.
        let owner =
            Owner::from_u128(u128::from(self.dice.next_u64()) << 64 | u128::from(self.number));
        for _ in 0..3 {
            match self.claim(asked, owner).await {
                Ok(Some(lease)) => return self.act(lease).await,
                Ok(None) => return,
                Err(_) if self.dice.rarely(2) => return,
                Err(_) => {}
            }
        }
    }

    /// Asks once, and holds the answer against what was promised.
    pub(crate) async fn claim(&mut self, asked: u64, owner: Owner) -> Result<Option<Lease>, Error> {
        let begun = self.begin(Act::Claim { asked });
        let claim = self.name.claim(&self.world, asked, owner);
        if let Some(receipt) = self.engine.cached(&claim) {
            begun.ok(Told::Replay(bytes_of(&receipt.outcome)));
            return Ok(None);
        }
        self.is_asking.set(true);
        let claimed = self.engine.claim(claim).await;
        self.is_asking.set(false);
        match claimed {
            Ok(Claimed::Granted(lease, cause)) => {
                let cause = match cause {
                    hapax_core::Cause::Fresh | hapax_core::Cause::Expired => Cause::New,
                    hapax_core::Cause::Lost => Cause::Taken,
                    hapax_core::Cause::Mine => Cause::Mine,
                };
                begun.ok(Told::Granted {
                    fence: lease.epoch().0.0,
                    cause,
                    expires_at: Some(lease.record().expires_at.as_ms()),
                });
                return Ok(Some(lease));
            }
            Ok(Claimed::Replay(receipt)) => begun.ok(Told::Replay(bytes_of(&receipt.outcome))),
            Ok(Claimed::Busy(_)) => begun.ok(Told::Busy),
            Ok(Claimed::Conflict(_)) => begun.ok(Told::Conflict),
            Ok(Claimed::Lost(_)) => begun.ok(Told::InDoubt),
            Ok(Claimed::Erased) => begun.ok(Told::Erased),
            Err(error) => {
                begun.failed(&error);
                return Err(error);
            }
        }
        Ok(None)
    }

    /// Works under a lease, and ends it in one of the ways there are.
    async fn act(mut self, mut lease: Lease) {
        let fence = lease.epoch().0.0;
        let works = self.dice.below(4);
        for _ in 0..works {
            let ledger = Arc::clone(&self.world.ledger);
            ledger.turn().await;
            if self.dice.rarely(3) && !self.renew(&mut lease).await {
                return;
            }
        }
        let acts = !self.dice.rarely(6);
        if acts {
            let mut history = self.world.history.borrow_mut();
            history.effect(self.name.id, fence);
        }
        let pause = self.dice.below(3);
        for _ in 0..pause {
            let ledger = Arc::clone(&self.world.ledger);
            ledger.turn().await;
        }
        match self.dice.below(20) {
            0 => drop(lease),
            1 | 2 => self.release(lease, fence).await,
            3 => self.doubt(lease, fence).await,
            _ => self.settle(lease, fence).await,
        }
    }

    async fn renew(&mut self, lease: &mut Lease) -> bool {
        let fence = lease.epoch().0.0;
        let begun = self.begin(Act::Renew { fence });
        match self.engine.renew(lease).await {
            Ok(true) => {
                begun.ok(Told::Done);
                true
            }
            Ok(false) => {
                begun.ok(Told::Refused);
                false
            }
            Err(error) => {
                begun.failed(&error);
                true
            }
        }
    }

    async fn settle(&mut self, lease: Lease, fence: i64) {
        let body = self.body("run");
        let begun = self.begin(Act::Settle {
            fence,
            body: body.clone(),
        });
        let outcome = Outcome::new(200, Bytes::from(body));
        match self.engine.settle(lease, outcome).await {
            Ok(Settled::Recorded(receipt)) => begun.ok(Told::Recorded {
                body: bytes_of(&receipt.outcome),
                expires_at: Some(receipt.expires_at.as_ms()),
            }),
            Ok(Settled::Lost(_)) => begun.lost(),
            // One of its tries may have been written.
            Err(_) => drop(begun),
        }
    }

    async fn release(&mut self, lease: Lease, fence: i64) {
        let begun = self.begin(Act::Release { fence });
        match self.engine.release(lease).await {
            Ok(true) => begun.ok(Told::Done),
            Ok(false) => begun.lost(),
            Err(_) => drop(begun),
        }
    }

    async fn doubt(&mut self, lease: Lease, fence: i64) {
        let begun = self.begin(Act::Doubt { fence });
        match self.engine.doubt(lease, Doubt::OutcomeUnknown).await {
            Ok(true) => begun.ok(Told::Done),
            Ok(false) => begun.lost(),
            Err(_) => drop(begun),
        }
    }

    /// Speaks as an operator.
    pub(crate) async fn overrule(mut self) {
        let (tenant, id) = (self.name.tenant, self.name.record());
        match self.dice.below(8) {
            0..=2 => {
                let begun = self.begin(Act::End);
                match self.engine.delete(tenant, id, "operator").await {
                    Ok(Some(_)) => begun.ok(Told::Done),
                    Ok(None) => begun.ok(Told::Refused),
                    Err(error) => begun.failed(&error),
                }
            }
            3 | 4 => {
                let begun = self.begin(Act::End);
                let ruled = self.engine.release_by_operator(tenant, id, "operator");
                ruled_on(begun, ruled.await);
            }
            5 | 6 => {
                let body = self.body("ruled");
                let begun = self.begin(Act::Rule { body: body.clone() });
                let outcome = Outcome::new(200, Bytes::from(body));
                let ruled = self
                    .engine
                    .settle_by_operator(tenant, id, outcome, "operator");
                ruled_on(begun, ruled.await);
            }
            _ => {
                let begun = self.begin(Act::Erase);
                match self.engine.erase(tenant, id, "operator").await {
                    Ok(Some(_)) => begun.ok(Told::Done),
                    Ok(None) => begun.ok(Told::Refused),
                    Err(error) => begun.failed(&error),
                }
            }
        }
    }

    /// Bytes that no other run makes.
    fn body(&self, word: &str) -> Vec<u8> {
        let mut runs = self.world.runs.borrow_mut();
        *runs += 1;
        format!("{word} {runs}").into_bytes()
    }

    fn begin(&self, act: Act) -> Begun {
        Begun::new(&self.world, self.number, self.name.id, act)
    }
}

fn ruled_on(begun: Begun, ruled: Result<Ruled, Error>) {
    match ruled {
        Ok(Ruled::Recorded(receipt)) => begun.ok(Told::Recorded {
            body: bytes_of(&receipt.outcome),
            expires_at: Some(receipt.expires_at.as_ms()),
        }),
        Ok(Ruled::Released(_)) => begun.ok(Told::Done),
        Ok(Ruled::Held(_) | Ruled::Settled(_) | Ruled::Erased | Ruled::Absent) => {
            begun.ok(Told::Refused);
        }
        Err(error) => begun.failed(&error),
    }
}

fn bytes_of(outcome: &Outcome) -> Vec<u8> {
    outcome
        .whole()
        .map(|bytes| bytes.to_vec())
        .unwrap_or_default()
}
