//! The routes. One file per door; which role each needs is said in lists, of which the router and the OpenAPI document are made.

mod audit;
mod claim;
pub(crate) mod dashboard;
mod docs;
mod echo;
mod end;
mod enrich;
pub(crate) mod entries;
pub(crate) mod health;
mod imports;
mod intents;
pub(crate) mod jobs;
pub(crate) mod keys;
mod listed;
mod live;
mod markdown;
pub(crate) mod openapi;
mod operator;
mod ops;
mod payload;
mod query;
mod reconcile;
mod reference;
mod session;
mod settings;
mod shown;
mod snapshots;
mod stats;
mod sweep;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::State;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use hapax::layer::{Budget, Route, Routes};
use hapax::problem::{DocsBase, Form};
use hapax::{Engine, Observer};
use hapax_core::{Chore, Space, Time};
use hapax_intake::snapshot::Collection;
use hapax_intake::url::Tracking;
use metrics_exporter_prometheus::PrometheusHandle;
use utoipa_axum::routes;

use crate::auth::{Gate, authenticate};
use crate::config::{Config, UsualRoute};
use crate::enrich::desk::Desk as EnrichDesk;
use crate::import;
use crate::intents::desk::Desk;
use crate::live::Live;
use crate::pages::Pages;
use crate::problem::{self, Refusal};
use crate::store::Store;
use crate::trace::{self, trace};
use listed::{Access, Door, Keyed, Listed, open, owner, viewer, writer};

/// What every handler can reach.
pub(crate) type App = Arc<Shared>;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) engine: Engine,
    /// What the bodies of all requests and answers may hold of memory.
    pub(crate) budget: Budget,
    pub(crate) routes: Routes,
    /// The route of a claim that no pattern matches.
    pub(crate) usual_route: UsualRoute,
    /// Where the pages of errors are, if the configuration says so.
    pub(crate) docs: Option<DocsBase>,
    /// Where intents are worked on.
    pub(crate) desk: Desk,
    /// What canonical web addresses leave out.
    pub(crate) tracking: Tracking,
    /// Where mailboxes are imported.
    pub(crate) imports: import::desk::Desk,
    /// Where texts are enriched.
    pub(crate) enrich: EnrichDesk,
    pub(crate) observer: Arc<Observer>,
    /// How it goes, for those who watch.
    pub(crate) live: Live,
    /// Whether the store took writes a moment ago.
    pub(crate) readiness: health::Readiness,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) started: Instant,
    pub(crate) started_at: Time,
    /// What this process is called among others.
    pub(crate) node: String,
    /// The address that was bound.
    pub(crate) listen: String,
    /// Which periodic work this process does when it leads.
    pub(crate) chores: Mutex<BTreeSet<Chore>>,
    /// Where a developer has the files of the dashboard.
    pub(crate) dashboard: Option<PathBuf>,
}

impl Shared {
    /// Says that this process does the chore when it leads, and asks to.
    pub(crate) fn takes_part_in(&self, chore: Chore) {
        let mut chores = self.chores.lock().unwrap_or_else(PoisonError::into_inner);
        chores.insert(chore);
        self.store.ledger.leads(chore);
    }

    /// Which periodic work this process does for all that share the store.
    pub(crate) fn led(&self) -> Vec<&'static str> {
        let chores = self.chores.lock().unwrap_or_else(PoisonError::into_inner);
        let led = chores
            .iter()
            .filter(|chore| self.store.ledger.leads(**chore));
        led.map(|chore| chore.as_str()).collect()
    }

    /// The route that applies to a remote claim, which is keyed whatever the table says.
    pub(crate) fn route(&self, space: &Space) -> &Route {
        let found = self.routes.find(space.as_str());
        found.unwrap_or_else(|| self.usual_route.of(space))
    }
}

/// How a proxy is doing, on an address of its own. Who may read its metrics is the gate's to say.
pub(crate) fn health_routes(app: &App, gate: &Arc<Gate>) -> Router {
    let limits = trace::Limits {
        request_timeout: app.config.request_timeout(),
        access_log: false,
        pages: Pages::of(app.docs.as_ref(), Pages::Own),
        form: Form::of_document,
    };
    Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/version", get(health::version))
        .route("/docs/errors/{code}", get(docs::error_page))
        .route("/docs/assets/{name}", get(reference::asset))
        // Neither reference nor dashboard are here; each way back of a page leads to the list.
        .route("/docs/errors", get(docs::error_list))
        .route("/docs", get(docs::error_list))
        .route("/", get(docs::error_list))
        .route(
            "/metrics",
            get(health::metrics).route_layer(from_fn_with_state(Arc::clone(gate), authenticate)),
        )
        .fallback(async || Refusal::from(problem::not_found()))
        .layer(from_fn_with_state(limits, trace))
        .with_state(Arc::clone(app))
}

/// All routes behind the gate. The order around a handler, from outside: trace, sign-in, role, handler.
pub(crate) fn router(app: &App, gate: &Arc<Gate>, collections: &[Arc<Collection>]) -> Router {
    let limits = trace::Limits {
        request_timeout: app.config.request_timeout(),
        access_log: app.config.access_log,
        pages: Pages::of(app.docs.as_ref(), Pages::Own),
        form: Form::of_document,
    };
    let listed = doors().into_iter().flat_map(|door| door.routes);
    let router = listed.fold(Router::new(), |router, route| route.add_to(router, app, ""));
    let each = collections.iter();
    each.fold(router, |router, each| router.merge(snapshots(app, each)))
        .fallback(beside)
        .method_not_allowed_fallback(async || Refusal::from(problem::method_not_allowed()))
        .layer(Extension(settings::Collections::from(collections)))
        .layer(Extension(Arc::clone(gate)))
        .layer(from_fn_with_state(Arc::clone(gate), authenticate))
        .layer(from_fn_with_state(limits, trace))
        .layer(map_response(taken_as_it_says))
        .with_state(Arc::clone(app))
}

