//! The bodies on the upstream's side: one that tells how far it was sent, and one that may not fall silent.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hapax::layer::RequestBody;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

use super::upstream::Unanswered;

/// When the request body moved: first and last, once it has.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved(Arc<Mutex<Option<(Instant, Instant)>>>);

impl Moved {
    /// When an answer that may take `head`, of an exchange that began at `started`, is late. The time between the first
    /// and the last piece of the request body is the upload's and does not count.
    pub(super) fn late(&self, started: Instant, head: Duration) -> Instant {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => started + head,
            Some((first, last)) => last + head.saturating_sub(first - started),
        }
    }

    fn again(&self) {
        let now = Instant::now();
        let mut moved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *moved = Some((moved.map_or(now, |(first, _)| first), now));
    }
}

/// A request body on its way to the upstream.
pub(super) struct Sent {
    body: RequestBody<Body>,
    moved: Moved,
}

impl Sent {
    pub(super) fn new(body: RequestBody<Body>, moved: Moved) -> Self {
        Self { body, moved }
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        if frame.is_ready() {
            this.moved.again();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How an answer's body failed, once it has.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure(Arc<OnceLock<Unanswered>>);

impl Failure {
    pub(super) fn get(&self) -> Option<Unanswered> {
        self.0.get().copied()
    }
}

/// An answer's body that fails when the upstream is silent for too long, or takes too long altogether.
pub(super) struct Timed {
    body: Incoming,
    idle: Duration,
    until: Option<Instant>,
    /// Set while a frame is awaited.
    deadline: Option<Pin<Box<Sleep>>>,
    failure: Failure,
}

impl Timed {
    pub(super) fn new(
        body: Incoming,
        idle: Duration,
        until: Option<Instant>,
        failure: Failure,
    ) -> Self {
        Self {
            body,
            idle,
            until,
            deadline: None,
            failure,
        }
    }

    fn next_deadline(&self) -> Instant {
        let idle = Instant::now() + self.idle;
        self.until.map_or(idle, |until| until.min(idle))
    }
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.deadline = None;
            if let Some(Err(_)) = &frame {
                let _ = this.failure.0.set(Unanswered::Broken);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let next = this.next_deadline();
        let deadline = this
            .deadline
            .get_or_insert_with(|| Box::pin(sleep_until(next)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => {
                let _ = this.failure.0.set(Unanswered::TimedOut);
                Poll::Ready(Some(Err(Box::new(Silent))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The upstream did not go on in time.
#[derive(Debug)]
struct Silent;

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the upstream did not finish its answer in time")
    }
}

impl std::error::Error for Silent {}
