//! Whether a connection is in use: requests that are being answered, and answers that are being sent.
//! One that is not in use can be closed, and one whose client takes no more of its answer, too.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

/// Answers up to this size fit what the system buffers for a connection, and are not followed.
const BUFFERED_BYTES: u64 = 64 * 1024;

/// What goes on on a connection. Whoever uses it wakes nobody: to wake the task of a connection twice for every request
/// would have it looked at twice more. Whoever waits for the end of use looks again when that could be at the earliest.
#[derive(Debug)]
pub(crate) struct Busy {
    /// Requests whose handler has not answered.
    requests: AtomicUsize,
    /// Answers of which there is more to come, from their handler or to their client.
    sending: AtomicUsize,
    /// Those among them whose handler has no more just now: the client is not to blame.
    awaited: AtomicUsize,
    /// Answers that have an end, small ones too, of which not all has been taken. A client that has stopped sending still
    /// waits for them, however long their handler takes over the next piece.
    owed: AtomicUsize,
    /// Rises whenever a piece of an answer is taken.
    pieces: AtomicU64,
    began: Instant,
    /// When a request or an answer last began or ended, in microseconds since the connection began.
    changed_us: AtomicU64,
}

impl Default for Busy {
    fn default() -> Self {
        Self {
            requests: AtomicUsize::new(0),
            sending: AtomicUsize::new(0),
            awaited: AtomicUsize::new(0),
            owed: AtomicUsize::new(0),
            pieces: AtomicU64::new(0),
            began: Instant::now(),
            changed_us: AtomicU64::new(0),
        }
    }
}

/// A request that is being answered.
pub(crate) struct Entered(Arc<Busy>);

impl Busy {
    pub(crate) fn enter(busy: &Arc<Self>) -> Entered {
        busy.requests.fetch_add(1, Ordering::SeqCst);
        busy.change();
        Entered(Arc::clone(busy))
    }

    fn change(&self) {
        let us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.changed_us.fetch_max(us, Ordering::SeqCst);
    }

    fn changed(&self) -> Instant {
        self.began + Duration::from_micros(self.changed_us.load(Ordering::SeqCst))
    }

    /// Whether a request is being answered, an answer that has an end is not sent to it, or one is there and being sent.
    pub(crate) fn is_answering(&self) -> bool {
        let (sending, awaited) = (&self.sending, &self.awaited);
        self.requests.load(Ordering::SeqCst) > 0
            || self.owed.load(Ordering::SeqCst) > 0
            || sending.load(Ordering::SeqCst) > awaited.load(Ordering::SeqCst)
    }

    /// How many pieces of answers were taken: it rises while a client takes what it is sent.
    pub(crate) fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::SeqCst)
    }

    /// Waits until nothing was going on for `span`, or a client has taken nothing of its answer for `stalled`.
    pub(crate) async fn idle_for(&self, span: Duration, stalled: Duration) {
        let (mut pieces, mut since) = (0, Instant::now());
        let mut look = Instant::now() + span;
        loop {
            sleep_until(look).await;
            let now = self.pieces.load(Ordering::SeqCst);
            let sending = self.sending.load(Ordering::SeqCst) > 0;
            if now != pieces || !sending || self.awaited.load(Ordering::SeqCst) > 0 {
                (pieces, since) = (now, Instant::now());
            }
            // What changed meanwhile is waited for from then on, so that the wait is as long as it says.
            let (unused, at) = (self.changed() + span, Instant::now());
            let quiet = at >= unused && self.requests.load(Ordering::SeqCst) == 0;
            if quiet && (!sending || since.elapsed() >= stalled) {
                return;
            }
            look = if unused > at { unused } else { at + span };
        }
    }
}

impl Entered {
    /// The response, whose body keeps the connection in use until it is sent.
    pub(crate) fn sends(self, response: Response) -> Response {
        if response.body().is_end_stream() {
            return response;
        }
        let bytes = response.body().size_hint().exact();
        let is_followed = bytes.is_none_or(|bytes| bytes > BUFFERED_BYTES);
        let is_owed = !is_event_stream(response.headers());
        self.0
            .sending
            .fetch_add(usize::from(is_followed), Ordering::SeqCst);
        self.0
            .owed
            .fetch_add(usize::from(is_owed), Ordering::SeqCst);
        let busy = Arc::clone(&self.0);
        response.map(|body| {
            Body::new(Sending {
                body,
                busy,
                is_followed,
                is_owed,
                awaited: false,
            })
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::SeqCst);
        self.0.change();
    }
}

/// Whether an answer goes on until one side has enough of it.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let events = b"text/event-stream";
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        let begins = value.as_bytes().get(..events.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(events))
    })
}

/// An answer on its way to the client.
struct Sending {
    body: Body,
    busy: Arc<Busy>,
    /// Whether it is more than the system buffers, so that it shows whether the client reads.
    is_followed: bool,
    /// Whether it has an end that a client may wait for.
    is_owed: bool,
    /// Whether the last piece was not there yet when it was asked for.
    awaited: bool,
}

