//! The layer: what it is set up with. What it does with a request is in the service.

use std::sync::Arc;

use hapax_core::Tenant;
use http::request::Parts;
use tower_layer::Layer;

use super::route::Routes;
use super::service::Idempotency;
use crate::{Engine, Observer};

/// Finds the tenant of a request.
type TenantOf = dyn Fn(&Parts) -> Option<Tenant> + Send + Sync;

/// Makes a service answer a repeated request with the recorded answer.
///
/// The tenant of a request is, in this order: a [`Tenant`] in its extensions, what
/// [`tenant_of`](Self::tenant_of) finds, [`Tenant::DEFAULT`]. A [`Principal`](hapax_core::Principal) in
/// its extensions limits replays and diffs to that principal. See the [module](super) for an example.
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(super) setup: Arc<Setup>,
}

pub(super) struct Setup {
    pub(super) engine: Engine,
    pub(super) routes: Routes,
    pub(super) observer: Arc<Observer>,
    tenant_of: Option<Arc<TenantOf>>,
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
                tenant_of: None,
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

    fn with(self, change: impl FnOnce(Setup) -> Setup) -> Self {
        let setup = Setup {
            engine: self.setup.engine.clone(),
            routes: self.setup.routes.clone(),
            observer: self.setup.observer.clone(),
            tenant_of: self.setup.tenant_of.clone(),
        };
        Self {
            setup: Arc::new(change(setup)),
        }
    }
}

impl Setup {
    pub(super) fn tenant(&self, parts: &Parts) -> Tenant {
        parts
            .extensions
            .get::<Tenant>()
            .copied()
            .or_else(|| self.tenant_of.as_ref().and_then(|find| find(parts)))
            .unwrap_or(Tenant::DEFAULT)
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
