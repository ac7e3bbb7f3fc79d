//! Writing chunks: entries, counters and the place in the file are one, and each chunk counts once.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use hapax_core::entry::{
    Chunk, Counts, Cursor, Import, ImportError, ImportStatus, Incoming, Schema, Step, TestMode,
};
use hapax_core::{Answer, Error, Kind, Tenant};
use uuid::Uuid;

use super::subject::{
    ImportSubject, chunk, entry, keyless, new, newsletter, place, thread, titles,
};

fn two() -> Vec<Incoming> {
    vec![newsletter("<1>"), newsletter("<2>")]
}

/// A chunk's entries are there, and the import is behind them.
pub async fn a_chunk_writes_its_entries_and_moves_the_cursor(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    subject.advance(Duration::from_secs(5));

    let written = subject.write(begun.id, chunk(&begun.cursor, two()).0).await;

    let written = written.expect("it is where the chunk begins");
    let expected = Import {
        cursor: place(2),
        counts: Counts {
            total_messages: 2,
            normalized_ok: 2,
            inserted: 2,
            tier1_candidates: 2,
            ..Counts::default()
        },
        updated_at: written.updated_at,
        ..begun.clone()
    };
    assert_eq!(written, expected);
    assert!(written.updated_at > begun.updated_at);
    let entries = subject.entries(Schema::Pkm).await;
    assert_eq!(titles(&entries), ["News <1>", "News <2>"]);
}

/// Every counter counts over all chunks.
pub async fn chunks_add_up(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let first = vec![
        newsletter("<1>"),
        newsletter("<1>"),
        thread("t", "one"),
        keyless(),
    ];
    let first = chunk(&begun.cursor, first).with_faults([4, 5]);
    let at = first.0.to.clone();
    subject
        .write(begun.id, first.0)
        .await
        .expect("it is written");
    let second = chunk(&at, vec![thread("t", "two"), newsletter("<2>"), keyless()]);
    let second = second.with_faults([9]).last();

    let import = subject
        .write(begun.id, second.0)
        .await
        .expect("it is written");

    assert_eq!(import.cursor, place(10));
    let expected = Counts {
        total_messages: 10,
        normalized_ok: 7,
        normalize_errors: 3,
        inserted: 3,
        updated: 1,
        skipped: 1,
        insert_errors: 2,
        tier1_candidates: 3,
        tier1_enqueued_items: 0,
    };
    assert_eq!(import.counts, expected);
    assert_eq!(
        (import.status, import.step),
        (ImportStatus::Running, Step::Queueing)
    );
}

/// Whoever comes late with a chunk is told, and nothing happens twice.
pub async fn a_chunk_from_an_old_place_writes_nothing(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let asked = chunk(&begun.cursor, vec![thread("t", "one")]).0;
    let first = subject.write(begun.id, asked.clone()).await;
    let moved = first.expect("it is where the chunk begins");

    let late = chunk(&begun.cursor, vec![thread("t", "two"), newsletter("<9>")]).last();
    let ahead = chunk(&place(7), vec![newsletter("<9>")]);
    for other in [asked, late.0, ahead.0] {
        assert_eq!(subject.write(begun.id, other).await, None);
    }

    assert_eq!(subject.stored(begun.id).await, moved);
    let entries = subject.entries(Schema::Pkm).await;
    assert_eq!(titles(&entries), ["About t"]);
    assert_eq!(entries[0].revision, 1);
}

/// Hands chunks in one after the other, and waits for the answers only then.
async fn write_at_once(
    subject: &ImportSubject,
    id: Uuid,
    chunks: Vec<Chunk>,
) -> Vec<Option<Import>> {
    let imports = &subject.imports;
    let ask = |chunk| -> (Answer<'_, Option<Import>>, Option<Result<_, Error>>) {
        (imports.import_chunk(Tenant::DEFAULT, id, chunk), None)
    };
    let mut writes: Vec<_> = chunks.into_iter().map(ask).collect();
    poll_fn(|context| {
        for (write, answer) in &mut writes {
            if let Poll::Ready(ready) = write.as_mut().poll(context) {
                *answer = Some(ready);
            }
        }
        Poll::Ready(())
    })
    .await;
    let mut answers = Vec::new();
    for (write, answer) in writes {
        let answer = match answer {
            Some(answer) => answer,
            None => write.await,
        };
        answers.push(answer.expect("the store answers"));
    }
    answers
}

