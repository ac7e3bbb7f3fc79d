//! The least that storing jobs can cost: the same rows, ready made, sent by COPY into the same tables. It looks for no
//! duplicate, answers nothing, wakes nobody and computes no key.

use std::fmt::Write as _;

use anyhow::Result;
use bytes::Bytes;
use futures_util::SinkExt as _;
use hapax::job::{JobKind, job_key};
use tokio_postgres::Client;

const COPY: &str = include_str!("copy.sql");
const COPY_READY: &str = include_str!("copy_ready.sql");
const COPY_LIST: &str = include_str!("copy_list.sql");
/// The rows beside the jobs come along; the database is not to add them.
const KEEPS_QUEUE: &str = "SET hapax.keeps_queue = 'on'";
/// Where the numbers begin that the rows beside the jobs have: above those of the jobs, and of the same width.
const FIRST: usize = 1_000_000;
/// Rows go out in pieces of about this size.
const PIECE_BYTES: usize = 64 * 1024;

pub(crate) struct Rows {
    jobs: Vec<Bytes>,
    ready: Vec<Bytes>,
    list: Vec<Bytes>,
    count: usize,
}

/// Lines, cut into pieces.
#[derive(Default)]
struct Pieces {
    pieces: Vec<Bytes>,
    text: String,
}

impl Pieces {
    fn cut(&mut self) {
        if self.text.len() > PIECE_BYTES {
            self.pieces.push(std::mem::take(&mut self.text).into());
        }
    }

    fn all(mut self) -> Vec<Bytes> {
        self.pieces.push(self.text.into());
        self.pieces
    }
}

impl Rows {
    /// The rows of a tenant that has none yet.
    pub(crate) fn make(count: usize) -> Result<Self> {
        let kind = JobKind::new("nothing")?;
        let tenant = uuid::Uuid::from_u128(8);
        let (mut jobs, mut ready, mut list) =
            (Pieces::default(), Pieces::default(), Pieces::default());
        for number in 0..count {
            let (artifact, url) = (
                format!("a-{number}"),
                format!("https://example.org/{number}"),
            );
            let key = job_key(&kind, "w", &artifact, &url);
            let now = 1_700_000_000_000_i64;
            writeln!(
                jobs.text,
                "{tenant}\t{key}\t{key}\tnothing\t\tPLANNED\tready\t0\t0\t0\t5\t{now}\t-1\t-1\tw\t{artifact}\t{url}\t{now}\t{now}"
            )?;
            let seq = FIRST + number;
            writeln!(ready.text, "{tenant}\t\tnothing\t0\t{seq}")?;
            writeln!(list.text, "{tenant}\tnothing\tPLANNED\t{seq}")?;
            for pieces in [&mut jobs, &mut ready, &mut list] {
                pieces.cut();
            }
        }
        Ok(Self {
            jobs: jobs.all(),
            ready: ready.all(),
            list: list.all(),
            count,
        })
    }

    pub(crate) async fn copy(&self, client: &Client) -> Result<()> {
        client.batch_execute(KEEPS_QUEUE).await?;
        for (sql, pieces) in [
            (COPY, &self.jobs),
            (COPY_READY, &self.ready),
            (COPY_LIST, &self.list),
        ] {
            self.copy_into(client, sql, pieces).await?;
        }
        Ok(())
    }

    async fn copy_into(&self, client: &Client, sql: &str, pieces: &[Bytes]) -> Result<()> {
        let sink = client.copy_in::<_, Bytes>(sql).await?;
        let mut sink = std::pin::pin!(sink);
        for piece in pieces {
            sink.send(piece.clone()).await?;
        }
        let copied = sink.finish().await?;
        anyhow::ensure!(
            copied == self.count as u64,
            "{copied} of {} rows were copied",
            self.count
        );
        Ok(())
    }
}
