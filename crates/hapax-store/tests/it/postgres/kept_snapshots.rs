//! What only this store promises of snapshots: its roles, its errors, nodes that share it, and what it touches.

mod plans;

use std::sync::Arc;
use std::time::Duration;

use hapax_core::canonical::{Profile, canonical};
use hapax_core::snapshot::{NewSnapshot, Put, Shelf, Snapshots};
use hapax_core::{Fingerprint, Kind, Tenant};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use tokio_postgres::Client;
use uuid::Uuid;

use super::database::Database;
use crate::vault::vault;

fn shelf(number: u128) -> Shelf {
    Shelf {
        tenant: Tenant::from_uuid(Uuid::from_u128(number)),
        collection: "courses".into(),
    }
}

fn course(entity: &str, payload: &str) -> NewSnapshot {
    let hash = Fingerprint::of(&canonical(payload.as_bytes(), Profile::Hcj1).unwrap());
    let mut id = [0; 16];
    id.copy_from_slice(&hash.as_bytes()[..16]);
    NewSnapshot {
        id: Uuid::from_bytes(id),
        entity_id: entity.to_owned(),
        label: Some("tell-tale-label".to_owned()),
        hash,
        payload: payload.into(),
        aliases: vec![("py-json".to_owned(), "abc".to_owned())],
        by: Some("token:1".to_owned()),
        key_match: None,
    }
}

async fn put(ledger: &PgLedger, tenant: u128, all: Vec<NewSnapshot>) -> Vec<Put> {
    ledger.put_snapshots(shelf(tenant), all).await.unwrap()
}

