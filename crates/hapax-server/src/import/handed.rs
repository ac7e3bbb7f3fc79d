//! Chunks that were handed to the store and are not answered yet. It decides nothing about the answers.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures_util::future::{MaybeDone, maybe_done};
use hapax_core::entry::{Chunk, Cursor, Import};
use hapax_core::{Answer, Error};

/// What became of a chunk.
pub(super) struct Written {
    /// Where it ends.
    pub(super) to: Cursor,
    /// The same as one refused message, if it has only one.
    pub(super) alone: Option<Chunk>,
    pub(super) answer: Result<Option<Import>, Error>,
}

/// Chunks in the order in which the store has them.
pub(super) struct Handed<'a> {
    most: usize,
    writes: VecDeque<Write<'a>>,
}

struct Write<'a> {
    to: Cursor,
    alone: Option<Chunk>,
    answer: MaybeDone<Answer<'a, Option<Import>>>,
}

impl<'a> Handed<'a> {
    /// Takes this many, at least one.
    pub(super) fn at_most(most: usize) -> Self {
        Self {
            most: most.max(1),
            writes: VecDeque::new(),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.writes.len() < self.most
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Hands a chunk in. It is polled once, so that the store has it before the next one.
    pub(super) async fn put(
        &mut self,
        to: Cursor,
        alone: Option<Chunk>,
        answer: Answer<'a, Option<Import>>,
    ) {
        let mut answer = maybe_done(answer);
        poll_fn(|context| {
            // If it is answered already, it keeps the answer.
            let _ = Pin::new(&mut answer).poll(context);
            Poll::Ready(())
        })
        .await;
        self.writes.push_back(Write { to, alone, answer });
    }

    /// What became of the first of them; `None` if there is none. Nothing is lost if it is dropped before.
    pub(super) async fn next(&mut self) -> Option<Written> {
        (&mut self.writes.front_mut()?.answer).await;
        let mut first = self.writes.pop_front()?;
        let answer = Pin::new(&mut first.answer).take_output()?;
        Some(Written {
            to: first.to,
            alone: first.alone,
            answer,
        })
    }

    /// Waits until the store has answered all of them. What it answered is found again by asking it.
    pub(super) async fn rest(&mut self) {
        while self.next().await.is_some() {}
    }
}
