//! Downloads beside curl, wget and aria2c, from a file server of our own on this machine, with the same number of
//! connections. Ours hashes every file, makes it durable before it says so, and records each step; they do none of that. So one of them is also measured
//! with a hash and a sync of each file behind it.

mod client;
mod files;
mod server;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Parser;
use hapax_bench::command::{Taken, median};
use hapax_bench::report::{Report, Row, Want};

use client::{Client, Task};
use files::{Kept, Sizes};
use server::Server;

/// How often each program is measured, in turn with the others.
const ROUNDS: usize = 5;
/// How many connections each has.
const CONNECTIONS: usize = 8;
/// How long a server far away takes to answer.
const FAR_MS: u64 = 20;

/// Measures downloads.
#[derive(Parser)]
struct Args {
    /// Small sizes: only shows that the programs work.
    #[arg(long)]
    check: bool,
    /// Where the results go.
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
    /// The server's program.
    #[arg(long, default_value = "target/release/hapax")]
    hapax: PathBuf,
    /// Where the files go while they are measured; on a real disk.
    #[arg(long, default_value = "target/bench/work")]
    work: PathBuf,
    /// How many files of which sizes to serve. The bench starts itself this way.
    #[arg(long, hide = true, value_delimiter = ',', num_args = 1)]
    serve: Vec<u64>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let [small, large, large_bytes, delay_ms] = args.serve[..] {
        return files::serve(Sizes {
            small,
            large,
            large_bytes,
            delay_ms,
        });
    }
    std::fs::create_dir_all(&args.work)?;
    let hapax = args.hapax.canonicalize();
    let hapax = hapax.with_context(|| format!("no program {}", args.hapax.display()))?;
    let (near, rounds) = if args.check {
        (sizes(12, 1, 1 << 20), 1)
    } else {
        (sizes(1_000, 2, 512 << 20), ROUNDS)
    };
    let far = Sizes {
        delay_ms: FAR_MS,
        ..near
    };
    let mut report = Report::begin("download", args.check);
    for (case, unit, want, sizes, files) in [
        ("small files", "files", 1.0, near, near.small()),
        ("small files from afar", "files", 1.0, far, far.small()),
        ("large files", "MB", 0.9, near, near.large()),
    ] {
        let server = Server::start(sizes)?;
        let case = format!("{} {case}, {CONNECTIONS} connections", files.len());
        let mut runs: Vec<(Client, Vec<Taken>)> = Client::ALL
            .into_iter()
            .filter(|client| client.is_here())
            .map(|client| (client, Vec::new()))
            .collect();
        // Small files are removed when all is measured: a file system walks around what was just deleted when it makes new
        // files, and whoever comes next would pay for that.
        let mut small = Vec::new();
        for _ in 0..rounds {
            for (client, taken) in &mut runs {
                let folder = tempfile::tempdir_in(&args.work)?;
                settle_the_disk()?;
                let task = Task {
                    server: &server,
                    files: &files,
                    connections: CONNECTIONS,
                    hapax: &hapax,
                    folder: folder.path(),
                };
                let fetched = client.fetch(&task);
                taken.push(fetched.with_context(|| format!("{}, {case}", client.name()))?);
                if unit == "files" {
                    small.push(folder);
                }
            }
        }
        let count = operations(unit, &files);
        for (client, taken) in runs {
            let taken = median(taken)?;
            report.row(Row {
                subject: client.name().to_owned(),
                case: case.clone(),
                rate: taken.rate(count),
                unit: unit.to_owned(),
                cpu_us: Some(taken.cpu_us(count)),
                peak_bytes: Some(taken.peak_bytes),
                ..Row::default()
            });
        }
        compare(&mut report, &case, want);
        let server_cpu = server.cpu()?.as_secs_f64();
        eprintln!("the file server used {server_cpu:.1} s of CPU");
    }
    report.finish(&args.results)
}

/// Has everything written that waits for the disk, so that nobody waits for what another left.
fn settle_the_disk() -> Result<()> {
    let ended = Command::new("sync").status().context("running sync")?;
    anyhow::ensure!(ended.success(), "sync failed");
    Ok(())
}

const fn sizes(small: u64, large: u64, large_bytes: u64) -> Sizes {
    Sizes {
        small,
        large,
        large_bytes,
        delay_ms: 0,
    }
}

/// A small file is one operation; of large ones each megabyte is.
fn operations(unit: &str, files: &[Kept]) -> u64 {
    let bytes: u64 = files.iter().map(|kept| kept.bytes).sum();
    if unit == "MB" {
        bytes.div_ceil(1_000_000)
    } else {
        files.len() as u64
    }
}

/// Compares ours with the fastest of the others, and with one that does the same work. What is not here is not compared.
fn compare(report: &mut Report, case: &str, want: f64) {
    let rate = |client: Client| {
        let mut rows = report.rows.iter();
        let found = rows.find(|row| row.case == case && row.subject == client.name());
        found.map(|row| (row.rate, client.name()))
    };
    let peers = [Client::Curl, Client::Wget, Client::Aria2c];
    let fastest = peers
        .into_iter()
        .filter_map(rate)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let same_work = rate(Client::CurlHashedAndSynced);
    let ours = rate(Client::Hapax);
    for (other, want) in [(fastest, want), (same_work, 1.0)] {
        if let (Some((ours, _)), Some((theirs, name))) = (ours, other) {
            let name = format!("rate, hapax / {name}, {case}");
            report.ratio(name, ours / theirs, Want::AtLeast(want));
        }
    }
}
