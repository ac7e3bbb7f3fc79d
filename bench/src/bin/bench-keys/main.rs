//! `bench-keys`: what a request costs under a key, beside the same handler without one and beside peers.

mod call;
mod database;
mod load;
mod measure;
mod nodes;
mod peers;
mod plain;
mod process;
mod serve;
mod sizes;
mod subjects;
mod talk;
mod wire;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use hapax_bench::report::{Report, Want};

use load::{Keys, Names};
use measure::{Case, Subject};

/// As in the program. The bare handler has it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a request costs under a key, beside the same handler without one.
#[derive(Parser, Debug)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Small sizes: do the programs work?
    #[arg(long)]
    check: bool,
    /// Where the results go.
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
    /// The server's program.
    #[arg(long, default_value = "target/release/hapax")]
    hapax: PathBuf,
    /// Measure only subjects with this in their name, beside the bare handler; may be given again.
    #[arg(long)]
    only: Vec<String>,
    /// Another build of this program, whose layers are measured in turn with this one's; may be given again.
    #[arg(long, value_name = "PROGRAM")]
    beside: Vec<PathBuf>,
    /// How many connections, instead of 1, 16, 64 and 256.
    #[arg(long, value_delimiter = ',')]
    connections: Vec<usize>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// How often each is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Be one of the servers that are measured.
    Serve(serve::Serve),
    /// Call the layer in this process, without sockets, for whoever looks at it with a profiler.
    Call(call::Call),
    /// Measure what a key costs when few and when many are stored already.
    Sizes(sizes::Sizes),
    /// Measure how many requests one, two and more nodes on one PostgreSQL answer.
    Nodes(nodes::Nodes),
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    // One thread: the load must leave the cores to what it measures.
    let load = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    match &cli.command {
        Some(Command::Serve(serve)) => tokio::runtime::Runtime::new()?.block_on(serve.run()),
        Some(Command::Call(call)) => load()?.block_on(call.run()),
        Some(Command::Sizes(sizes)) => load()?.block_on(sizes.run(cli.check, &cli.results)),
        Some(Command::Nodes(nodes)) => load()?.block_on(nodes.run(&cli)),
        None => load()?.block_on(measure_all(&cli)),
    }
}

async fn measure_all(cli: &Cli) -> Result<()> {
    let mut report = Report::begin("keys", cli.check);
    let names = Rc::new(Names::new());
    let (all, time, rounds) = if cli.check {
        (vec![4], Duration::from_millis(50), 1)
    } else {
        (
            vec![1, 16, 64, 256],
            Duration::from_secs_f64(cli.seconds),
            cli.rounds,
        )
    };
    let all = if cli.connections.is_empty() {
        all
    } else {
        cli.connections.clone()
    };
    for &connections in &all {
        // Each number of connections finds empty stores, so that no figure depends on how many keys the cases before it left.
        let folder = tempfile::tempdir()?;
        let subjects = subjects::start(cli, folder.path()).await?;
        let all_subjects: Vec<&Subject> = subjects.all().collect();
        for keys in [Keys::Fresh, Keys::Replayed] {
            let case = Case {
                keys,
                connections,
                rounds,
                time,
            };
            measure::case(&mut report, &all_subjects, &names, |_| case).await?;
        }
    }
    let judged = if all.contains(&64) { 64 } else { all[0] };
    compare(&mut report, judged);
    report.finish(&cli.results)
}

/// The ratios, of those subjects that were measured.
fn compare(report: &mut Report, connections: usize) {
    let fresh = format!("fresh, {connections} connections");
    let replay = format!("replay, {connections} connections");
    let cpu = |report: &Report, subject: &str, case: &str| {
        report.find(subject, case).ok().and_then(|row| row.cpu_us)
    };
    let all = |report: &Report, subject: &str| {
        let row = report.find(subject, &fresh).ok()?;
        Some(row.cpu_us? + row.database_cpu_us?)
    };
    let quotient = |above: Option<f64>, below: Option<f64>| Some(above? / below?);
    let bare = cpu(report, "bare", &fresh);
    let found = [
        (
            "CPU of a fresh key, layer on SQLite FULL / bare handler",
            quotient(cpu(report, "layer, SQLite FULL", &fresh), bare),
            Want::AtMost(3.5),
        ),
        (
            "CPU of a replay, layer on SQLite FULL / bare handler",
            quotient(
                cpu(report, "layer, SQLite FULL", &replay),
                cpu(report, "bare", &replay),
            ),
            Want::AtMost(1.3),
        ),
        (
            "CPU of a fresh key, server and PostgreSQL: layer / two transactions per request",
            quotient(
                all(report, "layer, PostgreSQL"),
                all(report, "plain, PostgreSQL"),
            ),
            Want::AtMost(0.25),
        ),
        (
            "µs of CPU of a fresh key, proxy on SQLite FULL - layer on SQLite FULL",
            cpu(report, "proxy, SQLite FULL", &fresh)
                .zip(cpu(report, "layer, SQLite FULL", &fresh))
                .map(|(proxy, layer)| proxy - layer),
            Want::AtMost(60.0),
        ),
    ];
    let rate = |subject: &str| report.find(subject, &fresh).ok().map(|row| row.rate);
    let fastest = peers::DURABLE
        .iter()
        .filter_map(|peer| Some((*peer, rate(peer)?)))
        .max_by(|one, other| one.1.total_cmp(&other.1));
    let beside_peer = fastest.zip(rate("layer, SQLite FULL"));
    if let Some(((peer, theirs), ours)) = beside_peer {
        let name = format!("rate of fresh keys, layer on SQLite FULL / {peer}");
        report.ratio(name, ours / theirs, Want::AtLeast(5.0));
    }
    for (name, value, want) in found {
        // In a check a subject may have used no whole tick of CPU.
        if let Some(value) = value.filter(|value| value.is_finite()) {
            report.ratio(name, value, want);
        }
    }
}
