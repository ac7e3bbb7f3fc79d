//! Cost by size: the same requests to ledgers that hold few and many keys already, and what a stored key takes on disk.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use hapax::core::{Key, Ledger, Move, Outcome, Record, Scope, Swap, Tenant, Version};
use hapax::layer::{Asked, Route, route_pattern};
use hapax::store::postgres::PgOptions;
use hapax::store::sqlite::SqliteOptions;
use hapax::store::{PgLedger, SqliteLedger};
use hapax_bench::cpu::Tree;
use hapax_bench::report::{Report, Row, Want};

use crate::database::{self, Postgres};
use crate::load::{Keys, Names};
use crate::measure::{self, Case, Subject};
use crate::process::Server;
use crate::talk::{Talk, payment_json};

/// Moves of one transaction while a ledger is filled.
const BATCH: usize = 4_000;
const CONNECTIONS: usize = 64;
const READ_ONCE: &str = include_str!("sql/read_once.sql");

#[derive(Args, Debug)]
pub(crate) struct Sizes {
    /// How many keys are stored before, smallest first.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 1_000_000, 10_000_000])]
    keys: Vec<u64>,
    /// Where they are stored.
    #[arg(long, value_delimiter = ',', default_values = ["sqlite", "postgres"])]
    stores: Vec<Store>,
}

/// Where keys are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    const fn words(self) -> &'static str {
        match self {
            Store::Sqlite => "layer, SQLite FULL",
            Store::Postgres => "layer, PostgreSQL",
        }
    }
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
        let mut report = Report::begin("sizes", check);
        let names = Rc::new(Names::new());
        for &store in &self.stores {
            // One for each, so that the next finds the memory free.
            let folder = tempfile::tempdir()?;
            let mut subjects = Vec::new();
            for &count in &keys {
                subjects.push(filled(store, folder.path(), count).await?);
            }
            let case = |keys| Case {
                keys,
                connections: CONNECTIONS,
                rounds,
                time,
            };
            let all: Vec<&Subject> = subjects.iter().collect();
            measure::case(&mut report, &all, &names, |_| case(Keys::Fresh)).await?;
            let counts = keys.clone();
            measure::case(&mut report, &all, &names, |at| {
                case(Keys::Stored(counts[at]))
            })
            .await?;
            for (name, case) in [
                ("fresh key", case(Keys::Fresh).name()),
                ("replay from the store", case(Keys::Stored(0)).name()),
            ] {
                let (few, many) = (all[0].name, all[all.len() - 1].name);
                let cost = |name| cost(report.find(name, &case)?);
                let ratio = cost(many)? / cost(few)?;
                let words = format!("CPU of a {name}, {many} / {few}");
                // In a check a subject may have used no whole tick of CPU.
                if ratio.is_finite() {
                    report.ratio(words, ratio, Want::AtMost(1.3));
                }
            }
        }
        report.finish(results)
    }
}

/// CPU of one request, of the server and of its database.
fn cost(row: &Row) -> Result<f64> {
    let own = row.cpu_us.context("CPU was not measured")?;
    Ok(own + row.database_cpu_us.unwrap_or_default())
}

/// A server on a store that holds `count` keys, and says what they take on disk.
async fn filled(store: Store, folder: &Path, count: u64) -> Result<Subject> {
    // Without a cache: what is asked is what the store costs.
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", "--cache-bytes", "0", "--front"]);
    let (bytes, database): (u64, Option<Tree>) = match store {
        Store::Sqlite => {
            let file = folder.join(format!("{count}.db"));
            let ledger = SqliteLedger::open(&file, SqliteOptions::default())?;
            fill(&ledger, count).await?;
            read_once(&file)?;
            command.arg("sqlite").arg("--file").arg(&file);
            (std::fs::metadata(&file)?.len(), None)
        }
        Store::Postgres => {
            let postgres = Postgres::of_environment().await?;
            let url = postgres.create().await?;
            let ledger = PgLedger::open(&url, PgOptions::default()).await?;
            fill(&ledger, count).await?;
            command.arg("postgres").arg("--database").arg(&url);
            (at_rest(&url).await?, Some(postgres.tree))
        }
    };
    eprintln!(
        "{}: {count} keys take {} bytes each on disk",
        store.words(),
        bytes / count
    );
    Ok(Subject {
        // One name per size, kept for the whole run.
        name: Box::leak(format!("{}, {count} stored", store.words()).into_boxed_str()),
        servers: vec![Server::start(&mut command)?],
        talk: Talk::Keyed,
        database,
    })
}

/// Has a file on the disk, and reads it from end to end, so that it is in memory as it would be in a server that has been at
/// work for a while: what is measured is the ledger, not what the system still writes of the filling, and has dropped of it.
fn read_once(file: &Path) -> Result<()> {
    let mut file = std::fs::File::open(file)?;
    file.sync_all()?;
    std::io::copy(&mut file, &mut std::io::sink())?;
    Ok(())
}

/// Has the database do now what it would do in the middle of a measurement, reading what is asked for included; how many
/// bytes the keys and their indexes take.
async fn at_rest(url: &str) -> Result<u64> {
    let client = database::connect(url).await?;
    // One at a time: together they would be one transaction, and a vacuum is never part of one.
    for command in ["VACUUM (ANALYZE) idempotency_keys", "CHECKPOINT"] {
        client.batch_execute(command).await?;
    }
    client.batch_execute(READ_ONCE).await?;
    let size = client
        .query_one("SELECT pg_total_relation_size('idempotency_keys')", &[])
        .await?;
    Ok(u64::try_from(size.get::<_, i64>(0))?)
}

/// Stores settled keys, in the order of their ids so that it is quick.
async fn fill(ledger: &dyn Ledger, count: u64) -> Result<()> {
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
            .map(|(_, n)| Ok(Move::inserting(settled(ledger, &scope, *n)?)))
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
fn settled(ledger: &dyn Ledger, scope: &Scope, n: u64) -> Result<Record> {
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
