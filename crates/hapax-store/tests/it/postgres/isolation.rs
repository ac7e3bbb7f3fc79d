//! Row level security, as the database itself enforces it on the roles the ledger uses.

use hapax_core::{Ledger, Outcome, Policy, Swap, Sweep, Tenant};
use hapax_store::postgres::PgOptions;
use hapax_store::{Clock, PgLedger};
use std::time::Duration;
use tokio_postgres::Client;

use super::database::Database;
use super::{claim, inserting};

const INSERT: &str = "INSERT INTO idempotency_keys (tenant_id, id, idempotency_key, route_pattern, created_at, \
    expires_at, version, state, fingerprint, on_lost, lease_ms) VALUES \
    ('00000000-0000-0000-0000-000000000002', gen_random_uuid(), 'k', 'r', now(), now(), 1, 'free', \
    sha256('x'), 'retry', 1)";

async fn two_tenants() -> (Database, PgLedger) {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    let moves = vec![
        inserting(&ledger, &claim(1, "one", 1)),
        inserting(&ledger, &claim(2, "two", 2)),
    ];
    assert_eq!(
        ledger.swap(moves).await.unwrap(),
        [Swap::Written, Swap::Written]
    );
    (database, ledger)
}

async fn count(client: &Client) -> i64 {
    client
        .query_one("SELECT count(*) FROM idempotency_keys", &[])
        .await
        .unwrap()
        .get(0)
}

fn code(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("", |state| state.code())
}

#[tokio::test]
async fn the_app_role_sees_and_writes_one_tenant_only() {
    let (database, _ledger) = two_tenants().await;
    let mut raw = database.raw().await;
    assert_eq!(count(&raw).await, 2, "the superuser sees both");
    raw.batch_execute("SET ROLE hapax_app").await.unwrap();

    assert_eq!(count(&raw).await, 0, "no tenant, no rows");
    let refused = raw.batch_execute(INSERT).await.unwrap_err();
    assert_eq!(code(&refused), "42501", "no tenant, no writes");

    let step = raw.transaction().await.unwrap();
    step.batch_execute("SET LOCAL hapax.tenant = '00000000-0000-0000-0000-000000000001'")
        .await
        .unwrap();
    let keys = step
        .query("SELECT idempotency_key FROM idempotency_keys", &[])
        .await
        .unwrap();
    assert_eq!(
        keys.iter()
            .map(|row| row.get::<_, String>(0))
            .collect::<Vec<_>>(),
        ["one"]
    );
    let touched = step.execute(
        "UPDATE idempotency_keys SET version = version + 1 WHERE idempotency_key = 'two'",
        &[],
    );
    assert_eq!(
        touched.await.unwrap(),
        0,
        "another tenant's row cannot be written"
    );
    let refused = step.batch_execute(INSERT).await.unwrap_err();
    assert_eq!(
        code(&refused),
        "42501",
        "nor made, and never 23505, which would tell that it exists"
    );
    step.rollback().await.unwrap();

    assert_eq!(count(&raw).await, 0, "the tenant ends with the transaction");
    assert_eq!(
        code(
            &raw.batch_execute("DELETE FROM idempotency_keys")
                .await
                .unwrap_err()
        ),
        "42501"
    );
    assert_eq!(
        code(
            &raw.batch_execute("INSERT INTO token SELECT * FROM token")
                .await
                .unwrap_err()
        ),
        "42501"
    );
}

#[tokio::test]
async fn the_app_role_sees_a_token_only_by_its_id() {
    let (database, _ledger) = two_tenants().await;
    let raw = database.raw().await;
    raw.batch_execute(
        "INSERT INTO token VALUES ('00000000-0000-0000-0000-0000000000aa', gen_random_uuid(), 'owner', sha256('x'), now()); \
         SET ROLE hapax_app",
    )
    .await
    .unwrap();
    let tokens = async || raw.query("SELECT id FROM token", &[]).await.unwrap().len();
    assert_eq!(tokens().await, 0);
    raw.batch_execute("SET hapax.token_id = '00000000-0000-0000-0000-0000000000aa'")
        .await
        .unwrap();
    assert_eq!(tokens().await, 1);
}

#[tokio::test]
async fn the_janitor_sweeps_every_tenant_and_reads_no_content() {
    let database = Database::create().await;
    let clock = Clock::system();
    let ledger = database
        .open(PgOptions {
            clock: clock.clone(),
            ..PgOptions::default()
        })
        .await;
    for tenant in 1..=3 {
        let policy = Policy {
            ttl: Duration::from_secs(1),
            lease: Duration::from_secs(1),
            ..Policy::default()
        };
        let claim = claim(tenant, "k", tenant).with_policy(policy);
        let step = inserting(&ledger, &claim);
        let held = step.next.clone();
        ledger.swap(vec![step]).await.unwrap();
        let settle = hapax_core::Move::replacing(
            &held,
            held.settled(Outcome::text(200, "secret"), ledger.now()),
        );
        assert_eq!(ledger.swap(vec![settle]).await.unwrap(), [Swap::Written]);
    }
    clock.advance(Duration::from_secs(2));
    let raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_janitor").await.unwrap();
    for column in [
        "idempotency_key",
        "route_pattern",
        "fingerprint",
        "principal",
        "request_body",
        "response_body",
        "request_path",
    ] {
        let read = raw
            .query(&format!("SELECT {column} FROM idempotency_keys"), &[])
            .await
            .unwrap_err();
        assert_eq!(code(&read), "42501", "the janitor cannot read {column}");
    }
    let put = raw
        .batch_execute("UPDATE idempotency_keys SET response_body = 'forged'")
        .await
        .unwrap_err();
    assert_eq!(code(&put), "42501", "nor put content in");

    assert_eq!(ledger.sweep(Sweep::default()).await.unwrap().expired, 3);

    raw.batch_execute("RESET ROLE").await.unwrap();
    let left = raw
        .query_one(
            "SELECT count(*) FROM idempotency_keys WHERE response_body IS NOT NULL",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn with_a_superusers_url_the_ledgers_own_sessions_are_restricted() {
    let (database, ledger) = two_tenants().await;
    ledger
        .find(Tenant::DEFAULT, claim(1, "one", 1).id())
        .await
        .unwrap();

    let sessions = ledger.sessions().await.unwrap();

    let roles: Vec<_> = sessions
        .iter()
        .map(|session| (session.login.as_str(), session.role.as_str()))
        .collect();
    assert_eq!(
        roles,
        [
            ("postgres", "hapax_app"),
            ("postgres", "hapax_app"),
            ("postgres", "hapax_janitor")
        ]
    );
    for session in &sessions {
        session.verify().unwrap();
    }
    let open: i64 = database
        .raw()
        .await
        .query_one("SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND application_name = 'hapax'", &[&database.name])
        .await
        .unwrap()
        .get(0);
    assert_eq!(
        open, 3,
        "there is no session beside those, and the migrating one is closed"
    );
}
