//! What a busy ledger notes down: the whole suite once more with everything noted down that can be, and what only a
//! backlog can get wrong.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{
    Action, Error, Fingerprint, Kind, Ledger, Move, Note, Outcome, Record, Scan, State, Swap,
    Tenant, Version,
};
use hapax_store::conformance::Subject;
use hapax_store::sqlite::rusqlite::{Connection, TransactionBehavior};
use hapax_store::sqlite::{SqliteOptions, rusqlite};
use hapax_store::within::Claimed;
use hapax_store::{Clock, SqliteLedger};

use super::{beside, claim, count, folder, insert, open_in, sharing};
use crate::vault::vault;

pub(super) const NOTED: &str = "SELECT count(1) FROM idempotency_backlog";
const SECRET: &str = "a text that must not stay anywhere";
pub(super) const FILED: &str = "SELECT count(1) FROM idempotency_keys";
const AUDITED: &str = "SELECT count(1) FROM audit_log";

/// Everything that can be is noted down, and filed only when somebody needs it.
pub(super) fn busy() -> SqliteOptions {
    SqliteOptions {
        backlog_moves_min: 1,
        backlog_quiet: Duration::from_secs(3600),
        ..SqliteOptions::default()
    }
}

async fn open() -> Subject {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        ..busy()
    };
    Subject::new(Arc::new(open_in(&folder, options)), clock).keeping(folder)
}

async fn open_sealed() -> Subject {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        vault: vault(&[1]),
        ..busy()
    };
    Subject::new(Arc::new(open_in(&folder, options)), clock).keeping(folder)
}

mod always {
    use super::open;
    hapax_store::ledger_conformance!(open);
}

mod sealed {
    use super::open_sealed;
    hapax_store::ledger_conformance!(open_sealed);
}

/// A text that no compression makes small enough for a row.
fn large() -> String {
    let hashes = (0..400_u32).map(|n| Fingerprint::of(&n.to_le_bytes()));
    let hashes: Vec<Fingerprint> = hashes.collect();
    format!("{hashes:?}")
}

pub(super) async fn claimed(ledger: &SqliteLedger, key: &str) -> Move {
    let step = insert(ledger, &claim(key, 1));
    let swaps = ledger.swap(vec![step.clone()]).await.expect("it answers");
    assert_eq!(swaps, [Swap::Written]);
    step
}

/// Claims a key and records an outcome for it.
pub(super) async fn settled(ledger: &SqliteLedger, key: &str) -> Record {
    answered(ledger, key, "paid").await
}

/// The same, with this text as its outcome.
async fn answered(ledger: &SqliteLedger, key: &str, text: &str) -> Record {
    let step = claimed(ledger, key).await;
    let settled = step.next.settled(Outcome::text(201, text), ledger.now());
    replaced(ledger, &step.next, settled).await
}

/// Makes `next` of a record.
async fn replaced(ledger: &SqliteLedger, record: &Record, next: Record) -> Record {
    let swaps = ledger
        .swap(vec![Move::replacing(record, next.clone())])
        .await
        .expect("it answers");
    assert_eq!(swaps, [Swap::Written]);
    next
}

async fn found(ledger: &SqliteLedger, record: &Record) -> Option<Record> {
    ledger
        .find(record.scope.tenant, record.id)
        .await
        .expect("it answers")
}

pub(super) async fn listed(ledger: &SqliteLedger) -> usize {
    let page = ledger
        .scan(Scan::of(Tenant::DEFAULT))
        .await
        .expect("it answers");
    page.records.len()
}

#[tokio::test]
async fn a_key_that_is_noted_down_is_found_at_once_and_has_no_row_yet() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let record = settled(&ledger, "k").await;

    let raw = beside(&ledger);
    assert_eq!((count(&raw, NOTED), count(&raw, FILED)), (2, 0));
    assert_eq!(found(&ledger, &record).await.as_ref(), Some(&record));
    assert_eq!(count(&raw, NOTED), 2, "looking for one files nothing");
    let again = ledger
        .swap(vec![insert(&ledger, &claim("k", 2))])
        .await
        .expect("it answers");
    assert_eq!(again, [Swap::Stale(Some(Box::new(record)))]);
}

