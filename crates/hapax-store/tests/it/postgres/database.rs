//! One database per test on the private server, so that tests can run at once.

use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use tokio_postgres::{Client, Config, NoTls};

const TEMPLATE: &str = "hapax_store_template";
const TEMPLATE_LOCK: i64 = 7_521_042_968_141_210_746;

/// A database of this test's own, dropped with it: those of all tests together would fill a small disk.
pub(super) struct Database {
    pub(super) name: String,
    pub(super) url: String,
}

impl Database {
    /// An empty database.
    pub(super) async fn create() -> Self {
        let server = connect(&server_url()).await;
        Self::copy_of("template1", &server).await
    }

    /// A database with the schema in it: a copy of one that the first who asks migrates.
    pub(super) async fn migrated() -> Self {
        let server = connect(&server_url()).await;
        server
            .batch_execute(&format!("SELECT pg_advisory_lock({TEMPLATE_LOCK})"))
            .await
            .unwrap();
        let made = server
            .query_one(
                "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)",
                &[&TEMPLATE],
            )
            .await
            .unwrap();
        if !made.get::<_, bool>(0) {
            // One that was left half made is made anew.
            for statement in [
                format!("DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)"),
                format!("CREATE DATABASE {TEMPLATE}"),
            ] {
                server.batch_execute(&statement).await.unwrap();
            }
            PgLedger::migrate(&with_database(TEMPLATE, None))
                .await
                .expect("a superuser migrates");
            let done = format!("ALTER DATABASE {TEMPLATE} IS_TEMPLATE true");
            server.batch_execute(&done).await.unwrap();
        }
        server
            .batch_execute(&format!("SELECT pg_advisory_unlock({TEMPLATE_LOCK})"))
            .await
            .unwrap();
        Self::copy_of(TEMPLATE, &server).await
    }

    async fn copy_of(template: &str, server: &Client) -> Self {
        let name = format!("hapax_{}", uuid::Uuid::new_v4().simple());
        // Names of our own making; CREATE DATABASE takes no parameters.
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        for _ in 0..50 {
            match server.batch_execute(&create).await {
                Ok(()) => break,
                // Somebody else is copying the template.
                Err(error) if error.code().is_some_and(|state| state.code() == "55006") => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                Err(error) => panic!("creating a database: {error:?}"),
            }
        }
        let url = with_database(&name, None);
        Self { name, url }
    }

    /// The ledger over it.
    pub(super) async fn open(&self, options: PgOptions) -> PgLedger {
        PgLedger::open(&self.url, options)
            .await
            .expect("the ledger opens")
    }

    /// A raw connection as the superuser.
    pub(super) async fn raw(&self) -> Client {
        connect(&self.url).await
    }

    /// The URL of this database through the pooler.
    pub(super) fn pooled(&self) -> String {
        let pooler = std::env::var("HAPAX_TEST_PGBOUNCER").expect(
            "HAPAX_TEST_PGBOUNCER is not set: run these tests through ./test or \
             dev/with-postgres dev/with-pgbouncer",
        );
        let (server, _) = pooler
            .rsplit_once('/')
            .expect("the pooler's URL names a database");
        format!("{server}/{}?pool_mode=transaction", self.name)
    }

    /// The URL of this database for another login.
    pub(super) fn url_for(&self, user: &str, password: &str) -> String {
        with_database(&self.name, Some((user, password)))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // The test's own runtime cannot be waited for from within.
        let done = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime starts")
                .block_on(async { connect(&server_url()).await.batch_execute(&drop).await })
        })
        .join();
        if !matches!(done, Ok(Ok(()))) {
            eprintln!("{} was not dropped: {done:?}", self.name);
        }
    }
}

/// The URL of the private server, as `dev/with-postgres` gives it.
pub(super) fn server_url() -> String {
    std::env::var("HAPAX_TEST_POSTGRES").expect(
        "HAPAX_TEST_POSTGRES is not set: run these tests through ./test or dev/with-postgres",
    )
}

fn with_database(name: &str, login: Option<(&str, &str)>) -> String {
    let config: Config = server_url().parse().expect("the server's URL is one");
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let host = match config.get_hosts().first() {
        Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
        _ => "127.0.0.1".to_owned(),
    };
    let (user, password) = login.unwrap_or((config.get_user().unwrap_or("postgres"), ""));
    let colon = if password.is_empty() { "" } else { ":" };
    format!("postgres://{user}{colon}{password}@{host}:{port}/{name}")
}

/// A raw connection.
pub(super) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("the private server answers");
    tokio::spawn(connection);
    client
}
