//! The layer: what it is set up with. What it does with a request is in the service.

use std::sync::Arc;

use hapax_core::{Principal, Space, Tenant};
use http::header::COOKIE;
use http::request::Parts;
use tower_layer::Layer;

use super::answer;
use super::budget::Budget;
use super::identity::authorization;
use super::route::{Route, Routes};
use super::service::Idempotency;
use crate::problem::{DocsBase, Problem};
use crate::{Engine, Observer};

/// Finds the tenant of a request.
type TenantOf = dyn Fn(&Parts) -> Option<Tenant> + Send + Sync;
/// Finds who sends a request, or why it cannot be believed.
type CallerOf = dyn Fn(&Parts) -> Result<Option<Principal>, Box<Problem>> + Send + Sync;

/// Makes a service answer a repeated request with the recorded answer.
///
/// The tenant of a request is, in this order: a [`Tenant`] in its extensions, what
/// [`tenant_of`](Self::tenant_of) finds, [`Tenant::DEFAULT`].
///
/// The principal of a request, to which replays and diffs are limited, is in this order:
/// 1. a [`Principal`] in its extensions, put there by what has checked the caller before;
/// 2. what the route's [`identity`](Route::identity) names, else `Authorization`, else the anonymous one;
/// 3. on a route without an identity none, except for a derived key: what [`caller_of`](Self::caller_of) finds, else
///    `Authorization`.
///
/// A derived key holds the principal, so equal requests of two callers are two operations. A request that brings cookies
/// and has no principal gets no derived key: it is refused with 400 `principal_required`. See the [module](super) for an
/// example.
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(super) setup: Arc<Setup>,
}

pub(super) struct Setup {
    pub(super) engine: Engine,
    pub(super) routes: Routes,
    pub(super) observer: Arc<Observer>,
    pub(super) budget: Budget,
    docs: Option<DocsBase>,
    tenant_of: Option<Arc<TenantOf>>,
    caller_of: Option<Arc<CallerOf>>,
}

impl IdempotencyLayer {
    /// A layer that keys every writing request that carries an `Idempotency-Key`.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self {
            setup: Arc::new(Setup {
                engine,
                routes: Routes::default(),
                observer: Arc::default(),
                budget: Budget::default(),
                docs: None,
                tenant_of: None,
                caller_of: None,
            }),
        }
    }

    /// The same layer with these routes.
    #[must_use]
    pub fn routes(self, routes: Routes) -> Self {
        self.with(|setup| Setup { routes, ..setup })
    }

    /// The same layer, counting on `observer`, which other doors may share.
    #[must_use]
    pub fn observer(self, observer: Arc<Observer>) -> Self {
        self.with(|setup| Setup { observer, ..setup })
    }

    /// The same layer, buffering bodies within `budget`, which other layers may share. By itself a layer has 256 MiB.
    #[must_use]
    pub fn budget(self, budget: Budget) -> Self {
        self.with(|setup| Setup { budget, ..setup })
    }

    /// The same layer, whose refusals say on which page of this site they are explained: as `docs_url`, and as the
    /// `type` of RFC 9457. A [`DocsBase`] in the extensions of a request counts for more.
    #[must_use]
    pub fn docs_base(self, docs: DocsBase) -> Self {
        self.with(|setup| Setup {
            docs: Some(docs),
            ..setup
        })
    }

    /// The same layer, finding the tenant of a request by `find`.
    #[must_use]
    pub fn tenant_of(
        self,
        find: impl Fn(&Parts) -> Option<Tenant> + Send + Sync + 'static,
    ) -> Self {
        self.with(|setup| Setup {
            tenant_of: Some(Arc::new(find)),
            ..setup
        })
    }

    /// The same layer, finding by `find` who sends a request: on routes whose identity is
    /// [`verified`](super::Identity::verified), and for derived keys where a route has none. A refusal is answered as it is.
    #[must_use]
    pub fn caller_of(
        self,
        find: impl Fn(&Parts) -> Result<Option<Principal>, Box<Problem>> + Send + Sync + 'static,
    ) -> Self {
        self.with(|setup| Setup {
            caller_of: Some(Arc::new(find)),
            ..setup
        })
    }

    fn with(self, change: impl FnOnce(Setup) -> Setup) -> Self {
        let setup = Setup {
            engine: self.setup.engine.clone(),
            routes: self.setup.routes.clone(),
            observer: self.setup.observer.clone(),
            budget: self.setup.budget.clone(),
            docs: self.setup.docs.clone(),
            tenant_of: self.setup.tenant_of.clone(),
            caller_of: self.setup.caller_of.clone(),
        };
        let setup = change(setup);
        setup.observer.label_routes(setup.routes.patterns());
        Self {
            setup: Arc::new(setup),
        }
    }
}

impl Setup {
    /// Where the page of a refusal is.
    pub(super) fn docs<'a>(&'a self, parts: &'a Parts) -> Option<&'a DocsBase> {
        parts.extensions.get().or(self.docs.as_ref())
    }

    pub(super) fn tenant(&self, parts: &Parts) -> Tenant {
        parts
            .extensions
            .get::<Tenant>()
            .copied()
            .or_else(|| self.tenant_of.as_ref().and_then(|find| find(parts)))
            .unwrap_or(Tenant::DEFAULT)
    }

    /// Who sends a request of `route`, whose key is derived or not.
    pub(super) fn principal(
        &self,
        parts: &Parts,
        space: &Space,
        route: &Route,
        is_derived: bool,
    ) -> Result<Option<Principal>, Box<Problem>> {
        let anonymous = Principal::anonymous();
        let identity = &route.identity;
        let principal = match parts.extensions.get::<Principal>() {
            Some(given) => Some(*given),
            None if identity.is_unset() && !is_derived => None,
            None => {
                let named = if identity.is_unset() || identity.is_verified() {
                    self.caller(parts)?
                } else {
                    identity.named(&parts.headers)
                };
                // What a route names counts, and nothing in its place where cookies may say otherwise.
                let is_missing = named.is_none() && !identity.is_unset();
                if is_missing && is_derived && parts.headers.contains_key(COOKIE) {
                    let refused = answer::principal_required(space.as_str(), identity);
                    return Err(Box::new(refused));
                }
                named
                    .or_else(|| authorization(&parts.headers))
                    .or_else(|| (!identity.is_unset()).then_some(anonymous))
            }
        };
        let is_known = principal.is_some_and(|principal| principal != anonymous);
        if is_derived && !is_known && parts.headers.contains_key(COOKIE) {
            return Err(Box::new(answer::principal_required(
                space.as_str(),
                identity,
            )));
        }
        Ok(principal)
    }

    fn caller(&self, parts: &Parts) -> Result<Option<Principal>, Box<Problem>> {
        self.caller_of.as_ref().map_or(Ok(None), |find| find(parts))
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, self.setup.clone())
    }
}

impl std::fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("engine", &self.setup.engine)
            .finish_non_exhaustive()
    }
}
