//! Beginning an import and giving it up: one running import for each path, in one schema.

use std::time::Duration;

use hapax_core::Tenant;
use hapax_core::entry::{Counts, Cursor, Import, ImportStatus, NewImport, Schema, Step, Target};
use uuid::Uuid;

use super::subject::{ImportSubject, chunk, new, newsletter};

/// What was asked for comes back, and nothing is read yet.
pub async fn a_new_import_is_kept_whole(subject: &ImportSubject) {
    let asked = NewImport {
        batch_size: 2000,
        insert_chunk_size: 200,
        completion_window: "48h".to_owned(),
        thread_policy: Some("email_thread_refs_v1".to_owned()),
        bytes: Some(9_007_199_254_740_991),
        ..new(1, "old/mail.mbox")
    };

    let begun = subject.begin(asked.clone()).await;

    let expected = Import {
        id: asked.id,
        asked: NewImport {
            target: Target::Pinned(Schema::Pkm),
            ..asked
        },
        schema: Schema::Pkm,
        status: ImportStatus::Running,
        step: Step::Reading,
        cursor: Cursor::default(),
        counts: Counts::default(),
        errors: Vec::new(),
        batches: Vec::new(),
        error: None,
        created_at: begun.created_at,
        updated_at: begun.created_at,
    };
    assert_eq!(begun, expected);
    assert_eq!(subject.stored(begun.id).await, begun);
}

/// The active schema is looked up once.
pub async fn beginning_pins_the_active_schema(subject: &ImportSubject) {
    subject.set_test_mode(true).await;
    let begun = subject.begin(new(1, "a.mbox")).await;
    assert_eq!(begun.schema, Schema::PkmTest);
    assert_eq!(begun.asked.target, Target::Pinned(Schema::PkmTest));

    subject.set_test_mode(false).await;

    assert_eq!(subject.stored(begun.id).await, begun);
    assert_eq!(subject.begin(new(2, "a.mbox")).await, begun);
    assert_eq!(subject.begin(new(3, "b.mbox")).await.schema, Schema::Pkm);
}

/// A caller who knows where to is believed.
pub async fn beginning_takes_the_schema_it_is_given(subject: &ImportSubject) {
    let asked = NewImport {
        target: Target::Pinned(Schema::PkmTest),
        ..new(1, "a.mbox")
    };
    assert_eq!(subject.begin(asked).await.schema, Schema::PkmTest);
}

/// Whoever asks for a path that is being imported gets that import, as it is by now.
pub async fn a_path_that_is_being_imported_answers_that_import(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let asked = chunk(&begun.cursor, vec![newsletter("<1>")]);
    let moved = subject
        .write(begun.id, asked.0)
        .await
        .expect("it is written");
    let other = NewImport {
        batch_size: 500,
        ..new(2, "a.mbox")
    };

    let again = subject.begin(other).await;

    assert_eq!(again, moved);
    let unknown = subject.imports.import(Tenant::DEFAULT, Uuid::from_u128(2));
    assert_eq!(unknown.await.expect("the store answers"), None);
}

/// Two files are two imports, also if only the case or the end differs.
pub async fn another_path_is_another_import(subject: &ImportSubject) {
    for (number, path) in ["a.mbox", "A.mbox", "a.mbox ", "b/a.mbox"]
        .iter()
        .enumerate()
    {
        let number = number as u128 + 1;
        let begun = subject.begin(new(number, path)).await;
        assert_eq!(begun.id, Uuid::from_u128(number), "{path}");
        assert_eq!(begun.asked.path, **path);
    }
}

/// Beginning again with the same id changes nothing, wherever the import is by now.
pub async fn the_same_id_again_answers_what_is_there(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    subject.advance(Duration::from_secs(5));
    assert_eq!(subject.begin(new(1, "a.mbox")).await, begun);
    assert_eq!(subject.begin(new(1, "b.mbox")).await, begun);

    let done = subject.run(2, "c.mbox", vec![newsletter("<1>")]).await;

    assert_eq!(done.status, ImportStatus::Completed);
    assert_eq!(subject.begin(new(2, "c.mbox")).await, done);
}