#[tokio::test]
async fn a_list_files_what_is_noted_down_first() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let kept = settled(&ledger, "k").await;
    claimed(&ledger, "l").await;

    assert_eq!(listed(&ledger).await, 2);

    let raw = beside(&ledger);
    assert_eq!((count(&raw, NOTED), count(&raw, FILED)), (0, 2));
    assert_eq!(found(&ledger, &kept).await, Some(kept));
}

#[tokio::test]
async fn a_quiet_ledger_files_by_itself() {
    let folder = folder();
    let options = SqliteOptions {
        backlog_quiet: Duration::from_millis(1),
        ..busy()
    };
    let ledger = open_in(&folder, options);
    settled(&ledger, "k").await;

    let raw = beside(&ledger);
    let filed = async {
        while count(&raw, NOTED) > 0 {
            tokio::task::yield_now().await;
        }
    };
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, filed)
        .await
        .expect("it is filed");
    assert_eq!(count(&raw, FILED), 1);
}

#[tokio::test]
async fn a_few_moves_at_a_time_are_never_noted_down() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    settled(&ledger, "k").await;
    let raw = beside(&ledger);
    assert_eq!((count(&raw, NOTED), count(&raw, FILED)), (0, 1));
}

#[tokio::test]
async fn closing_leaves_nothing_unfiled() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    settled(&ledger, "k").await;
    ledger.close().await.expect("it closes");
    let raw = beside(&ledger);
    assert_eq!((count(&raw, NOTED), count(&raw, FILED)), (0, 1));
}

/// What kill -9 would leave of a ledger: its file and its log, and nobody who remembers.
fn left_by_a_dead_process(folder: &tempfile::TempDir) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for name in ["ledger.db", "ledger.db-wal"] {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).expect("it is copied");
    }
    copy
}

#[tokio::test]
async fn what_a_dead_process_noted_down_is_there_when_the_file_is_opened_again() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let kept = settled(&ledger, "k").await;
    let held = claimed(&ledger, "l").await;
    let copy = left_by_a_dead_process(&folder);

    let ledger = open_in(&copy, SqliteOptions::default());
    assert_eq!(found(&ledger, &kept).await, Some(kept));
    assert_eq!(found(&ledger, &held.next).await.as_ref(), Some(&*held.next));
    assert_eq!(count(&beside(&ledger), NOTED), 0);
}

#[tokio::test]
async fn another_ledger_on_the_file_sees_and_changes_what_is_noted_down() {
    let folder = folder();
    let here = open_in(&folder, busy());
    let there = open_in(&folder, busy());
    let record = settled(&here, "k").await;

    assert_eq!(found(&there, &record).await.as_ref(), Some(&record));
    let freed = replaced(&there, &record, record.freed(there.now())).await;

    let seen = found(&here, &record).await.expect("its version goes on");
    assert_eq!(seen.state, State::Free, "what was noted down is over");
    let again = here
        .swap(vec![insert(&here, &claim("k", 2))])
        .await
        .expect("it answers");
    assert_eq!(again, [Swap::Stale(Some(Box::new(freed)))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_busy_ledgers_on_one_file_grant_each_key_once() {
    sharing::two_grant_each_key_once(&busy()).await;
}

#[tokio::test]
async fn a_key_is_claimed_and_settled_in_one_swap() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    claimed(&ledger, "other").await;
    let step = insert(&ledger, &claim("k", 1));
    let settled = step
        .next
        .settled(Outcome::text(200, &large()), ledger.now());
    let swaps = ledger
        .swap(vec![
            step.clone(),
            Move::replacing(&step.next, settled.clone()),
        ])
        .await
        .expect("it answers");
    assert_eq!(swaps, [Swap::Written, Swap::Written]);
    assert_eq!(found(&ledger, &settled).await, Some(settled));
}

#[tokio::test]
async fn a_large_answer_to_a_key_that_is_noted_down_is_kept_whole() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let settled = answered(&ledger, "k", &large()).await;
    assert_eq!(found(&ledger, &settled).await, Some(settled));
}

#[tokio::test]
async fn a_body_that_is_small_only_while_packed_is_filed_at_once() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let settled = answered(&ledger, "k", &"x".repeat(1 << 20)).await;
    let raw = beside(&ledger);
    assert_eq!((count(&raw, NOTED), count(&raw, FILED)), (0, 1));
    let apart = "SELECT response_body_apart FROM idempotency_keys";
    assert_eq!(count(&raw, apart), 0, "its row holds it");
    assert_eq!(found(&ledger, &settled).await, Some(settled));
}

