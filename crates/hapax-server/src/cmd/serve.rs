//! `hapax serve`: opens the store, binds, says where it listens, and serves until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use hapax::Observer;
use hapax::job::Identity;
use hapax::layer::Budget;
use hapax_core::OnLost;
use hapax_intake::snapshot::Collection;
use hapax_intake::url::Tracking;
use tokio::net::{TcpListener, lookup_host};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::api::health::Readiness;
use crate::api::{self, App, Shared, dashboard};
use crate::auth::{Access, Gate, SessionSecret};
use crate::cli::Serve;
use crate::config::{self, Config, MetricsOpen};
use crate::enrich;
use crate::exit::{self, Failed, Refused, Usage};
use crate::first_token::{self, Credential};
use crate::greeting::greeting;
use crate::import;
use crate::intents::desk::Desk;
use crate::live::Live;
use crate::rates::Rates;
use crate::store::{Database, Store};
use crate::{chores, keep, log, metrics, out, serve};

pub(super) async fn run(args: &Serve) -> Result<()> {
    let config = Config::load(&args.flags())?;
    log::start(&config)?;
    log::misspelt()?;
    let mut signals = Signals::watch()?;
    let Started {
        app,
        listener,
        gate,
        collections,
        credential,
    } = tokio::select! {
        started = start(config, args.insecure_no_auth) => started?,
        name = signals.next() => {
            tracing::info!(signal = name, "stopped before it served");
            return Ok(());
        }
    };
    let address = listener
        .local_addr()
        .context("asking for the address that was bound")?;
    let router = api::router(&app, &Arc::new(gate), &collections);
    let (stop, stopped) = watch::channel(false);
    let mut chores = chores::start(&app, &stopped);
    chores::reconcile(&app, &stopped, &mut chores);
    if !args.no_worker {
        chores::work(&app, &stopped, &mut chores);
    }
    let serving = App::clone(&app);
    let mut server =
        tokio::spawn(async move { serve::serve(listener, router, &serving.config, stopped).await });
    greet(address, &credential, &app.config)?;
    let ending = tokio::select! {
        ending = signals.ending(&app.store) => ending,
        ended = &mut server => return ended.context("the listener ended by itself"),
    };
    stop.send_replace(true);
    tokio::select! {
        finished = finish(&app, server, chores) => finished.and(ending.result()),
        name = signals.next() => {
            tracing::warn!(signal = name, "stopping at once");
            Err(Failed.into())
        }
    }
}

/// What a start has made.
struct Started {
    app: App,
    listener: TcpListener,
    gate: Gate,
    collections: Vec<Arc<Collection>>,
    credential: Credential,
}

async fn start(config: Config, insecure_no_auth: bool) -> Result<Started> {
    let addresses = resolve(&config.listen).await?;
    let access = access(insecure_no_auth, &addresses)?;
    let dashboard = dashboard_folder(dashboard::folder_of_a_developer(), &addresses)?;
    let collections = config.collections()?;
    let configured = config::token()?;
    // The port first: a start that cannot have it leaves nothing behind.
    let listener = bind(&config.listen, &addresses).await?;
    keep::make_folder(&config.data)?;
    let store = Store::open(&config).await?;
    let credential = match access {
        Access::Open => Credential::NotNeeded,
        Access::Token => first_token::ensure(&store, &config.data, configured.is_some()).await?,
    };
    let tokens = Arc::clone(&store.tokens);
    let telegram = config::telegram_secret()?;
    let secret = SessionSecret::of(&config.data, configured.as_deref())?;
    let configured = configured.as_deref();
    let metrics_open = metrics_open(&config, &listener)?;
    let gate = Gate::new(tokens, access, metrics_open, configured, secret)
        .with_telegram(telegram.as_deref())
        .with_rates(Rates::of(&config, &store));
    Ok(Started {
        app: shared(config, store, OnLost::Retry, (dashboard, &listener))?,
        listener,
        gate,
        collections,
        credential,
    })
}

