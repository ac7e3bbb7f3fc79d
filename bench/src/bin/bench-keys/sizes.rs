//! Cost by size: the same requests to ledgers that hold few and many keys already.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use hapax::core::{Key, Ledger, Move, Outcome, Record, Scope, Swap, Tenant, Version};
use hapax::layer::{Asked, Route, route_pattern};
use hapax::store::SqliteLedger;
use hapax::store::sqlite::SqliteOptions;
use hapax_bench::report::{Report, Row, Want};

use crate::load::{Keys, Names};
use crate::measure::{self, Case, Subject};
use crate::process::Server;
use crate::talk::{Talk, payment_json};

/// Moves of one transaction while a ledger is filled.
const BATCH: usize = 4_000;
const CONNECTIONS: usize = 64;

#[derive(Args, Debug)]
pub(crate) struct Sizes {
    /// How many keys are stored before, smallest first.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 1_000_000, 10_000_000])]
    keys: Vec<u64>,
}

/// The name of the `n`th stored key.
pub(crate) fn key(n: u64) -> String {
    format!("{:016x}-stored", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What was answered under a stored key.
pub(crate) fn answer(key: &str) -> String {
    format!(
        r#"{{"id":"{key}","status":"succeeded","amount":4200,"currency":"EUR","customer":"cus_8841","description":"two chairs and a table, oak"}}"#
    )
}

impl Sizes {
    /// Fills a ledger for each size, then measures all of them in turn.
    ///
    /// # Errors
    /// When a ledger cannot be filled, or a server answers wrongly.
    pub(crate) async fn run(&self, check: bool, results: &Path) -> Result<()> {
        let keys = if check {
            vec![100, 1_000]
        } else {
            self.keys.clone()
        };
        let (rounds, time) = if check {
            (1, Duration::from_millis(50))
        } else {
            (3, Duration::from_secs(3))
        };
        let folder = tempfile::tempdir()?;
        let mut subjects = Vec::new();
        for &count in &keys {
            let file = folder.path().join(format!("{count}.db"));
            fill(&file, count).await?;
            subjects.push((count, subject(&file, count)?));
        }
        let mut report = Report::begin("sizes", check);
        let names = Rc::new(Names::new());
        let case = |keys| Case {
            keys,
            connections: CONNECTIONS,
            rounds,
            time,
        };
        let all: Vec<&Subject> = subjects.iter().map(|(_, subject)| subject).collect();
        measure::case(&mut report, &all, &names, |_| case(Keys::Fresh)).await?;
        let counts = keys.clone();
        measure::case(&mut report, &all, &names, |at| {
            case(Keys::Stored(counts[at]))
        })
        .await?;
        for (name, case) in [
            ("fresh", case(Keys::Fresh).name()),
            ("replay from the store", case(Keys::Stored(0)).name()),
        ] {
            let row = |at: usize| report.find(all[at].name, &case);
            let (least, most) = (row(0)?, row(all.len() - 1)?);
            let (few, many) = (keys[0], keys[keys.len() - 1]);
            let cpu = |row: &Row| row.cpu_us.context("CPU was not measured");
            let ratio = cpu(most)? / cpu(least)?;
            let words = format!("CPU of a {name} with {many} stored keys / with {few}");
            // In a check a subject may have used no whole tick of CPU.
            if ratio.is_finite() {
                report.ratio(words, ratio, Want::AtMost(1.3));
            }
        }
        report.finish(results)
    }
}

fn subject(file: &Path, count: u64) -> Result<Subject> {
    let mut command = Command::new(std::env::current_exe()?);
    // Without a cache: what is asked is what the store costs.
    command
        .args(["serve", "--front", "sqlite", "--cache-bytes", "0", "--file"])
        .arg(file);
    Ok(Subject {
        // One name per size, kept for the whole run.
        name: Box::leak(format!("layer, SQLite FULL, {count} stored").into_boxed_str()),
        server: Server::start(&mut command)?,
        talk: Talk::Keyed,
        database: None,
    })
}

/// Stores settled keys, in the order of their ids so that it is quick.
async fn fill(file: &Path, count: u64) -> Result<()> {
    let ledger = SqliteLedger::open(file, SqliteOptions::default())?;
    let scope = Scope::new(
        Tenant::DEFAULT,
        route_pattern(&axum::http::Method::POST, "/payments").as_str(),
    )?;
    let mut order: Vec<(u128, u64)> = (0..count)
        .map(|n| {
            let key = Key::new(&key(n))?;
            let id = hapax::core::RecordId::of(&scope, &key);
            Ok((id.as_uuid().as_u128(), n))
        })
        .collect::<Result<_>>()?;
    order.sort_unstable();
    for batch in order.chunks(BATCH) {
        let moves: Vec<Move> = batch
            .iter()
            .map(|(_, n)| Ok(Move::inserting(settled(&ledger, &scope, *n)?)))
            .collect::<Result<_>>()?;
        let swaps = ledger.swap(moves).await?;
        ensure!(
            swaps.iter().all(|swap| *swap == Swap::Written),
            "a stored key was there already"
        );
    }
    ledger.close().await?;
    Ok(())
}

/// The record that a request with the `n`th stored key would have left.
fn settled(ledger: &SqliteLedger, scope: &Scope, n: u64) -> Result<Record> {
    let (name, now) = (key(n), ledger.now());
    let route = Route::default();
    let headers = axum::http::HeaderMap::from_iter([(
        axum::http::header::CONTENT_TYPE,
        axum::http::HeaderValue::from_static("application/json"),
    )]);
    let asked = Asked::new(
        &axum::http::Method::POST,
        &"/payments".parse()?,
        &headers,
        payment_json(&name).into(),
        &route.selection,
    );
    let mut claim = asked.claim(scope.clone(), Key::new(&name)?, None, &route);
    // Long enough for the run.
    claim.policy.ttl = Duration::from_secs(7 * 24 * 3600);
    let mut outcome = Outcome::new(201, answer(&name).into());
    outcome.headers = vec![("content-type".to_owned(), "application/json".into())];
    Ok(Record::granted(&claim, Version::seeded(now), now).settled(outcome, now))
}