#[tokio::test]
async fn what_no_row_could_hold_is_refused_at_once_and_never_noted_down() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let held = claimed(&ledger, "held").await;
    let mut bad = insert(&ledger, &claim("bad", 2));
    Arc::make_mut(&mut bad.next).version = Version(-1);
    let refused = ledger.swap(vec![bad]).await.expect_err("no such version");
    assert_eq!(refused.kind(), Kind::Corrupt);

    let mut end = held.next.settled(Outcome::text(200, "ok"), ledger.now());
    end.version = Version(-1);
    let end = Move::replacing(&held.next, end);
    let refused = ledger.swap(vec![end]).await.expect_err("no such version");
    assert_eq!(refused.kind(), Kind::Corrupt);

    claimed(&ledger, "next").await;
    assert_eq!(listed(&ledger).await, 2);
}

#[tokio::test]
async fn a_transaction_of_the_callers_own_sees_what_is_noted_down() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let record = settled(&ledger, "k").await;

    let mut shop = Connection::open(ledger.path()).expect("the file opens");
    let tx = shop
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .expect("it begins");
    let got = SqliteLedger::within(&tx).claim(&claim("k", 2), ledger.now());
    assert!(matches!(got, Ok(Claimed::Replay(outcome)) if outcome.status == 201));
    tx.commit().expect("it commits");

    assert_eq!(found(&ledger, &record).await, Some(record));
    claimed(&ledger, "next").await;
}

#[tokio::test]
async fn a_transaction_of_the_callers_own_leaves_no_copy_of_what_it_files() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let settled = answered(&ledger, "k", SECRET).await;

    let mut shop = Connection::open(ledger.path()).expect("the file opens");
    shop.pragma_update_and_check(None, "secure_delete", "FAST", |_| Ok(()))
        .expect("it is set");
    let tx = shop
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .expect("it begins");
    let granted = SqliteLedger::within(&tx).claim(&claim("other", 2), ledger.now());
    assert!(matches!(granted, Ok(Claimed::Granted(..))), "{granted:?}");
    tx.commit().expect("it commits");
    let set = "PRAGMA secure_delete";
    assert_eq!(count(&shop, set), 2, "what the caller had set is as it was");
    drop(shop);

    replaced(&ledger, &settled, settled.erased(ledger.now())).await;
    assert_nowhere(&folder, SECRET);
}

#[tokio::test]
async fn a_program_that_does_not_know_of_the_backlog_is_refused_beside_it() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    settled(&ledger, "k").await;
    let old = include_str!("../../../sql/sqlite/insert.sql");
    let raw = beside(&ledger);
    let refused = raw
        .execute(old, rusqlite::params_from_iter(vec![None::<i64>; 28]))
        .expect_err("it may be the same key");
    assert!(refused.to_string().contains("upgrade"), "{refused}");
}

#[tokio::test]
async fn two_keys_of_one_id_are_an_error_and_never_a_replay() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let first = insert(&ledger, &claim("k", 1));
    let mut forged = insert(&ledger, &claim("another", 2));
    Arc::make_mut(&mut forged.next).id = first.next.id;
    let refused = ledger
        .swap(vec![first, forged])
        .await
        .expect_err("it is not the key that was asked for");
    assert_eq!(refused.kind(), Kind::Corrupt, "{refused}");
    claimed(&ledger, "k").await;
}

