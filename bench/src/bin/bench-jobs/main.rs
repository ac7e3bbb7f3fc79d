//! The suite `jobs`: bulk planning and draining, on PostgreSQL and on SQLite, beside what people use today.
//!
//! What one drained job is:
//! - hapax: a lease with a raised fence, two fenced steps along the graph to the end, and the row stays.
//! - graphile-worker: locked in a batch, deleted when done. No fence, no history.
//! - River's statements: locked in a batch, set to completed in a batch, the row stays. No fence.
//! - apalis: locked, then acknowledged; the row stays. No fence. Its defaults do not sync.
//!
//! Handlers are empty. Every subject has the same number of workers, and each round gives every subject a new, empty
//! database. The PostgreSQL server is the one that runs the tests: it does not wait for the disk, for anybody.

mod copy;
mod database;

mod own;
mod program;
mod river;
mod tally;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use database::Server;
use hapax::core::Tenant;
use hapax_bench::report::{Report, Want};
use own::Store;
use program::Program;
use tally::{Cost, Costs};

/// Measures jobs beside their peers.
#[derive(Parser)]
struct Flags {
    /// Few jobs and no peer that must be installed: do the programs work?
    #[arg(long)]
    check: bool,
    /// Full sizes, but without the peers that must be installed.
    #[arg(long)]
    without_peers: bool,
    /// Full sizes, but without apalis, which takes long to build.
    #[arg(long)]
    without_apalis: bool,
    /// Where the results are written.
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
    /// The server's program; this suite uses the crates behind it.
    #[arg(long)]
    hapax: Option<PathBuf>,
}

/// How many jobs run at a time.
const WORKERS: usize = 100;
const ROUNDS: usize = 3;

const BATCH: &str = "hapax, batches of 500";
const WORKER: &str = "hapax worker";
const RIVER: &str = "River's statements";
const GRAPHILE: &str = "graphile-worker";
const APALIS: &str = "apalis, defaults";
const APALIS_FULL: &str = "apalis, FULL";
const COPY: &str = "raw COPY";
const PG_ENQUEUE: &str = "PostgreSQL, enqueue unique";
const PG_DRAIN: &str = "PostgreSQL, drain";
const SQLITE_ENQUEUE: &str = "SQLite FULL, enqueue unique";
const SQLITE_DRAIN: &str = "SQLite FULL, drain";

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let mut report = Report::begin("jobs", flags.check);
    let sizes = if flags.check {
        Sizes {
            postgres: 200,
            sqlite: 200,
            rounds: 1,
        }
    } else {
        Sizes {
            postgres: 10_000,
            sqlite: 3_000,
            rounds: ROUNDS,
        }
    };
    let peers = if flags.check || flags.without_peers {
        None
    } else {
        Some(Peers::install(!flags.without_apalis)?)
    };
    let server = Server::find().await?;
    let mut costs = Costs::default();
    for round in 0..sizes.rounds {
        eprintln!("round {} of {}", round + 1, sizes.rounds);
        postgres(&server, sizes.postgres, peers.as_ref(), &mut costs).await?;
        sqlite(sizes.sqlite, peers.as_ref(), &mut costs).await?;
    }
    costs.report(&mut report);
    let has_apalis = peers.as_ref().is_some_and(|peers| peers.apalis.is_some());
    compare(&mut report, peers.is_some(), has_apalis)?;
    report.finish(&flags.results)
}

#[derive(Clone, Copy)]
struct Sizes {
    postgres: usize,
    sqlite: usize,
    rounds: usize,
}

/// The programs of others, ready to be started.
struct Peers {
    graphile: PathBuf,
    apalis: Option<PathBuf>,
}

impl Peers {
    fn install(with_apalis: bool) -> Result<Self> {
        let build = || program::build_rust("apalis", "peer-apalis");
        Ok(Self {
            graphile: program::install_node("graphile")?,
            apalis: with_apalis.then(build).transpose()?,
        })
    }
}

/// One turn of everybody on PostgreSQL.
async fn postgres(
    server: &Server,
    count: usize,
    peers: Option<&Peers>,
    costs: &mut Costs,
) -> Result<()> {
    let database = server.create().await?;
    let store = Store::postgres(server, &database).await?;
    let enqueue = Cost::of(count, Some(server), || store.plan(Tenant::DEFAULT, count)).await?;
    costs.add(BATCH, PG_ENQUEUE, enqueue);
    let drain = Cost::of(count, Some(server), || store.drain_in_batches(count)).await?;
    costs.add(BATCH, PG_DRAIN, drain);
    store.plan(own::other_tenant(), count).await?;
    let drain = Cost::of(count, Some(server), || {
        store.drain_by_worker(count, WORKERS)
    })
    .await?;
    costs.add(WORKER, PG_DRAIN, drain);
    let copied = copy::Rows::make(count)?;
    let client = server.connect(&database).await?;
    let copy = Cost::of(count, Some(server), || copied.copy(&client)).await?;
    costs.add(COPY, PG_ENQUEUE, copy);
    drop(client);
    store.close().await?;
    server.drop(&database).await?;

    let database = server.create().await?;
    let river = river::River::install(server, &database).await?;
    let enqueue = Cost::of(count, Some(server), || river.insert(count)).await?;
    costs.add(RIVER, PG_ENQUEUE, enqueue);
    let drain = Cost::of(count, Some(server), || river.drain(count, WORKERS)).await?;
    costs.add(RIVER, PG_DRAIN, drain);
    drop(river);
    server.drop(&database).await?;

    if let Some(peers) = peers {
        let database = server.create().await?;
        let url = server.url(&database)?;
        let mut program = Program::start(
            "node",
            &[path(&peers.graphile)?, &url, &WORKERS.to_string()],
        )?;
        costs.add(
            GRAPHILE,
            PG_ENQUEUE,
            program.run("enqueue", count, Some(server))?,
        );
        costs.add(
            GRAPHILE,
            PG_DRAIN,
            program.run("drain", count, Some(server))?,
        );
        drop(program);
        server.drop(&database).await?;
    }
    Ok(())
}