/// What every handler can reach, made once. `on_lost` is for routes that do not say.
pub(super) fn shared(
    config: Config,
    store: Store,
    on_lost: OnLost,
    (dashboard, listener): (Option<PathBuf>, &TcpListener),
) -> Result<App> {
    let listen = listener.local_addr();
    let listen = listen.context("asking for the address that was bound")?;
    let engine = store.engine().with_audit();
    let budget = Budget::new(config.buffered_bytes_max);
    let routes = config.routes(on_lost)?;
    let usual_route = config.usual_route(on_lost);
    let docs = config.docs_base()?;
    let desk = Desk::new(&config)?;
    let tracking = Tracking::with(config.tracking_parameters.iter().cloned());
    let imports = import::desk::Desk::new(&config, &store)?;
    let enrich = enrich::desk::Desk::new(&config, &store)?;
    let (metrics, started) = (metrics::install()?, Instant::now());
    metrics::ledger(store.ledger.as_ref());
    let started_at = store.ledger.now();
    let observer: Arc<Observer> = Arc::default();
    let live = Live::new(&store, &observer);
    Ok(Arc::new(Shared {
        config,
        store,
        engine,
        budget,
        routes,
        usual_route,
        docs,
        desk,
        imports,
        enrich,
        tracking,
        observer,
        live,
        readiness: Readiness::default(),
        metrics,
        started,
        started_at,
        node: Identity::this_process().to_string(),
        listen: listen.to_string(),
        chores: Mutex::default(),
        dashboard,
    }))
}

