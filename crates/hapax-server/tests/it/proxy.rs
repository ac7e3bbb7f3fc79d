//! `hapax proxy` from outside: a real process between a real client and a real upstream that counts its calls.

mod answers;
mod failures;
mod jwt;
mod keyed;
mod late;
mod passing;
mod refused;
mod streams;
pub(crate) mod upstream;

use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::fixture::{Server, refused as fails};
use crate::http::{self, Answer};
use upstream::Upstream;

/// A proxy in front of an upstream of its own.
pub(crate) struct Proxied {
    pub(crate) upstream: Upstream,
    proxy: Option<Server>,
    config: String,
    database: Option<String>,
}

impl Proxied {
    /// With nothing configured.
    pub(crate) fn plain() -> Self {
        Self::with("")
    }

    /// With this config file.
    pub(crate) fn with(config: &str) -> Self {
        Self::on(config, None)
    }

    pub(crate) fn on(config: &str, database: Option<String>) -> Self {
        let mut proxied = Self {
            upstream: Upstream::start(),
            proxy: None,
            config: config.to_owned(),
            database,
        };
        proxied.begin(tempfile::tempdir().unwrap());
        proxied
    }

    fn begin(&mut self, folder: TempDir) {
        let url = self.upstream.url();
        self.proxy = Some(start(folder, &url, &self.config, self.database.as_deref()));
    }

    /// kill -9, then the same proxy again.
    fn crash(&mut self) {
        let proxy = self.proxy.take().unwrap();
        proxy.signal("KILL");
        let (_, _, folder) = proxy.wait();
        self.begin(folder);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.proxy.as_ref().unwrap().address
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        http::request(self.address(), method, path, headers, body)
    }

    /// A POST under a key.
    pub(crate) fn post(&self, path: &str, key: &str, body: &str) -> Answer {
        self.send("POST", path, &[("idempotency-key", key)], body.as_bytes())
    }

    /// The same, in a thread of its own.
    fn post_beside(&self, path: &str, key: &str) -> std::thread::JoinHandle<Option<Answer>> {
        let (address, path, key) = (self.address(), path.to_owned(), key.to_owned());
        std::thread::spawn(move || {
            http::try_request(address, "POST", &path, &[("idempotency-key", &key)], b"{}")
        })
    }
}

fn start(folder: TempDir, upstream: &str, config: &str, database: Option<&str>) -> Server {
    let file = folder.path().join("hapax.toml");
    std::fs::write(&file, config).unwrap();
    Server::proxy_in(folder, |command: &mut Command| {
        command.args(["--upstream", upstream, "--config"]).arg(file);
        if let Some(database) = database {
            command.args(["--database", database]);
        }
    })
}

pub(crate) fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == Some("true")
}

#[test]
fn it_says_where_it_listens_and_what_it_stands_in_front_of() {
    let proxied = Proxied::plain();
    let upstream = proxied.upstream.url();
    let proxy = proxied.proxy.unwrap();
    assert!(
        proxy
            .first_line
            .starts_with("listening on http://127.0.0.1:")
    );
    assert!(
        !proxy.data().join("token").exists(),
        "it needs no token of its own"
    );
    let (code, rest, _) = proxy.stop();
    assert_eq!((code, rest), (Some(0), format!("in front of {upstream}\n")));
}

#[test]
fn how_it_is_doing_is_told_on_an_address_of_its_own() {
    let mut proxied = Proxied::with("[proxy]\nadmin_listen = '127.0.0.1:0'\n");
    assert_eq!(proxied.post("/a", "k", "{}").status, 201);
    assert!(is_replay(&proxied.post("/a", "k", "{}")));
    let on_proxy = proxied.send("GET", "/health", &[], b"");
    assert_eq!(
        on_proxy.text(),
        "call 2",
        "every path of the proxy is the upstream's"
    );
    let proxy = proxied.proxy.as_mut().unwrap();
    let lines = [proxy.next_line(), proxy.next_line()];
    let admin = lines[1].strip_prefix("health and metrics on http://");
    let admin: SocketAddr = admin.unwrap().parse().unwrap();
    let ask = |path: &str| http::request(admin, "GET", path, &[], b"");
    assert_eq!(ask("/health").json()["status"], "ok");
    assert_eq!((ask("/ready").status, ask("/a").status), (200, 404));
    let metrics = ask("/metrics").text();
    let calls = r#"hapax_upstream_seconds_count{outcome="answered"} 2"#;
    assert!(metrics.contains(calls), "{metrics}");
}

#[test]
fn without_a_usable_upstream_it_does_not_start() {
    for upstream in [
        &[][..],
        &["--upstream", "up:3000"],
        &["--upstream", "http://me:pw@up"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let data = crate::fixture::path(&data);
        let why = fails(
            &[
                &["proxy", "--listen", "127.0.0.1:0", "--data", data],
                upstream,
            ]
            .concat(),
            2,
        );
        assert!(why.contains("upstream") && !why.contains("pw@"), "{why}");
        assert!(
            !folder.path().join("data").exists(),
            "nothing is left behind"
        );
    }
}
