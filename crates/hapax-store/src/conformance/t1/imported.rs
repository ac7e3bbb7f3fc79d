//! Batches that imports make: they are batches like any other, and their items are entries.

use std::time::Duration;

use hapax_core::entry::{
    Batch, BatchState, BatchStatus, Chunk, Column, Cursor, Draft, Import, ImportStatus, Incoming,
    ItemStatus, ItemText, NewImport, Schema, Target,
};
use serde_json::json;
use uuid::Uuid;

use super::subject::{T1Subject, TENANT, completing, gist, own};

fn letter(number: u64) -> Incoming {
    let entry = json!({
        "source": "email-batch", "content_type": "newsletter", "title": format!("News {number}"),
        "clean_text": format!("What happened: {number}"),
        "idempotency_policy_key": "email_newsletter_v1", "idempotency_key_primary": format!("<{number}>"),
    });
    let entry = entry.as_object().expect("an object");
    Incoming::Insert(Draft::read(entry, |_| None).expect("cases use entries that can be read"))
}

/// Imports letters into this home, without queueing them.
async fn read(subject: &T1Subject, number: u128, schema: Schema, count: u64) -> Import {
    let asked = NewImport {
        id: Uuid::from_u128(number),
        path: format!("{number}.mbox"),
        target: Target::Pinned(schema),
        batch_size: 2,
        insert_chunk_size: 100,
        completion_window: "36h".to_owned(),
        thread_policy: None,
        bytes: None,
    };
    let begun = subject.imports.begin_import(TENANT, asked).await;
    let begun = begun.expect("the store answers");
    let chunk = Chunk {
        from: begun.cursor.clone(),
        to: Cursor {
            index: count,
            offset: count,
            mark: Some("the end".to_owned()),
        },
        messages: count,
        entries: (0..count).map(|at| (at, letter(at))).collect(),
        faults: Vec::new(),
        is_last: true,
    };
    let written = subject.imports.import_chunk(TENANT, begun.id, chunk).await;
    written.expect("the store answers").expect("it is written")
}

/// Imports letters into this home; answers its batches.
async fn run(subject: &T1Subject, number: u128, schema: Schema, count: u64) -> Vec<Batch> {
    let mut import = read(subject, number, schema, count).await;
    for batch in 1..=20 {
        let batch = Uuid::from_u128(number * 100 + batch);
        let queued = subject.imports.queue_candidates(TENANT, import.id, batch);
        import = queued.await.expect("the store answers").expect("it runs");
        if import.status == ImportStatus::Completed {
            break;
        }
    }
    let mut batches = Vec::new();
    for made in &import.batches {
        batches.push(subject.stored(made.batch_id).await);
    }
    batches
}

/// What an import queues is a batch, and says which import made it.
pub async fn an_imports_batch_is_a_batch(subject: &T1Subject) {
    for (number, schema) in [(1, Schema::Pkm), (2, Schema::PkmTest)] {
        let batches = run(subject, number, schema, 3).await;

        assert_eq!(batches.len(), 2);
        for batch in &batches {
            assert_eq!(batch.schema, schema);
            assert_eq!(batch.import_id, Some(Uuid::from_u128(number)));
            assert_eq!(batch.completion_window, "36h");
            assert!(batch.metadata.is_empty());
            assert_eq!(batch.version, 1);
            assert_eq!(
                batch.items,
                [(ItemStatus::Queued, batch.request_count)].into()
            );
            let fresh = BatchState {
                status: BatchStatus::Queued,
                attempt: 1,
                failures: 0,
                next_at: batch.created_at,
                model: None,
                provider: hapax_core::entry::Provider::default(),
                error: None,
            };
            assert_eq!(batch.state, fresh, "it waits since it was made");
        }
        let counts = batches.iter().map(|batch| batch.request_count);
        assert_eq!(counts.collect::<Vec<_>>(), [2, 1]);
    }
    let listed = subject.listed(Some(Schema::Pkm), false, None, 50).await;
    assert_eq!(listed, [102, 101]);
    let mut due = subject.due(50).await;
    due.sort_unstable();
    assert_eq!(due, [101, 102, 201, 202]);
}

/// The items of an import's batch are about its entries.
pub async fn an_imports_items_have_the_texts_of_its_entries(subject: &T1Subject) {
    let batches = run(subject, 1, Schema::Pkm, 3).await;
    let mut titles = Vec::new();
    for batch in &batches {
        for item in subject.items(batch).await {
            let row = subject.row(item.entry_id.expect("it has one")).await;
            let text = ItemText::of(&row.fields);
            assert_eq!(Some(item.hash), text.fingerprint());
            assert_eq!(item.text, Some(text));
            titles.extend(row.fields.text(Column::Title).map(str::to_owned));
        }
    }
    titles.sort();
    assert_eq!(titles, ["News 0", "News 1", "News 2"]);
}

/// A candidate is of no batch yet.
pub async fn candidates_are_no_items(subject: &T1Subject) {
    read(subject, 1, Schema::Pkm, 3).await;
    assert_eq!(subject.listed(None, true, None, 50).await, [0; 0]);
    assert_eq!(subject.due(50).await, [0; 0]);
    let batch = subject.add(9, vec![own("x")]).await;
    assert_eq!(subject.items(&batch).await.len(), 1);
}

/// An import shows how far its batches are.
pub async fn an_import_tells_how_far_its_batches_are(subject: &T1Subject) {
    let batches = run(subject, 1, Schema::Pkm, 3).await;
    let state = BatchState {
        status: BatchStatus::Collecting,
        ..batches[0].state.clone()
    };
    subject
        .change(&batches[0], state)
        .await
        .expect("it is changed");

    let import = subject.imports.import(TENANT, Uuid::from_u128(1)).await;

    let import = import.expect("the store answers").expect("it is there");
    let words = import.batches.iter().map(|batch| batch.status.as_str());
    assert_eq!(words.collect::<Vec<_>>(), ["collecting", "queued"]);
}

/// A result goes to the entry that the import made, and the same import later queues nothing.
pub async fn an_imports_items_are_settled_with_their_entries(subject: &T1Subject) {
    let batches = run(subject, 1, Schema::Pkm, 2).await;
    let items = subject.items(&batches[0]).await;
    subject.advance(Duration::from_secs(5));

    let changes = items.iter().map(|item| completing(item, "news"));
    let settled = subject.settle(&batches[0], changes.collect()).await;

    assert_eq!(settled, [Some(ItemStatus::Completed); 2]);
    for item in items {
        let row = subject.row(item.entry_id.expect("it has one")).await;
        assert_eq!(gist(&row), Some("news"));
    }
    assert_eq!(run(subject, 2, Schema::Pkm, 2).await, []);
}
