//! Routes: the pattern a request belongs to, and the options that apply to it.
//! Nothing here reads a configuration file.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::canonical::{Path, Selection};
use hapax_core::{OnLost, Policy};
use http::{HeaderName, StatusCode};

use super::identity::Identity;
use super::named::{InvalidRoute, pattern_named};
use super::statuses::{HoldStatuses, Statuses};
use crate::pattern::belongs;

/// The top-level fields that do not count when two bodies are compared, unless a route says otherwise.
pub const EXCLUDED: [&str; 7] = [
    "created_at",
    "updated_at",
    "timestamp",
    "_metadata",
    "request_id",
    "trace_id",
    "session_id",
];

const NO_PATHS: [&str; 0] = [];

/// What applies to the requests of a route.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, as people set them"
)]
pub struct Route {
    /// Refuse a request without a key, unless one can be derived.
    pub required: bool,
    /// Derive the key from the content when the request carries none.
    pub derive: bool,
    /// How long an answer is kept, a lease lasts, a duplicate waits, and what a lost lease means.
    pub policy: Policy,
    /// The status of "same key, other request": 409, or 422 as the IETF draft has it.
    pub mismatch_status: StatusCode,
    /// The top-level fields that do not count, and the arrays whose order does not.
    pub selection: Selection,
    /// What a conflict must not show, beside names that tell by themselves (password, token, card, …).
    pub redact: Vec<Path>,
    /// Response headers that are stored beside the usual ones.
    pub store_headers: Vec<HeaderName>,
    /// Which part of a request says who sends it. Who that is, is part of a derived key, and a replay of any other is
    /// given to nobody else.
    pub identity: Identity,
    /// The statuses whose answers are final. Any other gives the key back, so that a retry runs.
    pub store_statuses: Statuses,
    /// The statuses whose answers leave the key in doubt: the request may have been carried out, and nobody runs it again
    /// before a person decides. They count before `store_statuses`.
    pub on_status_hold: HoldStatuses,
    /// Where the body says whom it is about, as a JSON pointer, so that everything about them can be erased.
    pub subject: Option<String>,
    /// Take only quoted keys, as RFC 8941 writes strings.
    pub strict_keys: bool,
    /// Write refusals as RFC 9457 even to callers who do not ask for it.
    pub problem_json: bool,
    /// The largest request body under a key.
    pub max_body_bytes: usize,
    /// The largest response that is kept for a replay.
    pub max_response_bytes: usize,
}

impl Default for Route {
    fn default() -> Self {
        Self {
            required: false,
            derive: false,
            policy: Policy::default(),
            mismatch_status: StatusCode::CONFLICT,
            selection: Selection::new(EXCLUDED, NO_PATHS).expect("no path, so none is malformed"),
            redact: Vec::new(),
            store_headers: Vec::new(),
            identity: Identity::default(),
            store_statuses: Statuses::default(),
            on_status_hold: HoldStatuses::default(),
            subject: None,
            strict_keys: false,
            problem_json: false,
            max_body_bytes: 8 * 1024 * 1024,
            max_response_bytes: 8 * 1024 * 1024,
        }
    }
}

impl Route {
    /// The same route whose answers live for `ttl`.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = ttl;
        self
    }

    /// The same route where a duplicate waits up to `wait` for the answer of the one in flight.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.policy.wait = wait;
        self
    }

    /// The same route with this meaning of a lost lease.
    #[must_use]
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.policy.on_lost = on_lost;
        self
    }

    /// The same route where an answer with one of these statuses leaves its key in doubt.
    ///
    /// ```
    /// use hapax::layer::{HoldStatuses, Route};
    ///
    /// let route = Route::default().on_status_hold("502, 504".parse()?);
    /// assert!(route.on_status_hold.holds(http::StatusCode::BAD_GATEWAY));
    /// assert!("200".parse::<HoldStatuses>().is_err(), "it says what happened");
    /// # Ok::<(), hapax::layer::InvalidStatus>(())
    /// ```
    #[must_use]
    pub fn on_status_hold(mut self, statuses: HoldStatuses) -> Self {
        self.on_status_hold = statuses;
        self
    }

    /// The same route where a key must be given or derived.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same route where a missing key is derived from the content.
    #[must_use]
    pub fn derive(mut self) -> Self {
        self.derive = true;
        self
    }

    /// The same route where this part of a request says who sends it.
    #[must_use]
    pub fn identified_by(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }
}

