//! The least that storing jobs can cost: the same rows, ready made, sent by COPY into the same table. It looks for no
//! duplicate, answers nothing, wakes nobody and computes no key.

use std::fmt::Write as _;

use anyhow::Result;
use bytes::Bytes;
use futures_util::SinkExt as _;
use hapax::job::{JobKind, job_key};
use tokio_postgres::Client;

const COPY: &str = include_str!("copy.sql");
/// Rows go out in pieces of about this size.
const PIECE_BYTES: usize = 64 * 1024;

pub(crate) struct Rows {
    pieces: Vec<Bytes>,
    count: usize,
}

impl Rows {
    /// The rows of a tenant that has none yet.
    pub(crate) fn make(count: usize) -> Result<Self> {
        let kind = JobKind::new("nothing")?;
        let tenant = uuid::Uuid::from_u128(8);
        let (mut pieces, mut text) = (Vec::new(), String::new());
        for number in 0..count {
            let (artifact, url) = (
                format!("a-{number}"),
                format!("https://example.org/{number}"),
            );
            let key = job_key(&kind, "w", &artifact, &url);
            let now = 1_700_000_000_000_i64;
            writeln!(
                text,
                "{tenant}\t{key}\t{key}\tnothing\t\tPLANNED\tready\t0\t0\t0\t5\t{now}\t-1\t-1\tw\t{artifact}\t{url}\t{now}\t{now}"
            )?;
            if text.len() > PIECE_BYTES {
                pieces.push(std::mem::take(&mut text).into());
            }
        }
        pieces.push(text.into());
        Ok(Self { pieces, count })
    }

    pub(crate) async fn copy(&self, client: &Client) -> Result<()> {
        let sink = client.copy_in::<_, Bytes>(COPY).await?;
        let mut sink = std::pin::pin!(sink);
        for piece in &self.pieces {
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
