//! Importing a mailbox beside Python's standard library, which only parses it: `hapax import mbox` as users run it,
//! inserts and search index included, into `SQLite` (synchronous FULL) and into `PostgreSQL`.
//!
//! `HAPAX_BENCH_CORPUS` may name a folder with real mailboxes (`*.mbox`); they are measured as well.

mod body;
mod database;
mod mailbox;
mod subject;
mod words;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hapax_bench::command::{Taken, median};
use hapax_bench::report::{Report, Row, Want};
use tempfile::TempDir;

use database::Database;
use subject::{Imported, PEER, Target, import, parse};

/// How often each subject is measured, in turn with the others.
const ROUNDS: usize = 3;
const MB: u64 = 1_000_000;

/// Measures the import of mailboxes.
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
    /// Where mailboxes and databases are while they are measured; on a real disk.
    #[arg(long, default_value = "target/bench/work")]
    work: PathBuf,
    /// Sizes of the mailboxes in MB; of the last only the memory is looked at.
    #[arg(long, value_delimiter = ',', default_value = "20,200,1000")]
    sizes: Vec<u64>,
}

/// A mailbox to be measured.
struct Case {
    name: String,
    path: PathBuf,
    /// Whether it is so large that only the memory of one import is looked at.
    is_huge: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.work)?;
    let folder = tempfile::tempdir_in(&args.work).context("making a folder to work in")?;
    let hapax = args.hapax.canonicalize();
    let hapax = hapax.with_context(|| format!("no program {}", args.hapax.display()))?;
    let database = Database::from_environment()?;
    let mut report = Report::begin("mail", args.check);
    let cases = cases(&args, &folder)?;
    for case in &cases {
        measure(&mut report, case, &hapax, database.as_ref(), &folder)?;
    }
    compare(&mut report, &cases, database.is_some())?;
    report.finish(&args.results)
}

/// The mailboxes: three sizes of the same kind, and those of the folder that the user names.
fn cases(args: &Args, folder: &TempDir) -> Result<Vec<Case>> {
    let sizes = if args.check {
        vec![MB / 5, MB]
    } else {
        args.sizes.iter().map(|size| size * MB).collect()
    };
    ensure!(sizes.len() > 1, "--sizes takes two sizes or more");
    let mut cases = Vec::new();
    for (at, bytes) in sizes.iter().enumerate() {
        let name = size(*bytes);
        let path = folder.path().join(format!("{bytes}.mbox"));
        let messages = mailbox::write(&path, *bytes)?;
        eprintln!("{name}: {messages} messages");
        cases.push(Case {
            name,
            path,
            is_huge: at + 1 == sizes.len(),
        });
    }
    if let (Some(corpus), false) = (std::env::var_os("HAPAX_BENCH_CORPUS"), args.check) {
        cases.extend(corpus_cases(Path::new(&corpus))?);
    }
    Ok(cases)
}

fn size(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{} GB", bytes / (1_000 * MB)),
        MB.. => format!("{} MB", bytes / MB),
        _ => format!("{} kB", bytes / 1_000),
    }
}

fn corpus_cases(corpus: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let listed = std::fs::read_dir(corpus).context("reading the folder of HAPAX_BENCH_CORPUS")?;
    for entry in listed {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "mbox") {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let name = format!("real: {stem}");
            cases.push(Case {
                name,
                path,
                is_huge: false,
            });
        }
    }
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(cases)
}

/// Measures every subject on one mailbox, in turn.
fn measure(
    report: &mut Report,
    case: &Case,
    hapax: &Path,
    database: Option<&Database>,
    folder: &TempDir,
) -> Result<()> {
    if case.is_huge {
        let imported = import(hapax, &case.path, &Target::Sqlite(folder.path()))?;
        row(
            report,
            "sqlite",
            case,
            vec![imported.taken],
            imported.messages,
        )?;
        return Ok(());
    }
    let (mut python, mut sqlite, mut postgres) = (Vec::new(), Vec::new(), Vec::new());
    let (mut messages, mut parsed) = (0, 0);
    for _ in 0..ROUNDS {
        let (taken, count) = parse(&case.path)?;
        parsed = count;
        python.push(taken);
        let Imported {
            taken,
            messages: count,
        } = import(hapax, &case.path, &Target::Sqlite(folder.path()))?;
        messages = count;
        sqlite.push(taken);
        if let Some(database) = database {
            postgres.push(import(hapax, &case.path, &Target::Postgres(database))?.taken);
        }
    }
    // Python takes every line that begins with `From ` for a message; we do not. On what the bench writes they agree.
    ensure!(
        parsed == messages || case.name.starts_with("real"),
        "Python found {parsed} messages in {}, and we {messages}",
        case.name
    );
    row(report, PEER, case, python, parsed)?;
    row(report, "sqlite", case, sqlite, messages)?;
    if !postgres.is_empty() {
        row(report, "postgres", case, postgres, messages)?;
    }
    Ok(())
}

fn row(
    report: &mut Report,
    subject: &str,
    case: &Case,
    runs: Vec<Taken>,
    messages: u64,
) -> Result<()> {
    let taken = median(runs)?;
    report.row(Row {
        subject: subject.to_owned(),
        case: case.name.clone(),
        rate: taken.rate(messages),
        unit: "messages".to_owned(),
        cpu_us: Some(taken.cpu_us(messages)),
        database_cpu_us: taken.database_cpu_us(messages),
        peak_bytes: Some(taken.peak_bytes),
        ..Row::default()
    });
    Ok(())
}

fn compare(report: &mut Report, cases: &[Case], has_postgres: bool) -> Result<()> {
    for case in cases.iter().filter(|case| !case.is_huge) {
        let python = report.find(PEER, &case.name)?.rate;
        let subjects: &[&str] = if has_postgres {
            &["sqlite", "postgres"]
        } else {
            &["sqlite"]
        };
        for subject in subjects {
            let value = report.find(subject, &case.name)?.rate / python;
            let name = format!(
                "messages/s, {subject} / Python's parse alone, {}",
                case.name
            );
            report.ratio(name, value, Want::AtLeast(10.0));
        }
    }
    let memory = |report: &Report, case: &Case| -> Result<f64> {
        let bytes = report.find("sqlite", &case.name)?.peak_bytes;
        Ok(f64::from(u32::try_from(bytes.unwrap_or_default() / 1_024)?))
    };
    let huge = cases.iter().find(|case| case.is_huge);
    let (first, huge) = cases.first().zip(huge).context("there are no cases")?;
    let value = memory(report, huge)? / memory(report, first)?;
    let name = format!("peak memory, {} / {}", huge.name, first.name);
    report.ratio(name, value, Want::AtMost(1.3));
    Ok(())
}