/// Which route applies to which requests.
///
/// Without a table every POST, PUT, PATCH and DELETE that carries a key is keyed. With one, only the
/// requests that match a pattern are; the longest matching pattern wins, `*` stands for anything. A real path is taken as
/// the pattern of its requests.
///
/// ```
/// use hapax::layer::{Route, Routes};
/// use std::time::Duration;
///
/// let routes = Routes::table()
///     .with("*:*", Route::default())?
///     .with("PUT:customers-*", Route::default().ttl(Duration::from_secs(60)))?;
/// assert_eq!(routes.find("PUT:customers-{id}").unwrap().policy.ttl, Duration::from_secs(60));
/// assert_eq!(routes.find("POST:bookings-hold").unwrap().policy.ttl, Duration::from_secs(3600));
/// assert!(Routes::table().find("POST:bookings-hold").is_none(), "an empty table keys nothing");
/// let routes = Routes::table().with("POST:/api/v1/bookings/hold", Route::default())?;
/// assert!(routes.find("POST:bookings-hold").is_some(), "the real path");
/// assert!(Routes::table().with("customers", Route::default()).is_err(), "a pattern names a method");
/// # Ok::<(), hapax::layer::InvalidRoute>(())
/// ```
#[derive(Clone, Debug)]
pub struct Routes {
    /// Sorted so that the longest pattern comes first.
    table: Vec<(String, Arc<Route>)>,
    otherwise: Option<Arc<Route>>,
}

impl Default for Routes {
    fn default() -> Self {
        Self::any(Route::default())
    }
}

impl Routes {
    /// No table: `route` applies to every request.
    #[must_use]
    pub fn any(route: Route) -> Self {
        Self {
            table: Vec::new(),
            otherwise: Some(Arc::new(route)),
        }
    }

    /// An empty table: nothing is keyed until a pattern is added.
    #[must_use]
    pub fn table() -> Self {
        Self {
            table: Vec::new(),
            otherwise: None,
        }
    }

    /// The same table with one more pattern.
    ///
    /// # Errors
    /// [`InvalidRoute`] when no request can match the pattern.
    pub fn with(mut self, pattern: &str, route: Route) -> Result<Self, InvalidRoute> {
        self.table.push((pattern_named(pattern)?, Arc::new(route)));
        self.table
            .sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.len()));
        Ok(self)
    }

    /// The route that applies to `route_pattern`, if any does.
    #[must_use]
    pub fn find(&self, route_pattern: &str) -> Option<&Route> {
        self.shared(route_pattern).map(Arc::as_ref)
    }

    /// The pattern of the table that `route_pattern` belongs to, if it belongs to one.
    #[must_use]
    pub fn pattern_of(&self, route_pattern: &str) -> Option<&str> {
        self.patterns()
            .find(|pattern| belongs(pattern, route_pattern))
    }

    /// The same, to keep while a request runs.
    pub(super) fn shared(&self, route_pattern: &str) -> Option<&Arc<Route>> {
        let matching = self
            .table
            .iter()
            .find(|(pattern, _)| belongs(pattern, route_pattern));
        matching.map(|(_, route)| route).or(self.otherwise.as_ref())
    }

    /// The patterns of the table.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.table.iter().map(|(pattern, _)| pattern.as_str())
    }

    /// The same routes, each changed by `change`.
    #[must_use]
    pub fn map(mut self, mut change: impl FnMut(Route) -> Route) -> Self {
        let routes = self.table.iter_mut().map(|(_, route)| route);
        for route in routes.chain(self.otherwise.as_mut()) {
            *route = Arc::new(change(Route::clone(route)));
        }
        self
    }
}