/// However many begin at once, one import of the path runs, and all are told which.
pub async fn of_many_that_begin_one_path_at_once_one_begins(subject: &ImportSubject) {
    let begun = (1..=24).map(|number| {
        let imports = subject.imports.clone();
        tokio::spawn(async move {
            let begun = imports.begin_import(Tenant::DEFAULT, new(number, "a.mbox"));
            begun.await.expect("the store answers")
        })
    });
    let mut ids = Vec::new();
    for one in begun.collect::<Vec<_>>() {
        ids.push(one.await.expect("no panic").id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let listed = subject.imports.imports(Tenant::DEFAULT, None, 50).await;
    assert_eq!(listed.expect("the store answers").len(), 1);
}

/// A path is any text; no length of it is too long for an index.
pub async fn a_path_of_any_length_and_letters_is_one(subject: &ImportSubject) {
    let long = "folder/".repeat(1000);
    let paths = [
        format!("{long}a"),
        format!("{long}b"),
        "почта 📬 'x'\\%_.mbox".to_owned(),
    ];
    for (number, path) in paths.iter().enumerate() {
        let begun = subject.begin(new(number as u128 + 1, path)).await;
        assert_eq!(begun.asked.path, *path);
        assert_eq!(subject.begin(new(99, path)).await, begun);
    }
}

/// An import that is given up reads no more. It fails when there is nothing to queue, and stays as it is, with its reason.
pub async fn a_failed_import_says_why_and_refuses_everything(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    subject.advance(Duration::from_secs(5));

    let given_up = subject.give_up(begun.id, "the file changed").await;

    assert_eq!(
        (given_up.status, given_up.step),
        (ImportStatus::Running, Step::Queueing)
    );
    assert_eq!(given_up.error.as_deref(), Some("the file changed"));
    assert!(given_up.updated_at > begun.updated_at);
    let asked = chunk(&begun.cursor, vec![newsletter("<1>")]);
    assert_eq!(subject.write(begun.id, asked.0.clone()).await, None);
    assert_eq!(subject.fail(begun.id, "other").await, None);
    assert_eq!(subject.stored(begun.id).await, given_up);

    let failed = subject.queue_all(Tenant::DEFAULT, begun.id).await;

    assert_eq!(failed.status, ImportStatus::Failed);
    assert_eq!(failed.error.as_deref(), Some("the file changed"));
    assert_eq!(subject.write(begun.id, asked.0).await, None);
    let queued = subject
        .imports
        .queue_candidates(Tenant::DEFAULT, begun.id, Uuid::from_u128(9));
    assert_eq!(queued.await.expect("the store answers"), None);
    assert_eq!(subject.fail(begun.id, "other").await, None);
    assert_eq!(subject.stored(begun.id).await, failed);
    assert_eq!(subject.entries(Schema::Pkm).await, []);
}

/// While what it brought is being queued, an import that was given up is the one of its path.
pub async fn a_path_that_was_given_up_answers_that_import_until_it_has_failed(
    subject: &ImportSubject,
) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    let asked = chunk(&begun.cursor, vec![newsletter("<1>")]);
    subject
        .write(begun.id, asked.0)
        .await
        .expect("it is written");
    let given_up = subject.give_up(begun.id, "no disk").await;

    assert_eq!(subject.begin(new(2, "a.mbox")).await, given_up);
    subject.queue_all(Tenant::DEFAULT, begun.id).await;

    let next = subject.begin(new(3, "a.mbox")).await;
    assert_eq!(next.id, Uuid::from_u128(3));
    assert_eq!(next.error, None);
}

/// What failed or is completed does not stand in the way of a new import.
pub async fn a_path_can_be_imported_again_after_it_failed(subject: &ImportSubject) {
    let begun = subject.begin(new(1, "a.mbox")).await;
    subject.give_up(begun.id, "no disk").await;
    let failed = subject.queue_all(Tenant::DEFAULT, begun.id).await;
    assert_eq!(failed.status, ImportStatus::Failed);

    let second = subject.run(2, "a.mbox", Vec::new()).await;
    let third = subject.begin(new(3, "a.mbox")).await;

    assert_eq!(second.id, Uuid::from_u128(2));
    assert_eq!(second.status, ImportStatus::Completed);
    assert_eq!(third.id, Uuid::from_u128(3));
    assert_eq!(third.cursor, Cursor::default());
}

/// An id that nobody gave finds nothing and changes nothing.
pub async fn what_nobody_began_is_not_there(subject: &ImportSubject) {
    let (store, id) = (&subject.imports, Uuid::from_u128(404));
    let asked = chunk(&Cursor::default(), vec![newsletter("<1>")]).last();
    assert_eq!(subject.write(id, asked.0).await, None);
    let found = store.import(Tenant::DEFAULT, id).await;
    assert_eq!(found.expect("the store answers"), None);
    let queued = store.queue_candidates(Tenant::DEFAULT, id, Uuid::from_u128(9));
    assert_eq!(queued.await.expect("the store answers"), None);
    let failed = store.fail_import(Tenant::DEFAULT, id, "why".to_owned());
    assert_eq!(failed.await.expect("the store answers"), None);
    let listed = store.imports(Tenant::DEFAULT, None, 50).await;
    assert_eq!(listed.expect("the store answers"), []);
    assert_eq!(subject.entries(Schema::Pkm).await, []);
}