#[tokio::test]
async fn a_damaged_row_fails_its_own_caller_only() {
    let folder = folder();
    let ledger = Arc::new(open_in(&folder, busy()));
    answered(&ledger, "hurt", &large()).await;
    let raw = beside(&ledger);
    raw.execute("DELETE FROM idempotency_body", [])
        .expect("it is hurt");

    let mut others = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (ledger, step) = (
            ledger.clone(),
            insert(&*ledger, &claim(&format!("k{n}"), 1)),
        );
        others.spawn(async move { ledger.swap(vec![step]).await });
    }
    // On this one thread the others hand in theirs while this one waits, so that they share a group.
    let hurt = ledger.swap(vec![insert(&*ledger, &claim("hurt", 2))]).await;
    assert_eq!(hurt.expect_err("it is damaged").kind(), Kind::Corrupt);
    for swaps in others.join_all().await {
        assert_eq!(swaps.expect("it is whole"), [Swap::Written]);
    }
}

/// Notes a replay in one group with claims: the first claim waits for the lock, so what comes after it gathers.
pub(super) async fn noted_among_claims(
    ledger: &SqliteLedger,
    raw: &Connection,
    record: &Record,
) -> Result<(), Error> {
    raw.execute_batch("BEGIN IMMEDIATE").expect("it is locked");
    let (.., noted, ()) = tokio::join!(
        claimed(ledger, "first"),
        claimed(ledger, "second"),
        ledger.note(vec![Note::of(record, ledger.now(), Action::Replay)]),
        async { raw.execute_batch("COMMIT").expect("it is free again") },
    );
    noted
}

#[tokio::test]
async fn the_audit_trail_is_written_beside_what_is_noted_down() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let record = settled(&ledger, "k").await;
    let replayed = Note::of(&record, ledger.now(), Action::Replay);
    ledger.note(vec![replayed]).await.expect("it is written");
    let raw = beside(&ledger);
    assert_eq!((count(&raw, NOTED), count(&raw, FILED)), (2, 0));

    noted_among_claims(&ledger, &raw, &record)
        .await
        .expect("it is written");
    assert!(count(&raw, NOTED) > 2, "more is noted down");
    assert_eq!((count(&raw, FILED), count(&raw, AUDITED)), (0, 2));
}

#[tokio::test]
async fn an_audit_trail_that_refuses_fails_nobody_else() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let record = settled(&ledger, "k").await;
    let raw = beside(&ledger);
    let refusal = "CREATE TRIGGER refused BEFORE INSERT ON audit_log BEGIN SELECT raise(ABORT, 'refused'); END";
    raw.execute_batch(refusal).expect("it is made");
    let noted = noted_among_claims(&ledger, &raw, &record).await;
    noted.expect_err("it is refused");
    assert_eq!(listed(&ledger).await, 3);
}

#[tokio::test]
async fn what_is_noted_down_is_filed_in_time_though_it_is_never_quiet() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    claimed(&ledger, "k").await;
    let raw = beside(&ledger);
    let filed = async {
        while count(&raw, NOTED) > 0 {
            let again = vec![insert(&ledger, &claim("k", 2))];
            ledger.swap(again).await.expect("it answers");
        }
    };
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, filed)
        .await
        .expect("it is filed");
    assert_eq!(count(&raw, FILED), 1);
}

#[tokio::test]
async fn damage_is_named_by_its_row_and_nothing_else_is_lost() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    settled(&ledger, "whole").await;
    claimed(&ledger, "hurt").await;
    let raw = beside(&ledger);
    let hurt = "UPDATE idempotency_backlog SET moves = substr(moves, 2) WHERE seq = 3";
    raw.execute(hurt, []).expect("it is hurt");

    let scan = ledger.scan(Scan::of(Tenant::DEFAULT)).await;
    let refused = scan.expect_err("it cannot be filed");
    assert_eq!(refused.kind(), Kind::Corrupt);
    let names_the_row = refused.to_string().contains("row 3 of idempotency_backlog");
    assert!(names_the_row, "{refused}");
    assert_eq!((count(&raw, NOTED), count(&raw, FILED)), (3, 0));
}

