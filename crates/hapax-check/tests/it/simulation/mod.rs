//! Engine, ledger and clock in one thread: clients that claim, settle, give up and die between any two steps, time that
//! jumps both ways, sweeps, take-overs, operators. Every step is checked, and a failure names the seed that repeats it.
//!
//! `dev/simulate STEPS [SEED]` runs as many steps as are asked for.

mod client;
mod episode;
mod paced;

use std::sync::Arc;
use std::time::Instant;

use hapax_core::{Durability, Ledger, Time};
use hapax_store::sqlite::SqliteOptions;
use hapax_store::{Clock, MemoryLedger, SqliteLedger};

use episode::{Plan, Report, STEPS};
use paced::Sabotage;

const START_MS: i64 = 1_760_000_000_000;

/// Which ledger an episode runs on.
enum Ground {
    /// A new one for every episode.
    Memory,
    /// One file for all of them.
    Sqlite(Arc<SqliteLedger>, Clock),
}

/// Adds up what the episodes of a run came to.
#[derive(Default)]
struct Total {
    episodes: u64,
    all: Report,
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.episodes += 1;
        let (all, counts) = (&mut self.all, report.counts);
        all.steps += report.steps;
        all.deaths += report.deaths;
        all.ordered += report.ordered;
        all.unordered += report.unordered;
        all.swept += report.swept;
        all.counts.invoked += counts.invoked;
        all.counts.unknown += counts.unknown;
        all.counts.effects += counts.effects;
        all.counts.takeovers += counts.takeovers;
        all.counts.in_doubt += counts.in_doubt;
        all.counts.recorded += counts.recorded;
        all.counts.replayed += counts.replayed;
        all.counts.refused += counts.refused;
    }

    fn print(&self, on: &str, since: Instant) {
        let (all, counts) = (&self.all, self.all.counts);
        println!(
            "{} steps on {on} in {} episodes, {:.1} s: {} acts, {} deaths, {} answers unknown, {} effects, \
             {} recorded, {} replayed, {} taken over, {} in doubt, {} stale or empty writes refused, {} rows swept; \
             one order found for {} keys, {} too long to search; 0 violations",
            all.steps,
            self.episodes,
            since.elapsed().as_secs_f64(),
            counts.invoked,
            all.deaths,
            counts.unknown,
            counts.effects,
            counts.recorded,
            counts.replayed,
            counts.takeovers,
            counts.in_doubt,
            counts.refused,
            all.swept,
            all.ordered,
            all.unordered
        );
    }
}

fn plan(seed: u64, sabotage: Sabotage) -> Plan {
    Plan {
        seed,
        expires: !seed.is_multiple_of(3),
        goes_back: seed % 3 == 1,
        sabotage,
    }
}

/// Runs the episode of a seed.
fn episode(ground: &Ground, plan: Plan) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let (ledger, clock): (Arc<dyn Ledger>, Clock) = match ground {
        Ground::Memory => {
            let clock = Clock::standing(Time::from_ms(START_MS));
            (Arc::new(MemoryLedger::with_clock(clock.clone())), clock)
        }
        Ground::Sqlite(ledger, clock) => (Arc::clone(ledger) as Arc<dyn Ledger>, clock.clone()),
    };
    runtime.block_on(episode::run(plan, ledger, clock))
}

fn simulate(ground: &Ground, first_seed: u64, steps: u64) -> Total {
    let mut total = Total::default();
    for seed in first_seed..first_seed + steps.div_ceil(STEPS) {
        let report = episode(ground, plan(seed, Sabotage::None));
        assert!(
            report.violations.is_empty(),
            "seed {seed} after {} steps (again: dev/simulate 1 {seed}): {}",
            report.steps,
            report.violations.join("\n")
        );
        total.add(&report);
    }
    total
}

fn sqlite(folder: &tempfile::TempDir) -> Ground {
    let clock = Clock::standing(Time::from_ms(START_MS));
    let options = SqliteOptions {
        durability: Durability::Relaxed,
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    let path = folder.path().join("simulated.db");
    Ground::Sqlite(Arc::new(SqliteLedger::open(&path, options).unwrap()), clock)
}

#[test]
fn a_hundred_thousand_steps_break_no_promise() {
    let begun = Instant::now();
    let total = simulate(&Ground::Memory, 1, 100_000);
    total.print("memory", begun);
    let (all, counts) = (&total.all, total.all.counts);
    // A world in which nothing goes wrong would prove nothing.
    for (what, count) in [
        ("deaths", all.deaths),
        ("take-overs", counts.takeovers),
        ("doubts", counts.in_doubt),
        ("replays", counts.replayed),
        ("refusals", counts.refused),
        ("unknown answers", counts.unknown),
        ("swept rows", all.swept),
        ("keys put into order", all.ordered),
    ] {
        assert!(count > 100, "only {count} {what}");
    }
}

#[test]
fn the_same_holds_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    simulate(&sqlite(&folder), 1, 10_000).print("SQLite", begun);
}

#[test]
fn one_seed_gives_one_history() {
    let [first, second] = [(); 2].map(|()| episode(&Ground::Memory, plan(7, Sabotage::None)));
    assert_eq!(first.counts, second.counts);
    let other = episode(&Ground::Memory, plan(8, Sabotage::None));
    assert_ne!(first.counts, other.counts);
}

#[test]
fn a_clock_that_is_set_back_revives_no_outcome_that_was_swept() {
    // In this episode one node had the outcome in its cache while another ran the key anew.
    let report = episode(&Ground::Memory, plan(247, Sabotage::None));
    assert_eq!(report.violations, Vec::<String>::new());
}

/// The first violation that a broken ledger leads to.
fn caught(sabotage: Sabotage) -> String {
    for seed in 1..2000 {
        let report = episode(&Ground::Memory, plan(seed, sabotage));
        if let Some(violation) = report.violations.first() {
            println!("{sabotage:?} is caught by seed {seed}: {violation}");
            return violation.clone();
        }
    }
    panic!("{sabotage:?} is not noticed");
}

#[test]
fn a_ledger_that_forgets_the_fence_is_caught() {
    caught(Sabotage::NoFence);
}

#[test]
fn a_ledger_that_answers_before_it_writes_is_caught() {
    caught(Sabotage::AnswersFirst);
}

#[test]
fn a_ledger_that_forgets_the_tenant_is_caught() {
    let violation = caught(Sabotage::OneTenant);
    assert!(!violation.is_empty());
}

#[test]
fn a_ledger_that_hides_what_was_taken_back_is_caught() {
    caught(Sabotage::NoPurges);
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is not a number: {text}")),
        Err(_) => default,
    }
}

#[test]
#[ignore = "as long as it is told to be: dev/simulate STEPS [SEED]"]
fn soak_simulate() {
    let (steps, seed) = (
        number("HAPAX_SIMULATE_STEPS", 1_000_000),
        number("HAPAX_SIMULATE_SEED", 1),
    );
    let begun = Instant::now();
    simulate(&Ground::Memory, seed, steps).print("memory", begun);
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    simulate(&sqlite(&folder), seed, steps / 100).print("SQLite", begun);
}
