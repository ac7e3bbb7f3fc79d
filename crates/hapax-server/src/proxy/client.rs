//! The connections to the upstream: pooled, with TLS where the URL says so, and never a request sent again.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tower_service::Service;

use super::body::Sent;
use crate::config::proxy::Proxy;
use crate::exit::Usage;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The client of the upstream.
pub(super) type UpstreamClient = Client<InTime, Sent>;

/// A client as the configuration wants it.
///
/// # Errors
/// [`Usage`] when the certificates cannot be used.
pub(super) fn client(https: bool, config: &Proxy) -> Result<UpstreamClient> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let tls = if https {
        tls(&config.upstream_ca)?
    } else {
        no_tls()?
    };
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    let connector = if config.upstream_http2 {
        connector.enable_http2().wrap_connector(http)
    } else {
        connector.enable_all_versions().wrap_connector(http)
    };
    let connect = Duration::from_millis(config.connect_timeout_ms);
    Ok(Client::builder(TokioExecutor::new())
        // Whether something is sent again is the ledger's to say, and a person's.
        .retry_canceled_requests(false)
        .pool_idle_timeout(Duration::from_millis(config.pool_idle_timeout_ms))
        .pool_max_idle_per_host(config.pool_idle_max)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .http2_only(config.upstream_http2)
        .http2_adaptive_window(true)
        .http1_max_buf_size(256 * 1024)
        .build(InTime { connector, connect }))
}

/// The system's certificates, or those of one file.
fn tls(ca: &str) -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .context("setting TLS up")?;
    if ca.is_empty() {
        let verified = builder
            .with_platform_verifier()
            .context("loading the system's certificates")?;
        return Ok(verified.with_no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    let unusable =
        |why: &dyn std::fmt::Display| Usage::error(format!("proxy.upstream_ca {ca}: {why}"));
    let certificates =
        CertificateDer::pem_file_iter(Path::new(ca)).map_err(|why| unusable(&why))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|why| unusable(&why))?;
        roots.add(certificate).map_err(|why| unusable(&why))?;
    }
    if roots.is_empty() {
        return Err(unusable(&"it holds no certificate"));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Trusts nobody: for an upstream without TLS, so that no certificate has to be there.
fn no_tls() -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .context("setting TLS up")?;
    Ok(builder
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

/// A connector whose whole work, name, socket and handshake, is done in time or fails.
#[derive(Clone)]
pub(super) struct InTime {
    connector: HttpsConnector<HttpConnector>,
    connect: Duration,
}

impl Service<Uri> for InTime {
    type Response = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.connect, self.connector.call(uri));
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected,
                Err(_) => Err("the upstream did not accept a connection in time".into()),
            }
        })
    }
}
