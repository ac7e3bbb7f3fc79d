//! Nodes of an older program are replaced by nodes of this one, one after the other, while clients ask any of them.
//! dev/rolling-upgrade builds the older program and names it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::load::{Load, TOKEN};
use crate::fixture::Server;
use crate::postgres::empty_database;
use crate::proxy::upstream::Upstream;

const CLIENTS: usize = 4;
/// How many requests are made before the next node comes or goes.
const REQUESTS_EACH: usize = 400;

struct Nodes {
    old: PathBuf,
    url: String,
    upstream: Upstream,
    load: Arc<Load>,
}

impl Nodes {
    fn reach(&self, command: &mut std::process::Command) {
        command
            .args(["--database", &self.url])
            .env("HAPAX_TOKEN", TOKEN)
            .env("HAPAX_LOG", "warn");
    }

    fn serve(&self, build: Option<&PathBuf>) -> Server {
        let change = |command: &mut std::process::Command| self.reach(command);
        let server = match build {
            Some(build) => Server::of(build, "serve", change),
            None => Server::start_with(change),
        };
        self.load.serving.add(server.address);
        server
    }

    fn stand(&self, build: Option<&PathBuf>) -> Server {
        let change = |command: &mut std::process::Command| {
            command.args(["--upstream", &self.upstream.url()]);
            self.reach(command);
        };
        let proxy = match build {
            Some(build) => Server::of(build, "proxy", change),
            None => Server::proxy_in(tempfile::tempdir().unwrap(), change),
        };
        self.load.proxies.add(proxy.address);
        proxy
    }

    /// Out of the balancer, then stopped as an operator does.
    fn retire(&self, server: Server) {
        self.load.serving.remove(server.address);
        assert_eq!(server.stop().0, Some(0), "it stops in order");
    }

    /// Lets the clients ask for a while.
    fn go_on(&self) {
        let until = self.load.asked() + REQUESTS_EACH;
        while self.load.asked() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn migrations(&self) -> usize {
        super::query_in(&self.url, "SELECT count(*) FROM schema_migration")
            .parse()
            .unwrap()
    }
}

#[test]
#[ignore = "needs an older program: dev/rolling-upgrade"]
fn no_request_fails_while_nodes_are_replaced_one_by_one() {
    let old = std::env::var_os("HAPAX_TEST_OLD_PROGRAM").expect(
        "HAPAX_TEST_OLD_PROGRAM names no program; run dev/rolling-upgrade, which builds one",
    );
    let nodes = Nodes {
        old: old.into(),
        url: empty_database(),
        upstream: Upstream::start(),
        load: Arc::default(),
    };
    let old = Some(&nodes.old);
    let (first, second) = (nodes.serve(old), nodes.serve(old));
    let proxy = nodes.stand(old);
    let before = nodes.migrations();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let load = Arc::clone(&nodes.load);
            std::thread::spawn(move || load.run())
        })
        .collect();
    nodes.go_on();

    // The first node of the new program brings the schema up to date under the old ones.
    let third = nodes.serve(None);
    let migrated = nodes.migrations();
    nodes.go_on();
    nodes.retire(first);
    // An old node that comes back finds a schema that is newer than itself.
    let back = nodes.serve(old);
    let new_proxy = nodes.stand(None);
    nodes.go_on();
    nodes.load.proxies.remove(proxy.address);
    assert_eq!(proxy.stop().0, Some(0), "it stops in order");
    let fourth = nodes.serve(None);
    nodes.retire(second);
    nodes.retire(back);
    nodes.go_on();

    nodes.load.stop();
    for client in clients {
        client.join().unwrap();
    }
    let things = nodes.load.check();
    let mut calls: Vec<Vec<u8>> = nodes
        .upstream
        .calls()
        .into_iter()
        .map(|call| call.body)
        .collect();
    let count = calls.len();
    calls.sort();
    calls.dedup();
    assert_eq!(
        calls.len(),
        count,
        "the service behind was called twice for a key"
    );
    assert_eq!(
        nodes.migrations(),
        migrated,
        "old programs change no schema"
    );
    assert!(
        migrated > before,
        "both programs have the same schema, so nothing was shown; name an older revision"
    );
    println!(
        "{} requests, none failed; {things} things done once; the schema went from {before} migrations to {migrated}",
        nodes.load.asked()
    );
    for server in [third, fourth, new_proxy] {
        assert_eq!(server.stop().0, Some(0), "it stops in order");
    }
}