/// Chunks of one newsletter each, one behind the other.
fn in_a_row(from: &Cursor, count: usize) -> Vec<Chunk> {
    let mut at = from.clone();
    let mut chunks = Vec::new();
    for nth in 0..count {
        let next = chunk(&at, vec![newsletter(&format!("<{nth}>"))]).0;
        at = next.to.clone();
        chunks.push(next);
    }
    chunks
}

/// As many as the store says it takes are all written, and count as if each had waited for the one before it.
pub async fn chunks_that_are_handed_in_at_once_are_written_in_their_order(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let count = subject.imports.chunks_at_once();
    let chunks = in_a_row(&begun.cursor, count);
    let ends: Vec<Cursor> = chunks.iter().map(|chunk| chunk.to.clone()).collect();

    let written = write_at_once(subject, begun.id, chunks).await;

    let behind = written
        .into_iter()
        .map(|import| import.expect("it is written").cursor);
    assert_eq!(behind.collect::<Vec<_>>(), ends);
    let stored = subject.stored(begun.id).await;
    assert_eq!(stored.counts.inserted, count as u64);
    assert_eq!(stored.cursor, ends[count - 1]);
}

/// Nobody skips a chunk that was not written.
pub async fn behind_a_chunk_that_is_refused_nothing_is_written(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let chunks = in_a_row(&place(3), subject.imports.chunks_at_once());

    let written = write_at_once(subject, begun.id, chunks).await;

    assert!(written.iter().all(Option::is_none));
    assert_eq!(subject.stored(begun.id).await, begun);
    assert!(subject.entries(Schema::Pkm).await.is_empty());
}

/// The same number and offset in another file is another place.
pub async fn the_mark_is_part_of_the_place(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let first = chunk(&begun.cursor, two()).0;
    subject.write(begun.id, first).await.expect("it is written");

    for mark in [None, Some("of another file".to_owned())] {
        let from = Cursor { mark, ..place(2) };
        let asked = chunk(&from, vec![newsletter("<3>")]).0;
        assert_eq!(subject.write(begun.id, asked).await, None);
    }

    let asked = chunk(&place(2), vec![newsletter("<3>")]).0;
    assert!(subject.write(begun.id, asked).await.is_some());
}

/// Two who read the same chunk: one writes it, the other is told that it is written.
pub async fn of_two_who_write_one_chunk_at_once_one_does(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let writes = (0..8).map(|_| {
        let (imports, id) = (subject.imports.clone(), begun.id);
        let asked = chunk(&begun.cursor, vec![thread("t", "one"), newsletter("<1>")]).0;
        tokio::spawn(async move { write_again(&*imports, id, asked).await })
    });
    let mut wrote = 0;
    for write in writes.collect::<Vec<_>>() {
        wrote += usize::from(write.await.expect("no panic").is_some());
    }
    assert_eq!(wrote, 1);
    let counts = subject.stored(begun.id).await.counts;
    assert_eq!((counts.total_messages, counts.inserted), (2, 2));
    let entries = subject.entries(Schema::Pkm).await;
    assert!(entries.iter().all(|row| row.revision == 1));
    assert_eq!(entries.len(), 2);
}

