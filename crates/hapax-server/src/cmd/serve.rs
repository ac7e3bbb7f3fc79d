//! `hapax serve`: opens the store, binds, says where it listens, and serves until it is told to stop.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use hapax::Engine;
use tokio::net::{TcpListener, lookup_host};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::api::{self, App, Shared};
use crate::auth::{Access, Gate};
use crate::cli::Serve;
use crate::config::{self, Config};
use crate::exit::{Refused, Usage};
use crate::first_token::{self, Credential};
use crate::store::{self, Database, Store};
use crate::{chores, log, metrics, out, serve};

/// A token shorter than this can be guessed.
const TOKEN_CHARS_MIN: usize = 16;

pub(super) async fn run(args: &Serve) -> Result<()> {
    let config = Config::load(&args.flags())?;
    log::start(&config)?;
    for name in config::unknown_variables()? {
        tracing::warn!(
            name,
            "this variable begins with HAPAX_ but means nothing here; is it misspelt?"
        );
    }
    let addresses = resolve(&config.listen).await?;
    let access = access(args.insecure_no_auth, &addresses)?;
    // Both are watched from here on, so that a stop during the start is not lost.
    let signals = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );

    store::make_folder(&config.data)?;
    let store = Store::open(&config).await?;
    let configured = configured_token()?;
    let credential = match access {
        Access::Open => Credential::NotNeeded,
        Access::Token => first_token::ensure(&store, &config.data, configured.is_some()).await?,
    };
    let listener = bind(&config.listen, &addresses).await?;
    let address = listener
        .local_addr()
        .context("asking for the address that was bound")?;

    let tokens = Arc::clone(&store.tokens);
    let gate = Gate::new(tokens, access, config.metrics_open, configured.as_deref());
    let app = Arc::new(Shared {
        engine: Engine::new(Arc::clone(&store.ledger)),
        store,
        metrics: metrics::install()?,
        started: Instant::now(),
        config,
    });
    let router = api::router(&app, &Arc::new(gate));
    let (stop, stopped) = watch::channel(false);
    let chores = chores::start(&app, &stopped);
    let serving = App::clone(&app);
    let server =
        tokio::spawn(async move { serve::serve(listener, router, &serving.config, stopped).await });
    greet(address, &credential, &app.config)?;
    await_stop(signals, &stop).await;
    finish(&app, server, chores).await
}

/// Lets what is in flight end, within what is left of `shutdown_ms`, and closes the store.
async fn finish(app: &App, server: JoinHandle<()>, mut chores: JoinSet<()>) -> Result<()> {
    let asked = Instant::now();
    server.await.context("the listener ended by itself")?;
    let left = app.config.shutdown().saturating_sub(asked.elapsed());
    if !app.engine.drain(left).await {
        tracing::warn!("shutdown_ms is over; leaving handlers whose clients went away");
    }
    while chores.join_next().await.is_some() {}
    app.store.close().await;
    tracing::info!("stopped");
    Ok(())
}

fn configured_token() -> Result<Option<String>> {
    let token = config::token()?;
    if token
        .as_ref()
        .is_some_and(|token| token.chars().count() < TOKEN_CHARS_MIN)
    {
        tracing::warn!(
            "HAPAX_TOKEN has fewer than {TOKEN_CHARS_MIN} characters; whoever guesses it owns the data"
        );
    }
    Ok(token)
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
                "{address} is not loopback, and --insecure-no-auth would let everybody in; \
                 listen on 127.0.0.1, or leave the flag out and use a token"
            ),
        )),
    }
}

async fn resolve(listen: &str) -> Result<Vec<SocketAddr>> {
    let found = lookup_host(listen).await;
    let addresses: Vec<_> = found
        .map_err(|why| Usage::error(format!("cannot listen on {listen:?}: {why}; use HOST:PORT")))?
        .collect();
    if addresses.is_empty() {
        return Err(Usage::error(format!("{listen:?} names no address")));
    }
    Ok(addresses)
}

async fn bind(listen: &str, addresses: &[SocketAddr]) -> Result<TcpListener> {
    TcpListener::bind(addresses).await.map_err(|why| match why.kind() {
        std::io::ErrorKind::AddrInUse => anyhow!(
            "{listen} is in use by another program; stop it, or listen elsewhere: hapax serve --listen 127.0.0.1:0"
        ),
        std::io::ErrorKind::PermissionDenied => {
            anyhow!("this user may not listen on {listen}; choose a port above 1023")
        }
        _ => anyhow!("cannot listen on {listen}: {why}"),
    })
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

fn greeting(url: &str, credential: &Credential) -> String {
    let (note, bearer) = match credential {
        Credential::NotNeeded => ("WITHOUT TOKENS: everybody on this machine is the owner\n\n".to_owned(), None),
        Credential::Configured => (String::new(), Some("$HAPAX_TOKEN".to_owned())),
        Credential::Kept(path) => (String::new(), Some(format!("$(cat {})", quoted(path)))),
        Credential::Made { text, path } => (
            format!("owner token, shown only now and kept in {}:\n  {text}\n\n", path.display()),
            Some(format!("$(cat {})", quoted(path))),
        ),
        Credential::Unknown => (
            "no token is known here; make one:\n  hapax token create --tenant default --role owner\n\n".to_owned(),
            Some("$TOKEN".to_owned()),
        ),
    };
    let header = bearer.map_or(String::new(), |bearer| {
        format!(" \\\n       -H \"Authorization: Bearer {bearer}\"")
    });
    format!(
        "listening on {url}\n\n{note}try it, twice:\n  \
         curl -i {url}/v1/echo{header} \\\n       \
         -H 'Idempotency-Key: first-call' -H 'Content-Type: application/json' -d '{{\"hello\":\"world\"}}'\n\
         it prints {{\"echo\":{{\"hello\":\"world\"}},\"id\":\"…\",\"at\":\"…\"}}; the second time with the same id and\n\
         the header idempotency-replayed: true, because it did not run again\n"
    )
}

/// The path as one word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Waits for the first signal and passes it on. A second one ends the process at once.
async fn await_stop((mut terminate, mut interrupt): (Signal, Signal), stop: &watch::Sender<bool>) {
    let next = async |terminate: &mut Signal, interrupt: &mut Signal| {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let name = next(&mut terminate, &mut interrupt).await;
    tracing::info!(signal = name, "stopping; a second signal stops at once");
    // There is a receiver as long as the server runs.
    let _ = stop.send(true);
    tokio::spawn(async move {
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal = name, "stopping at once");
        std::process::exit(1);
    });
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
    fn a_path_with_odd_characters_is_still_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/a/b-1.c")), "/a/b-1.c");
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
