//! The proxy in front of a service that knows nothing of it.

use super::upstream::{Handler, Served};
use super::{CONFIG, Driver, Sender, Store};
use crate::fixture::Server;

pub(super) struct Proxy {
    handler: Handler,
    upstream: Served,
    running: Option<Server>,
    arguments: Vec<String>,
}

impl Proxy {
    pub(super) fn start(store: &Store) -> Self {
        let handler = Handler::new();
        let router = handler.router();
        let upstream = Served::new(async move { router });
        let arguments = store.arguments();
        let mut proxy = Self {
            handler,
            upstream,
            running: None,
            arguments,
        };
        proxy.running = Some(proxy.begin(tempfile::tempdir().unwrap()));
        proxy
    }

    fn begin(&self, folder: tempfile::TempDir) -> Server {
        let config = folder.path().join("hapax.toml");
        std::fs::write(&config, CONFIG).unwrap();
        let upstream = format!("http://{}", self.upstream.address);
        Server::proxy_in(folder, |command| {
            command
                .args(["--upstream", &upstream])
                .args(&self.arguments)
                .arg("--config")
                .arg(config);
        })
    }
}

impl Driver for Proxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn handler(&self) -> &Handler {
        &self.handler
    }

    fn sender(&self) -> Sender {
        let address = self.running.as_ref().expect("it is started").address;
        Box::new(move |request| request.send_to(address))
    }

    fn crash(&mut self) {
        let proxy = self.running.take().expect("it is started");
        proxy.signal("KILL");
        let (_, _, folder) = proxy.wait();
        self.running = Some(self.begin(folder));
    }
}