async fn two_tenants() -> (Database, PgLedger) {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    for tenant in [1, 2] {
        put(&ledger, tenant, vec![course("c-1", r#"{"secret":1}"#)]).await;
    }
    (database, ledger)
}

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn refused(client: &Client, sql: &str) -> String {
    let error = client.batch_execute(sql).await.unwrap_err();
    error.code().map_or("", |state| state.code()).to_owned()
}

const TABLES: [&str; 4] = ["snapshot", "snapshot_alias", "entity", "observation"];

#[tokio::test]
async fn the_app_role_sees_and_writes_one_tenants_snapshots_only() {
    let (database, _ledger) = two_tenants().await;
    let raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_app").await.unwrap();
    let seen = TABLES.into_iter().chain(["course_snapshots"]);
    for table in seen.clone() {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(number(&raw, &count).await, 0, "no tenant, no rows: {table}");
    }
    raw.batch_execute("SET hapax.tenant = '00000000-0000-0000-0000-000000000001'")
        .await
        .unwrap();
    for table in seen {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(number(&raw, &count).await, 1, "its own only: {table}");
    }
    for table in TABLES {
        let moved =
            format!("UPDATE {table} SET tenant_id = '00000000-0000-0000-0000-000000000002'");
        assert_eq!(refused(&raw, &moved).await, "42501", "{table}");
        let deleted = format!("DELETE FROM {table}");
        assert_eq!(refused(&raw, &deleted).await, "42501", "{table}");
    }
    let forged = "INSERT INTO snapshot (tenant_id, id, collection, entity_id, payload, created_at, seen_at, seen) \
        SELECT '00000000-0000-0000-0000-000000000002', id, collection, entity_id, payload, 1, 1, 1 FROM snapshot";
    assert_eq!(refused(&raw, forged).await, "42501", "and never 23505");
}

#[tokio::test]
async fn the_janitor_sees_which_snapshots_miss_a_hash_and_no_content() {
    let (database, _ledger) = two_tenants().await;
    let raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_janitor").await.unwrap();
    assert_eq!(number(&raw, "SELECT count(id) FROM snapshot").await, 2);
    for column in ["payload", "payload_hash", "label", "entity_id"] {
        let read = format!("SELECT {column} FROM snapshot");
        assert_eq!(refused(&raw, &read).await, "42501", "{column}");
    }
    let filled = "UPDATE snapshot SET hash_state = 'missing'";
    assert_eq!(refused(&raw, filled).await, "42501");
    for table in [
        "snapshot_alias",
        "entity",
        "observation",
        "course_snapshots",
    ] {
        let read = format!("SELECT count(*) FROM {table}");
        assert_eq!(refused(&raw, &read).await, "42501", "{table}");
    }
}

#[tokio::test]
async fn a_warning_on_commit_leaves_the_outcome_unknown() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    // What a cancelled wait for a synchronous standby looks like: success, and a warning.
    let raw = database.raw().await;
    raw.batch_execute(
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication'; RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON snapshot DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION warn()",
    )
    .await
    .unwrap();
    let asked = || vec![course("c-1", "[1]")];
    let error = ledger.put_snapshots(shelf(1), asked()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown);
    let again = put(&ledger, 1, asked()).await;
    let is_there = |put: &Put| matches!(put, Put::Kept { was_there, .. } if *was_there);
    assert!(again.iter().all(is_there), "putting it again is harmless");
}

#[tokio::test]
async fn an_entity_that_stays_locked_is_unavailable_and_unchanged() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    put(&ledger, 1, vec![course("c-1", "[1]")]).await;
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM snapshot FOR UPDATE")
        .await
        .unwrap();
    let all = vec![course("c-1", "[1]"), course("c-1", "[2]")];
    let error = ledger.put_snapshots(shelf(1), all).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    lock.commit().await.unwrap();
    let history = ledger.snapshots_of(shelf(1), "c-1".to_owned(), None, 9);
    assert_eq!(history.await.unwrap().len(), 1, "all or nothing");
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_no_lock_behind() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    put(&ledger, 1, vec![course("c-1", "[1]")]).await;
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM snapshot FOR UPDATE")
        .await
        .unwrap();
    let dropped = ledger.put_snapshots(shelf(1), vec![course("c-1", "[1]")]);
    let late = tokio::time::timeout(Duration::from_millis(200), dropped).await;
    assert!(late.is_err(), "it waits for the lock");
    lock.commit().await.unwrap();
    let answers = put(&ledger, 1, vec![course("c-1", "[1]")]).await;
    assert!(matches!(answers[0], Put::Kept { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_put_the_same_at_once_keep_it_once() {
    let database = Database::create().await;
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Arc::new(database.open(PgOptions::default()).await));
    }
    let puts = (0..60).map(|number: usize| {
        let node = nodes[number % 3].clone();
        let all = (0..20).map(|one| course(&format!("c-{}", one % 5), &format!("[{one}]")));
        let mut all: Vec<_> = all.collect();
        all.rotate_left(number % 20);
        tokio::spawn(async move { put(&node, 1, all).await })
    });
    let mut fresh = 0;
    for one in puts.collect::<Vec<_>>() {
        let answers = one.await.unwrap();
        let is_new = |put: &&Put| matches!(put, Put::Kept { was_there, .. } if !was_there);
        fresh += answers.iter().filter(is_new).count();
    }
    assert_eq!(fresh, 20);
    let raw = database.raw().await;
    let stored = "SELECT count(*) FROM snapshot WHERE seen = 60";
    assert_eq!(number(&raw, stored).await, 20);
    let current = "SELECT count(*) FROM entity AS e WHERE current_seq = (SELECT max(seq) FROM snapshot AS s \
        WHERE s.entity_id = e.entity_id) AND snapshots = 4";
    assert_eq!(number(&raw, current).await, 5);
}

#[tokio::test]
async fn older_tools_find_snapshots_of_courses_under_the_name_they_know() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    let asked = course("c-1", r#"{"course":{"id":"c-1"}}"#);
    put(&ledger, 1, vec![asked.clone()]).await;
    let books = Shelf {
        collection: "books".into(),
        ..shelf(1)
    };
    let other = ledger.put_snapshots(books, vec![course("b-1", "[1]")]);
    other.await.unwrap();
    let raw = database.raw().await;
    let sql = "SELECT id, course_id, payload, payload_hash, now() - created_at < '1 hour'::interval FROM course_snapshots";
    let row = raw.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, Uuid>(0), asked.id);
    let told: [String; 3] = [row.get(1), row.get(2), row.get(3)];
    assert_eq!(told, ["c-1", &asked.payload, &asked.hash.hex()]);
    assert!(row.get::<_, bool>(4));
}

#[tokio::test]
async fn a_table_of_that_name_is_left_alone() {
    let database = Database::create().await;
    let raw = database.raw().await;
    raw.batch_execute(
        "CREATE TABLE course_snapshots (id text); INSERT INTO course_snapshots VALUES ('mine')",
    )
    .await
    .unwrap();
    let ledger = database.open(PgOptions::default()).await;
    put(&ledger, 1, vec![course("c-1", "[1]")]).await;
    let kept = "SELECT count(*) FROM course_snapshots WHERE id = 'mine'";
    assert_eq!(number(&raw, kept).await, 1);
}

#[tokio::test]
async fn with_a_vault_payloads_are_sealed_and_labels_are_not() {
    for (vault, is_sealed) in [(None, false), (vault(&[1]), true)] {
        let database = Database::create().await;
        let options = PgOptions {
            vault,
            ..PgOptions::default()
        };
        let ledger = database.open(options).await;
        let asked = course("c-1", r#""tell-tale-payload""#);
        put(&ledger, 1, vec![asked.clone(), course("c-1", "[2]")]).await;
        let read = ledger.snapshot(shelf(1), asked.id).await.unwrap();
        assert_eq!(read.unwrap().payload, asked.payload);
        let raw = database.raw().await;
        let mut stolen = String::new();
        for table in TABLES {
            let sql = format!("SELECT coalesce(string_agg(t::text, ''), '') FROM {table} AS t");
            stolen += raw.query_one(&sql, &[]).await.unwrap().get(0);
        }
        assert_eq!(!stolen.contains("tell-tale-payload"), is_sealed);
        assert!(stolen.contains("tell-tale-label"));
        if is_sealed {
            let swap = "UPDATE snapshot AS s SET payload = o.payload FROM snapshot AS o WHERE o.id <> s.id";
            raw.batch_execute(swap).await.unwrap();
            let error = ledger.snapshot(shelf(1), asked.id).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "moved to another snapshot");
        }
    }
}