/// Writers who all walk through the file: every message counts once.
pub async fn of_many_who_write_all_chunks_each_is_written_once(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let writers = (0..4).map(|_| {
        let (imports, id) = (subject.imports.clone(), begun.id);
        tokio::spawn(async move {
            let mut at = Cursor::default();
            for turn in 0..6 {
                let text = format!("turn {turn}");
                let asked = chunk(&at, vec![newsletter(&text), thread("t", &text)]).0;
                at = asked.to.clone();
                write_again(&*imports, id, asked).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no panic");
    }
    let import = subject.stored(begun.id).await;
    assert_eq!(import.cursor, place(12));
    let counts = import.counts;
    assert_eq!(
        (counts.total_messages, counts.inserted, counts.updated),
        (12, 7, 5)
    );
    assert_eq!(counts.tier1_candidates, 7);
}

/// The entries and the place in the file are written together, or not at all.
pub async fn a_store_that_fails_leaves_neither_entries_nor_cursor(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let first = chunk(&begun.cursor, vec![thread("t", "one")]).0;
    let before = subject.write(begun.id, first).await.expect("it is written");
    let entries = subject.entries(Schema::Pkm).await;
    let asked = || chunk(&before.cursor, vec![newsletter("<1>"), thread("t", "two")]).0;

    subject.hurt(true).await;
    let hurt = subject
        .imports
        .import_chunk(Tenant::DEFAULT, begun.id, asked());
    hurt.await.expect_err("the store fails");

    assert_eq!(subject.stored(begun.id).await, before);
    assert_eq!(subject.entries(Schema::Pkm).await, entries);
    subject.hurt(false).await;
    let healed = subject
        .write(begun.id, asked())
        .await
        .expect("it is written");
    assert_eq!((healed.counts.inserted, healed.counts.updated), (2, 1));
    let numbers: Vec<i64> = subject
        .entries(Schema::Pkm)
        .await
        .iter()
        .map(|row| row.entry_id)
        .collect();
    assert!(
        numbers.contains(&entries[0].entry_id) && numbers.len() == 2,
        "{numbers:?}"
    );
}

/// Whatever the test mode does meanwhile, all entries are in the schema that the import began with.
pub async fn the_test_mode_does_not_split_an_import(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let mut at = begun.cursor.clone();
    for turn in 0..5 {
        let toggled = subject
            .catalog
            .change_test_mode(Tenant::DEFAULT, TestMode::Toggle);
        toggled.await.expect("the store answers");
        let asked = chunk(&at, vec![newsletter(&format!("<{turn}>"))]).0;
        at = asked.to.clone();
        subject.write(begun.id, asked).await.expect("it is written");
    }
    let last = chunk(&at, Vec::new()).last();
    subject
        .write(begun.id, last.0)
        .await
        .expect("it is written");
    let done = subject.queue_all(Tenant::DEFAULT, begun.id).await;

    assert_eq!(
        (done.schema, done.counts.tier1_enqueued_items),
        (Schema::Pkm, 5)
    );
    assert_eq!(subject.entries(Schema::Pkm).await.len(), 5);
    assert_eq!(subject.entries(Schema::PkmTest).await, []);
}

/// An entry that the store refuses is one fault, and the rest of its chunk is kept.
pub async fn a_refused_entry_is_told_by_its_place_in_the_file(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let first = chunk(&begun.cursor, two()).0;
    subject.write(begun.id, first).await.expect("it is written");
    let unknown = entry(serde_json::json!({
        "source": "email-batch", "clean_text": "hello",
        "idempotency_policy_key": "no_such_policy", "idempotency_key_primary": "<1>",
    }));
    let asked = chunk(
        &place(2),
        vec![newsletter("<3>"), keyless(), unknown, newsletter("<4>")],
    );

    let import = subject
        .write(begun.id, asked.0)
        .await
        .expect("it is written");

    let told: Vec<_> = import
        .errors
        .iter()
        .map(|error| (error.phase, error.index))
        .collect();
    assert_eq!(told, [("insert", 3), ("insert", 4)]);
    assert!(import.errors.iter().all(|error| !error.message.is_empty()));
    assert!(
        import.errors[1].message.contains("no_such_policy"),
        "{:?}",
        import.errors
    );
    assert_eq!(
        (import.counts.inserted, import.counts.insert_errors),
        (4, 2)
    );
    assert_eq!(import.counts.normalized_ok, 6);
}

/// Faults of both kinds come as their messages stand in the file.
pub async fn faults_of_a_chunk_are_told_in_the_order_of_the_file(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let fault = |index| ImportError {
        phase: "normalize",
        index,
        message: format!("message {index} has no text"),
    };
    let asked = Chunk {
        from: Cursor::default(),
        to: place(4),
        messages: 4,
        entries: vec![(1, keyless()), (3, keyless())],
        faults: vec![fault(0), fault(2)],
        is_last: false,
    };

    let import = subject.write(begun.id, asked).await.expect("it is written");

    let told: Vec<_> = import
        .errors
        .iter()
        .map(|error| (error.index, error.phase))
        .collect();
    assert_eq!(
        told,
        [
            (0, "normalize"),
            (1, "insert"),
            (2, "normalize"),
            (3, "insert")
        ]
    );
    assert_eq!(import.errors[2], fault(2));
}

/// A file full of faults does not grow its import.
pub async fn the_first_fifty_faults_are_kept_and_all_are_counted(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let mut at = begun.cursor.clone();
    for _ in 0..3 {
        let asked = chunk(&at, vec![keyless(); 10]);
        let asked = asked.with_faults(at.index + 10..at.index + 40).0;
        at = asked.to.clone();
        subject.write(begun.id, asked).await.expect("it is written");
    }

    let import = subject.stored(begun.id).await;

    let indices: Vec<u64> = import.errors.iter().map(|error| error.index).collect();
    assert_eq!(
        indices,
        (0..ImportError::KEPT_MAX as u64).collect::<Vec<_>>()
    );
    let counts = import.counts;
    assert_eq!(
        (
            counts.insert_errors,
            counts.normalize_errors,
            counts.total_messages
        ),
        (30, 90, 120)
    );
}

/// Messages of which none becomes an entry are read all the same.
pub async fn a_chunk_of_faults_only_moves_on(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let asked = chunk(&begun.cursor, Vec::new()).with_faults(0..3);

    let import = subject
        .write(begun.id, asked.0)
        .await
        .expect("it is written");

    assert_eq!((import.cursor, import.step), (place(3), Step::Reading));
    let expected = Counts {
        total_messages: 3,
        normalize_errors: 3,
        ..Counts::default()
    };
    assert_eq!(import.counts, expected);
}

/// A file without a message is imported, too.
pub async fn an_empty_file_is_one_last_chunk(subject: &ImportSubject) {
    let import = subject.run(1, "a.mbox", Vec::new()).await;
    assert_eq!(import.status, ImportStatus::Completed);
    assert_eq!(import.counts, Counts::default());
    assert_eq!(import.cursor, Cursor::default());
    assert_eq!((import.batches.len(), import.errors.len()), (0, 0));
}

/// Where the file ended nothing is written any more.
pub async fn after_the_last_chunk_nothing_is_read(subject: &ImportSubject) {
    let import = subject.read(1, "a.mbox", two()).await;
    assert_eq!(import.step, Step::Queueing);

    for asked in [
        chunk(&import.cursor, vec![newsletter("<3>")]),
        chunk(&import.cursor, Vec::new()).last(),
    ] {
        assert_eq!(subject.write(import.id, asked.0).await, None);
    }

    assert_eq!(subject.stored(import.id).await, import);
    assert_eq!(subject.entries(Schema::Pkm).await.len(), 2);
}

/// A chunk has a largest size, and one that is larger leaves nothing.
pub async fn over_the_limit_of_a_chunk_is_refused(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let asked = chunk(&begun.cursor, vec![keyless(); Incoming::BATCH_MAX + 1]).0;
    let refused = subject
        .imports
        .import_chunk(Tenant::DEFAULT, begun.id, asked);
    let refused = refused.await.expect_err("it is too large");
    assert_eq!(refused.kind(), Kind::Limit);
    assert_eq!(subject.stored(begun.id).await, begun);
}

/// What is done is done.
pub async fn a_completed_import_refuses_chunks(subject: &ImportSubject) {
    let done = subject.run(1, "a.mbox", two()).await;
    for from in [Cursor::default(), done.cursor.clone()] {
        let asked = chunk(&from, vec![newsletter("<3>")]);
        assert_eq!(subject.write(done.id, asked.0).await, None);
    }
    assert_eq!(subject.stored(done.id).await, done);
}

/// Writes, and again while the store is busy.
async fn write_again(
    imports: &dyn hapax_core::entry::Imports,
    id: uuid::Uuid,
    asked: Chunk,
) -> Option<Import> {
    loop {
        match imports
            .import_chunk(Tenant::DEFAULT, id, asked.clone())
            .await
        {
            Err(error) if error.kind() == Kind::Unavailable => {}
            written => return written.expect("the store answers"),
        }
    }
}
