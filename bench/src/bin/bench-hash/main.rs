//! The suite `hash`: from the bytes of a JSON document to its SHA-256, beside what people use today.
//!
//! Every subject gets the same bytes and must parse, order, write and hash. A subject whose digest is not the one
//! that its profile promises ends the run: a fast wrong answer is no figure.

mod documents;
mod subjects;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use documents::{Content, Document, Order};
use hapax_bench::report::{Report, Row, Want};
use hapax_core::canonical;
use subjects::{Subject, Timing};

/// Measures the canonical hash beside its peers.
#[derive(Parser)]
struct Flags {
    /// Small documents and short rounds: do the programs work?
    #[arg(long)]
    check: bool,
    /// Where the results are written.
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
    /// The server's program; this suite does not need it.
    #[arg(long)]
    hapax: Option<PathBuf>,
}

/// How often each subject has its turn with each document; the median counts.
const ROUNDS: usize = 5;
const SIZES: [(&str, usize); 4] = [
    ("200 B", 200),
    ("10 KB", 10_000),
    ("100 KB", 100_000),
    ("5 MB", 5_000_000),
];
/// The sizes at which a ratio is wanted.
const JUDGED: [&str; 2] = ["100 KB", "5 MB"];

fn main() -> Result<()> {
    let flags = Flags::parse();
    let mut report = Report::begin("hash", flags.check);
    let (sizes, judged, turn) = if flags.check {
        (&SIZES[..2], &["10 KB"][..], Duration::from_millis(1))
    } else {
        (&SIZES[..], &JUDGED[..], Duration::from_millis(250))
    };
    let folder = tempfile::tempdir().context("making a folder for the documents")?;
    let mut subjects = Subject::all(flags.check)?;
    for (size, bytes) in sizes {
        for content in [Content::Numbers, Content::Text] {
            for order in [Order::Sorted, Order::Shuffled] {
                let document = Document::make(folder.path(), *bytes, content, order)?;
                let case = case(size, content, order);
                measure(&mut report, &mut subjects, &document, &case, turn)?;
            }
        }
    }
    for size in judged {
        compare(&mut report, size)?;
    }
    report.finish(&flags.results)
}

fn case(size: &str, content: Content, order: Order) -> String {
    format!("{size}, {}, {}", content.name(), order.name())
}

/// Gives every subject its turns, one after the other in each round, and reports the medians.
fn measure(
    report: &mut Report,
    subjects: &mut [Subject],
    document: &Document,
    case: &str,
    turn: Duration,
) -> Result<()> {
    let mut timings: Vec<Vec<Timing>> = vec![Vec::new(); subjects.len()];
    for _ in 0..ROUNDS {
        for (subject, timings) in subjects.iter_mut().zip(&mut timings) {
            let timing = subject.run(document, turn)?;
            let wanted = canonical::hash(&document.bytes, subject.profile())?;
            anyhow::ensure!(
                timing.digest == wanted,
                "{} found {} for {case}, but its profile gives {wanted}",
                subject.name(),
                timing.digest
            );
            timings.push(timing);
        }
    }
    for (subject, timings) in subjects.iter().zip(timings) {
        let megabytes = f64::from(u32::try_from(document.bytes.len())?) / 1e6;
        report.row(Row {
            subject: subject.name().to_owned(),
            case: case.to_owned(),
            rate: megabytes / median(timings.iter().map(|timing| timing.wall_s)),
            unit: "MB".to_owned(),
            cpu_us: Some(median(timings.iter().map(|timing| timing.cpu_s)) * 1e6),
            peak_bytes: subject.peak_memory()?,
            ..Row::default()
        });
    }
    Ok(())
}

/// CPU is compared, not the rate: all subjects work on one document at a time, and the machine is shared.
fn compare(report: &mut Report, size: &str) -> Result<()> {
    let peers = [
        (subjects::SERDE, Want::AtLeast(5.0)),
        (subjects::PYTHON, Want::AtLeast(8.0)),
    ];
    for (peer, want) in peers {
        for content in [Content::Numbers, Content::Text] {
            for order in [Order::Sorted, Order::Shuffled] {
                let case = case(size, content, order);
                let cpu = |subject: &str| -> Result<f64> {
                    let row = report.find(subject, &case)?;
                    row.cpu_us.context("a row without CPU")
                };
                if report.check && report.find(peer, &case).is_err() {
                    continue;
                }
                let value = cpu(peer)? / cpu(subjects::HAPAX)?;
                report.ratio(format!("CPU of {peer} over hapax's, {case}"), value, want);
            }
        }
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
