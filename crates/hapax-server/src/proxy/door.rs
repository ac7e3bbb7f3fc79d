//! The door of the proxy: what may come in, and as which tenant. It forwards nothing itself.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Result;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hapax::layer::Idempotency;
use hapax::problem::Problem;
use hapax_core::{Principal, Tenant};
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{Method, StatusCode, Uri, Version};
use tower_service::Service;

use super::body::Failure;
use super::jwt::{Bearer, Jwt};
use super::upstream::Upstream;
use crate::body::LetIn;
use crate::config::proxy::Proxy;
use crate::exit::Usage;
use crate::problem::Refusal;
use crate::rates::{self, Rates};

/// The proxy: checks a request, then lets the layer have it.
#[derive(Clone)]
pub(crate) struct Door {
    rules: Arc<Rules>,
    rates: Option<Arc<Rates>>,
    layer: Idempotency<Upstream>,
}

#[derive(Debug)]
struct Rules {
    /// The hosts that are answered for; empty means any.
    hosts: Vec<String>,
    tenant: TenantFrom,
}

/// Where a writing request says whose it is.
#[derive(Debug)]
enum TenantFrom {
    /// Nowhere: all are the default tenant's.
    Nothing,
    Header(HeaderName),
    /// A claim of its bearer token.
    Claim(Arc<Jwt>),
}

impl Door {
    /// # Errors
    /// [`Usage`] when the tenant's header has no name that a header can have.
    pub(super) fn new(
        config: &Proxy,
        jwt: Option<Arc<Jwt>>,
        layer: Idempotency<Upstream>,
    ) -> Result<Self> {
        let naming = jwt.filter(|jwt| jwt.names_tenant());
        let tenant = match (naming, config.tenant_header.as_str()) {
            (Some(jwt), _) => TenantFrom::Claim(jwt),
            (None, "") => TenantFrom::Nothing,
            (None, name) => TenantFrom::Header(name.parse().map_err(|_| {
                Usage::error(format!("proxy.tenant_header is {name:?}, no header's name"))
            })?),
        };
        let hosts = config
            .hosts
            .iter()
            .map(|host| host.to_ascii_lowercase())
            .collect();
        Ok(Self {
            rules: Arc::new(Rules { hosts, tenant }),
            rates: None,
            layer,
        })
    }

    /// The same, with a limit to what each tenant may write.
    pub(super) fn with_rates(mut self, rates: Option<Arc<Rates>>) -> Self {
        self.rates = rates;
        self
    }
}

impl Service<Request> for Door {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        if let Err(problem) = self.rules.admit(&mut parts) {
            let refused = Refusal::from(*problem).into_response();
            return Box::pin(std::future::ready(Ok(refused)));
        }
        let tenant = parts.extensions.get::<Tenant>().copied();
        let rates = self.rates.clone().filter(|_| writes(&parts.method));
        let answer = self.layer.call(Request::from_parts(parts, body));
        Box::pin(async move {
            let tenant = tenant.unwrap_or(Tenant::DEFAULT);
            if let Err(refusal) = rates::admit(rates.as_deref(), tenant).await {
                return Ok(refusal.into_response());
            }
            Ok(match answer.await {
                Ok(mut response) => {
                    response.extensions_mut().insert(LetIn);
                    let failure: Option<Failure> = response.extensions_mut().remove();
                    match failure.and_then(|failure| failure.get()) {
                        // The layer read the answer to the point where it broke: none of it has gone out yet.
                        Some(unanswered) => Refusal::from(unanswered.problem()).into_response(),
                        None => response.map(Body::new),
                    }
                }
                Err(unanswered) => Refusal::from(unanswered.problem()).into_response(),
            })
        })
    }
}

impl Rules {
    /// Lets a request in: its target in origin form, with its tenant, or not at all.
    fn admit(&self, parts: &mut Parts) -> Result<(), Box<Problem>> {
        let host = self.host(parts)?;
        if let Some(host) = host {
            parts.headers.insert(HOST, host);
        }
        if let Some(origin) = origin(parts)? {
            parts.uri = origin;
        }
        self.whose(parts)
    }

