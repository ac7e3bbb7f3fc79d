//! Brings the schema up to date, one node at a time, forward only.

use hapax_core::{Error, Kind};
use tokio_postgres::Client;

use super::{fault, roles};
use crate::migration::{Migration, migrations, pending};

static ALL: &[Migration] = migrations!("postgres": "0001_idempotency_keys", "0002_token", "0003_audit", "0004_tenant_key",
        "0005_job", "0006_snapshot", "0007_entry", "0008_t1", "0009_lists", "0010_questions",
        "0011_shared_cache", "0012_job_queue");

const PIN_SCHEMA: &str = include_str!("../../sql/postgres/pin_schema.sql");
const TABLE: &str = include_str!("../../sql/postgres/migration_table.sql");
const GRANT: &str = include_str!("../../sql/postgres/migration_grant.sql");
const PRESENT: &str = include_str!("../../sql/postgres/migration_present.sql");
const RAN: &str = include_str!("../../sql/postgres/migration_ran.sql");
const RECORD: &str = include_str!("../../sql/postgres/migration_record.sql");
const LOCK: &str = include_str!("../../sql/postgres/migration_lock.sql");

const OPERATION: &str = "migrating the database";

/// Runs what is pending, and says what ran. The lock goes with the session: close it afterwards.
///
/// Where nothing is pending nothing is locked or written, so a restricted login gets through.
pub(super) async fn run(client: &mut Client) -> Result<Vec<&'static str>, Error> {
    let answers = client
        .simple_query(PIN_SCHEMA)
        .await
        .map_err(|error| failed(&error))?;
    if !answers
        .iter()
        .any(|answer| matches!(answer, tokio_postgres::SimpleQueryMessage::Row(_)))
    {
        let why = "there is no schema to use; create one and name it in the search_path";
        return Err(Error::new(Kind::Unsafe, OPERATION).because(why));
    }
    let mut left = left(client).await?;
    if left.is_empty() {
        roles::ensure(client).await?;
        return Ok(Vec::new());
    }
    client
        .batch_execute("SET lock_timeout = '120s'; SET statement_timeout = 0")
        .await
        .map_err(|error| failed(&error))?;
    client
        .batch_execute(LOCK)
        .await
        .map_err(|error| failed(&error))?;
    roles::ensure(client).await?;
    left = self::left(client).await?;
    if left.is_empty() {
        return Ok(Vec::new());
    }
    client
        .batch_execute(TABLE)
        .await
        .map_err(|error| failed(&error))?;
    client
        .batch_execute(GRANT)
        .await
        .map_err(|error| failed(&error))?;
    for migration in &left {
        apply(client, migration)
            .await
            .map_err(|error| failed(&error))?;
        tracing::info!(migration = migration.name, "migrated");
    }
    Ok(left.iter().map(|migration| migration.name).collect())
}

/// Refuses if anything is pending. All in one transaction, after which nothing is left on the session.
pub(super) async fn refuse_pending(client: &Client) -> Result<(), Error> {
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY";
    client
        .batch_execute(begin)
        .await
        .map_err(|error| failed(&error))?;
    let left = left(client).await;
    client
        .batch_execute("ROLLBACK")
        .await
        .map_err(|error| failed(&error))?;
    match left?.first() {
        None => Ok(()),
        Some(migration) => Err(Error::new(Kind::Unsafe, OPERATION).because(format!(
            "{} is pending, and a pooler in transaction mode cannot hold the lock; run `hapax migrate` with a URL \
             that leads to the server itself, or name that URL as database_direct",
            migration.name
        ))),
    }
}

async fn left(client: &Client) -> Result<Vec<&'static Migration>, Error> {
    let read = async {
        if !client
            .query_one(PRESENT, &[])
            .await?
            .try_get::<_, bool>(0)?
        {
            return Ok(Vec::new());
        }
        let rows = client.query(RAN, &[]).await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect()
    };
    let ran: Vec<(i64, String)> = read.await.map_err(|error| failed(&error))?;
    pending(ALL, &ran)
}

async fn apply(client: &mut Client, migration: &Migration) -> Result<(), tokio_postgres::Error> {
    let step = client.transaction().await?;
    step.batch_execute(migration.sql).await?;
    step.execute(
        RECORD,
        &[&migration.number, &migration.name, &migration.sha256()],
    )
    .await?;
    step.commit().await
}

fn failed(error: &tokio_postgres::Error) -> Error {
    match fault::class(error) {
        fault::Class::Forbidden => Error::new(Kind::Unsafe, OPERATION).because(format!(
            "this login may not ({}); run `hapax migrate` once with the owner's URL",
            fault::text(error)
        )),
        fault::Class::Contention
        | fault::Class::Locked
        | fault::Class::Refused
        | fault::Class::Down => {
            Error::new(Kind::Unavailable, OPERATION).because(fault::text(error))
        }
    }
}
