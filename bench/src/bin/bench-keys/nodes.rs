//! Rate by nodes: the same load on one, two and more nodes that share one PostgreSQL.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use hapax_bench::report::{Report, Row, Want};

use crate::Cli;
use crate::database::Postgres;
use crate::load::{Keys, Names};
use crate::measure::{self, Case, Subject};
use crate::process::Server;
use crate::subjects;
use crate::talk::Talk;

/// What a node is: a service with the layer in it, or `hapax serve` for callers of any language.
const FRONTS: [&str; 2] = ["layer", "remote API"];

#[derive(Args, Debug)]
pub(crate) struct Nodes {
    /// How many nodes, fewest first.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3, 4])]
    nodes: Vec<usize>,
    /// How many connections each node has.
    #[arg(long, default_value_t = 64)]
    connections_each: usize,
}

impl Nodes {
    /// Starts all of them, each number of nodes on a database of its own, and measures them in turn.
    ///
    /// # Errors
    /// When a node does not start or answers wrongly.
    pub(crate) async fn run(&self, cli: &Cli) -> Result<()> {
        let (counts, each, rounds, time) = if cli.check {
            (vec![1, 2], 4, 1, Duration::from_millis(50))
        } else {
            let time = Duration::from_secs_f64(cli.seconds);
            (self.nodes.clone(), self.connections_each, cli.rounds, time)
        };
        ensure!(
            !counts.is_empty() && !counts.contains(&0),
            "name at least one number of nodes, and none of them 0"
        );
        let postgres = Postgres::of_environment().await?;
        let folder = tempfile::tempdir()?;
        let mut all = Vec::new();
        for front in FRONTS {
            for &count in &counts {
                let subject = start(cli, &postgres, folder.path(), (front, count)).await?;
                all.push((count, subject));
            }
        }
        let mut report = Report::begin("nodes", cli.check);
        let names = Rc::new(Names::new());
        let case = |count: usize| Case {
            keys: Keys::Fresh,
            connections: each * count,
            rounds,
            time,
        };
        let subjects: Vec<&Subject> = all.iter().map(|(_, subject)| subject).collect();
        measure::case(&mut report, &subjects, &names, |at| case(all[at].0)).await?;
        for (front, rows) in FRONTS.iter().zip(report.rows.clone().chunks(counts.len())) {
            compare(&mut report, front, rows)?;
        }
        report.finish(&cli.results)
    }
}

/// The nodes, and the name they are measured under.
async fn start(
    cli: &Cli,
    postgres: &Postgres,
    folder: &Path,
    (front, count): (&str, usize),
) -> Result<Subject> {
    let database = postgres.create().await?;
    let mut servers = Vec::new();
    for number in 0..count {
        let mut command: Command = if front == "layer" {
            subjects::own("postgres")?
        } else {
            let data = folder.join(format!("{front}-{count}-{number}"));
            subjects::hapax(cli, false, "", &data)
        };
        command.arg("--database").arg(&database);
        let started = Server::start(&mut command);
        servers.push(started.with_context(|| format!("node {number} of {count}, {front}"))?);
    }
    let plural = if count == 1 { "" } else { "s" };
    let talk = if front == "layer" {
        Talk::Keyed
    } else {
        Talk::Remote
    };
    Ok(Subject {
        // One name per number, kept for the whole run.
        name: Box::leak(format!("{count} node{plural}, {front}").into_boxed_str()),
        servers,
        talk,
        database: Some(postgres.tree),
    })
}

/// What many nodes do beside what the fewest do.
fn compare(report: &mut Report, front: &str, rows: &[Row]) -> Result<()> {
    let (least, most) = rows
        .first()
        .zip(rows.last())
        .context("nothing was measured")?;
    let cost = |row: &Row| Some(row.cpu_us? + row.database_cpu_us?);
    let (few, many) = (&least.subject, &most.subject);
    report.ratio(
        format!("rate of fresh keys, {many} / {few}"),
        most.rate / least.rate,
        Want::AtLeast(1.0),
    );
    // In a check a subject may have used no whole tick of CPU.
    if let Some(ratio) = cost(most)
        .zip(cost(least))
        .map(|(most, least)| most / least)
        && ratio.is_finite()
    {
        let words =
            format!("CPU of a fresh key, nodes and PostgreSQL, {front}: most nodes / fewest");
        report.ratio(words, ratio, Want::AtMost(1.3));
    }
    Ok(())
}
