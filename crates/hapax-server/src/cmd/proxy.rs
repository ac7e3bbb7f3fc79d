//! `hapax proxy`: opens the store, binds, and stands in front of the upstream until it is told to stop.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::middleware::from_fn_with_state;
use hapax::problem::Form;
use hapax_core::OnLost;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower_layer::Layer;

use super::serve::{Signals, bind, finish, metrics_open, resolve, shared};
use crate::api::{self, App};
use crate::auth::{Access, Gate, SessionSecret};
use crate::cli::Proxy;
use crate::config::{self, Config};
use crate::exit::Failed;
use crate::pages::Pages;
use crate::proxy::{self, Door, Jwt, Target};
use crate::store::{Database, Store};
use crate::{chores, keep, log, out, serve, trace};

/// What a request may take beyond the upstream's time: reading it, claiming, waiting for another's answer.
const BESIDE_UPSTREAM: Duration = Duration::from_secs(120);

pub(super) async fn run(args: &Proxy) -> Result<()> {
    let config = load(args)?;
    log::start(&config)?;
    log::misspelt()?;
    let target = Target::parse(&config.proxy.upstream)?;
    let jwt = Jwt::load(&config)?;
    let mut signals = Signals::watch()?;
    let started = tokio::select! {
        started = start(config, target.clone(), jwt) => started?,
        name = signals.next() => {
            tracing::info!(signal = name, "stopped before it served");
            return Ok(());
        }
    };
    let greeting = greeting(&started, &target)?;
    let app = App::clone(&started.app);
    let (stop, stopped) = watch::channel(false);
    let chores = chores::start(&app, &stopped);
    let mut server = started.serve(stopped);
    tracing::info!(upstream = %target, store = %Database::of(&app.config)?, "proxying");
    // A reader that has gone does not stop the proxy.
    if let Err(error) = out::line(&greeting) {
        tracing::debug!(%error, "nobody reads standard output");
    }
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

/// The configuration, with the flags that only the proxy has.
fn load(args: &Proxy) -> Result<Config> {
    let mut config = Config::load(&args.store.flags())?;
    if let Some(listen) = &args.listen {
        config.proxy.listen.clone_from(listen);
    }
    if let Some(upstream) = &args.upstream {
        config.proxy.upstream.clone_from(upstream);
    }
    Ok(config)
}

/// What a start has made.
struct Started {
    app: App,
    listener: TcpListener,
    admin: Option<(TcpListener, Arc<Gate>)>,
    door: Door,
}

async fn start(config: Config, target: Target, jwt: Option<Arc<Jwt>>) -> Result<Started> {
    // The ports first: a start that cannot have them leaves nothing behind.
    let listen = &config.proxy.listen;
    let listener = bind(listen, &resolve(listen).await?).await?;
    let admin = match config.proxy.admin_listen.as_str() {
        "" => None,
        listen => Some(bind(listen, &resolve(listen).await?).await?),
    };
    keep::make_folder(&config.data)?;
    let store = Store::open(&config).await?;
    let admin = match admin {
        Some(listener) => Some(gated(listener, &config, &store)?),
        None => None,
    };
    // Nothing goes upstream twice without a person, unless a route says that it may.
    let app = shared(config, store, OnLost::Hold, (None, &listener))?;
    let door = proxy::service(&app, target, jwt)?;
    Ok(Started {
        app,
        listener,
        admin,
        door,
    })
}

/// The listener of how the proxy is doing, with who may read its metrics there.
fn gated(
    listener: TcpListener,
    config: &Config,
    store: &Store,
) -> Result<(TcpListener, Arc<Gate>)> {
    let (tokens, configured) = (Arc::clone(&store.tokens), config::token()?);
    let open = metrics_open(config, &listener)?;
    // Nobody signs in here.
    let secret = SessionSecret::of_nobody()?;
    let gate = Gate::new(tokens, Access::Token, open, configured.as_deref(), secret);
    Ok((listener, Arc::new(gate)))
}

impl Started {
    /// Serves until told to stop: the proxy, and beside it how it is doing.
    fn serve(self, stop: watch::Receiver<bool>) -> JoinHandle<()> {
        let limits = trace::Limits {
            request_timeout: self.app.config.proxy.times().total + BESIDE_UPSTREAM,
            access_log: self.app.config.access_log,
            pages: Pages::of(self.app.docs.as_ref(), Pages::Nowhere),
            form: Form::of,
        };
        let service = from_fn_with_state(limits, trace::trace).layer(self.door);
        tokio::spawn(async move {
            let config = &self.app.config;
            let beside = async {
                if let Some((admin, gate)) = self.admin {
                    let router = api::health_routes(&self.app, &gate);
                    serve::serve(admin, router, config, stop.clone()).await;
                }
            };
            tokio::join!(
                serve::serve(self.listener, service, config, stop.clone()),
                beside
            );
        })
    }
}

/// The line that programs wait for, then what else there is to know.
fn greeting(started: &Started, target: &Target) -> Result<String> {
    let address = |listener: &TcpListener| {
        listener
            .local_addr()
            .context("asking for the address that was bound")
    };
    let listening = address(&started.listener)?;
    let mut lines = vec![
        format!("listening on http://{listening}"),
        format!("in front of {target}"),
    ];
    if let Some((admin, _)) = &started.admin {
        lines.push(format!("health and metrics on http://{}", address(admin)?));
    }
    Ok(lines.join("\n"))
}
