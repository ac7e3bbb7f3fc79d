//! /v1/live and /v1/overview: how it goes, as a stream and as it stands.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use hapax_core::Tenant;
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Interval, MissedTickBehavior, interval_at};
use utoipa::ToSchema;

use super::App;
use crate::answer::Answer;
use crate::auth::{self, Gate};
use crate::live::{Sample, Watching};
use crate::problem::{self, Refusal};

/// How often a stream says that it is there, and looks whether its reader still may read.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How it goes.
#[derive(Serialize, ToSchema)]
pub(super) struct Overview {
    /// The last samples, oldest first.
    #[schema(max_items = 720)]
    samples: Vec<Sample>,
    /// The newest of them.
    now: Option<Sample>,
    /// Which process counted.
    node: String,
}

/// Tells how it goes: the samples of the last minutes. Counters are of the process that answers.
#[utoipa::path(get, path = "/v1/overview", operation_id = "get_overview",
    responses((status = 200, description = "The samples.", body = Overview)))]
pub(super) async fn overview(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
) -> ([(HeaderName, &'static str); 1], Answer<Overview>) {
    let samples = app.live.samples(tenant).await;
    let overview = Overview {
        now: samples.last().cloned(),
        samples,
        node: app.node.clone(),
    };
    ([(CACHE_CONTROL, "no-store")], Answer(overview))
}

/// Streams how it goes. First comes `series` with the samples so far, then a `sample` every two seconds.
#[utoipa::path(get, path = "/v1/live", operation_id = "watch_live",
    responses((status = 200, description = "Server-sent events. It ends when the server stops or the token is revoked.",
        body = String, content_type = "text/event-stream")),
    extensions(("x-codes" = json!(["too_many_streams"]))))]
pub(super) async fn live(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(gate): Extension<Arc<Gate>>,
    request: Request,
) -> Result<Response, Refusal> {
    let watching = app.live.watch(tenant).await;
    let mut watching = watching.ok_or_else(problem::too_many_streams)?;
    let samples = std::mem::take(&mut watching.samples);
    let first = event("series", &json!({"samples": samples}));
    let mut beat = interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reader = Reader {
        gate,
        headers: request.headers().clone(),
        peer: auth::peer(request.extensions()),
        watching,
        beat,
        first: Some(first),
    };
    let events = stream::unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Some((Ok::<Bytes, Infallible>(piece), reader))
    });
    let mut response = Body::from_stream(events).into_response();
    for (name, value) in [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // A proxy in front shall not gather what is to be seen at once.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

/// Whoever reads a stream.
struct Reader {
    gate: Arc<Gate>,
    headers: HeaderMap,
    peer: IpAddr,
    watching: Watching,
    beat: Interval,
    first: Option<Bytes>,
}

impl Reader {
    /// The next piece; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            match self.wait().await? {
                // A credential that is over sees no further sample.
                Heard::Sample(sample) => {
                    let may = self.gate.still_admits(&self.headers, self.peer).await;
                    return may.then(|| event("sample", &json!(sample)));
                }
                // Whoever reads slowly misses some.
                Heard::Missed => {}
                Heard::Beat => {
                    let may = self.gate.still_admits(&self.headers, self.peer).await;
                    return may.then(|| Bytes::from_static(b": here\n\n"));
                }
            }
        }
    }

    async fn wait(&mut self) -> Option<Heard> {
        let Watching { next, closed, .. } = &mut self.watching;
        tokio::select! {
            _ = closed.wait_for(|closed| *closed) => None,
            sample = next.recv() => match sample {
                Ok(sample) => Some(Heard::Sample(Box::new(sample))),
                Err(RecvError::Lagged(_)) => Some(Heard::Missed),
                Err(RecvError::Closed) => None,
            },
            _ = self.beat.tick() => Some(Heard::Beat),
        }
    }
}

/// What a stream waits for.
enum Heard {
    Sample(Box<Sample>),
    Missed,
    Beat,
}

fn event(name: &str, data: &serde_json::Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}
