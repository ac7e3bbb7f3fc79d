//! Who asks, and whether they may: bearer tokens, roles, and the answer to guessing.
//! It runs before anything that could tell a stranger what exists.

mod confirmed;
mod secret;
pub(crate) mod session;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::uri::Authority;
use axum::http::{Extensions, HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hapax_core::{Principal, Tenant, Time};
use hapax_store::{Role, SessionId, Token, TokenId, Tokens};
use subtle::ConstantTimeEq;

use crate::body::LetIn;
use crate::problem::{self, Refusal};
use crate::rates::{self, Rates};
use crate::serve::Peer;
use crate::throttle::Failures;
use crate::token;
use confirmed::Confirmed;
pub(crate) use secret::{SessionSecret, VARIABLE as SESSION_SECRET};
use session::{Holder, Session};

/// The path that a webhook of Telegram's Bot API calls.
pub(crate) const TELEGRAM_PATH: &str = "/ingest/telegram/update";
/// Where it carries the secret that it was set up with.
const TELEGRAM_HEADER: &str = "x-telegram-bot-api-secret-token";

/// What a valid credential stands for.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) tenant: Tenant,
    pub(crate) role: Role,
    pub(crate) caller: Caller,
}

impl Identity {
    fn of(token: &Token) -> Self {
        Self {
            tenant: token.tenant,
            role: token.role,
            caller: Caller::Token(token.id, token.name.clone()),
        }
    }
}

/// What is looked at of a request to tell who asks.
#[derive(Clone, Copy)]
struct Asked<'a> {
    method: &'a Method,
    path: &'a str,
    /// What HTTP/2 has in place of Host.
    authority: Option<&'a str>,
    headers: &'a HeaderMap,
    peer: IpAddr,
}

impl<'a> Asked<'a> {
    fn of(request: &'a Request) -> Self {
        Self {
            method: request.method(),
            path: request.uri().path(),
            authority: request.uri().authority().map(Authority::as_str),
            headers: request.headers(),
            peer: peer(request.extensions()),
        }
    }
}

/// Where a request comes from.
pub(crate) fn peer(extensions: &Extensions) -> IpAddr {
    let peer = extensions.get::<Peer>();
    peer.map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0.ip())
}

/// Which credential asks, as the audit trail names it.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// The token with this id, and its name if it has one.
    Token(TokenId, Option<Arc<str>>),
    /// HAPAX_TOKEN.
    Configured,
    /// A webhook with the secret in HAPAX_TELEGRAM_SECRET.
    Telegram,
    /// Nobody in particular: the server asks for no token.
    Local,
}

impl Caller {
    /// Who that is for keys that are derived; `None` where it is nobody in particular.
    pub(crate) fn principal(&self) -> Option<Principal> {
        let of = |text: &str| Some(Principal::of_parts("caller", &[text.as_bytes()]));
        match self {
            // Its name is for people: the keys of a token do not depend on it.
            Caller::Token(id, _) => of(&format!("token {id}")),
            Caller::Configured | Caller::Telegram => of(&self.to_string()),
            Caller::Local => None,
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Token(id, None) => write!(f, "token {id}"),
            Caller::Token(id, Some(name)) => write!(f, "token {id} ({name})"),
            Caller::Configured => f.write_str("HAPAX_TOKEN"),
            Caller::Telegram => f.write_str("telegram webhook"),
            Caller::Local => f.write_str("local"),
        }
    }
}

/// How a request signed in, and until when that holds if it is a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signed {
    /// With its token, or it did not have to.
    Itself,
    /// With the cookie of a session that ends then.
    Session(Time),
}

/// How requests sign in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Only with a token.
    Token,
    /// Everybody on this machine is the owner of the default tenant.
    Open,
}

/// The door keeper.
pub(crate) struct Gate {
    tokens: Arc<dyn Tokens>,
    access: Access,
    metrics_open: bool,
    /// The sha256 of HAPAX_TOKEN. Kept here and not in the store, so that a changed one stops working.
    configured: Option<[u8; 32]>,
    /// The sha256 of the secret that Telegram sends to its one path.
    telegram: Option<[u8; 32]>,
    /// What cookies are signed with, beside the hash of their token.
    session_secret: SessionSecret,
    confirmed: Confirmed,
    failures: Failures,
    rates: Option<Arc<Rates>>,
}