impl Sending {
    fn set_awaited(&mut self, awaited: bool) {
        match (self.awaited, awaited) {
            (false, true) => self.busy.awaited.fetch_add(1, Ordering::SeqCst),
            (true, false) => self.busy.awaited.fetch_sub(1, Ordering::SeqCst),
            (true, true) | (false, false) => return,
        };
        self.awaited = awaited;
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.set_awaited(false);
        let busy = &self.busy;
        busy.sending
            .fetch_sub(usize::from(self.is_followed), Ordering::SeqCst);
        busy.owed
            .fetch_sub(usize::from(self.is_owed), Ordering::SeqCst);
        busy.change();
    }
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        this.set_awaited(this.is_followed && frame.is_pending());
        this.busy
            .pieces
            .fetch_add(u64::from(frame.is_ready()), Ordering::SeqCst);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    const SPAN: Duration = Duration::from_millis(10);
    const STALLED: Duration = Duration::from_millis(30);
    const NEVER: Duration = Duration::from_millis(300);

    async fn is_idle(busy: &Busy) -> bool {
        tokio::time::timeout(NEVER, busy.idle_for(SPAN, STALLED))
            .await
            .is_ok()
    }

    /// An answer without a known length: one piece, and then nothing for ever.
    struct Endless(Option<Frame<Bytes>>);

    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            match self.0.take() {
                Some(frame) => Poll::Ready(Some(Ok(frame))),
                None => Poll::Pending,
            }
        }
    }

    #[tokio::test]
    async fn a_connection_without_requests_is_idle_and_one_with_a_request_is_not() {
        let busy = Arc::new(Busy::default());
        assert!(is_idle(&busy).await);
        let entered = Busy::enter(&busy);
        assert!(!is_idle(&busy).await);
        drop(entered);
        assert!(is_idle(&busy).await);
    }

    #[tokio::test]
    async fn a_connection_is_idle_a_whole_span_after_its_last_request_and_not_before() {
        let busy = Arc::new(Busy::default());
        let idle = busy.idle_for(SPAN, STALLED);
        tokio::pin!(idle);
        assert!(idle.as_mut().now_or_never().is_none());
        tokio::time::sleep(SPAN / 2).await;
        let entered = Busy::enter(&busy);
        assert!(idle.as_mut().now_or_never().is_none());
        tokio::time::sleep(SPAN / 4).await;
        // The clock is read before the request ends, so that the wait can only look longer than it was.
        let ended = Instant::now();
        drop(entered);
        tokio::time::timeout(NEVER, idle).await.unwrap();
        // The last change is noted in whole microseconds.
        assert!(ended.elapsed() + Duration::from_micros(1) >= SPAN);
    }

    #[tokio::test]
    async fn a_silent_stream_keeps_its_connection_and_a_client_that_reads_nothing_does_not() {
        let busy = Arc::new(Busy::default());
        let first = Endless(Some(Frame::data(Bytes::from_static(b"one"))));
        let mut response = Busy::enter(&busy).sends(Response::new(Body::new(first)));
        assert!(is_idle(&busy).await, "nobody takes the answer");
        response.body_mut().frame().await.unwrap().unwrap();
        assert!(response.body_mut().frame().now_or_never().is_none());
        assert!(!is_idle(&busy).await, "the handler has no more just now");
        drop(response);
        assert!(is_idle(&busy).await);
    }

    #[tokio::test]
    async fn a_small_answer_does_not_keep_its_connection() {
        let busy = Arc::new(Busy::default());
        let _response = Busy::enter(&busy).sends(Response::new(Body::from("small")));
        assert!(is_idle(&busy).await);
    }

    #[tokio::test]
    async fn an_answer_that_has_an_end_is_owed_until_all_of_it_is_taken() {
        let busy = Arc::new(Busy::default());
        let mut small = Busy::enter(&busy).sends(Response::new(Body::from("small")));
        assert!(busy.is_answering(), "none of it is taken");
        small.body_mut().frame().await.unwrap().unwrap();
        drop(small);
        assert!(!busy.is_answering());

        let pieces = Endless(Some(Frame::data(Bytes::from_static(b"one"))));
        let mut slow = Busy::enter(&busy).sends(Response::new(Body::new(pieces)));
        slow.body_mut().frame().await.unwrap().unwrap();
        assert!(slow.body_mut().frame().now_or_never().is_none());
        assert!(busy.is_answering(), "its handler has no more just now");
        drop(slow);

        let events = Response::new(Body::new(Endless(None)));
        let (mut parts, body) = events.into_parts();
        let value = "Text/Event-Stream; charset=utf-8".parse().unwrap();
        parts.headers.insert(CONTENT_TYPE, value);
        let mut events = Busy::enter(&busy).sends(Response::from_parts(parts, body));
        assert!(events.body_mut().frame().now_or_never().is_none());
        assert!(!busy.is_answering(), "nobody can wait for its end");

        let empty = Busy::enter(&busy).sends(Response::new(Body::empty()));
        assert!(!busy.is_answering());
        drop((events, empty));
    }
}
