//! The same program on PostgreSQL, a database of its own per test.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::fixture::{Server, hapax, json, path, refused, run, succeed};

/// The migrated database that the tests' databases are copies of.
const TEMPLATE: &str = "hapax_server_template";

/// The server that dev/with-postgres started.
fn base() -> String {
    std::env::var("HAPAX_TEST_POSTGRES").expect(
        "HAPAX_TEST_POSTGRES is not set; run the tests beside a server: \
         dev/with-postgres cargo nextest run -p hapax-server",
    )
}

pub(crate) fn psql(statement: &str) {
    let status = Command::new("psql")
        .args([&base(), "-qAtc", statement])
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("psql is installed").success(), "{statement}");
}

/// The one value that a statement answers.
pub(crate) fn query(statement: &str) -> String {
    let output = Command::new("psql")
        .args([&base(), "-qAtc", statement])
        .output()
        .expect("psql is installed");
    assert!(output.status.success(), "{statement}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A new, empty database; its URL.
pub(crate) fn empty_database() -> String {
    copy_of("template1")
}

/// A new database with the tables in it; its URL.
pub(crate) fn database() -> String {
    make_template();
    let url = copy_of(TEMPLATE);
    // Every ledger has an id of its own: caches in Redis go by it.
    let renamed = Command::new("psql")
        .args([
            &url,
            "-qAtc",
            "UPDATE _meta SET value = gen_random_uuid()::text WHERE key = 'ledger_id'",
        ])
        .status();
    assert!(renamed.expect("psql is installed").success());
    url
}

fn copy_of(template: &str) -> String {
    // Not the process id: a long run starts enough processes to be given one twice.
    let name = format!("hapax_server_{}", uuid::Uuid::new_v4().simple());
    psql(&format!("CREATE DATABASE {name} TEMPLATE {template}"));
    url_of(&name)
}

fn url_of(name: &str) -> String {
    format!("{}/{name}", base().rsplit_once('/').unwrap().0)
}

/// Migrates the template, if no other test has.
fn make_template() {
    let port = base().rsplit_once(':').unwrap().1.replace('/', "-");
    let lock = File::create(std::env::temp_dir().join(format!("{TEMPLATE}-{port}.lock"))).unwrap();
    lock.lock().unwrap();
    let made =
        format!("SELECT count(*) FROM pg_database WHERE datname = '{TEMPLATE}' AND datistemplate");
    if query(&made) == "1" {
        return;
    }
    // A test that was killed may have left half of one.
    psql(&format!("DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)"));
    psql(&format!("CREATE DATABASE {TEMPLATE}"));
    let folder = tempfile::tempdir().unwrap();
    let migrated = hapax()
        .args([
            "migrate",
            "--database",
            &url_of(TEMPLATE),
            "--data",
            path(folder.path()),
        ])
        .output()
        .unwrap();
    assert!(migrated.status.success(), "{migrated:?}");
    psql(&format!("ALTER DATABASE {TEMPLATE} IS_TEMPLATE true"));
}

fn start(url: &str) -> Server {
    Server::start_with(|command| {
        command.args(["--database", url]);
    })
}

#[test]
fn it_migrates_serves_and_replays_on_postgres() {
    let server = start(&empty_database());
    let health = server.send("GET", "/health", &[], b"").json();
    assert_eq!(health["store"], "postgres");
    // A cluster for tests may run without fsync, and then must not be called durable.
    assert!(
        ["full", "relaxed"].contains(&health["durability"].as_str().unwrap()),
        "{health}"
    );
    assert_eq!(server.send("GET", "/ready", &[], b"").status, 200);
    let bearer = format!("Bearer {}", server.token());
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
    let first = server.send("POST", "/v1/echo", &headers, br#"{"nul":"\u0000"}"#);
    let again = server.send("POST", "/v1/echo", &headers, br#"{"nul":"\u0000"}"#);
    assert_eq!((first.status, &first.body), (200, &again.body));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(server.send("GET", "/v1/keys", &[], b"").status, 401);
    let (code, _, _) = server.stop();
    assert_eq!(code, Some(0));
}

/// The same database through the pooler that dev/with-pgbouncer started.
pub(crate) fn pooled(url: &str) -> String {
    let pooler = std::env::var("HAPAX_TEST_PGBOUNCER").expect(
        "HAPAX_TEST_PGBOUNCER is not set; run the tests beside a pooler: \
         dev/with-postgres dev/with-pgbouncer cargo nextest run -p hapax-server",
    );
    let (_, name) = url.rsplit_once('/').unwrap();
    format!("{}/{name}", pooler.rsplit_once('/').unwrap().0)
}

#[test]
fn nodes_share_one_postgres_through_a_pooler_in_transaction_mode() {
    let url = database();
    let through = format!("{}?pool_mode=transaction", pooled(&url));
    let node = || {
        Server::start_with(|command| {
            command
                .args(["--database", &through])
                .env("HAPAX_DATABASE_DIRECT", &url)
                .env("HAPAX_TOKEN", "a-token-of-both-nodes");
        })
    };
    let nodes = [node(), node()];
    let plan = br#"{"work_id":"w","artifact_id":"a","canonical_url":"https://example.org/a"}"#;
    let mut bodies = Vec::new();
    for (at, node) in nodes.iter().cycle().take(6).enumerate() {
        let headers = [
            ("authorization", "Bearer a-token-of-both-nodes"),
            ("idempotency-key", "k"),
        ];
        let echo = node.send("POST", "/v1/echo", &headers, b"{}");
        assert_eq!(echo.status, 200);
        assert_eq!(
            echo.header("idempotency-replayed").is_some(),
            at > 0,
            "only the first ran"
        );
        let planned = node.send("POST", "/v1/jobs", &headers[..1], plan);
        assert_eq!(planned.status, if at == 0 { 201 } else { 200 });
        assert_eq!(node.send("GET", "/ready", &[], b"").status, 200);
        bodies.push(echo.body);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    let [one, other] = nodes;
    assert_eq!(
        (one.stop().0, other.stop().0),
        (Some(0), Some(0)),
        "both stop in order"
    );
}

#[test]
fn a_pooler_that_the_url_does_not_name_is_guessed_at() {
    let url = database();
    succeed(&["migrate", "--database", &url]);
    let folder = tempfile::tempdir().unwrap();
    let through = pooled(&url);
    // Some session of the pooler already has a statement of this name, sooner or later.
    let mut said = String::new();
    for _ in 0..20 {
        let arguments = ["keys", "list", "--database", &through, "--data"];
        let output = run(&[&arguments[..], &[path(folder.path())]].concat());
        if !output.status.success() {
            said = String::from_utf8(output.stderr).unwrap();
            break;
        }
    }
    assert!(said.contains("pool_mode=transaction"), "{said}");
}

#[test]
fn two_nodes_share_one_postgres() {
    let url = database();
    let (one, two) = (start(&url), start(&url));
    let token = json(&[
        "token",
        "create",
        "--tenant",
        "default",
        "--role",
        "owner",
        "--database",
        &url,
        "--data",
        path(&one.data()),
    ]);
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
    let first = one.send("POST", "/v1/echo", &headers, b"{}");
    let again = two.send("POST", "/v1/echo", &headers, b"{}");
    assert_eq!((first.status, &first.body), (200, &again.body));
    let id = token["id"].as_str().unwrap();
    succeed(&[
        "token",
        "revoke",
        id,
        "--database",
        &url,
        "--data",
        path(&one.data()),
    ]);
    let started = std::time::Instant::now();
    for node in [&one, &two] {
        while node.send("GET", "/v1/keys", &headers, b"").status == 200 {
            assert!(started.elapsed().as_secs() < 20, "the token still works");
        }
    }
}

#[test]
fn the_commands_work_on_postgres() {
    let (url, folder) = (empty_database(), tempfile::tempdir().unwrap());
    let on = ["--database", url.as_str(), "--data", path(folder.path())];
    let ran = json(&[&["migrate"][..], &on].concat());
    assert!(!ran["ran"].as_array().unwrap().is_empty());
    assert!(
        !ran.to_string().contains("postgres@"),
        "neither user nor password is shown: {ran}"
    );
    assert_eq!(
        json(&[&["migrate"][..], &on].concat())["ran"],
        serde_json::json!([])
    );
    assert_eq!(json(&[&["sweep"][..], &on].concat())["swept"], 0);
    assert_eq!(
        json(&[&["keys", "list"][..], &on].concat())["items"],
        serde_json::json!([])
    );
    let report = json(&[&["doctor", "--listen", "127.0.0.1:0"][..], &on].concat());
    assert!(
        report.to_string().contains("row level security"),
        "{report}"
    );
}

#[test]
fn a_login_that_cannot_be_restricted_is_refused() {
    let (url, folder) = (database(), tempfile::tempdir().unwrap());
    succeed(&["migrate", "--database", &url]);
    let weak = format!("weak_{}", url.rsplit_once('/').unwrap().1);
    psql(&format!("CREATE ROLE {weak} LOGIN"));
    let url = url.replace("postgres@", &format!("{weak}@"));
    let data = path(folder.path());
    let said = refused(
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--database",
            &url,
            "--data",
            data,
        ],
        1,
    );
    assert!(said.contains("hapax_app"), "{said}");
    assert_eq!(
        said.matches("cannot take the role").count(),
        1,
        "said once: {said}"
    );
    let report = run(&[
        "doctor",
        "--database",
        &url,
        "--data",
        data,
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(report.status.code(), Some(1));
}

#[test]
fn a_store_that_goes_away_is_a_503_and_recovers_by_itself() {
    let url = database();
    let server = start(&url);
    let name = url.rsplit_once('/').unwrap().1;
    let bearer = format!("Bearer {}", server.token());
    let keyed = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
    let first = server.send("POST", "/v1/echo", &keyed, b"{}");
    assert_eq!(first.status, 200);

    psql(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"));
    psql(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    ));
    let away = server.send("GET", "/ready", &[], b"");
    assert_eq!(away.refusal(), (503, "store_unavailable".to_owned()));
    assert!(away.header("retry-after").is_some());
    assert_eq!(
        server.send("GET", "/health", &[], b"").status,
        200,
        "alive all the same"
    );
    let refused = server.send("GET", "/v1/keys", &keyed[..1], b"");
    assert_eq!(refused.refusal(), (503, "store_unavailable".to_owned()));
    assert!(refused.header("retry-after").is_some());

    psql(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"));
    let started = std::time::Instant::now();
    let again = loop {
        let again = server.send("POST", "/v1/echo", &keyed, b"{}");
        if again.status != 503 {
            break again;
        }
        assert!(started.elapsed().as_secs() < 30, "it does not recover");
        std::thread::yield_now();
    };
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

#[test]
fn a_database_that_is_away_is_named_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let url = "postgres://me:hidden-word@127.0.0.1:1/nothing";
    let said = refused(
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--database",
            url,
            "--data",
            path(folder.path()),
        ],
        1,
    );
    assert!(
        said.contains("127.0.0.1:1") && !said.contains("hidden-word"),
        "{said}"
    );
}
