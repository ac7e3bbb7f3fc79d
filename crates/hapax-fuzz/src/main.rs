//! Runs targets on changed inputs for a while: `hapax-fuzz SECONDS [TARGET…] [--seed N] [--findings DIR]`.
//! Inputs that lead to something new are kept and changed further. It ends with 1 if a promise was broken.

use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hapax_check::Dice;
use hapax_fuzz::{TARGETS, Target, corpus, mutate, target};

/// No more inputs than this are kept of one target.
const KEPT_MAX: usize = 20_000;

struct Asked {
    seconds: u64,
    targets: Vec<Target>,
    seed: u64,
    findings: PathBuf,
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!(
                "hapax-fuzz: {why}; usage: hapax-fuzz SECONDS [TARGET…] [--seed N] [--findings DIR]"
            );
            return ExitCode::from(2);
        }
    };
    let each =
        Duration::from_secs(asked.seconds) / u32::try_from(asked.targets.len().max(1)).unwrap_or(1);
    let (mut runs, mut broken) = (0, 0);
    for target in &asked.targets {
        match fuzz(*target, each, &asked) {
            Ok(report) => {
                println!(
                    "{:12} {:>10} runs in {:>5.1} s, {:>5} kinds of behaviour, slowest {:>7.1} ms, {} findings",
                    target.name,
                    report.runs,
                    report.took.as_secs_f64(),
                    report.kinds,
                    report.slowest.as_secs_f64() * 1e3,
                    report.broken
                );
                runs += report.runs;
                broken += report.broken;
            }
            Err(why) => {
                eprintln!("hapax-fuzz: {}: {why}", target.name);
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{runs} runs, seed {}, {broken} findings", asked.seed);
    if broken > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let number = |text: Option<String>| {
        let text = text.ok_or("a number is missing")?;
        text.parse::<u64>()
            .map_err(|_| format!("{text} is not a number"))
    };
    let mut asked = Asked {
        seconds: number(words.next())?,
        targets: Vec::new(),
        seed: 1,
        findings: PathBuf::from("target/fuzz-findings"),
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => asked.seed = number(words.next())?,
            "--findings" => asked.findings = words.next().ok_or("a folder is missing")?.into(),
            name => asked.targets.push(target(name).ok_or_else(|| {
                let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
                format!("{name} is no target; there are {}", names.join(", "))
            })?),
        }
    }
    if asked.targets.is_empty() {
        asked.targets = TARGETS.to_vec();
    }
    Ok(asked)
}

struct Report {
    runs: u64,
    kinds: usize,
    broken: u64,
    slowest: Duration,
    took: Duration,
}

fn fuzz(target: Target, time: Duration, asked: &Asked) -> std::io::Result<Report> {
    let mut dice = Dice::new(asked.seed ^ target.name.bytes().map(u64::from).sum::<u64>() << 32);
    let (mut pool, mut kinds) = (corpus::of(target.name)?, HashSet::new());
    let begun = Instant::now();
    let mut report = Report {
        runs: 0,
        kinds: 0,
        broken: 0,
        slowest: Duration::ZERO,
        took: time,
    };
    // The corpus as it is, then what becomes of it.
    let mut given: Vec<Vec<u8>> = pool.clone();
    while begun.elapsed() < time {
        let input = given.pop().unwrap_or_else(|| {
            let (one, other) = (dice.index(pool.len()), dice.index(pool.len()));
            mutate::mutated(&pool[one], &pool[other], &mut dice)
        });
        let started = Instant::now();
        let ran = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        report.slowest = report.slowest.max(started.elapsed());
        report.runs += 1;
        if let Ok(kind) = ran {
            if kinds.insert(kind) && pool.len() < KEPT_MAX {
                pool.push(input);
            }
        } else {
            report.broken += 1;
            keep(asked, target, report.runs, &input)?;
            if report.broken >= 5 {
                break;
            }
        }
    }
    report.kinds = kinds.len();
    report.took = begun.elapsed();
    Ok(report)
}

/// Writes an input that broke a promise where it can be looked at, and says where.
fn keep(asked: &Asked, target: Target, run: u64, input: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(&asked.findings)?;
    let file = asked
        .findings
        .join(format!("{}-{}-{run}", target.name, asked.seed));
    std::fs::write(&file, input)?;
    println!(
        "{} broke a promise; its input is {}: {}",
        target.name,
        file.display(),
        input.escape_ascii()
    );
    Ok(())
}
