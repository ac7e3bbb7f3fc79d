//! Waiters on one node, woken by what ends on another: two engines on one PostgreSQL database.

use std::sync::Arc;
use std::time::Duration;

use hapax::core::{
    Answer, Claim, Durability, Fingerprint, Key, Lease, Ledger, Move, Outcome, Page, Policy,
    Record, RecordId, Scan, Scope, Swap, Sweep, Swept, Tenant, Time, Wake,
};
use hapax::store::PgLedger;
use hapax::store::postgres::PgOptions;
use hapax::{Claimed, Engine, Settled};
use tokio::sync::{Notify, mpsc};
use tokio_postgres::{Client, NoTls};

/// Far beyond what a loaded machine needs, and far below the poll that must not be needed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A ledger that tells when somebody has looked at a record.
struct Watched {
    inner: PgLedger,
    looked: Notify,
}

impl Ledger for Watched {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>> {
        self.inner.swap(moves)
    }

    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
        Box::pin(async move {
            let found = self.inner.find(tenant, id).await;
            self.looked.notify_one();
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

    fn subscribe(&self, wake: Wake) {
        self.inner.subscribe(wake);
    }
}

/// A database of this test's own: who made it, its name and its URL.
pub(crate) async fn database() -> (Client, String, String) {
    let server = std::env::var("HAPAX_TEST_POSTGRES").expect(
        "HAPAX_TEST_POSTGRES is not set: run these tests through ./test or dev/with-postgres",
    );
    let admin = connect(&server).await;
    let name = format!("hapax_{}", uuid::Uuid::new_v4().simple());
    let create = format!("CREATE DATABASE {name} TEMPLATE template0");
    admin.batch_execute(&create).await.unwrap();
    let config: tokio_postgres::Config = server.parse().unwrap();
    let (user, port) = (config.get_user().unwrap(), config.get_ports()[0]);
    let url = format!("postgres://{user}@127.0.0.1:{port}/{name}");
    (admin, name, url)
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn node(url: &str) -> (Engine, Arc<Watched>) {
    let inner = PgLedger::open(url, PgOptions::default()).await.unwrap();
    let looked = Notify::new();
    let ledger = Arc::new(Watched { inner, looked });
    (Engine::new(ledger.clone()), ledger)
}

fn claim(key: &str) -> Claim {
    let scope = Scope::new(Tenant::DEFAULT, "POST:test").unwrap();
    let key = Key::new(key).unwrap();
    Claim::new(scope, key, Fingerprint::of(b"asked"), Engine::owner()).with_policy(Policy {
        lease: Duration::from_secs(3600),
        ttl: Duration::from_secs(7200),
        wait: 10 * PATIENCE,
        ..Policy::default()
    })
}

async fn granted(engine: &Engine, key: &str) -> Lease {
    match engine.claim(claim(key)).await.unwrap() {
        Claimed::Granted(lease, _) => lease,
        other => panic!("it is fresh, got {other:?}"),
    }
}

/// Returns once what ends on `there` is heard on `here`.
async fn connected(here: &Watched, there: &Engine) {
    let (told, mut heard) = mpsc::unbounded_channel();
    here.subscribe(Arc::new(move |id| {
        let _ = told.send(id);
    }));
    let ends = async {
        for n in 0.. {
            let lease = granted(there, &format!("probe{n}")).await;
            assert!(there.release(lease).await.unwrap());
            let soon = Duration::from_millis(100);
            if tokio::time::timeout(soon, heard.recv()).await.is_ok() {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, ends).await;
    in_time.expect("the nodes hear each other");
}

/// Waits on `waiter` for a key that `runner` holds, lets `between` happen, settles, and expects the replay in time.
async fn waits_and_is_answered(
    waiter: Engine,
    ledger: &Watched,
    runner: &Engine,
    between: impl AsyncFnOnce(),
) {
    let lease = granted(runner, "k").await;
    let waiting = tokio::spawn(async move { waiter.claim(claim("k")).await });
    // From its first look on the waiter only waits.
    ledger.looked.notified().await;
    between().await;
    let settled = runner.settle(lease, Outcome::text(200, "there")).await;
    assert!(matches!(settled.unwrap(), Settled::Recorded(_)));
    let answer = tokio::time::timeout(PATIENCE, waiting).await;
    let answer = answer.expect("it does not sit out its poll").unwrap();
    assert!(matches!(answer.unwrap(), Claimed::Replay(_)));
}

#[tokio::test]
async fn a_waiter_is_woken_by_a_settle_on_another_node() {
    let (_admin, _name, url) = database().await;
    let (runner, _) = node(&url).await;
    let (waiter, ledger) = node(&url).await;
    connected(&ledger, &runner).await;
    let waiter = waiter.with_poll(10 * PATIENCE);
    waits_and_is_answered(waiter, &ledger, &runner, async || {}).await;
}

#[tokio::test]
async fn a_waiter_whose_wake_ups_are_cut_off_finds_out_by_its_poll() {
    let (admin, name, url) = database().await;
    let (runner, _) = node(&url).await;
    let (waiter, ledger) = node(&url).await;
    connected(&ledger, &runner).await;
    let cut = async || {
        // For good: nobody is let in again, so no listener comes back.
        let close = format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false");
        admin.batch_execute(&close).await.unwrap();
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = $1 AND query LIKE '%LISTEN%'";
        let cut: i64 = admin.query_one(cut, &[&name]).await.unwrap().get(0);
        assert_eq!(cut, 2, "each node listened");
    };
    waits_and_is_answered(waiter, &ledger, &runner, cut).await;
}