    /// The one host that the request is for; HTTP/2 says it in its target.
    fn host(&self, parts: &Parts) -> Result<Option<HeaderValue>, Box<Problem>> {
        let is_http2 = parts.version >= Version::HTTP_2;
        let absolute = parts.uri.scheme().is_some() || parts.uri.authority().is_some();
        if parts.method == Method::CONNECT || (absolute && !is_http2) {
            return bad_target("send the path alone; where it goes is not the client's to say");
        }
        let mut hosts = parts.headers.get_all(HOST).iter();
        let (header, more) = (hosts.next(), hosts.next());
        if more.is_some() {
            return bad_target("there are two Host headers; send one");
        }
        let authority = parts.uri.authority().map(Authority::as_str);
        let host = match (authority, header) {
            (Some(authority), Some(header)) if !same(authority, header) => {
                return bad_target("Host and :authority differ; send one");
            }
            (Some(authority), _) => HeaderValue::from_str(authority).ok(),
            (None, header) => header.cloned(),
        };
        let Some(host) = host else {
            return match parts.version {
                Version::HTTP_11 => bad_target("there is no Host header; send one"),
                _ => self.known("").map(|()| None),
            };
        };
        let text = host.to_str().unwrap_or("@");
        if !text.is_empty() && (text.contains('@') || text.parse::<Authority>().is_err()) {
            return bad_target("the Host header is not a host");
        }
        self.known(text).map(|()| Some(host))
    }

    /// Refuses what is meant for somebody else.
    fn known(&self, host: &str) -> Result<(), Box<Problem>> {
        if self.hosts.is_empty() {
            return Ok(());
        }
        let host = host.to_ascii_lowercase();
        let name = host
            .rsplit_once(':')
            .map_or(host.as_str(), |(name, _port)| name);
        let is_known = |known: &String| *known == host || known == name;
        if self.hosts.iter().any(is_known) {
            Ok(())
        } else {
            bad_target("this host is not served here")
        }
    }

    /// Notes the tenant that a writing request names, where the configuration says that it must.
    fn whose(&self, parts: &mut Parts) -> Result<(), Box<Problem>> {
        if !writes(&parts.method) {
            return Ok(());
        }
        let tenant = match &self.tenant {
            TenantFrom::Nothing => None,
            TenantFrom::Header(name) => Some(named(&parts.headers, name)?),
            TenantFrom::Claim(jwt) => {
                let Bearer { tenant, principal } = jwt.identify(&parts.headers)?;
                parts.extensions.insert(Subject(principal));
                tenant
            }
        };
        if let Some(tenant) = tenant {
            parts.extensions.insert(tenant);
        }
        Ok(())
    }
}

/// The subject of a token that was verified at the door, if it names one.
#[derive(Clone, Copy, Debug)]
struct Subject(Option<Principal>);

/// Who sends a request by the word of its token, verified once. A request without `Authorization` says nothing.
pub(super) fn subject(jwt: Option<&Jwt>, parts: &Parts) -> Result<Option<Principal>, Box<Problem>> {
    if let Some(Subject(principal)) = parts.extensions.get() {
        return Ok(*principal);
    }
    match jwt {
        Some(jwt) if parts.headers.contains_key(AUTHORIZATION) => {
            Ok(jwt.identify(&parts.headers)?.principal)
        }
        Some(_) | None => Ok(None),
    }
}

/// Whether a request may change something.
fn writes(method: &Method) -> bool {
    matches!(
        *method,
        Method::POST | Method::PUT | Method::PATCH | Method::DELETE
    )
}

/// The tenant in the one header of this name.
fn named(headers: &HeaderMap, name: &HeaderName) -> Result<Tenant, Box<Problem>> {
    let mut values = headers.get_all(name).iter();
    let tenant = match (values.next(), values.next()) {
        (Some(value), None) => value
            .to_str()
            .ok()
            .and_then(|text| uuid::Uuid::try_parse(text.trim()).ok()),
        (_, _) => None,
    };
    tenant.map(Tenant::from_uuid).ok_or_else(|| {
        let message = format!("send the tenant's UUID, once, as the header {name}");
        let problem = Problem::new(StatusCode::BAD_REQUEST, "tenant_required", message);
        Box::new(problem.with_detail("header", name.as_str()))
    })
}

/// The path and query alone, unless there is nothing else.
fn origin(parts: &Parts) -> Result<Option<Uri>, Box<Problem>> {
    let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let for_all = path == "*" && parts.method == Method::OPTIONS;
    if !for_all && !path.starts_with('/') {
        return bad_target("the target is no path; begin it with a slash");
    }
    if parts.uri.scheme().is_none() && parts.uri.authority().is_none() {
        return Ok(None);
    }
    path.parse()
        .map(Some)
        .or_else(|_| bad_target("the target is no path"))
}

fn same(authority: &str, header: &HeaderValue) -> bool {
    header.as_bytes().eq_ignore_ascii_case(authority.as_bytes())
}

fn bad_target<T>(message: &str) -> Result<T, Box<Problem>> {
    Err(Box::new(Problem::new(
        StatusCode::BAD_REQUEST,
        "bad_target",
        message,
    )))
}

#[cfg(test)]
mod tests;
