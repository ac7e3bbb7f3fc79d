//! The layer in a service's own process, over a real ledger.

use std::sync::Arc;
use std::time::Duration;

use hapax::layer::{Route, Routes};
use hapax::{Engine, IdempotencyLayer};
use hapax_core::{Ledger, OnLost};
use hapax_store::postgres::PgOptions;
use hapax_store::sqlite::SqliteOptions;
use hapax_store::{PgLedger, SqliteLedger};
use tempfile::TempDir;

use super::upstream::{Handler, Served};
use super::{Driver, Sender, Store};

pub(super) struct Layer {
    handler: Handler,
    store: Store,
    folder: TempDir,
    served: Option<Served>,
}

impl Layer {
    pub(super) fn start(store: Store) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut layer = Self {
            handler: Handler::new(),
            store,
            folder,
            served: None,
        };
        layer.start_again();
        layer
    }

    fn start_again(&mut self) {
        let (handler, store) = (self.handler.clone(), self.store.clone());
        let path = self.folder.path().join("ledger.db");
        self.served = Some(Served::new(async move {
            let ledger: Arc<dyn Ledger> = match store {
                Store::Sqlite => {
                    Arc::new(SqliteLedger::open(&path, SqliteOptions::default()).unwrap())
                }
                Store::Postgres(url) => {
                    Arc::new(PgLedger::open(&url, PgOptions::default()).await.unwrap())
                }
            };
            handler
                .router()
                .layer(IdempotencyLayer::new(Engine::new(ledger)).routes(routes()))
        }));
    }
}

impl Driver for Layer {
    fn name(&self) -> &'static str {
        "layer"
    }

    fn handler(&self) -> &Handler {
        &self.handler
    }

    fn sender(&self) -> Sender {
        let address = self.served.as_ref().expect("it is started").address;
        Box::new(move |request| request.send_to(address))
    }

    fn crash(&mut self) {
        drop(self.served.take());
        self.start_again();
    }
}

/// The same table as [`super::CONFIG`], made by hand.
fn routes() -> Routes {
    let plain = Route::default;
    let brief = |on_lost| {
        let mut route = plain().on_lost(on_lost);
        route.policy.lease = Duration::from_secs(1);
        route
    };
    [
        ("*:*", plain()),
        ("POST:waiting", plain().wait(Duration::from_secs(30))),
        ("POST:required", plain().required()),
        ("PUT:derived-*", plain().derive()),
        ("POST:short", plain().ttl(Duration::from_secs(1))),
        ("POST:again", brief(OnLost::Retry)),
        ("POST:held", brief(OnLost::Hold)),
        (
            "POST:large",
            Route {
                max_response_bytes: 1000,
                ..plain()
            },
        ),
        (
            "POST:ietf",
            Route {
                mismatch_status: http_status(422),
                ..plain()
            },
        ),
    ]
    .into_iter()
    .fold(Routes::table(), |table, (pattern, route)| {
        table.with(pattern, route).unwrap()
    })
}

fn http_status(code: u16) -> axum::http::StatusCode {
    axum::http::StatusCode::from_u16(code).unwrap()
}
