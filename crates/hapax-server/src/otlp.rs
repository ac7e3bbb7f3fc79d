//! Traces by OTLP over HTTP, as JSON: one span per request, sent in batches beside the traffic.
//! A span holds no body, query or credential. Without room, or a collector, spans are dropped and counted.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use axum::http::{HeaderMap, Method, Request, Uri, header::CONTENT_TYPE};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls_platform_verifier::ConfigVerifierExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::exit::Usage;

/// How many spans wait to be sent.
const WAITING_MAX: usize = 4096;
/// How many go in one request.
const BATCH_MAX: usize = 512;
/// How long a batch gathers.
const GATHER: Duration = Duration::from_secs(1);
/// How long the collector may take.
const SEND_WITHIN: Duration = Duration::from_secs(10);

static SPANS: OnceLock<mpsc::Sender<Span>> = OnceLock::new();

/// One request that was answered.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) trace_id: String,
    pub(crate) origin: Origin,
    pub(crate) method: &'static str,
    pub(crate) route: String,
    pub(crate) status: u16,
    pub(crate) ended: SystemTime,
    pub(crate) took: Duration,
}

/// Where a trace comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// It begins here.
    Here,
    /// It goes on from this span of the caller.
    Caller(String),
    /// The caller said not to trace it.
    Untraced,
}

impl Origin {
    /// What the caller's `traceparent` says.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = headers
            .get("traceparent")
            .and_then(|value| value.to_str().ok());
        let mut parts = text.unwrap_or_default().split('-').skip(2);
        match (parts.next(), parts.next()) {
            (Some(_), Some("00")) => Self::Untraced,
            (Some(span), Some(_))
                if span.len() == 16 && span.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
            {
                Self::Caller(span.to_ascii_lowercase())
            }
            (Some(_) | None, _) => Self::Here,
        }
    }
}

/// Whether spans are wanted.
pub(crate) fn is_on() -> bool {
    SPANS.get().is_some()
}

/// Takes a span, to be sent soon. It never waits.
pub(crate) fn record(span: Span) {
    if let Some(spans) = SPANS.get()
        && span.origin != Origin::Untraced
        && spans.try_send(span).is_err()
    {
        metrics::counter!("hapax_otlp_dropped_total").increment(1);
    }
}

/// Whether spans can be sent to `endpoint`, as far as its form tells.
///
/// # Errors
/// [`Usage`] when it is neither empty nor a URL.
pub(crate) fn check(endpoint: &str) -> Result<()> {
    if endpoint.is_empty() {
        return Ok(());
    }
    url(endpoint).map(drop)
}

fn url(endpoint: &str) -> Result<Uri> {
    let uri = endpoint.parse::<Uri>().ok();
    uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")))
        .ok_or_else(|| {
            Usage::error("otlp_endpoint is no URL; write http://HOST:4318/v1/traces, or https")
        })
}

/// What sends spans to `endpoint` until `stop`, to be spawned; nothing if there is no endpoint.
///
/// # Errors
/// [`Usage`] when the endpoint is no URL, or TLS cannot be set up.
pub(crate) fn start(
    endpoint: &str,
    stop: &watch::Receiver<bool>,
) -> Result<Option<impl Future<Output = ()> + Send + 'static>> {
    if endpoint.is_empty() {
        return Ok(None);
    }
    let collector = Collector::of(endpoint)?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    if SPANS.set(sender).is_err() {
        return Ok(None);
    }
    Ok(Some(send_all(collector, receiver, stop.clone())))
}

async fn send_all(
    collector: Collector,
    mut spans: mpsc::Receiver<Span>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let is_over = tokio::select! {
            () = tokio::time::sleep(GATHER) => false,
            _ = stop.wait_for(|stop| *stop) => true,
        };
        loop {
            let mut batch = Vec::new();
            while batch.len() < BATCH_MAX
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                break;
            }
            if let Err(error) = collector.send(&batch).await {
                metrics::counter!("hapax_otlp_dropped_total").increment(batch.len() as u64);
                tracing::warn!(error = %format!("{error:#}"), spans = batch.len(), "spans were not sent");
                break;
            }
        }
        if is_over {
            return;
        }
    }
}

/// Where spans go.
struct Collector {
    endpoint: Uri,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Collector {
    fn of(endpoint: &str) -> Result<Self> {
        let uri = url(endpoint)?;
        let builder = HttpsConnectorBuilder::new();
        let connector = if uri.scheme_str() == Some("https") {
            // The provider is looked up by the process; a second call finds it set.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            let tls = rustls::ClientConfig::with_platform_verifier()
                .context("loading the system's certificates")?;
            builder.with_tls_config(tls)
        } else {
            let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let tls = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .context("setting TLS up")?
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            builder.with_tls_config(tls)
        };
        let connector = connector.https_or_http().enable_http1().build();
        Ok(Self {
            endpoint: uri,
            client: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    async fn send(&self, batch: &[Span]) -> Result<()> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.endpoint.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(document(batch).to_string())))
            .context("making the request")?;
        let sent = async {
            let response = self.client.request(request).await?;
            let status = response.status();
            // Read to its end, so that the connection is used again.
            let _body = response.into_body().collect().await?;
            anyhow::ensure!(status.is_success(), "the collector answered {status}");
            Ok(())
        };
        timeout(SEND_WITHIN, sent)
            .await
            .context("the collector does not answer")?
    }
}

fn document(batch: &[Span]) -> Value {
    let spans: Vec<Value> = batch.iter().map(encoded).collect();
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            text("service.name", "hapax"),
            text("service.version", env!("CARGO_PKG_VERSION")),
        ]},
        "scopeSpans": [{"scope": {"name": "hapax"}, "spans": spans}],
    }]})
}

fn encoded(span: &Span) -> Value {
    let nanos = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_nanos().to_string()
    };
    let id = uuid::Uuid::new_v4().simple().to_string();
    let mut document = json!({
        "traceId": span.trace_id,
        "spanId": &id[..16],
        "name": format!("{} {}", span.method, span.route),
        "kind": 2,
        "startTimeUnixNano": nanos(span.ended - span.took),
        "endTimeUnixNano": nanos(span.ended),
        "attributes": [
            {"key": "http.request.method", "value": {"stringValue": span.method}},
            {"key": "http.route", "value": {"stringValue": span.route}},
            {"key": "http.response.status_code", "value": {"intValue": span.status.to_string()}},
        ],
        "status": {"code": if span.status >= 500 { 2 } else { 0 }},
    });
    if let Origin::Caller(parent) = &span.origin {
        document["parentSpanId"] = parent.as_str().into();
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_goes_on_from_the_caller_unless_it_says_not_to() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().unwrap());
            Origin::of(&headers)
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(
            of(&format!("00-{trace}-00f067aa0ba902b7-01")),
            Origin::Caller("00f067aa0ba902b7".to_owned())
        );
        assert_eq!(
            of(&format!("00-{trace}-00f067aa0ba902b7-00")),
            Origin::Untraced
        );
        assert_eq!(of("nonsense"), Origin::Here);
        assert_eq!(Origin::of(&HeaderMap::new()), Origin::Here);
    }

    #[test]
    fn an_endpoint_that_is_no_url_is_refused() {
        for wrong in ["collector:4318", "/v1/traces", "ftp://h/", "h t"] {
            assert!(Collector::of(wrong).is_err(), "{wrong}");
        }
        assert!(Collector::of("http://127.0.0.1:4318/v1/traces").is_ok());
    }
}
