//! What is erased is gone from the files too, not only from the answers.

use bytes::Bytes;
use hapax_core::{Ledger, Move, Outcome, Record, State, Swap};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::SqliteOptions;
use tempfile::TempDir;

use super::faults::noise;
use super::{beside, claim, folder, insert, open_in};

const PLANTED: &[u8] = b"planted-in-a-body";
const KEYS: usize = 50;

/// A body that begins and ends with the planted text and does not shrink when it is packed.
fn body(length: usize) -> Bytes {
    [PLANTED, &noise(length), PLANTED].concat().into()
}

async fn write(ledger: &SqliteLedger, steps: Vec<Move>) -> Vec<Record> {
    let next = steps.iter().map(|step| Record::clone(&step.next)).collect();
    let swaps = ledger.swap(steps).await.expect("it answers");
    assert!(swaps.iter().all(|swap| *swap == Swap::Written));
    next
}

/// Records that were renewed and settled, with bodies that lie in the row and beside it.
async fn settled(ledger: &SqliteLedger) -> Vec<Record> {
    let mut all = Vec::new();
    for (at, length) in [300, 4_000, 20 * 1024]
        .into_iter()
        .cycle()
        .take(KEYS)
        .enumerate()
    {
        let mut claim = claim(&format!("k{at}"), 1);
        std::sync::Arc::make_mut(&mut claim.request).body = Some(body(length));
        let held = write(ledger, vec![insert(ledger, &claim)]).await.remove(0);
        let renewed = Move::replacing(&held, held.renewed(ledger.now()));
        let renewed = write(ledger, vec![renewed]).await.remove(0);
        let next = renewed.settled(Outcome::new(200, body(length)), ledger.now());
        all.extend(write(ledger, vec![Move::replacing(&renewed, next)]).await);
    }
    all
}

fn erasing(ledger: &SqliteLedger, record: &Record) -> Move {
    Move::replacing(record, record.erased(ledger.now()))
}

/// The files that hold the planted text, and how often.
fn holding(folder: &TempDir) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder.path()).expect("the folder is read") {
        let path = entry.expect("an entry").path();
        // Only the index of the log, and closing it drops the locks on it.
        if path.extension().is_some_and(|end| end == "db-shm") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("the file is read");
        let times = bytes
            .windows(PLANTED.len())
            .filter(|part| *part == PLANTED)
            .count();
        if times > 0 {
            found.push((path.display().to_string(), times));
        }
    }
    found
}

#[tokio::test]
async fn no_file_holds_a_body_that_was_erased() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let records = settled(&ledger).await;
    assert!(!holding(&folder).is_empty(), "the text is found if there");

    for record in &records {
        write(&ledger, vec![erasing(&ledger, record)]).await;
    }

    assert_eq!(holding(&folder), []);
    for record in &records {
        let stored = ledger.find(record.scope.tenant, record.id).await;
        let stored = stored.expect("it answers").expect("it is stored");
        assert_eq!(stored.state, State::Erased);
    }
}

#[tokio::test]
async fn a_reader_delays_the_log_but_neither_the_answer_nor_the_next_erasure() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let mut records = settled(&ledger).await;
    let last = records.pop().expect("a record");
    let reader = beside(&ledger);
    reader
        .execute_batch("BEGIN; SELECT count(1) FROM idempotency_keys;")
        .expect("somebody reads");

    let steps = records.iter().map(|record| erasing(&ledger, record));
    write(&ledger, steps.collect()).await;
    assert!(!holding(&folder).is_empty(), "the reader still sees them");

    reader.execute_batch("COMMIT").expect("the reader ends");
    write(&ledger, vec![erasing(&ledger, &last)]).await;
    assert_eq!(holding(&folder), []);
}
