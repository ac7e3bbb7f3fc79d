//! The future of a response: the inner service's own, or the keyed path's.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::body::ResponseBody;

/// The keyed path, boxed: it claims, runs and settles.
pub(super) type Keyed<B, E> =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody<B>>, E>> + Send>>;

pin_project! {
    /// The response of [`Idempotency`](super::Idempotency).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, B, E> {
        #[pin]
        way: Way<F, B, E>,
    }
}

pin_project! {
    #[project = WayProjection]
    enum Way<F, B, E> {
        Passing { #[pin] future: F },
        Keyed { future: Keyed<B, E> },
    }
}

impl<F, B, E> ResponseFuture<F, B, E> {
    pub(super) fn passing(future: F) -> Self {
        Self {
            way: Way::Passing { future },
        }
    }

    pub(super) fn keyed(future: Keyed<B, E>) -> Self {
        Self {
            way: Way::Keyed { future },
        }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<ResponseBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().way.project() {
            WayProjection::Passing { future } => {
                let response = std::task::ready!(future.poll(context));
                Poll::Ready(response.map(|response| response.map(ResponseBody::passed)))
            }
            WayProjection::Keyed { future } => future.as_mut().poll(context),
        }
    }
}
