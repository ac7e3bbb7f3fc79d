//! Where a caller finds the pages of errors: on the site that the configuration names, else on the server it has reached.
//! What is on them is in `api::docs`.

use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use hapax::problem::DocsBase;

use crate::auth::session::is_https;

/// Whose pages a service leads to.
#[derive(Clone, Debug)]
pub(crate) enum Pages {
    /// Those of this site.
    At(DocsBase),
    /// Its own, by the scheme and host that the caller used.
    Own,
    /// Nobody's: behind its paths is another service.
    Nowhere,
}

impl Pages {
    /// Those of the configured site, else `otherwise`.
    pub(crate) fn of(configured: Option<&DocsBase>, otherwise: Self) -> Self {
        configured.cloned().map_or(otherwise, Self::At)
    }

    /// What is kept of a request until it is known whether it is refused.
    pub(crate) fn sought_by(&self, request: &Request) -> Sought {
        match self {
            Self::At(base) => Sought::Known(Some(base.clone())),
            Self::Nowhere => Sought::Known(None),
            Self::Own => Sought::Reached {
                authority: request.uri().authority().cloned(),
                host: request.headers().get(HOST).cloned(),
                scheme: scheme(request.headers()),
            },
        }
    }
}

/// The pages that one request would be sent to.
pub(crate) enum Sought {
    Known(Option<DocsBase>),
    Reached {
        authority: Option<Authority>,
        host: Option<HeaderValue>,
        scheme: &'static str,
    },
}

impl Sought {
    /// Where they are. A request that names no host, or none that is one, is sent nowhere.
    pub(crate) fn base(self) -> Option<DocsBase> {
        match self {
            Self::Known(base) => base,
            Self::Reached {
                authority,
                host,
                scheme,
            } => {
                let named = authority.as_ref().map(Authority::as_str);
                let host = named.or_else(|| host.as_ref()?.to_str().ok())?;
                // A host alone: what follows it would be read as a path.
                host.parse::<Authority>().ok()?;
                DocsBase::new(&format!("{scheme}://{host}")).ok()
            }
        }
    }
}

fn scheme(headers: &HeaderMap) -> &'static str {
    if is_https(headers) { "https" } else { "http" }
}

/// Says the pages to what is within, which forms refusals of its own.
pub(crate) async fn note(State(pages): State<Pages>, mut request: Request, next: Next) -> Response {
    if let Some(base) = pages.sought_by(&request).base() {
        request.extensions_mut().insert(base);
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn page(headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::get("/a");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sought = Pages::Own.sought_by(&request.body(Body::empty()).unwrap());
        sought.base().map(|base| base.page("c"))
    }

    #[test]
    fn a_server_names_itself_as_the_caller_reached_it_or_not_at_all() {
        let at = |url: &str| Some(format!("{url}/docs/errors/c"));
        assert_eq!(page(&[("host", "h.example:88")]), at("http://h.example:88"));
        let proxied = [("host", "h.example"), ("x-forwarded-proto", "https")];
        assert_eq!(page(&proxied), at("https://h.example"));
        for host in ["", "a b", "h.example/evil", "me@h.example", "h.example?x"] {
            assert_eq!(page(&[("host", host)]), None, "{host}");
        }
        assert_eq!(page(&[]), None);
    }
}
