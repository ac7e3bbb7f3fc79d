//! Brings the schema up to date, one node at a time, forward only.

use std::time::{Duration, Instant};

use hapax_core::{Error, Kind};
use tokio_postgres::Client;

use super::{fault, roles};
use crate::migration::{self, Migration, migrations, pending};

static ALL: &[Migration] = migrations!("postgres":
        "0001_idempotency_keys", "0002_token", "0003_audit", "0004_tenant_key", "0005_job",
        "0006_snapshot", "0007_entry", "0008_t1", "0009_lists", "0010_questions",
        "0011_shared_cache", "0012_job_queue", "0013_fewer_indexes", "0014_words_in_bulk", "0015_cheaper_checks",
        "0016_ended_session", "0017_shared_secret", "0018_doubtful_ops", "0019_reruns_and_readers", "0020_job_backoff",
        "0021_named_tokens", "0022_stored_masks");

const PIN_SCHEMA: &str = include_str!("../../sql/postgres/pin_schema.sql");
const TABLE: &str = include_str!("../../sql/postgres/migration_table.sql");
const GRANT: &str = include_str!("../../sql/postgres/migration_grant.sql");
const PRESENT: &str = include_str!("../../sql/postgres/migration_present.sql");
const RAN: &str = include_str!("../../sql/postgres/migration_ran.sql");
const RECORD: &str = include_str!("../../sql/postgres/migration_record.sql");
const NAMES: &str = include_str!("../../sql/postgres/migration_names.sql");
const LOCK: &str = include_str!("../../sql/postgres/migration_lock.sql");

/// How long a migration waits for a table at a time. While it waits, everybody else who wants the table waits behind it,
/// so it is less than nodes wait for a lock: they never notice.
const TABLE_WAIT: &str = "SET LOCAL lock_timeout = '200ms'";
/// How long it tries in all, and how long it lets the others through between two tries.
const TRY_FOR: Duration = Duration::from_secs(120);
const TRY_EVERY: Duration = Duration::from_millis(500);

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
    let until = Instant::now() + TRY_FOR;
    for migration in &left {
        apply_until(client, migration, until).await?;
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
    pending(ALL, &ran(client, RAN).await?)
}

/// The names of what a newer program ran.
pub(super) async fn newer(client: &Client) -> Result<Vec<String>, Error> {
    Ok(migration::newer(ALL, ran(client, NAMES).await?))
}

/// Whether any program has migrated the database.
pub(super) async fn is_made(client: &Client) -> Result<bool, Error> {
    Ok(!ran(client, NAMES).await?.is_empty())
}

/// Whether a newer program has migrated the database.
pub(super) async fn is_newer(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let ran = ran_of(client, NAMES).await?;
    Ok(!migration::newer(ALL, ran).is_empty())
}

/// What ran, by number, and what `statement` reads of it; nothing where no program has been yet.
async fn ran(client: &Client, statement: &str) -> Result<Vec<(i64, String)>, Error> {
    ran_of(client, statement)
        .await
        .map_err(|error| failed(&error))
}

async fn ran_of(
    client: &Client,
    statement: &str,
) -> Result<Vec<(i64, String)>, tokio_postgres::Error> {
    if !client
        .query_one(PRESENT, &[])
        .await?
        .try_get::<_, bool>(0)?
    {
        return Ok(Vec::new());
    }
    let rows = client.query(statement, &[]).await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

/// Runs one migration, again and again while somebody has a table that it needs.
async fn apply_until(
    client: &mut Client,
    migration: &Migration,
    until: Instant,
) -> Result<(), Error> {
    loop {
        let error = match apply(client, migration).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if fault::class(&error) != fault::Class::Locked {
            return Err(failed(&error));
        }
        if Instant::now() > until {
            return Err(Error::new(Kind::Unavailable, OPERATION).because(format!(
                "{} needs a table that somebody else has had for {} s; end that transaction (a backup, a session that \
                 idles in one: see pg_stat_activity) and run `hapax migrate` again",
                migration.name,
                TRY_FOR.as_secs()
            )));
        }
        tracing::info!(
            migration = migration.name,
            "somebody has a table that it needs; trying again"
        );
        tokio::time::sleep(TRY_EVERY).await;
    }
}

async fn apply(client: &mut Client, migration: &Migration) -> Result<(), tokio_postgres::Error> {
    let step = client.transaction().await?;
    step.batch_execute(TABLE_WAIT).await?;
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
