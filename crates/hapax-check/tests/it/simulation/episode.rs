//! One simulated episode: a few clients on two nodes over one ledger, in one thread, in an order that a seed decides.
//! A step is one turn of one client, one death, one jump of the clock or one sweep.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use hapax::Engine;
use hapax_check::{Counts, Dice, History, Linear, Rules, is_linear};
use hapax_core::{Key, Ledger, Owner, Sweep, Tenant};
use hapax_store::Clock;

use super::client::{Client, LEASE, Name, World};
use super::paced::{Paced, Sabotage, block};

/// How long one episode is.
pub(crate) const STEPS: u64 = 400;
const CLIENTS: usize = 5;
const NODES: usize = 2;
/// How far the clock may fall behind what it showed: less than a swept key is remembered.
const BACK_MAX: Duration = Duration::from_secs(3600);
/// How many states the search for one order may look at per key.
const STATES_MAX: usize = 20_000;

/// What an episode is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Records expire, are swept and forgotten; otherwise they outlast the episode, and one order is searched.
    pub(crate) expires: bool,
    /// The clock goes back at times.
    pub(crate) goes_back: bool,
    pub(crate) sabotage: Sabotage,
}

/// What came of an episode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) violations: Vec<String>,
    pub(crate) counts: Counts,
    pub(crate) steps: u64,
    pub(crate) deaths: u64,
    pub(crate) ordered: u64,
    pub(crate) unordered: u64,
    pub(crate) swept: u64,
}

struct Running {
    node: usize,
    is_asking: Rc<Cell<bool>>,
    visit: Pin<Box<dyn Future<Output = ()>>>,
}

struct Episode {
    plan: Plan,
    dice: Dice,
    world: Rc<World>,
    clock: Clock,
    latest_ms: i64,
    nodes: Vec<Engine>,
    names: Vec<Name>,
    running: Vec<Option<Running>>,
    clients: u64,
    report: Report,
}

/// Runs one episode on `ledger`, which reads `clock`. Keys of other episodes may be in it.
pub(crate) async fn run(plan: Plan, ledger: Arc<dyn Ledger>, clock: Clock) -> Report {
    let mut episode = Episode::new(plan, ledger, clock);
    for _ in 0..STEPS {
        episode.step().await;
        if !episode.world.history.borrow().violations().is_empty() {
            break;
        }
    }
    episode.end().await
}

impl Episode {
    fn new(plan: Plan, ledger: Arc<dyn Ledger>, clock: Clock) -> Self {
        let mut dice = Dice::new(plan.seed);
        let fails_once_in = [0, 10, 30][dice.index(3)];
        let paced = Paced::new(ledger, dice.next_u64(), fails_once_in, plan.sabotage);
        let ledger = Arc::new(paced);
        let mut history = History::new(Rules {
            late: false,
            goes_back: plan.goes_back,
            spans: !plan.expires,
            prints: std::env::var_os("HAPAX_SIMULATE_PRINTS").is_some(),
            ..Rules::default()
        });
        let names = (0..4u64).map(|n| {
            // Two tenants have the same two keys; one key of each is held when its runner dies.
            let number = u128::from(plan.seed) << 1 | u128::from(n / 2);
            let tenant = Tenant::from_uuid(uuid(number));
            let key = format!("{}-{}", plan.seed, n % 2);
            let id = history.key_under(&tenant.to_string(), &key, n % 2 == 1);
            let key = Key::new(&key).unwrap();
            Name {
                tenant,
                key,
                holds: n % 2 == 1,
                id,
            }
        });
        let names = names.collect();
        let ttl = if plan.expires {
            Duration::from_secs(60)
        } else {
            Duration::from_secs(86_400 * 365)
        };
        let world = World {
            ledger,
            history: RefCell::new(history),
            runs: RefCell::new(0),
            ttl,
        };
        let mut episode = Self {
            plan,
            dice,
            world: Rc::new(world),
            latest_ms: clock.now().as_ms(),
            clock,
            nodes: Vec::new(),
            names,
            running: (0..CLIENTS).map(|_| None).collect(),
            clients: 0,
            report: Report::default(),
        };
        for _ in 0..NODES {
            let node = episode.node();
            episode.nodes.push(node);
        }
        episode
    }

    fn node(&self) -> Engine {
        let ledger: Arc<dyn Ledger> = self.world.ledger.clone();
        Engine::new(ledger)
    }

    async fn step(&mut self) {
        self.report.steps += 1;
        match self.dice.below(200) {
            0..=2 => {
                let client = self.dice.index(CLIENTS);
                self.report.deaths += u64::from(self.running[client].take().is_some());
            }
            3 => self.kill_node(),
            4..=11 => self.time_passes(),
            12 | 13 => self.time_jumps(),
            14..=16 => self.sweep(),
            _ => self.turn().await,
        }
    }

