//! The audit trail in PostgreSQL: append-only for the app, blind for the sweeper, and in the record's own transaction.

use std::time::Duration;

use hapax_core::{Action, Ledger, Note, NoteScan, Outcome, Policy, Swap, Sweep, Tenant};
use hapax_store::Clock;
use hapax_store::postgres::PgOptions;
use uuid::Uuid;

use super::database::Database;
use super::{claim, inserting};

fn tenant(number: u128) -> Tenant {
    Tenant::from_uuid(Uuid::from_u128(number))
}

fn code(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("", |state| state.code())
}

#[tokio::test]
async fn the_app_adds_and_reads_its_own_notes_and_changes_none() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    let note = |number| Note::new(tenant(number), ledger.now(), Action::Replay);
    ledger.note(vec![note(1), note(2)]).await.unwrap();

    let mut raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_app").await.unwrap();
    let count = "SELECT count(*) FROM audit_log";
    let seen: i64 = raw.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(seen, 0, "no tenant, no rows");
    for forbidden in [
        "UPDATE audit_log SET actor = 'x'",
        "DELETE FROM audit_log",
        "UPDATE audit_note SET actor = 'x'",
        "DELETE FROM audit_note",
        "TRUNCATE audit_note",
    ] {
        let refused = raw.batch_execute(forbidden).await.unwrap_err();
        assert_eq!(code(&refused), "42501", "{forbidden}");
    }

    let step = raw.transaction().await.unwrap();
    step.batch_execute("SET LOCAL hapax.tenant = '00000000-0000-0000-0000-000000000001'")
        .await
        .unwrap();
    let seen: i64 = step.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(seen, 1);
    let forged = step.batch_execute(
        "INSERT INTO audit_log (tenant_id, at, action) \
         VALUES ('00000000-0000-0000-0000-000000000002', now(), 'key_deleted')",
    );
    assert_eq!(code(&forged.await.unwrap_err()), "42501");
}

#[tokio::test]
async fn the_sweeper_notes_its_sweeps_only_and_reads_no_note() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_janitor").await.unwrap();
    for forbidden in [
        "SELECT details FROM audit_log",
        "SELECT details FROM audit_note",
        "SELECT created_at FROM audit_log",
        "SELECT actor FROM audit_log",
        "UPDATE audit_log SET actor = 'x'",
        "INSERT INTO audit_log (tenant_id, at, action) VALUES (gen_random_uuid(), now(), 'key_deleted')",
    ] {
        let refused = raw.batch_execute(forbidden).await.unwrap_err();
        assert_eq!(code(&refused), "42501", "{forbidden}");
    }
}

#[tokio::test]
async fn a_note_the_database_would_refuse_does_not_stop_the_record() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    let asked = claim(1, "k", 1);
    let step = inserting(&ledger, &asked);
    let mut note = Note::of(&step.next, ledger.now(), Action::Expired);
    note.actor = Some("a\0b".to_owned());
    note.details = "{\"a\":\"\\u0000\"}".to_owned();
    let swaps = ledger.swap(vec![step.noted(note)]).await.unwrap();
    assert_eq!(swaps, [Swap::Written]);
    let page = ledger.notes(NoteScan::of(tenant(1))).await.unwrap();
    assert_eq!(page.notes.len(), 1);
}

#[tokio::test]
async fn a_sweep_under_forced_row_level_security_removes_and_notes() {
    let database = Database::create().await;
    let clock = Clock::system();
    let ledger = database
        .open(PgOptions {
            clock: clock.clone(),
            ..PgOptions::default()
        })
        .await;
    let asked = claim(1, "k", 1).with_policy(Policy {
        ttl: Duration::from_secs(60),
        ..Policy::default()
    });
    let step = inserting(&ledger, &asked);
    let hold = step.next.hold().unwrap();
    let lease = hapax_core::Lease::of(step.next.clone(), hold.epoch, hold.owner).unwrap();
    let settle = lease.settle(Outcome::text(200, "ok"), ledger.now());
    let swaps = ledger.swap(vec![step, settle]).await.unwrap();
    assert_eq!(swaps, [Swap::Written, Swap::Written]);
    clock.advance(Duration::from_secs(61));

    assert_eq!(ledger.sweep(Sweep::default()).await.unwrap().expired, 1);
    let page = ledger.notes(NoteScan::of(tenant(1))).await.unwrap();
    assert_eq!(page.notes.len(), 1);
    assert_eq!(page.notes[0].action, Action::Cleanup);
    clock.advance(Duration::from_secs(31 * 86_400));
    assert_eq!(ledger.sweep(Sweep::default()).await.unwrap().notes, 1);
}
