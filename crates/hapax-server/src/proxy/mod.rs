//! The reverse proxy: the layer in front of a service that speaks HTTP and knows nothing of keys.
//!
//! From outside: [`Door`] checks what may come in and as which tenant; the layer claims, waits and
//! replays; [`Upstream`] sends what is left to the configured upstream and to nowhere else. Nothing here
//! decides about keys, and nothing here sends a request twice.

mod body;
mod client;
mod door;
mod headers;
mod jwt;
mod target;
mod tunnel;
mod upstream;

use std::sync::Arc;

use anyhow::Result;
use hapax::IdempotencyLayer;
use tower_layer::Layer;

pub(crate) use door::Door;
pub(crate) use jwt::Jwt;
pub(crate) use target::Target;
use upstream::Upstream;

use crate::api::App;
use crate::rates::Rates;

/// The whole proxy but for the trace around it. With `jwt` a token says who sends a request, and of which tenant.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) when the configuration cannot be followed.
pub(crate) fn service(app: &App, target: Target, jwt: Option<Arc<Jwt>>) -> Result<Door> {
    metrics::describe_histogram!(
        "hapax_upstream_seconds",
        "Time until the upstream's answer began, by outcome: answered, unreachable, broken, timed_out."
    );
    let config = &app.config.proxy;
    let identity = config.identity()?;
    let routes = app.routes.clone().map(|mut route| {
        if route.identity.is_unset() {
            route.identity = identity.clone();
        }
        route
    });
    let verifying = jwt.clone();
    let mut layer = IdempotencyLayer::new(app.engine.clone())
        .routes(routes)
        .observer(Arc::clone(&app.observer))
        .budget(app.budget.clone())
        .caller_of(move |parts| door::subject(verifying.as_deref(), parts));
    if let Some(docs) = &app.docs {
        layer = layer.docs_base(docs.clone());
    }
    let door = Door::new(config, jwt, layer.layer(Upstream::new(target, config)?))?;
    Ok(door.with_rates(Rates::of(&app.config, &app.store)))
}
