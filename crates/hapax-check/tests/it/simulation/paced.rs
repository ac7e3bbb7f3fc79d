//! A ledger that gives the scheduler a turn before and after every call, fails when the dice say so, and can be told to
//! break a promise on purpose, so that the checker is seen to notice.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use hapax_check::Dice;
use hapax_core::{
    Answer, Durability, Error, Kind, Ledger, Move, Page, Record, RecordId, Scan, Scope, Swap,
    Sweep, Swept, Tenant, Time,
};

/// Which promise the ledger breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sabotage {
    None,
    /// It writes without comparing the version.
    NoFence,
    /// It says that an outcome is written before it is, and sometimes never writes it.
    AnswersFirst,
    /// It keeps all tenants' keys together.
    OneTenant,
    /// It does not count that an outcome was taken back.
    NoPurges,
}

/// The ledger that the simulated nodes share.
pub(crate) struct Paced {
    inner: Arc<dyn Ledger>,
    dice: Mutex<Dice>,
    /// How often calls fail; 0 for never.
    fails_once_in: u64,
    healthy: AtomicBool,
    sabotage: Sabotage,
    took_turn: AtomicBool,
}

impl Paced {
    pub(crate) fn new(
        inner: Arc<dyn Ledger>,
        seed: u64,
        fails_once_in: u64,
        sabotage: Sabotage,
    ) -> Self {
        Self {
            inner,
            dice: Mutex::new(Dice::new(seed)),
            fails_once_in,
            healthy: AtomicBool::new(false),
            sabotage,
            took_turn: AtomicBool::new(false),
        }
    }

    /// Whether any call may have failed.
    pub(crate) fn may_fail(&self) -> bool {
        self.fails_once_in > 0
    }

    /// From now on nothing fails.
    pub(crate) fn heal(&self) {
        self.healthy.store(true, Ordering::Relaxed);
    }

    /// Whether somebody gave up its turn since this was last asked, and does not wait for time.
    pub(crate) fn took_turn(&self) -> bool {
        self.took_turn.swap(false, Ordering::Relaxed)
    }

    /// Ends this turn.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn {
            paced: self,
            is_over: false,
        }
    }

    fn rolls(&self, once_in: u64) -> bool {
        once_in > 0
            && !self.healthy.load(Ordering::Relaxed)
            && self.dice.lock().unwrap().rarely(once_in)
    }

    fn write(&self, moves: Vec<Move>) -> Result<Vec<Swap>, Error> {
        match self.sabotage {
            Sabotage::NoFence => moves.into_iter().map(|step| self.force(step)).collect(),
            Sabotage::OneTenant => {
                let moves = moves.into_iter().map(|mut step| {
                    let next = Arc::make_mut(&mut step.next);
                    next.scope.tenant = Tenant::DEFAULT;
                    next.id = RecordId::of(&next.scope, &next.key);
                    step
                });
                block(self.inner.swap(moves.collect()))
            }
            Sabotage::AnswersFirst
                if moves
                    .iter()
                    .any(|step| step.ends() && self.dice.lock().unwrap().rarely(20)) =>
            {
                Ok(moves.iter().map(|_| Swap::Written).collect())
            }
            Sabotage::None | Sabotage::AnswersFirst | Sabotage::NoPurges => {
                block(self.inner.swap(moves))
            }
        }
    }

    fn force(&self, mut step: Move) -> Result<Swap, Error> {
        loop {
            match block(self.inner.swap(vec![step.clone()]))?.remove(0) {
                // A claim is compared still, or nothing at all would work.
                Swap::Stale(stored) if step.expect.is_some() => {
                    step.expect = stored.map(|record| record.version);
                }
                swap => return Ok(swap),
            }
        }
    }
}

/// One turn given up.
pub(crate) struct Turn<'a> {
    paced: &'a Paced,
    is_over: bool,
}

impl Future for Turn<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Ready(());
        }
        self.is_over = true;
        self.paced.took_turn.store(true, Ordering::Relaxed);
        Poll::Pending
    }
}

impl Ledger for Paced {
    fn name(&self) -> &'static str {
        "paced"
    }

    fn durability(&self) -> Durability {
        Durability::Process
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>> {
        Box::pin(async move {
            self.turn().await;
            if self.rolls(self.fails_once_in) {
                let fault = self.dice.lock().unwrap().below(3);
                let kind = match fault {
                    0 => Kind::Unavailable,
                    1 => Kind::OutcomeUnknown,
                    _ => {
                        self.write(moves)?;
                        Kind::OutcomeUnknown
                    }
                };
                self.turn().await;
                return Err(Error::new(kind, "swapping records"));
            }
            let swaps = self.write(moves);
            self.turn().await;
            swaps
        })
    }

    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
        Box::pin(async move {
            self.turn().await;
            let found = block(self.inner.find(tenant, id));
            self.turn().await;
            found
        })
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.inner.scan(scan)
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        self.inner.sweep(sweep)
    }

    fn check(&self) -> Answer<'_, ()> {
        self.inner.check()
    }

    fn purges(&self) -> Option<u64> {
        match self.sabotage {
            Sabotage::NoPurges => Some(0),
            Sabotage::None | Sabotage::NoFence | Sabotage::AnswersFirst | Sabotage::OneTenant => {
                self.inner.purges()
            }
        }
    }
}

/// Waits for what another thread does for the ledger, so that one turn is one step whatever the store.
pub(crate) fn block<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    // The runtime would have a future that was polled often wait for a turn of its own, which never comes here.
    let mut future = pin!(tokio::task::unconstrained(future));
    let mut cx = Context::from_waker(Waker::noop());
    if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
        return value;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        thread::park();
    }
}

/// The scope of a simulated key.
pub(crate) fn scope(tenant: Tenant) -> Scope {
    Scope::new(tenant, "simulated").unwrap()
}