/// Lets what is in flight end, within what is left of `shutdown_ms`, and closes the store.
pub(super) async fn finish(
    app: &App,
    server: JoinHandle<()>,
    mut chores: JoinSet<()>,
) -> Result<()> {
    let asked = Instant::now();
    // Whoever waits for an import is told, and does not hold the end up.
    app.imports.close().await;
    app.live.close();
    server.await.context("the listener ended by itself")?;
    let left = app.config.shutdown().saturating_sub(asked.elapsed());
    if !app.engine.drain(left).await {
        let given_up = app.engine.abandon().await;
        tracing::warn!(given_up, "shutdown_ms is over; what still runs is given up");
    }
    let left = app.config.shutdown().saturating_sub(asked.elapsed());
    app.enrich.close(left).await;
    while chores.join_next().await.is_some() {}
    app.store.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Whether metrics are read without a token. What counts is the address that was bound: whoever reaches it from
/// elsewhere comes through a proxy, whose business it is what it passes on.
pub(super) fn metrics_open(config: &Config, listener: &TcpListener) -> Result<bool> {
    let bound = listener.local_addr();
    let bound = bound.context("asking for the address that was bound")?;
    Ok(match config.metrics_open {
        MetricsOpen::Always => true,
        MetricsOpen::Never => false,
        MetricsOpen::Loopback => is_loopback(&[bound]),
    })
}

fn is_loopback(addresses: &[SocketAddr]) -> bool {
    let mut addresses = addresses.iter();
    addresses.all(|address| address.ip().to_canonical().is_loopback())
}

/// Where the dashboard's files are read from, if a developer says so. Others than on this machine get what was built.
fn dashboard_folder(folder: Option<PathBuf>, addresses: &[SocketAddr]) -> Result<Option<PathBuf>> {
    if folder.is_some() && !is_loopback(addresses) {
        return Err(Refused::error(
            "refusing_dashboard_folder",
            "HAPAX_DASHBOARD_DIR serves files of a folder to everybody who can connect\nhint: \
             listen on 127.0.0.1, or unset it",
        ));
    }
    Ok(folder)
}

/// Who gets in. Without tokens, only on loopback.
fn access(insecure_no_auth: bool, addresses: &[SocketAddr]) -> Result<Access> {
    if !insecure_no_auth {
        return Ok(Access::Token);
    }
    match addresses
        .iter()
        .find(|address| !address.ip().to_canonical().is_loopback())
    {
        None => Ok(Access::Open),
        Some(address) => Err(Refused::error(
            "refusing_unauthenticated_bind",
            format!(
                "{address} is not loopback, and --insecure-no-auth would let everybody in\nhint: \
                 listen on 127.0.0.1, or leave the flag out and use a token"
            ),
        )),
    }
}

pub(super) async fn resolve(listen: &str) -> Result<Vec<SocketAddr>> {
    if listen.starts_with(':') {
        return Err(not_an_address(listen, ""));
    }
    let found = lookup_host(listen).await;
    let addresses: Vec<_> = found
        .map_err(|why| not_an_address(listen, &why.to_string()))?
        .collect();
    if addresses.is_empty() {
        return Err(not_an_address(listen, "it names no address"));
    }
    Ok(addresses)
}

pub(super) async fn bind(listen: &str, addresses: &[SocketAddr]) -> Result<TcpListener> {
    TcpListener::bind(addresses)
        .await
        .map_err(|why| match why.kind() {
            std::io::ErrorKind::AddrInUse => exit::hinted(
                format!("{listen} is in use by another program"),
                "stop it, or listen elsewhere: --listen 127.0.0.1:0 takes a free port",
            ),
            std::io::ErrorKind::PermissionDenied => exit::hinted(
                format!("this user may not listen on {listen}"),
                "choose a port above 1023 with --listen HOST:PORT",
            ),
            _ => exit::hinted(
                format!("cannot listen on {listen}: {why}"),
                "name an address of this machine: --listen 127.0.0.1:8088",
            ),
        })
}

fn not_an_address(listen: &str, why: &str) -> anyhow::Error {
    let message = format!("cannot listen on {listen:?}");
    match listen.strip_prefix(':') {
        Some(port) => Usage::hinted(
            format!("{message}: the host is missing"),
            format!(
                "--listen 127.0.0.1:{port} for this machine, --listen 0.0.0.0:{port} for every network"
            ),
        ),
        None => Usage::hinted(
            format!("{message}: {why}"),
            "give HOST:PORT, such as --listen 127.0.0.1:8088",
        ),
    }
}

/// Prints the line that programs wait for, then what a person can try.
fn greet(address: SocketAddr, credential: &Credential, config: &Config) -> Result<()> {
    let url = format!("http://{address}");
    tracing::info!(%url, store = %Database::of(config)?, "serving");
    // A reader that has gone does not stop the server.
    if let Err(error) = out::bytes(greeting(&url, credential).as_bytes()) {
        tracing::debug!(%error, "nobody reads standard output");
    }
    Ok(())
}

/// What Ctrl-C sends.
pub(super) const INTERRUPT: &str = "SIGINT";

/// The signals that stop the server. Watched from the beginning, so that none is lost during the start.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn watch() -> Result<Self> {
        let watched = |kind| signal(kind).context("watching for signals");
        Ok(Self {
            terminate: watched(SignalKind::terminate())?,
            interrupt: watched(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal, or for a store that will write nothing any more until the process is started again: whoever
    /// watches over the process can do that, and a process that only refuses looks alive to it.
    pub(super) async fn ending(&mut self, store: &Store) -> Ending {
        tokio::select! {
            name = self.next() => {
                tracing::info!(signal = name, "stopping; a second signal stops at once");
                Ending::Asked
            }
            why = store.broken() => {
                tracing::error!(why, "stopping");
                Ending::Broken(why)
            }
        }
    }

    /// The name of the next signal.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => INTERRUPT,
        }
    }
}

/// Why the process ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// A signal asked for it.
    Asked,
    /// The store writes nothing any more.
    Broken(&'static str),
}

impl Ending {
    /// What the command says of it in the end.
    pub(super) fn result(self) -> Result<()> {
        match self {
            Ending::Asked => Ok(()),
            Ending::Broken(why) => Err(anyhow!(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tokens_only_loopback_is_served() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(
            access(true, &[at("127.0.0.1:1"), at("[::1]:1")]).unwrap(),
            Access::Open
        );
        assert_eq!(access(false, &[at("0.0.0.0:1")]).unwrap(), Access::Token);
        for open in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            let refused = access(true, &[at("127.0.0.1:1"), at(open)]).unwrap_err();
            assert_eq!(
                refused.downcast_ref::<Refused>().unwrap().code,
                "refusing_unauthenticated_bind"
            );
        }
    }

    #[test]
    fn files_of_a_developer_are_served_on_loopback_only() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let folder = || Some(PathBuf::from("dashboard"));
        let served = dashboard_folder(folder(), &[at("127.0.0.1:1"), at("[::1]:1")]);
        assert_eq!(served.unwrap(), folder());
        assert_eq!(dashboard_folder(None, &[at("0.0.0.0:1")]).unwrap(), None);
        for open in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            let refused = dashboard_folder(folder(), &[at("127.0.0.1:1"), at(open)]).unwrap_err();
            assert_eq!(
                refused.downcast_ref::<Refused>().unwrap().code,
                "refusing_dashboard_folder"
            );
        }
    }
}
