//! A Redis that is used while it answers and done without while it does not. Nobody waits for a connection to it.

use std::time::Instant;

use super::breaker::Breaker;
use super::link::{Failure, Limits, Link};
use super::target::Target;

/// What the log says of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    /// When it answers again.
    pub(super) back: &'static str,
    /// When it does not answer any more.
    pub(super) gone: &'static str,
}

/// The way to it, and whether it is worth asking.
pub(super) struct Spare {
    pub(super) link: Link,
    breaker: Breaker,
    words: Words,
}

impl Spare {
    pub(super) fn new(target: Target, limits: Limits, words: Words) -> Self {
        Self {
            link: Link::new(target, limits),
            breaker: Breaker::default(),
            words,
        }
    }

    /// Whether to ask now. After a rest one caller may.
    pub(super) fn is_ready(&self) -> bool {
        self.link.is_made() && self.breaker.allows(Instant::now())
    }

    /// Makes the connection, unless there is one or it is given a rest.
    pub(super) async fn connect(&self) {
        if !self.link.is_made() && self.breaker.allows(Instant::now()) {
            let answered = self.link.connect().await;
            self.heard(&answered);
        }
    }

    /// Learns from an answer, or that there was none.
    pub(super) fn heard<T>(&self, answer: &Result<T, Failure>) {
        match answer {
            Ok(_) => {
                metrics::gauge!("hapax_redis_up").set(1.0);
                if self.breaker.answered() {
                    tracing::info!("Redis answers again; {}", self.words.back);
                }
            }
            Err(failure) => {
                metrics::gauge!("hapax_redis_up").set(0.0);
                metrics::counter!("hapax_redis_errors_total").increment(1);
                if self.breaker.failed(Instant::now()) {
                    tracing::warn!(?failure, "Redis does not answer; {}", self.words.gone);
                }
            }
        }
    }
}
