//! Queueing for enrichment: each row that an import touched once, unless its text was queued or enriched before.

use std::time::Duration;

use hapax_core::Tenant;
use hapax_core::entry::{
    Change, Column, Fields, Import, ImportStatus, Incoming, Schema, Step, Target,
};
use serde_json::json;
use uuid::Uuid;

use super::subject::{
    ImportSubject, chunk, entry, message, new, newsletter, place, requests, thread,
};

fn letters(count: usize) -> Vec<Incoming> {
    (0..count)
        .map(|number| newsletter(&format!("<{number}>")))
        .collect()
}

/// Sets a column of every entry, as somebody else would.
async fn change_all(subject: &ImportSubject, change: impl Fn(&hapax_core::entry::Row) -> Fields) {
    let rows = subject.entries(Schema::Pkm).await;
    let changes = rows.iter().map(|row| {
        Incoming::Update(Change {
            entry_id: Some(row.entry_id),
            id: None,
            fields: change(row),
            ignored: Vec::new(),
        })
    });
    let target = Target::Pinned(Schema::Pkm);
    let written = subject
        .catalog
        .write_entries(Tenant::DEFAULT, target, changes.collect(), true)
        .await;
    assert!(written.expect("the store answers").kept);
}

async fn queue(subject: &ImportSubject, id: Uuid, batch: u128) -> Option<Import> {
    let queued = subject
        .imports
        .queue_candidates(Tenant::DEFAULT, id, Uuid::from_u128(batch))
        .await;
    queued.expect("the store answers")
}

/// Enrichment waits until the whole file is read: a thread may still get a message.
pub async fn nothing_is_queued_while_it_reads(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let asked = chunk(&begun.cursor, letters(3));
    let before = subject
        .write(begun.id, asked.0)
        .await
        .expect("it is written");

    assert_eq!(queue(subject, begun.id, 9).await, None);

    assert_eq!(subject.stored(begun.id).await, before);
}

/// Batches are full but for the last, and listed in their order.
pub async fn candidates_are_queued_in_batches(subject: &ImportSubject) {
    let read = subject.read(1, "a.mbox", letters(5)).await;
    subject.advance(Duration::from_secs(5));

    let first = queue(subject, read.id, 11).await.expect("it runs");
    assert_eq!(
        (first.status, first.step),
        (ImportStatus::Running, Step::Queueing)
    );
    assert_eq!(first.counts.tier1_enqueued_items, 2);
    assert!(first.updated_at > read.updated_at);
    queue(subject, read.id, 12).await.expect("it runs");
    let done = subject.queue_all(Tenant::DEFAULT, read.id).await;

    assert_eq!(requests(&done), [2, 2, 1]);
    let ids: Vec<Uuid> = done.batches.iter().map(|batch| batch.batch_id).collect();
    assert_eq!(ids[..2], [11, 12].map(Uuid::from_u128));
    assert!(done.batches.iter().all(|batch| batch.status == "queued"));
    assert_eq!(done.status, ImportStatus::Completed);
    let counts = done.counts;
    assert_eq!(
        (counts.tier1_candidates, counts.tier1_enqueued_items),
        (5, 5)
    );
    assert_eq!(subject.stored(read.id).await, done);
}

/// Who does not know whether a batch was made asks again under its id.
pub async fn a_batch_that_is_asked_for_again_is_made_once(subject: &ImportSubject) {
    let read = subject.read(1, "a.mbox", letters(5)).await;
    let first = queue(subject, read.id, 11).await.expect("it runs");

    assert_eq!(queue(subject, read.id, 11).await, Some(first));

    let done = subject.queue_all(Tenant::DEFAULT, read.id).await;
    assert_eq!(requests(&done), [2, 2, 1]);
}

/// What was there and stayed is not enriched again.
pub async fn rows_that_were_skipped_are_no_candidates(subject: &ImportSubject) {
    let first = subject.run(1, "a.mbox", letters(2)).await;
    assert_eq!(first.counts.tier1_enqueued_items, 2);

    let second = subject.run(2, "b.mbox", letters(3)).await;

    let counts = second.counts;
    assert_eq!((counts.inserted, counts.skipped), (1, 2));
    assert_eq!(
        (counts.tier1_candidates, counts.tier1_enqueued_items),
        (1, 1)
    );
    assert_eq!(requests(&second), [1]);
}

/// Messages of a thread are one row, and one item, in one chunk or in several.
pub async fn messages_of_one_thread_are_one_candidate(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let first = chunk(&begun.cursor, vec![thread("t", "one"), thread("t", "two")]);
    let written = subject
        .write(begun.id, first.0)
        .await
        .expect("it is written");
    assert_eq!(written.counts.tier1_candidates, 1);
    let second = chunk(&place(2), vec![thread("t", "three"), thread("u", "one")]).last();
    let written = subject
        .write(begun.id, second.0)
        .await
        .expect("it is written");
    assert_eq!(written.counts.tier1_candidates, 2);

    let done = subject.queue_all(Tenant::DEFAULT, begun.id).await;

    assert_eq!(done.counts.tier1_enqueued_items, 2);
    assert_eq!(requests(&done), [2]);
}

