//! The listener: connections in, requests to the router, within limits, until told to stop.
//! It knows no route.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Version;
use axum::http::header::EXPECT;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tower_service::Service;

use crate::body::{IdleBody, Leftover};
use crate::config::Config;

/// Who is at the other end of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// What a connection is allowed.
#[derive(Clone, Copy, Debug)]
struct Limits {
    header_bytes_max: usize,
    header_timeout: Duration,
    body_idle_timeout: Duration,
    request_timeout: Duration,
    discard_bytes_max: usize,
}

/// Serves `router` on `listener` until `stop` says so, then finishes what is in flight within
/// `config.shutdown_ms` and returns. Whatever is not done by then is cut off.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    config: &Config,
    mut stop: watch::Receiver<bool>,
) {
    let limits = Limits {
        header_bytes_max: config.header_bytes_max,
        header_timeout: Duration::from_millis(config.header_timeout_ms),
        body_idle_timeout: Duration::from_millis(config.body_idle_timeout_ms),
        request_timeout: config.request_timeout(),
        discard_bytes_max: config.batch_body_bytes_max,
    };
    let permits = Arc::new(Semaphore::new(config.connections_max));
    let mut connections = JoinSet::new();
    loop {
        // A permit first: over the cap, new connections wait in the listener's queue.
        let permit = tokio::select! {
            permit = Arc::clone(&permits).acquire_owned() => permit,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    connection(stream, Peer(peer), router, limits, stop).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of file descriptors, mostly: give connections a moment to end.
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
        #[expect(
            clippy::cast_precision_loss,
            reason = "a count of connections is far below 2^52"
        )]
        metrics::gauge!("hapax_http_connections").set(connections.len() as f64);
    }
    drop(listener);
    let all_done = async { while connections.join_next().await.is_some() {} };
    if timeout(config.shutdown(), all_done).await.is_err() {
        tracing::warn!(
            cut_off = connections.len(),
            "shutdown_ms is over; cutting off what is in flight"
        );
        connections.shutdown().await;
    }
}

/// Serves one connection to its end: the client's, an idle time-out, or the server's stop.
async fn connection(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    // Small answers must not wait for the next packet.
    let _ = stream.set_nodelay(true);
    let busy = Arc::new(Busy::default());
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (mut router, guard) = (router.clone(), Busy::enter(&busy));
        async move {
            let (request, leftover) = received(request, peer, limits);
            let response = router.call(request).await;
            if let Some(leftover) = leftover {
                leftover.discard(limits.discard_bytes_max).await;
            }
            drop(guard);
            response as Result<_, Infallible>
        }
    });
    let builder = protocol(limits);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopped = async {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    tokio::select! {
        ended = served.as_mut() => return log_end(ended),
        () = stopped => {}
        () = busy.idle_for(limits.header_timeout) => {}
    }
    served.as_mut().graceful_shutdown();
    // A client that does not read its answer is not waited for either.
    if let Ok(ended) = timeout(limits.request_timeout, served).await {
        log_end(ended);
    }
}

/// The request as the router takes it, and what must be read on if its handler leaves some of the body.
fn received(
    request: hyper::Request<Incoming>,
    peer: Peer,
    limits: Limits,
) -> (Request, Option<Leftover>) {
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(peer);
    if body.is_end_stream() {
        return (Request::from_parts(parts, Body::empty()), None);
    }
    // A client that asks first has sent nothing yet.
    let waits = parts.headers.contains_key(EXPECT) || parts.version > Version::HTTP_11;
    let (body, leftover) = IdleBody::new(body, limits.body_idle_timeout);
    (
        Request::from_parts(parts, Body::new(body)),
        (!waits).then_some(leftover),
    )
}

fn protocol(limits: Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .max_concurrent_streams(256)
        .keep_alive_interval(limits.header_timeout)
        .keep_alive_timeout(limits.header_timeout);
    builder
}

fn log_end(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        // Clients go away all the time; that is no news.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// How many requests of a connection are in flight, so that one without any can be closed.
#[derive(Debug, Default)]
struct Busy {
    requests: AtomicUsize,
    changed: Notify,
}

struct Entered(Arc<Busy>);

impl Busy {
    fn enter(busy: &Arc<Self>) -> Entered {
        busy.requests.fetch_add(1, Ordering::SeqCst);
        busy.changed.notify_one();
        Entered(Arc::clone(busy))
    }

    /// Waits until no request was in flight for `span`.
    async fn idle_for(&self, span: Duration) {
        loop {
            let deadline = Instant::now() + span;
            let waited = tokio::time::timeout_at(deadline, self.changed.notified()).await;
            if waited.is_err() && self.requests.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}