/// A page under its address with a slash at the end, which people type; all else is not found.
async fn beside(
    State(app): State<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let reads = [Method::GET, Method::HEAD].contains(&method);
    match uri.path() {
        "/docs/" if reads => Ok(reference::page(headers).await),
        "/docs/errors/" if reads => Ok(docs::error_list(headers).await),
        "/ui/" if reads => Ok(dashboard::start(State(app), headers).await),
        _ => Err(problem::not_found().into()),
    }
}

/// What callers stored comes back as JSON. No browser shall take it for something else.
async fn taken_as_it_says(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The routes of a collection. Their names are in the paths, so what is not a collection is not found.
fn snapshots(app: &App, collection: &Arc<Collection>) -> Router<App> {
    let name = collection.name.as_str();
    let listed = snapshots::door().routes.into_iter();
    listed
        .fold(snapshots::shadowed(name), |router, route| {
            route.add_to(router, app, name)
        })
        .route_layer(Extension(Arc::clone(collection)))
}

/// Every door but that of snapshots, whose routes each collection has.
fn doors() -> Vec<Door> {
    let server = Door {
        name: "server",
        about: "Whether it lives, what it is, how to use it, and how to sign in.",
        parameters: &[
            ("code", "The code of an error.", "lease_lost"),
            ("name", "A file of the reference.", "docs.js"),
            ("page", "A page of the dashboard.", "keys"),
            ("file", "A file of the dashboard.", "app.css"),
        ],
        routes: server_routes(),
    };
    let keys = Door {
        name: "keys",
        about: "Idempotency keys for any language: claim a key, do the work, record its answer. What an owner may say about a key, and the trail of it.",
        parameters: &[(
            "id",
            "The id of a key, as a claim and the list show it.",
            "00000000-0000-8000-8000-000000000000",
        )],
        routes: key_routes(),
    };
    let jobs = Door {
        name: "jobs",
        about: "Work that is planned once per key, leased by one worker at a time, and whose operations are recorded once.",
        parameters: &[
            ("id", "The id of a job.", "3f786850e387550fdab836ed7e6dc881"),
            (
                "op_key",
                "The key of an operation.",
                "89e6c98d92887913cadf06b2adb97f26cde4849b",
            ),
        ],
        routes: job_routes(),
    };
    let imports = Door {
        name: "imports",
        about: "A backlog of mail, read once: an import goes on where it stopped.",
        parameters: &[(
            "id",
            "The id of an import.",
            "01890a5d-ac96-774b-bcce-b302099a8057",
        )],
        routes: vec![
            writer(routes!(imports::begin::mbox)),
            viewer(routes!(imports::show)),
            viewer(routes!(imports::list)),
        ],
    };
    vec![
        server,
        keys,
        jobs,
        intents::door(),
        entries::door(),
        imports,
        enrich::door(),
    ]
}

fn server_routes() -> Vec<Listed> {
    vec![
        open(routes!(dashboard::home)),
        open(routes!(dashboard::start)),
        open(routes!(dashboard::deep)).deep(),
        open(routes!(dashboard::asset)).deep(),
        open(routes!(session::begin)),
        viewer(routes!(session::show)),
        open(routes!(session::end)),
        viewer(routes!(live::overview)),
        viewer(routes!(live::live)),
        viewer(routes!(settings::show)),
        viewer(routes!(settings::collections)),
        open(routes!(health::health)),
        open(routes!(health::ready)),
        open(routes!(health::version)),
        Listed::new(Access::Settable, routes!(health::metrics)),
        open(routes!(reference::document)),
        open(routes!(reference::page)),
        open(routes!(reference::asset)),
        open(routes!(docs::error_list)),
        open(routes!(docs::error_page)),
    ]
}

/// The routes of keys: everybody reads, a writer claims, an owner operates.
fn key_routes() -> Vec<Listed> {
    vec![
        writer(routes!(echo::echo)).keyed(Keyed::Body),
        writer(routes!(claim::claim)),
        writer(routes!(end::complete)),
        writer(routes!(end::renew)),
        writer(routes!(end::release)),
        viewer(routes!(keys::list)),
        viewer(routes!(keys::show)),
        owner(routes!(keys::remove)),
        owner(routes!(operator::settle)),
        owner(routes!(operator::erase)),
        owner(routes!(operator::erase_subject)),
        viewer(routes!(audit::list)),
        viewer(routes!(stats::stats)),
        owner(routes!(sweep::now)),
    ]
}

/// The routes of jobs: everybody reads, a writer works, an owner operates.
fn job_routes() -> Vec<Listed> {
    vec![
        writer(routes!(jobs::plan::plan)),
        writer(routes!(jobs::plan::batch)),
        writer(routes!(jobs::lease::lease)),
        writer(routes!(jobs::lease::renew)),
        writer(routes!(jobs::lease::release)),
        writer(routes!(jobs::step::advance)),
        writer(routes!(jobs::step::fail)),
        writer(routes!(jobs::step::settle)),
        owner(routes!(jobs::step::retry)),
        viewer(routes!(jobs::list)),
        viewer(routes!(jobs::stats)),
        viewer(routes!(jobs::show)),
        viewer(routes!(jobs::graph::show)),
        writer(routes!(ops::begin)),
        writer(routes!(ops::complete)),
        writer(routes!(ops::fail)),
        // A holder may end the doubt about its own job; anybody else has to be an owner.
        writer(routes!(ops::resolve)),
        viewer(routes!(ops::list)),
        viewer(routes!(ops::show)),
        owner(routes!(reconcile::now)),
    ]
}