/// Not much room.
fn small(clock: &Clock) -> SqliteOptions {
    SqliteOptions {
        clock: clock.clone(),
        pages_max: Some(255),
        ..busy()
    }
}

/// A ledger whose file is full of keys that last a minute, with more noted down than there is room for rows of.
async fn full(folder: &tempfile::TempDir, clock: &Clock) -> (SqliteLedger, Vec<Record>) {
    let ledger = open_in(folder, small(clock));
    for n in 0.. {
        let mut claim = claim(&format!("large-{n}"), 1);
        claim.policy.ttl = Duration::from_secs(60);
        Arc::make_mut(&mut claim.request).body = Some(large().into());
        if ledger.swap(vec![insert(&ledger, &claim)]).await.is_err() {
            break;
        }
    }
    let mut noted = Vec::new();
    for n in 0.. {
        let step = insert(&ledger, &claim(&format!("small-{n}"), 1));
        match ledger.swap(vec![step.clone()]).await {
            Ok(_) => noted.push((*step.next).clone()),
            Err(refused) => {
                assert_eq!(refused.kind(), Kind::Unavailable, "{refused}");
                break;
            }
        }
    }
    (ledger, noted)
}

#[tokio::test]
async fn a_full_disk_is_swept_though_nothing_can_be_filed() {
    let (folder, clock) = (folder(), Clock::system());
    let (ledger, noted) = full(&folder, &clock).await;
    let raw = beside(&ledger);
    assert!(count(&raw, NOTED) > 0 && noted.len() > 4, "{}", noted.len());
    let refused = ledger.scan(Scan::of(Tenant::DEFAULT)).await;
    assert_eq!(
        refused.expect_err("there is no room for the rows").kind(),
        Kind::Unavailable
    );

    clock.advance(Duration::from_secs(120));
    ledger
        .sweep(hapax_core::Sweep::default())
        .await
        .expect("it makes room");
    for record in &noted {
        assert_eq!(found(&ledger, record).await.as_ref(), Some(record));
    }
    assert!(listed(&ledger).await >= noted.len(), "they are filed");
    assert_eq!(count(&raw, NOTED), 0);
}

#[tokio::test]
async fn a_full_file_that_a_dead_process_left_is_opened_and_swept() {
    let (folder, clock) = (folder(), Clock::system());
    let (_ledger, noted) = full(&folder, &clock).await;
    let copy = left_by_a_dead_process(&folder);

    let ledger = open_in(&copy, small(&clock));
    let refused = ledger
        .find(Tenant::DEFAULT, noted[0].id)
        .await
        .expect_err("it cannot be filed, so nobody knows");
    assert_eq!(refused.kind(), Kind::Unavailable);

    clock.advance(Duration::from_secs(120));
    ledger
        .sweep(hapax_core::Sweep::default())
        .await
        .expect("it makes room");
    for record in &noted {
        assert_eq!(found(&ledger, record).await.as_ref(), Some(record));
    }
}

#[tokio::test]
async fn erased_content_is_gone_from_the_backlog_too() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let settled = answered(&ledger, "k", SECRET).await;
    replaced(&ledger, &settled, settled.erased(ledger.now())).await;
    assert_nowhere(&folder, SECRET);
}

/// Neither the file nor its log holds this text.
fn assert_nowhere(folder: &tempfile::TempDir, secret: &str) {
    for name in ["ledger.db", "ledger.db-wal"] {
        let bytes = std::fs::read(folder.path().join(name)).expect("it is there");
        let held = bytes
            .windows(secret.len())
            .any(|at| at == secret.as_bytes());
        assert!(!held, "{name} holds it");
    }
}
