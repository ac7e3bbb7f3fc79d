//! One request, redirects followed by hand: every hop is checked, takes its turn at its host and has a deadline.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::SystemTime;

use hapax_core::Tenant;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode};
use url::Url;

use super::error::{Code, Error};
use super::guard::{Blocked, Guard};
use super::headers::{refusal, retry_after, text};
use super::hosts::{Hosts, Turn};
use super::limits::Limits;
use crate::client::{install_provider, told};

/// What asks for one tenant. Cookies, proxies of the environment, caches: it has none.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    client: Client,
    guard: Guard,
    hosts: Arc<Hosts>,
    limits: Limits,
    tenant: Tenant,
}

/// An answer, and the turn at its host that lasts as long as the body is read.
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) url: Url,
    _turn: Turn,
}

impl Asker {
    pub(super) fn new(guard: Guard, limits: Limits) -> Result<Self, Error> {
        install_provider();
        let agent = concat!("hapax/", env!("CARGO_PKG_VERSION"));
        let client = Client::builder()
            .user_agent(agent)
            .referer(false)
            .retry(reqwest::retry::never())
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(guard)
            .connect_timeout(limits.connect_time)
            .pool_max_idle_per_host(limits.per_host_max)
            .build()
            .map_err(|error| Error::fatal(Code::Network, told(&error)))?;
        Ok(Self {
            client,
            guard,
            hosts: Arc::new(Hosts::new(limits.per_host_max, limits.shared)),
            limits,
            tenant: Tenant::DEFAULT,
        })
    }

    /// The same for this tenant: what it knows of hosts is shared.
    pub(super) fn of(&self, tenant: Tenant) -> Self {
        Self {
            tenant,
            ..self.clone()
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The answer to one request, whatever its status, after redirects.
    pub(super) async fn ask(
        &self,
        method: &Method,
        url: &str,
        headers: &HeaderMap,
    ) -> Result<Answer, Error> {
        let mut url = self.guard.url(url)?;
        for _hop in 0..=self.limits.redirects_max {
            let answer = self.hop(method, url, headers).await?;
            let Some(location) = redirect(&answer.response) else {
                return Ok(answer);
            };
            url = self.follow(&answer.url, &location)?;
        }
        let most = self.limits.redirects_max;
        let text = format!("more than {most} redirects");
        Err(Error::fatal(Code::RedirectRefused, text))
    }

    async fn hop(&self, method: &Method, url: Url, headers: &HeaderMap) -> Result<Answer, Error> {
        let turn = match self
            .hosts
            .turn((&url, self.tenant), self.limits.patience)
            .await
        {
            Ok(turn) => turn,
            Err(left) => {
                let text = "the host asked to be left alone";
                return Err(Error::retryable(Code::HttpStatus, text).after(Some(left)));
            }
        };
        let request = self
            .client
            .request(method.clone(), url.clone())
            .header(ACCEPT, HeaderValue::from_static("*/*"))
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"))
            .headers(headers.clone());
        let patience = self.limits.connect_time + self.limits.idle_time;
        let Ok(sent) = tokio::time::timeout(patience, request.send()).await else {
            let text = "the server did not answer in time";
            return Err(Error::retryable(Code::TimedOut, text));
        };
        let response = sent.map_err(|error| trouble(&error))?;
        if let Some(rest) = self.rest_asked(&response) {
            self.hosts.rest(&url, rest);
        }
        Ok(Answer {
            response,
            url,
            _turn: turn,
        })
    }

    fn rest_asked(&self, response: &Response) -> Option<std::time::Duration> {
        let asks = matches!(
            response.status(),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        let longest = self.limits.retry_after_max;
        retry_after(response.headers(), SystemTime::now(), longest).filter(|_| asks)
    }

    /// The error of an answer that brings no content.
    pub(super) fn refused(&self, response: &Response) -> Error {
        let longest = self.limits.retry_after_max;
        let after = retry_after(response.headers(), SystemTime::now(), longest);
        refusal(response.status(), after)
    }

    fn follow(&self, from: &Url, location: &str) -> Result<Url, Error> {
        let refused = |why: &str| Error::fatal(Code::RedirectRefused, why.to_owned());
        let to = from
            .join(location)
            .map_err(|_| refused("it leads to something that is no URL"))?;
        // What it says of a URL that nobody named is not told: the host may know addresses that the caller must not.
        let unfit = |error: Error| match error.code() {
            Code::BadUrl => Error::fatal(Code::BadUrl, "it leads to a URL that is not fetched"),
            _ => error,
        };
        let to = self.guard.url(to.as_str()).map_err(unfit)?;
        if from.scheme() == "https" && to.scheme() == "http" {
            return Err(refused("it leads from https to http"));
        }
        Ok(to)
    }
}

fn redirect(response: &Response) -> Option<String> {
    matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308)
        .then(|| text(response.headers(), &LOCATION))
        .flatten()
}

/// What a failed request or a broken body means.
pub(super) fn trouble(error: &reqwest::Error) -> Error {
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(blocked) = cause.downcast_ref::<Blocked>() {
            return blocked.at(error.url().and_then(Url::host_str));
        }
        source = cause.source();
    }
    if error.is_builder() {
        return Error::fatal(Code::BadUrl, told(error));
    }
    let code = if error.is_timeout() {
        Code::TimedOut
    } else {
        Code::Network
    };
    Error::retryable(code, told(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_checked_like_the_first_url() {
        let asker = Asker::new(Guard::public_only(), Limits::default()).unwrap();
        let from = Url::parse("https://example.org/a/b").unwrap();
        let follow = |to| asker.follow(&from, to).map(|url| url.to_string());
        assert_eq!(follow("../c").unwrap(), "https://example.org/c");
        assert_eq!(follow("//example.net/").unwrap(), "https://example.net/");
        for (to, code) in [
            ("http://example.org/", Code::RedirectRefused),
            ("https://127.0.0.1/", Code::SsrfBlocked),
            ("https://[fd00::1]/", Code::SsrfBlocked),
            ("https://169.254.169.254/latest", Code::SsrfBlocked),
            ("file:///etc/passwd", Code::BadUrl),
            ("https://user@example.org/", Code::BadUrl),
        ] {
            let refused = follow(to).unwrap_err();
            assert_eq!(refused.code(), code, "{to}");
            let host = Url::parse(to).unwrap();
            let host = host.host_str().unwrap_or("/etc");
            assert!(!refused.to_string().contains(host), "{refused}");
        }
    }
}