/// One turn of everybody on SQLite.
async fn sqlite(count: usize, peers: Option<&Peers>, costs: &mut Costs) -> Result<()> {
    let folder = tempfile::tempdir().context("making a folder for the database files")?;
    let store = Store::sqlite(&folder.path().join("hapax.db"))?;
    let enqueue = Cost::of(count, None, || store.plan(Tenant::DEFAULT, count)).await?;
    costs.add(BATCH, SQLITE_ENQUEUE, enqueue);
    let drain = Cost::of(count, None, || store.drain_in_batches(count)).await?;
    costs.add(BATCH, SQLITE_DRAIN, drain);
    store.plan(own::other_tenant(), count).await?;
    let drain = Cost::of(count, None, || store.drain_by_worker(count, WORKERS)).await?;
    costs.add(WORKER, SQLITE_DRAIN, drain);
    store.close().await?;
    if let Some(apalis) = peers.and_then(|peers| peers.apalis.as_ref()) {
        for (subject, mode) in [(APALIS, "defaults"), (APALIS_FULL, "full")] {
            let file = folder.path().join(format!("{mode}.db"));
            let arguments = [path(&file)?, &WORKERS.to_string(), mode];
            let mut program = Program::start(path(apalis)?, &arguments)?;
            costs.add(
                subject,
                SQLITE_ENQUEUE,
                program.run("enqueue", count, None)?,
            );
            costs.add(subject, SQLITE_DRAIN, program.run("drain", count, None)?);
        }
    }
    Ok(())
}

fn compare(report: &mut Report, with_peers: bool, with_apalis: bool) -> Result<()> {
    let mut peers = vec![RIVER];
    if with_peers {
        peers.push(GRAPHILE);
    }
    for subject in [BATCH, WORKER] {
        let ours = figures(report, subject, PG_DRAIN)?;
        let rates = peers
            .iter()
            .map(|peer| Ok(figures(report, peer, PG_DRAIN)?.rate));
        let fastest = rates
            .collect::<Result<Vec<f64>>>()?
            .into_iter()
            .fold(0.0, f64::max);
        let costs = peers
            .iter()
            .map(|peer| Ok(figures(report, peer, PG_DRAIN)?.cpu_us));
        let cheapest = costs
            .collect::<Result<Vec<f64>>>()?
            .into_iter()
            .fold(f64::MAX, f64::min);
        let want = Want::AtLeast(1.3);
        report.ratio(
            format!("PostgreSQL drain, {subject}: rate over the fastest peer's"),
            ours.rate / fastest,
            want,
        );
        report.ratio(
            format!("PostgreSQL drain, CPU of the cheapest peer over {subject}'s"),
            cheapest / ours.cpu_us,
            want,
        );
    }
    if with_apalis {
        for subject in [BATCH, WORKER] {
            for peer in [APALIS, APALIS_FULL] {
                let (ours, theirs) = (
                    figures(report, subject, SQLITE_DRAIN)?,
                    figures(report, peer, SQLITE_DRAIN)?,
                );
                let name = format!("SQLite FULL drain, {subject}: rate over {peer}");
                report.ratio(name, ours.rate / theirs.rate, Want::AtLeast(20.0));
            }
        }
    }
    let (ours, copy) = (
        figures(report, BATCH, PG_ENQUEUE)?,
        figures(report, COPY, PG_ENQUEUE)?,
    );
    let want = Want::AtLeast(0.5);
    report.ratio(
        "PostgreSQL enqueue of unique jobs: rate over raw COPY",
        ours.rate / copy.rate,
        want,
    );
    report.ratio(
        "PostgreSQL enqueue of unique jobs: CPU of raw COPY over ours",
        copy.cpu_us / ours.cpu_us,
        want,
    );
    Ok(())
}

struct Figures {
    rate: f64,
    /// Program and database together.
    cpu_us: f64,
}

fn figures(report: &Report, subject: &str, case: &str) -> Result<Figures> {
    let row = report.find(subject, case)?;
    Ok(Figures {
        rate: row.rate,
        cpu_us: row.cpu_us.unwrap_or_default() + row.database_cpu_us.unwrap_or_default(),
    })
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not text")
}
