//! Tenants and schemas: nothing of one is seen, met or queued through another.

use hapax_core::Tenant;
use hapax_core::entry::{NewImport, Schema, Target};
use uuid::Uuid;

use super::super::subject::tenant;
use super::subject::{ImportSubject, chunk, new, newsletter, requests, thread};

/// Another tenant's import cannot be read, moved, queued or given up.
pub async fn another_tenants_import_is_not_there(subject: &ImportSubject) {
    let read = subject.read(1, "a.mbox", vec![newsletter("<1>")]).await;
    let begun = subject.begin(new(2, "b.mbox")).await;
    let (store, theirs) = (&subject.imports, tenant(2));

    let found = store.import(theirs, read.id).await;
    assert_eq!(found.expect("the store answers"), None);
    let listed = store.imports(theirs, None, 50).await;
    assert_eq!(listed.expect("the store answers"), []);
    let queued = store.queue_candidates(theirs, read.id, Uuid::from_u128(9));
    assert_eq!(queued.await.expect("the store answers"), None);
    let asked = chunk(&begun.cursor, vec![newsletter("<2>")]).0;
    let written = store.import_chunk(theirs, begun.id, asked).await;
    assert_eq!(written.expect("the store answers"), None);
    let failed = store.fail_import(theirs, begun.id, "why".to_owned());
    assert_eq!(failed.await.expect("the store answers"), None);

    assert_eq!(subject.stored(read.id).await, read);
    assert_eq!(subject.stored(begun.id).await, begun);
    assert_eq!(subject.entries_of(theirs, Schema::Pkm).await, []);
}

/// Two tenants who import the same path under the same id, with batches of the same id, do not meet.
pub async fn the_same_path_and_id_of_two_tenants_are_two_imports(subject: &ImportSubject) {
    let mine = subject.begin(new(1, "a.mbox")).await;
    let theirs = subject.begin_of(tenant(2), new(1, "a.mbox")).await;
    let store = &subject.imports;
    for (of, count) in [(Tenant::DEFAULT, 1), (tenant(2), 2)] {
        let letters = (0..count).map(|number| newsletter(&format!("<{number}>")));
        let asked = chunk(&mine.cursor, letters.collect()).last().0;
        let written = store.import_chunk(of, mine.id, asked).await;
        let written = written.expect("the store answers").expect("it is written");
        assert_eq!(written.counts.inserted, count);
        let queued = store.queue_candidates(of, mine.id, Uuid::from_u128(9));
        let queued = queued.await.expect("the store answers").expect("it runs");
        assert_eq!(requests(&queued), [count]);
    }
    assert_eq!(theirs.id, mine.id);
    assert_eq!(
        subject.entries_of(Tenant::DEFAULT, Schema::Pkm).await.len(),
        1
    );
    assert_eq!(subject.entries_of(tenant(2), Schema::Pkm).await.len(), 2);
}

/// The same key of another tenant is another row, and its text another text.
pub async fn another_tenants_entries_do_not_meet_a_chunk(subject: &ImportSubject) {
    subject.run(1, "a.mbox", vec![thread("t", "one")]).await;
    let before = subject.entries(Schema::Pkm).await;
    let begun = subject.begin_of(tenant(2), new(2, "a.mbox")).await;
    let asked = chunk(&begun.cursor, vec![thread("t", "one")]).last().0;
    let written = subject
        .imports
        .import_chunk(tenant(2), begun.id, asked)
        .await;
    let written = written.expect("the store answers").expect("it is written");

    let done = subject.queue_all(tenant(2), begun.id).await;

    assert_eq!((written.counts.inserted, written.counts.updated), (1, 0));
    assert_eq!(done.counts.tier1_enqueued_items, 1);
    assert_eq!(subject.entries(Schema::Pkm).await, before);
}

/// The two schemas know nothing of each other's rows, candidates and batches.
pub async fn what_one_schema_queued_the_other_did_not(subject: &ImportSubject) {
    let mail = || vec![thread("t", "one"), newsletter("<1>")];
    subject.run(1, "a.mbox", mail()).await;
    let asked = NewImport {
        target: Target::Pinned(Schema::PkmTest),
        ..new(2, "a.mbox")
    };
    let begun = subject.begin(asked).await;
    let last = chunk(&begun.cursor, mail()).last();
    subject
        .write(begun.id, last.0)
        .await
        .expect("it is written");

    let done = subject.queue_all(Tenant::DEFAULT, begun.id).await;

    assert_eq!(
        (done.counts.inserted, done.counts.tier1_enqueued_items),
        (2, 2)
    );
    assert_eq!(requests(&done), [2]);
    for schema in Schema::ALL {
        let rows = subject.entries(schema).await;
        assert!(rows.len() == 2 && rows.iter().all(|row| row.revision == 1));
    }
}
