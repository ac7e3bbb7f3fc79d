//! The bodies on both sides of the layer: passed through, or buffered under a key.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::passing::Passing;

/// The failure of a body, whoever it is from.
pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

pin_project! {
    /// The request body the inner service gets: the caller's own, or the buffered one of a keyed request.
    pub struct RequestBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    /// The response body the caller gets: the inner service's own, a recorded one, the beginning of one
    /// that was too large to record, followed by the rest of it, or one that is recorded while it is passed on.
    pub struct ResponseBody<B> {
        #[pin]
        inner: Inner<B>,
        passing: Option<Passing>,
        failure: Option<BoxError>,
    }
}

pin_project! {
    #[project = InnerProjection]
    enum Inner<B> {
        Passed { #[pin] body: B },
        Whole { bytes: Option<Bytes>, trailers: Option<HeaderMap> },
        Resumed { first: Option<Bytes>, rest: Pin<Box<B>> },
    }
}

impl<B> RequestBody<B> {
    pub(super) fn passed(body: B) -> Self {
        Self {
            inner: Inner::Passed { body },
        }
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        Self {
            inner: Inner::whole(bytes),
        }
    }
}

impl<B> ResponseBody<B> {
    fn of(inner: Inner<B>) -> Self {
        Self {
            inner,
            passing: None,
            failure: None,
        }
    }

    pub(super) fn passed(body: B) -> Self {
        Self::of(Inner::Passed { body })
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        Self::of(Inner::whole(bytes))
    }

    /// `first`, then the rest of the body it was read from.
    pub(super) fn resumed(first: Bytes, rest: Pin<Box<B>>) -> Self {
        Self::of(Inner::Resumed {
            first: Some(first),
            rest,
        })
    }

    /// `bytes`, then `trailers`.
    pub(super) fn trailed(bytes: Bytes, trailers: HeaderMap) -> Self {
        Self::of(Inner::Whole {
            bytes: Some(bytes),
            trailers: Some(trailers),
        })
    }

    /// `first`, then the failure that ended the body it was read from.
    pub(super) fn broken(first: Bytes, failure: BoxError) -> Self {
        Self {
            failure: Some(failure),
            ..Self::whole(first)
        }
    }

    /// The pieces as they come.
    pub(super) fn passing(passing: Passing) -> Self {
        Self {
            passing: Some(passing),
            ..Self::whole(Bytes::new())
        }
    }
}

impl<B> Inner<B> {
    fn whole(bytes: Bytes) -> Self {
        Self::Whole {
            bytes: Some(bytes),
            trailers: None,
        }
    }
}

impl<B: Body> Inner<B> {
    fn poll(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project() {
            InnerProjection::Passed { body } => poll_bytes(body, context),
            InnerProjection::Whole { bytes, trailers } => Poll::Ready(
                take(bytes)
                    .or_else(|| trailers.take().map(Frame::trailers))
                    .map(Ok),
            ),
            InnerProjection::Resumed { first, rest } => match take(first) {
                Some(frame) => Poll::Ready(Some(Ok(frame))),
                None => poll_bytes(rest.as_mut(), context),
            },
        }
    }

    fn ended(&self) -> bool {
        match self {
            Inner::Passed { body } => body.is_end_stream(),
            Inner::Whole { bytes, trailers } => {
                bytes.as_ref().is_none_or(Bytes::is_empty) && trailers.is_none()
            }
            Inner::Resumed { first, rest } => first.is_none() && rest.is_end_stream(),
        }
    }

    fn hint(&self) -> SizeHint {
        match self {
            Inner::Passed { body } => body.size_hint(),
            Inner::Whole { bytes, trailers } => {
                let length = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
                let mut hint = SizeHint::with_exact(length);
                if trailers.is_some() {
                    // HTTP/1.1 has trailers only after a body without a length.
                    hint = SizeHint::new();
                    hint.set_lower(length);
                }
                hint
            }
            Inner::Resumed { first, rest } => {
                let begun = first.as_ref().map_or(0, |bytes| bytes.len() as u64);
                let (left, mut hint) = (rest.size_hint(), SizeHint::new());
                hint.set_lower(left.lower() + begun);
                if let Some(upper) = left.upper() {
                    hint.set_upper(upper + begun);
                }
                hint
            }
        }
    }
}

/// The buffered bytes as one frame; an empty body has none.
fn take(bytes: &mut Option<Bytes>) -> Option<Frame<Bytes>> {
    bytes
        .take()
        .filter(|bytes| !bytes.is_empty())
        .map(Frame::data)
}

fn poll_bytes<B: Body>(
    body: Pin<&mut B>,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
    let frame = std::task::ready!(body.poll_frame(context));
    Poll::Ready(frame.map(|frame| {
        frame.map(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
    }))
}

impl<B: Body> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.project().inner.poll(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.ended()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.hint()
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        if let Some(passing) = this.passing {
            let frame = std::task::ready!(passing.poll(context));
            if !matches!(frame, Some(Ok(_))) {
                *this.passing = None;
            }
            return Poll::Ready(frame);
        }
        match std::task::ready!(this.inner.poll(context)) {
            Some(frame) => Poll::Ready(Some(frame.map_err(Into::into))),
            None => Poll::Ready(this.failure.take().map(Err)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.failure.is_none() && self.passing.is_none() && self.inner.ended()
    }

    fn size_hint(&self) -> SizeHint {
        // A body that is going to fail, or that goes on, has no honest length.
        if self.failure.is_some() || self.passing.is_some() {
            SizeHint::default()
        } else {
            self.inner.hint()
        }
    }
}