impl Gate {
    pub(crate) fn new(
        tokens: Arc<dyn Tokens>,
        access: Access,
        metrics_open: bool,
        configured: Option<&str>,
        session_secret: SessionSecret,
    ) -> Self {
        let configured = configured.map(|text| token::sha256(text.as_bytes()));
        Self {
            tokens,
            access,
            metrics_open,
            configured,
            telegram: None,
            session_secret,
            confirmed: Confirmed::default(),
            failures: Failures::default(),
            rates: None,
        }
    }

    /// The same, with a webhook of Telegram that has this secret.
    pub(crate) fn with_telegram(mut self, secret: Option<&str>) -> Self {
        self.telegram = secret.map(|secret| token::sha256(secret.as_bytes()));
        self
    }

    /// The same, with a limit to the requests of each tenant.
    pub(crate) fn with_rates(mut self, rates: Option<Arc<Rates>>) -> Self {
        self.rates = rates;
        self
    }

    /// Whether this path answers everybody. These hold no tenant's data. Who begins or ends a session is looked at
    /// where that is done.
    fn is_open(&self, method: &Method, path: &str) -> bool {
        match path {
            "/" | "/health" | "/ready" | "/version" | "/docs" | "/openapi.json" | "/ui" => true,
            "/metrics" => self.metrics_open,
            "/session" => [Method::POST, Method::DELETE].contains(method),
            _ => path.starts_with("/docs/") || path.starts_with("/ui/"),
        }
    }

    /// Whether requests need a token.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Begins a session for this token: what it stands for, and the Set-Cookie. Guessing is counted here as everywhere.
    pub(crate) async fn begin_session(
        &self,
        token: &str,
        peer: IpAddr,
        is_https: bool,
    ) -> Result<String, Refusal> {
        let credential = token.trim().as_bytes();
        let (now, hash) = (Instant::now(), token::sha256(credential));
        let Some(identity) = self.verify(credential, &hash, peer).await? else {
            return Err(self.refuse(credential, peer, now));
        };
        rates::admit(self.rates.as_deref(), identity.tenant).await?;
        let (holder, key) = match (identity.caller, token::read(credential)) {
            (Caller::Token(id, _), Some((_, key))) => (Holder::Token(id), key),
            (Caller::Token(..) | Caller::Configured | Caller::Telegram | Caller::Local, _) => {
                (Holder::Configured, hash)
            }
        };
        let key = self.session_secret.key_of(&key);
        let id = SessionId(uuid::Uuid::new_v4());
        let session = Session::begin(holder, id, &key, Time::from(SystemTime::now()));
        Ok(session.set_cookie(is_https))
    }

    /// Whether a request that was let in to read would be let in again. A store that cannot be asked ends nothing.
    pub(crate) async fn still_admits(&self, headers: &HeaderMap, peer: IpAddr) -> bool {
        let asked = Asked {
            method: &Method::GET,
            path: "",
            authority: None,
            headers,
            peer,
        };
        match self.identify(asked).await {
            Ok(_) => true,
            // What others at its address did ends no stream either.
            Err(refusal) => {
                let status = refusal.status();
                status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
            }
        }
    }

