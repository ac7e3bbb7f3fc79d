//! apalis on a SQLite file. Reads `enqueue COUNT` and `drain COUNT`, answers with the seconds each took.
//! Arguments: the file, the worker count, and `defaults` or `full`.
//!
//! Its setup sets `synchronous = OFF` on one connection of the pool, and the pool's other connections have SQLite's
//! own default. With `full` every connection is set to FULL, which is what our figure beside it has.

use std::io::BufRead;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteStorage};
use futures::stream;

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn open(file: &str, full: bool) -> Result<SqlitePool, Failure> {
    let options = SqliteConnectOptions::from_str(file)?.create_if_missing(true);
    let pool = SqlitePool::connect_with(options.clone()).await?;
    SqliteStorage::setup(&pool).await?;
    if !full {
        return Ok(pool);
    }
    pool.close().await;
    let options = options.pragma("synchronous", "FULL");
    Ok(SqlitePoolOptions::new().connect_with(options).await?)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, file, workers, mode] = &arguments[..] else {
        return Err("usage: peer-apalis FILE WORKERS defaults|full".into());
    };
    let workers: usize = workers.parse()?;
    let pool = open(file, mode == "full").await?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (word, count) = line.split_once(' ').ok_or("a word and a number")?;
        let count: usize = count.parse()?;
        let begun = Instant::now();
        match word {
            "enqueue" => enqueue(&pool, count).await?,
            _ => drain(&pool, workers, count).await?,
        }
        println!("{}", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

async fn enqueue(pool: &SqlitePool, count: usize) -> Result<(), Failure> {
    // The same queue as below: with_config names it anew.
    let mut backend = SqliteStorage::<usize>::new(pool).with_config(Config::default());
    let mut jobs = stream::iter((0..count).map(|number| TaskBuilder::new(number).build()));
    backend.push_all(&mut jobs).await?;
    Ok(())
}

async fn drain(pool: &SqlitePool, workers: usize, count: usize) -> Result<(), Failure> {
    let left = Arc::new(AtomicUsize::new(count));
    let backend = SqliteStorage::<usize>::new(pool).with_config(Config::default().batch_size(workers));
    let nothing = move |_: usize, worker: WorkerContext| {
        let left = left.clone();
        async move {
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                worker.stop()?;
            }
            Ok::<(), BoxDynError>(())
        }
    };
    let worker = WorkerBuilder::new("bench").backend(backend).concurrency(workers).build(nothing);
    worker.run().await?;
    Ok(())
}