    /// A process dies: its clients are gone in the middle of whatever they did, and so is its cache.
    fn kill_node(&mut self) {
        let node = self.dice.index(NODES);
        for running in &mut self.running {
            if running.as_ref().is_some_and(|running| running.node == node) {
                *running = None;
            }
        }
        self.nodes[node] = self.node();
        self.report.deaths += 1;
    }

    fn time_passes(&mut self) {
        let most = u64::try_from(LEASE.as_millis()).unwrap() * 3 / 2;
        let span = Duration::from_millis(self.dice.below(most));
        self.clock.advance(span);
        self.tell_time();
    }

    fn time_jumps(&mut self) {
        if self.plan.goes_back && self.dice.rarely(2) {
            let behind = self.latest_ms - self.clock.now().as_ms();
            let most = i64::try_from(BACK_MAX.as_millis()).unwrap() - behind;
            let back = self.dice.below(u64::try_from(most.max(0)).unwrap());
            self.clock.turn_back(Duration::from_millis(back));
        } else if self.plan.expires {
            // To the end of records, and at times to the end of their marks.
            let hours = if self.dice.rarely(3) { 26 } else { 0 };
            if hours > 0 {
                // No request lasts that long: what was decided is written within the time that swept keys are kept.
                for running in &mut self.running {
                    if running
                        .as_ref()
                        .is_some_and(|running| running.is_asking.get())
                    {
                        *running = None;
                    }
                }
            }
            let span = Duration::from_secs(hours * 3600 + self.dice.below(90));
            self.clock.advance(span);
        }
        self.tell_time();
    }

    fn tell_time(&mut self) {
        let now = self.clock.now().as_ms();
        self.latest_ms = self.latest_ms.max(now);
        self.world.history.borrow_mut().time(now);
    }

    fn sweep(&mut self) {
        let swept = block(self.world.ledger.sweep(Sweep::default())).unwrap();
        self.report.swept += (swept.expired + swept.retired + swept.forgotten) as u64;
    }

    /// Gives one client its turn, or lets a new one in.
    async fn turn(&mut self) {
        let place = self.dice.index(CLIENTS);
        if self.running[place].is_none() {
            self.running[place] = Some(self.begin());
        }
        let Some(mut running) = self.running[place].take() else {
            return;
        };
        if !self.is_done(&mut running).await {
            self.running[place] = Some(running);
        }
    }

    fn begin(&mut self) -> Running {
        let node = self.dice.index(NODES);
        let name = self.names[self.dice.index(self.names.len())].clone();
        let client = self.client(node, name);
        let is_asking = Rc::clone(&client.is_asking);
        let visit: Pin<Box<dyn Future<Output = ()>>> = if self.dice.rarely(10) {
            Box::pin(client.overrule())
        } else {
            Box::pin(client.visit())
        };
        Running {
            node,
            is_asking,
            visit,
        }
    }

    fn client(&mut self, node: usize, name: Name) -> Client {
        self.clients += 1;
        Client {
            world: Rc::clone(&self.world),
            engine: self.nodes[node].clone(),
            number: self.clients,
            name,
            dice: Dice::new(self.dice.next_u64()),
            is_asking: Rc::default(),
        }
    }

    /// One turn of a client. One that waits for time, and not for its turn, gets the time.
    async fn is_done(&self, running: &mut Running) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let is_done = running.visit.as_mut().poll(&mut cx).is_ready();
        if !self.world.ledger.took_turn() && !is_done {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        is_done
    }

    /// Lets everyone finish on a ledger that works, then asks for every key once more on every node.
    async fn end(mut self) -> Report {
        self.world.ledger.heal();
        for place in 0..CLIENTS {
            if let Some(mut running) = self.running[place].take() {
                while !self.is_done(&mut running).await {}
            }
        }
        for name in self.names.clone() {
            for node in 0..NODES {
                let mut client = self.client(node, name.clone());
                let owner = Owner::from_u128(u128::from(self.dice.next_u64()));
                let asked = Box::pin(async move {
                    let lease = client.claim(1, owner).await.unwrap();
                    drop(lease);
                });
                let mut running = Running {
                    node,
                    is_asking: Rc::default(),
                    visit: asked,
                };
                while !self.is_done(&mut running).await {}
            }
        }
        let history = self.world.history.borrow();
        let mut report = self.report;
        report.counts = history.counts();
        report.violations = history
            .violations()
            .iter()
            .map(ToString::to_string)
            .collect();
        if report.violations.is_empty() && !self.plan.expires {
            for (key, spans) in history.spans() {
                match is_linear(spans, STATES_MAX) {
                    Linear::Yes => report.ordered += 1,
                    Linear::TooLarge => report.unordered += 1,
                    Linear::No => report
                        .violations
                        .push(format!("{key}: no order explains {spans:#?}")),
                }
            }
        }
        report
    }
}

/// The UUID of this number, by its text: the crate needs no other.
fn uuid(number: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(number)
}