    /// Ends the session that a request brings, on all nodes. Where it brings none there is nothing to end.
    ///
    /// # Errors
    /// When the store does not say that it has ended.
    pub(crate) async fn end_session(
        &self,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<(), Refusal> {
        let Some(value) = session::cookie(headers) else {
            return Ok(());
        };
        match self.session(value, peer).await {
            Ok((_, session)) => {
                let (id, until) = (session.id, session.expires_at);
                Ok(self.tokens.end_session(id, until).await?)
            }
            // It is no session, or it has ended.
            Err(refusal) if refusal.status() == StatusCode::UNAUTHORIZED => Ok(()),
            // Nobody looked: the session may go on.
            Err(refusal) => Err(refusal),
        }
    }

    /// The identity behind a session, if it is one. The store is asked every time, so that a session that was ended, or
    /// whose token was revoked, is over with the next request.
    async fn session(&self, value: &str, peer: IpAddr) -> Result<(Identity, Session), Refusal> {
        let Some(session) = Session::read(value) else {
            return Err(problem::unauthorized().into());
        };
        // No retry helps an old one, and it is no guess.
        if session.expires_at <= Time::from(SystemTime::now()) {
            return Err(problem::unauthorized().into());
        }
        // Nothing has to be looked up to see that it is forged.
        if session.holder == Holder::Configured
            && !self
                .configured
                .is_some_and(|key| session.is_of(&self.session_secret.key_of(&key)))
        {
            return Err(self.refuse(value.as_bytes(), peer, Instant::now()));
        }
        // No header can hold the first character, so no bearer token is taken for a session.
        let hash = token::sha256(["\0", value].concat().as_bytes());
        let ask = async {
            let known = match session.holder {
                Holder::Configured => self.configured.map(|key| (key, owner_by_configuration())),
                Holder::Token(id) => {
                    let found = self.tokens.find_token(id).await?;
                    let valid = found.filter(|stored| stored.revoked_at.is_none());
                    valid.map(|stored| (stored.secret_sha256, Identity::of(&stored)))
                }
            };
            let is_of = |hash: &[u8; 32]| session.is_of(&self.session_secret.key_of(hash));
            match known.filter(|(hash, _)| is_of(hash)) {
                Some((_, identity)) if !self.tokens.has_ended(session.id).await? => {
                    Ok(Some(identity))
                }
                Some(_) | None => Ok(None),
            }
        };
        match self.confirmed.look(&hash, peer, ask).await? {
            Some(identity) => Ok((identity, session)),
            None => Err(self.refuse(value.as_bytes(), peer, Instant::now())),
        }
    }

    /// The identity behind the request's credential, and how it was given.
    async fn identify(&self, request: Asked<'_>) -> Result<(Identity, Signed), Refusal> {
        let Asked {
            method,
            path,
            authority,
            headers,
            peer,
        } = request;
        let webhook = self.webhook(path, headers, peer)?;
        if let (Some(identity), None) = (webhook, headers.get(AUTHORIZATION)) {
            return Ok((identity, Signed::Itself));
        }
        if self.access == Access::Open {
            return Ok((local_owner(headers)?, Signed::Itself));
        }
        // A token that is sent counts, whatever cookie comes beside it.
        let cookie = session::cookie(headers).filter(|_| !headers.contains_key(AUTHORIZATION));
        if let Some(cookie) = cookie {
            let (identity, session) = self.session(cookie, peer).await?;
            if !session::is_ours(method, headers, authority) {
                return Err(problem::forbidden_csrf().into());
            }
            return Ok((identity, Signed::Session(session.expires_at)));
        }
        let identity = self.bearer_identity(headers, peer).await?;
        Ok((identity, Signed::Itself))
    }

    async fn bearer_identity(
        &self,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Identity, Refusal> {
        let Some(credential) = bearer(headers) else {
            return Err(problem::unauthorized().into());
        };
        let hash = token::sha256(credential);
        let now = Instant::now();
        if let Some(identity) = self.confirmed.trusted(&hash, now) {
            return Ok(identity);
        }
        match self.verify(credential, &hash, peer).await? {
            Some(identity) => Ok(identity),
            None => Err(self.refuse(credential, peer, now)),
        }
    }

    /// What the secret of a webhook stands for on the one path that takes it. Telegram can send no token, so its secret
    /// stands for one; a wrong secret is refused, whatever comes beside it.
    fn webhook(
        &self,
        path: &str,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Option<Identity>, Refusal> {
        let mut sent = headers.get_all(TELEGRAM_HEADER).iter();
        let (Some(telegram), TELEGRAM_PATH, Some(secret)) = (self.telegram, path, sent.next())
        else {
            return Ok(None);
        };
        let matches: bool = telegram.ct_eq(&token::sha256(secret.as_bytes())).into();
        if !matches || sent.next().is_some() {
            return Err(self.refuse(secret.as_bytes(), peer, Instant::now()));
        }
        Ok(Some(Identity {
            tenant: Tenant::DEFAULT,
            role: Role::Writer,
            caller: Caller::Telegram,
        }))
    }

    /// Checks the credential against HAPAX_TOKEN and the store, in constant time.
    async fn verify(
        &self,
        credential: &[u8],
        hash: &[u8; 32],
        peer: IpAddr,
    ) -> Result<Option<Identity>, Refusal> {
        if self
            .configured
            .is_some_and(|configured| configured.ct_eq(hash).into())
        {
            return Ok(Some(owner_by_configuration()));
        }
        let Some((id, secret_sha256)) = token::read(credential) else {
            return Ok(None);
        };
        let ask = async {
            let found = self.tokens.find_token(id).await?;
            Ok(found.and_then(|stored| {
                let matches: bool = stored.secret_sha256.ct_eq(&secret_sha256).into();
                let valid = matches && stored.revoked_at.is_none();
                valid.then(|| Identity::of(&stored))
            }))
        };
        self.confirmed.look(hash, peer, ask).await
    }

    fn refuse(&self, credential: &[u8], peer: IpAddr, now: Instant) -> Refusal {
        metrics::counter!("hapax_auth_failures_total").increment(1);
        let id = token::read(credential).map(|(id, _)| id);
        match self.failures.count(peer, id, now) {
            Some(wait) => problem::rate_limited(wait).into(),
            None => problem::unauthorized().into(),
        }
    }
}

/// Lets a request in with its tenant, role and caller, or answers 401 or 429.
pub(crate) async fn authenticate(
    State(gate): State<Arc<Gate>>,
    mut request: Request,
    next: Next,
) -> Response {
    if gate.is_open(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    let (identity, signed) = match gate.identify(Asked::of(&request)).await {
        Ok(identity) => identity,
        Err(refusal) => return refusal.into_response(),
    };
    if let Err(refusal) = rates::admit(gate.rates.as_deref(), identity.tenant).await {
        return refusal.into_response();
    }
    let extensions = request.extensions_mut();
    extensions.insert(identity.tenant);
    extensions.insert(identity.role);
    extensions.insert(identity.caller);
    extensions.insert(signed);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(identity.tenant);
    response.extensions_mut().insert(LetIn);
    response
}

/// Lets a request through if its role allows what `needed` does, or answers 403.
pub(crate) async fn authorize(
    State(needed): State<Role>,
    request: Request,
    next: Next,
) -> Response {
    match request.extensions().get::<Role>() {
        Some(role) if role.allows(needed) => next.run(request).await,
        Some(_) => Refusal::from(problem::forbidden(needed.as_str())).into_response(),
        None => Refusal::from(problem::unauthorized()).into_response(),
    }
}

/// The credential of the one Authorization header, if it is a bearer token.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let (scheme, rest) = value.as_bytes().split_at_checked(7)?;
    let credential = rest.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !credential.is_empty()).then_some(credential)
}

/// What HAPAX_TOKEN stands for.
fn owner_by_configuration() -> Identity {
    Identity {
        tenant: Tenant::DEFAULT,
        role: Role::Owner,
        caller: Caller::Configured,
    }
}

/// Without tokens everybody on this machine is the owner, but a web page in a browser here is not: it can
/// send requests to loopback, and only `Host` and `Origin` tell it apart.
fn local_owner(headers: &HeaderMap) -> Result<Identity, Refusal> {
    let is_local = |name: &str| {
        headers
            .get_all(name)
            .iter()
            .all(|value| value.to_str().is_ok_and(is_local_authority))
    };
    if is_local("host") && is_local("origin") {
        return Ok(Identity {
            tenant: Tenant::DEFAULT,
            role: Role::Owner,
            caller: Caller::Local,
        });
    }
    Err(problem::forbidden_origin().into())
}

/// Whether a Host or an Origin names this machine's loopback.
fn is_local_authority(text: &str) -> bool {
    let authority = text.strip_prefix("http://").unwrap_or(text);
    let host = match authority.rsplit_once(':') {
        Some((host, port))
            if !host.ends_with(':') && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            host
        }
        Some(_) | None => authority,
    };
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests;
