//! An answer that is recorded while it is passed on, because it has no length and does not end at once: its pieces go to
//! the caller as they come, and its end once the outcome is recorded. It knows no status and no route.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hapax_core::{Lease, NotKept, Outcome};
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::body::BoxError;
use super::budget::{Buffer, upper};
use super::grpc;
use super::layer::Setup;
use super::run::{hold_in_doubt, release};
use crate::Settled;

/// How many pieces wait for a slow caller.
const PIECES_MAX: usize = 8;

/// A piece on its way to the caller.
enum Piece {
    Frame(Frame<Bytes>),
    Broken(BoxError),
    /// All of it was said, and is recorded.
    End,
}

/// The caller's side of an answer that is passed on.
pub(super) struct Passing(mpsc::Receiver<Piece>);

impl Passing {
    /// The next frame. An answer that does not say that it ended was cut off.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let piece = std::task::ready!(self.0.poll_recv(context));
        Poll::Ready(match piece {
            Some(Piece::Frame(frame)) => Some(Ok(frame)),
            Some(Piece::End) => None,
            Some(Piece::Broken(error)) => Some(Err(error)),
            None => Some(Err("the answer was cut off".into())),
        })
    }
}

/// An answer that goes on, with what is here of it.
pub(super) struct Stream<B> {
    body: Pin<Box<B>>,
    buffer: Buffer,
    bytes_max: usize,
    /// Why it is not kept if it does not end within that.
    beyond: NotKept,
    /// How long it is read on once its caller is gone.
    patience: Duration,
}

/// How an answer ended, as far as it is recorded.
enum Ended {
    Whole,
    Trailed(HeaderMap),
    /// It did not: this piece is more than is kept.
    Beyond(Bytes),
    Broken(BoxError),
    /// It did not, and its caller is gone.
    Abandoned,
}

impl<B> Stream<B>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError> + Send,
{
    pub(super) fn new(
        body: Pin<Box<B>>,
        buffer: Buffer,
        (bytes_max, beyond): (usize, NotKept),
        patience: Duration,
    ) -> Self {
        Self {
            body,
            buffer,
            bytes_max,
            beyond,
            patience,
        }
    }

    /// Passes it on in a task of its own, which the caller may leave. `head` is the outcome without its body.
    pub(super) fn pass_on(self, setup: &Arc<Setup>, lease: Lease, head: Outcome) -> Passing {
        let (caller, passing) = mpsc::channel(PIECES_MAX);
        let begun = Bytes::copy_from_slice(self.buffer.so_far());
        if !begun.is_empty() {
            // Nothing is in the channel yet.
            let _ = caller.try_send(Piece::Frame(Frame::data(begun)));
        }
        let shared = Arc::clone(setup);
        setup.engine.spawn(async move {
            // A caller who is gone misses nothing.
            let _ = self.run(&shared, lease, head, &caller).await;
        });
        Passing(passing)
    }

    async fn run(
        mut self,
        setup: &Setup,
        lease: Lease,
        head: Outcome,
        caller: &mpsc::Sender<Piece>,
    ) -> Result<(), mpsc::error::SendError<Piece>> {
        let (lease, ended) = setup.engine.run(lease, self.read(caller)).await;
        match ended {
            Ended::Whole => {
                let (bytes, _hold) = self.buffer.whole();
                let outcome = Outcome {
                    headers: head.headers,
                    ..Outcome::new(head.status, bytes)
                };
                caller
                    .send(settled(setup, lease, outcome, Piece::End).await)
                    .await
            }
            Ended::Trailed(trailers) if grpc::refuses_credential(&trailers) => {
                release(setup, lease).await;
                caller.send(Piece::Frame(Frame::trailers(trailers))).await?;
                caller.send(Piece::End).await
            }
            Ended::Trailed(trailers) => {
                let last = Piece::Frame(Frame::trailers(trailers));
                let outcome = head.because(NotKept::Trailers);
                caller
                    .send(settled(setup, lease, outcome, last).await)
                    .await?;
                caller.send(Piece::End).await
            }
            Ended::Beyond(data) => {
                let next = Piece::Frame(Frame::data(data));
                let outcome = head.because(self.beyond);
                // What was gathered is not needed any more.
                drop(self.buffer);
                caller
                    .send(settled(setup, lease, outcome, next).await)
                    .await?;
                rest(self.body, caller).await
            }
            Ended::Broken(error) => {
                hold_in_doubt(setup, lease).await;
                caller.send(Piece::Broken(error)).await
            }
            Ended::Abandoned => {
                hold_in_doubt(setup, lease).await;
                Ok(())
            }
        }
    }

    /// Passes it on and gathers it, to its end or to that of what is kept.
    async fn read(&mut self, caller: &mpsc::Sender<Piece>) -> Ended {
        let mut until = None;
        loop {
            let next = match until {
                None => tokio::select! {
                    biased;
                    () = caller.closed() => {
                        until = Some(Instant::now() + self.patience);
                        continue;
                    }
                    next = self.body.frame() => next,
                },
                Some(until) => match timeout_at(until, self.body.frame()).await {
                    Ok(next) => next,
                    Err(_late) => return Ended::Abandoned,
                },
            };
            let frame = match next {
                None => return Ended::Whole,
                Some(Err(error)) => return Ended::Broken(error.into()),
                Some(Ok(frame)) => frame,
            };
            match frame.into_data() {
                Ok(mut data) => {
                    let data = data.copy_to_bytes(data.remaining());
                    if !self.keep(data.clone()).await {
                        return Ended::Beyond(data);
                    }
                    // That its caller is gone is seen at the next piece.
                    let _ = caller.send(Piece::Frame(Frame::data(data))).await;
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        return Ended::Trailed(trailers);
                    }
                }
            }
        }
    }

    /// Gathers a piece, if there is room for it.
    async fn keep(&mut self, data: Bytes) -> bool {
        let length = self.buffer.len() + data.len();
        if length > self.bytes_max {
            return false;
        }
        let upper = upper(&self.body, length, self.bytes_max);
        let pushed = self.buffer.push_answer(data, false, upper).await;
        pushed.is_ok()
    }
}

/// What follows once the outcome is recorded: `next`, or that it is not.
async fn settled(setup: &Setup, lease: Lease, outcome: Outcome, next: Piece) -> Piece {
    let id = lease.id();
    let why = match setup.observer.settle(&setup.engine, lease, outcome).await {
        Ok(Settled::Recorded(_)) => return next,
        Ok(Settled::Lost(_)) => "the lease was lost",
        Err(error) => {
            tracing::error!(%id, %error, code = error.kind().code(), "an answer was passed on and not recorded");
            "the store did not take it"
        }
    };
    Piece::Broken(format!("the answer could not be recorded: {why}").into())
}

/// Passes on what is not kept, for as long as somebody takes it.
async fn rest<B>(
    mut body: Pin<Box<B>>,
    caller: &mpsc::Sender<Piece>,
) -> Result<(), mpsc::error::SendError<Piece>>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    loop {
        let next = tokio::select! {
            biased;
            () = caller.closed() => return Ok(()),
            next = body.frame() => next,
        };
        match next {
            None => return caller.send(Piece::End).await,
            Some(Err(error)) => return caller.send(Piece::Broken(error.into())).await,
            Some(Ok(frame)) => {
                let frame = frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
                caller.send(Piece::Frame(frame)).await?;
            }
        }
    }
}
