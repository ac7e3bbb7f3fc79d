//! The list of routes: who may use each, whether it takes an idempotency key, and what it is. The router and the
//! OpenAPI document are both made of it, so neither can have a route that the other has not.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::MethodRouter;
use hapax::IdempotencyLayer;
use hapax_store::Role;
use utoipa_axum::router::UtoipaMethodRouter;

use super::App;
use crate::auth::{Caller, authorize};
use crate::pages::{self, Pages};
use crate::problem;

/// What stands for the name of a collection in the paths of snapshots.
pub(super) const COLLECTION: &str = "{collection}";

/// Routes that belong together.
pub(super) struct Door {
    /// One word, which is its heading in the document.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The parameters of its paths: name, what it is, and one that can be pasted.
    pub(super) parameters: &'static [(&'static str, &'static str, &'static str)],
    pub(super) routes: Vec<Listed>,
}

/// Who may use a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// Everybody, without a token.
    Open,
    /// Everybody, unless the configuration asks for a token.
    Settable,
    /// Whoever has a token of this role or a higher one.
    Role(Role),
}

/// How large a body may be that is sent under an idempotency key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keyed {
    /// As large as its route in the table says, and no larger than any body.
    Body,
    /// As large as a batch.
    Batch,
}

/// A route with everything that is said of it in one place.
pub(super) struct Listed {
    pub(super) access: Access,
    /// Whether it goes through the idempotency layer.
    pub(super) keyed: Option<Keyed>,
    /// Whether its last parameter stands for the rest of the path, slashes included.
    pub(super) deep: bool,
    pub(super) route: UtoipaMethodRouter<App>,
}

pub(super) fn open(route: UtoipaMethodRouter<App>) -> Listed {
    Listed::new(Access::Open, route)
}

pub(super) fn viewer(route: UtoipaMethodRouter<App>) -> Listed {
    Listed::new(Access::Role(Role::Viewer), route)
}

pub(super) fn writer(route: UtoipaMethodRouter<App>) -> Listed {
    Listed::new(Access::Role(Role::Writer), route)
}

pub(super) fn owner(route: UtoipaMethodRouter<App>) -> Listed {
    Listed::new(Access::Role(Role::Owner), route)
}

impl Listed {
    pub(super) fn new(access: Access, route: UtoipaMethodRouter<App>) -> Self {
        Self {
            access,
            keyed: None,
            deep: false,
            route,
        }
    }

    /// The same, through the idempotency layer.
    pub(super) fn keyed(self, keyed: Keyed) -> Self {
        Self {
            keyed: Some(keyed),
            ..self
        }
    }

    /// The same, with a last parameter that stands for the rest of the path.
    pub(super) fn deep(self) -> Self {
        Self { deep: true, ..self }
    }

    /// Its path, with the parameters in braces.
    pub(super) fn path(&self) -> &str {
        let (_, paths, _) = &self.route;
        paths.paths.keys().next().map_or("", String::as_str)
    }

    /// Adds it to a router, under the name of a collection where its path asks for one.
    pub(super) fn add_to(self, router: Router<App>, app: &App, collection: &str) -> Router<App> {
        let mut path = self.path().replace(COLLECTION, collection);
        if let (true, Some(at)) = (self.deep, path.rfind('{')) {
            path.insert(at + 1, '*');
        }
        let (_, _, mut handler) = self.route;
        if let Some(keyed) = self.keyed {
            handler = under_keys(handler, app, keyed);
        }
        match self.access {
            Access::Open | Access::Settable => router.route(&path, handler),
            Access::Role(role) => {
                let authorized = from_fn_with_state(role, authorize);
                router.route(&path, handler.route_layer(authorized))
            }
        }
    }
}

/// The handler within the idempotency layer.
fn under_keys(handler: MethodRouter<App>, app: &App, keyed: Keyed) -> MethodRouter<App> {
    let (body, batch) = (app.config.body_bytes_max, app.config.batch_body_bytes_max);
    let table = app.routes.clone().map(|mut route| {
        route.max_body_bytes = match keyed {
            Keyed::Body => route.max_body_bytes.min(body),
            Keyed::Batch => batch,
        };
        route
    });
    let idempotency = IdempotencyLayer::new(app.engine.clone())
        .routes(table)
        .observer(Arc::clone(&app.observer))
        .budget(app.budget.clone())
        .caller_of(|parts| Ok(parts.extensions.get::<Caller>().and_then(Caller::principal)));
    // Refusals take their form within the layer, so that what is recorded is what was sent.
    let pages = Pages::of(app.docs.as_ref(), Pages::Own);
    handler
        .layer::<_, Infallible>(from_fn(problem::render))
        .layer::<_, Infallible>(idempotency)
        .layer(from_fn_with_state(pages, pages::note))
}