/// Enrichment needs a text.
pub async fn a_row_without_text_is_no_candidate(subject: &ImportSubject) {
    let bare = |text: &str| entry(json!({"source": "web", "title": "a page", "clean_text": text}));
    let nothing = entry(json!({"source": "web", "title": "a page"}));
    let all = vec![bare(""), bare(" \n\t"), nothing, bare("words")];

    let done = subject.run(1, "a.mbox", all).await;

    let counts = done.counts;
    assert_eq!(
        (
            counts.inserted,
            counts.tier1_candidates,
            counts.tier1_enqueued_items
        ),
        (4, 1, 1)
    );
}

/// Nothing to queue makes no batch.
pub async fn an_import_without_candidates_is_completed(subject: &ImportSubject) {
    let read = subject.read(1, "a.mbox", Vec::new()).await;

    let done = queue(subject, read.id, 9).await.expect("it runs");

    assert_eq!(done.status, ImportStatus::Completed);
    assert_eq!(done.batches, []);
    assert_eq!(subject.stored(read.id).await, done);
}

/// The same file again costs nothing and leaves the entries as they are.
pub async fn a_rerun_skips_everything_and_queues_nothing(subject: &ImportSubject) {
    let mail = || {
        vec![
            thread("t", "one"),
            newsletter("<1>"),
            thread("u", "two"),
            thread("t", "three"),
        ]
    };
    subject.run(1, "a.mbox", mail()).await;
    let rows = subject.entries(Schema::Pkm).await;

    for number in 2..5 {
        subject.advance(Duration::from_secs(60));
        let again = subject.run(number, "a.mbox", mail()).await;
        let counts = again.counts;
        assert_eq!((counts.inserted, counts.updated, counts.skipped), (0, 0, 4));
        assert_eq!((counts.tier1_candidates, requests(&again)), (0, vec![]));
        assert_eq!(again.status, ImportStatus::Completed);
        assert_eq!(subject.entries(Schema::Pkm).await, rows);
    }
}

/// What changed since is queued again, and nothing else.
pub async fn a_rerun_queues_what_changed(subject: &ImportSubject) {
    let mail = |text: &str| vec![thread("t", "one"), thread("u", text), thread("v", "three")];
    subject.run(1, "a.mbox", mail("two")).await;

    let again = subject.run(2, "a.mbox", mail("two, and more")).await;

    assert_eq!((again.counts.updated, again.counts.skipped), (1, 2));
    assert_eq!(
        (again.counts.tier1_enqueued_items, requests(&again)),
        (1, vec![1])
    );
}

/// A text that was queued once is paid for once.
pub async fn a_text_that_changed_back_is_not_queued_again(subject: &ImportSubject) {
    let mail = |id: &str, text: &str| vec![message("t", id, text)];
    subject.run(1, "a.mbox", mail("<1@a>", "one")).await;
    let other = subject.run(2, "a.mbox", mail("<2@a>", "two")).await;
    assert_eq!(other.counts.tier1_enqueued_items, 1);

    let back = subject.run(3, "a.mbox", mail("<3@a>", "one")).await;

    assert_eq!(
        (back.counts.updated, back.counts.tier1_enqueued_items),
        (1, 0)
    );
}

/// What was enriched in another way is not enriched again.
pub async fn a_text_that_was_enriched_is_not_queued(subject: &ImportSubject) {
    let read = subject.read(1, "a.mbox", letters(3)).await;
    change_all(subject, |row| {
        let mut fields = Fields::new();
        let hash = hapax_core::entry::enrichable(&row.fields).expect("it has a text");
        let is_other = row.fields.text(Column::Title) == Some("News <1>");
        let hash = if is_other {
            "of an older text".to_owned()
        } else {
            hash.hex()
        };
        fields.put(Column::EnrichedHash, hash);
        fields
    })
    .await;

    let done = subject.queue_all(Tenant::DEFAULT, read.id).await;

    assert_eq!(
        (
            done.counts.tier1_candidates,
            done.counts.tier1_enqueued_items
        ),
        (3, 1)
    );
    assert_eq!(requests(&done), [1]);
}

