//! River's published statements on its published table, driven as its client drives them: one producer that takes as
//! many jobs as workers are free, workers, and a completer that ends in one statement whatever has gathered.
//!
//! River's own client also waits: 100 ms between two fetches, 50 ms between two completions. This one does not.

use std::time::SystemTime;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_postgres::Client;

use crate::database::Server;

const SCHEMA: &str = include_str!("../../../peers/river/schema.sql");
const INSERT: &str = include_str!("../../../peers/river/insert.sql");
const LOCK: &str = include_str!("../../../peers/river/lock.sql");
const COMPLETE: &str = include_str!("../../../peers/river/complete.sql");

/// The most jobs that one statement inserts or ends, as in River's own completer.
const INSERTED: usize = 1000;
const COMPLETED: usize = 2000;

pub(crate) struct River {
    producer: Client,
    completer: Client,
}

impl River {
    pub(crate) async fn install(server: &Server, database: &str) -> Result<Self> {
        let producer = server.connect(database).await?;
        producer.batch_execute(SCHEMA).await?;
        let completer = server.connect(database).await?;
        Ok(Self {
            producer,
            completer,
        })
    }

    pub(crate) async fn insert(&self, count: usize) -> Result<()> {
        let insert = self.producer.prepare(INSERT).await?;
        for from in (0..count).step_by(INSERTED) {
            let numbers = from..count.min(from + INSERTED);
            let arguments: Vec<serde_json::Value> = numbers
                .clone()
                .map(|number| {
                    let url = format!("https://example.org/{number}");
                    serde_json::json!({"work_id": "w", "artifact_id": format!("a-{number}"), "url": url})
                })
                .collect();
            let keys: Vec<Vec<u8>> = arguments
                .iter()
                .map(|arguments| Sha256::digest(arguments.to_string()).to_vec())
                .collect();
            let inserted = self.producer.execute(&insert, &[&arguments, &keys]).await?;
            anyhow::ensure!(inserted == keys.len() as u64, "a key was not new");
        }
        Ok(())
    }

    pub(crate) async fn drain(&self, count: usize, workers: usize) -> Result<()> {
        let (finish, finished) = mpsc::channel::<i64>(workers * 4);
        let produce = async {
            let lock = self.producer.prepare(LOCK).await?;
            let limit = i64::try_from(workers)?;
            loop {
                let rows = self.producer.query(&lock, &[&limit, &"bench"]).await?;
                if rows.is_empty() {
                    return anyhow::Ok(());
                }
                for row in rows {
                    // A worker reads its arguments.
                    let (id, arguments): (i64, String) = (row.get(0), row.get(1));
                    let arguments: serde_json::Value = serde_json::from_str(&arguments)?;
                    let finish = finish.clone();
                    tokio::spawn(async move {
                        drop(arguments);
                        // Nobody listens only when the run has failed.
                        let _ = finish.send(id).await;
                    });
                }
            }
        };
        let complete = self.complete(count, finished);
        let (produced, completed) = tokio::join!(produce, complete);
        produced?;
        completed
    }

    async fn complete(&self, count: usize, mut finished: mpsc::Receiver<i64>) -> Result<()> {
        let complete = self.completer.prepare(COMPLETE).await?;
        let (mut done, mut ids) = (0, Vec::new());
        while done < count {
            let gathered = finished.recv_many(&mut ids, COMPLETED).await;
            anyhow::ensure!(
                gathered > 0,
                "the producer ended after {done} of {count} jobs"
            );
            let now = vec![SystemTime::now(); ids.len()];
            let rows = self.completer.query(&complete, &[&ids, &now]).await;
            done += rows.context("ending jobs")?.len();
            ids.clear();
        }
        Ok(())
    }
}
