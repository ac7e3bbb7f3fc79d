//! One database per test on the private server, so that tests can run at once.

use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use tokio_postgres::{Client, Config, NoTls};

/// A database of this test's own. The temporary server takes it down when it ends.
pub(super) struct Database {
    pub(super) name: String,
    pub(super) url: String,
}

impl Database {
    /// An empty database.
    pub(super) async fn create() -> Self {
        let name = format!("hapax_{}", uuid::Uuid::new_v4().simple());
        let server = connect(&server_url()).await;
        // A name of our own making; CREATE DATABASE takes no parameters.
        let create = format!("CREATE DATABASE {name}");
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

    /// A database with the schema in it.
    pub(super) async fn migrated() -> Self {
        let database = Self::create().await;
        PgLedger::migrate(&database.url)
            .await
            .expect("a superuser migrates");
        database
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

    /// The URL of this database for another login.
    pub(super) fn url_for(&self, user: &str, password: &str) -> String {
        with_database(&self.name, Some((user, password)))
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
