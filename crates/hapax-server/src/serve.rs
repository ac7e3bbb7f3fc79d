//! The listener: connections in, requests to the service, within limits, until told to stop.
//! It knows no route.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Version;
use axum::http::header::EXPECT;
use axum::response::Response;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower_service::Service;

use crate::body::{Held, IdleBody, Leftover, LetIn, STRANGER_BYTES_MAX};
use crate::busy::Busy;
use crate::config::Config;
use crate::framing::{EndToEnd, Watch, Watched};
use crate::peers::{self, Peers};
use crate::problem;

/// How many requests one HTTP/2 connection may have at once.
const STREAMS_MAX: u32 = 64;
/// The largest head of one of them.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// How much of a request body, and of all bodies of an HTTP/2 connection, may arrive before its handler reads it.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// How much of an answer waits at a time for an HTTP/2 client to take it.
const SEND_BUFFER_BYTES_MAX: usize = 64 << 10;

/// Who is at the other end of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Where a service leaves what shall become of its connection after an upgrade.
#[derive(Clone)]
pub(crate) struct Handover {
    watch: Arc<Watch>,
    tunnel: Arc<Mutex<Option<Tunnel>>>,
}

type Tunnel = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Handover {
    /// Runs `tunnel` once HTTP has ended on this connection, until it ends or the server stops.
    pub(crate) fn tunnel(&self, tunnel: impl Future<Output = ()> + Send + 'static) {
        self.watch.open();
        *self.locked() = Some(Box::pin(tunnel));
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Option<Tunnel>> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a connection is allowed.
#[derive(Clone, Copy, Debug)]
struct Limits {
    header_bytes_max: usize,
    header_timeout: Duration,
    body_idle_timeout: Duration,
    request_timeout: Duration,
    discard_bytes_max: usize,
}

/// Serves `service` on `listener` until `stop` says so, then finishes what is in flight within
/// `config.shutdown_ms` and returns. Whatever is not done by then is cut off.
pub(crate) async fn serve<S>(
    listener: TcpListener,
    service: S,
    config: &Config,
    mut stop: watch::Receiver<bool>,
) where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let limits = Limits {
        header_bytes_max: config.header_bytes_max,
        header_timeout: Duration::from_millis(config.header_timeout_ms),
        body_idle_timeout: Duration::from_millis(config.body_idle_timeout_ms),
        request_timeout: config.request_timeout(),
        discard_bytes_max: config.batch_body_bytes_max,
    };
    let permits = Arc::new(Semaphore::new(config.connections_max));
    let peers = Arc::new(Peers::new(config.connections_per_address_max));
    let end_to_end = Arc::new(EndToEnd::with(config.caller_headers()));
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
                let Some(counted) = peers.enter(peer.ip()) else {
                    refuse(&stream);
                    continue;
                };
                let (service, stop) = (service.clone(), stop.clone());
                let guard = (limits, Arc::clone(&end_to_end));
                connections.spawn(async move {
                    connection(stream, Peer(peer), service, guard, stop).await;
                    drop((permit, counted));
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

/// Tells a connection that its address has too many. It waits for nothing: a client that does not read is not told.
fn refuse(stream: &TcpStream) {
    metrics::counter!("hapax_http_connections_refused_total").increment(1);
    if let Err(error) = stream.try_write(&peers::refusal()) {
        tracing::debug!(%error, "a connection too many was closed without a word");
    }
}

/// Serves one connection to its end: the client's, an idle time-out, or the server's stop.
async fn connection<S>(
    stream: TcpStream,
    peer: Peer,
    service: S,
    (limits, end_to_end): (Limits, Arc<EndToEnd>),
    mut stop: watch::Receiver<bool>,
) where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    // Small answers must not wait for the next packet.
    let _ = stream.set_nodelay(true);
    let (busy, watch) = (Arc::new(Busy::default()), Arc::new(Watch::default()));
    let handover = Handover {
        watch: Arc::clone(&watch),
        tunnel: Arc::default(),
    };
    let requests = AtomicU64::new(0);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        let (mut service, guard) = (service.clone(), Busy::enter(&busy));
        let refused = watch.refused(requests.fetch_add(1, Ordering::Relaxed));
        request.extensions_mut().insert(handover.clone());
        async move {
            if let Some(why) = refused {
                return Ok(problem::ambiguous_framing(why));
            }
            let held = Held::default();
            let (request, leftover) = received(request, peer, &held, limits);
            let response = service.call(request).await;
            drop(held);
            let is_let_in = |response: &Response| response.extensions().get::<LetIn>().is_some();
            let bytes_max = if response.as_ref().is_ok_and(is_let_in) {
                limits.discard_bytes_max
            } else {
                STRANGER_BYTES_MAX
            };
            if let Some(leftover) = leftover {
                leftover.discard(bytes_max).await;
            }
            response.map(|response| guard.sends(response))
        }
    });
    let builder = protocol(limits);
    let stream = Watched::new(stream, Arc::clone(&watch), limits.header_bytes_max)
        .guarding(end_to_end)
        .patient(Arc::clone(&busy), limits.body_idle_timeout);
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    until_end(served, &busy, limits, stop.clone()).await;
    let tunnel = handover.locked().take();
    if let Some(tunnel) = tunnel {
        tokio::select! {
            () = tunnel => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}

/// Serves until the client ends, is idle for too long, or the server stops.
async fn until_end<S>(
    served: auto::UpgradeableConnection<'_, TokioIo<Watched<TcpStream>>, S, TokioExecutor>,
    busy: &Busy,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) where
    S: hyper::service::Service<hyper::Request<Incoming>, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    let mut served = pin!(served);
    let stopped = async {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    tokio::select! {
        // In this order: what has arrived is read before it is too late for it, however busy the machine was.
        biased;
        ended = served.as_mut() => return log_end(ended),
        () = stopped => {}
        () = busy.idle_for(limits.header_timeout, limits.body_idle_timeout) => {}
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
    held: &Held,
    limits: Limits,
) -> (Request, Option<Leftover>) {
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(peer);
    if body.is_end_stream() {
        return (Request::from_parts(parts, Body::empty()), None);
    }
    parts.extensions.insert(held.clone());
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
        // The heads of up to STREAMS_MAX requests wait at once.
        .max_header_list_size(
            HEAD_BYTES_MAX.min(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX)),
        )
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
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