/// A text that is changed between reading and queueing is queued as it is then.
pub async fn what_is_queued_is_the_text_as_it_is_then(subject: &ImportSubject) {
    let mail = |id: &str, text: &str| vec![message("t", id, text)];
    let read = subject.read(1, "a.mbox", mail("<1@a>", "one")).await;
    let say = |text: &str| {
        let text = text.to_owned();
        move |_: &hapax_core::entry::Row| {
            let mut fields = Fields::new();
            fields.put(Column::CleanText, text.clone());
            fields
        }
    };
    change_all(subject, say("two")).await;
    let done = subject.queue_all(Tenant::DEFAULT, read.id).await;
    assert_eq!(done.counts.tier1_enqueued_items, 1);

    let same = subject.run(2, "a.mbox", mail("<2@a>", "two")).await;
    let first = subject.run(3, "a.mbox", mail("<3@a>", "one")).await;

    assert_eq!(
        same.counts.tier1_enqueued_items, 0,
        "it was queued as \"two\""
    );
    assert_eq!(first.counts.tier1_enqueued_items, 1, "it never was \"one\"");
}

/// Several who queue for one import share its candidates.
pub async fn of_many_who_queue_at_once_each_row_is_queued_once(subject: &ImportSubject) {
    let read = subject.read(1, "a.mbox", letters(20)).await;
    let queues = (0..6).map(|_| {
        let (imports, id) = (subject.imports.clone(), read.id);
        tokio::spawn(async move {
            loop {
                match imports
                    .queue_candidates(Tenant::DEFAULT, id, Uuid::new_v4())
                    .await
                {
                    Err(error) if error.kind() == hapax_core::Kind::Unavailable => {}
                    Ok(Some(import)) if import.status == ImportStatus::Running => {}
                    answer => return answer.expect("the store answers"),
                }
            }
        })
    });
    let mut completed = 0;
    for one in queues.collect::<Vec<_>>() {
        completed += usize::from(one.await.expect("no panic").is_some());
    }
    assert_eq!(
        completed, 1,
        "one of them completes it, the others are late"
    );
    let done = subject.stored(read.id).await;
    assert_eq!(requests(&done), [2; 10]);
    assert_eq!(done.counts.tier1_enqueued_items, 20);
}

/// Two files with the same thread queue it once.
pub async fn two_imports_with_one_row_queue_it_once(subject: &ImportSubject) {
    let mail = |id: &str| message("t", id, "one");
    let first = subject.read(1, "a.mbox", vec![mail("<1@a>")]).await;
    let second = subject
        .read(2, "b.mbox", vec![mail("<2@a>"), newsletter("<1>")])
        .await;
    assert_eq!(second.counts.tier1_candidates, 2);

    let second = subject.queue_all(Tenant::DEFAULT, second.id).await;
    let first = subject.queue_all(Tenant::DEFAULT, first.id).await;

    assert_eq!(second.counts.tier1_enqueued_items, 2);
    assert_eq!(first.counts.tier1_enqueued_items, 0);
    assert_eq!(first.status, ImportStatus::Completed);
}

/// What an import wrote before it was given up is queued as if it had gone on; the rerun, which skips it, queues the rest.
pub async fn an_import_that_was_given_up_queues_what_it_wrote(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let asked = chunk(&begun.cursor, letters(3));
    subject
        .write(begun.id, asked.0)
        .await
        .expect("it is written");
    subject.give_up(begun.id, "it ends early").await;

    let first = queue(subject, begun.id, 11).await.expect("it runs");
    assert_eq!(
        (first.status, first.error.as_deref()),
        (ImportStatus::Running, Some("it ends early"))
    );
    let failed = subject.queue_all(Tenant::DEFAULT, begun.id).await;

    assert_eq!(failed.status, ImportStatus::Failed);
    assert_eq!(failed.error.as_deref(), Some("it ends early"));
    assert_eq!(requests(&failed), [2, 1]);
    let counts = failed.counts;
    assert_eq!(
        (counts.tier1_candidates, counts.tier1_enqueued_items),
        (3, 3)
    );
    let rerun = subject.run(2, "a.mbox", letters(5)).await;
    assert_eq!(rerun.status, ImportStatus::Completed);
    assert_eq!(
        (rerun.counts.skipped, rerun.counts.tier1_enqueued_items),
        (3, 2)
    );
}

/// A reason that comes when the whole file is read fails the import as well.
pub async fn an_import_can_be_given_up_while_it_queues(subject: &ImportSubject) {
    let read = subject.read(1, "a.mbox", letters(3)).await;
    queue(subject, read.id, 11).await.expect("it runs");
    subject.give_up(read.id, "no disk").await;

    let failed = subject.queue_all(Tenant::DEFAULT, read.id).await;

    assert_eq!(failed.status, ImportStatus::Failed);
    assert_eq!(requests(&failed), [2, 1]);
}

/// What is done is done.
pub async fn a_completed_import_queues_nothing(subject: &ImportSubject) {
    let done = subject.run(1, "a.mbox", letters(1)).await;
    assert_eq!(queue(subject, done.id, 9).await, None);
    assert_eq!(subject.stored(done.id).await, done);
}
