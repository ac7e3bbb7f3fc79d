//! Adding batches: whole, once for an id, and where the test mode points.

use std::collections::BTreeMap;

use hapax_core::Kind;
use hapax_core::entry::{
    Batch, BatchState, BatchStatus, ItemStatus, ItemText, NewBatch, NewItem, Provider, Schema,
    Target,
};
use serde_json::json;
use uuid::Uuid;

use super::subject::{T1Subject, TENANT, hurting, new, own};

/// A batch comes back with all that was said of it, ready to be sent.
pub async fn a_new_batch_is_kept_whole(subject: &T1Subject) {
    let metadata = json!({"asked_by": "Ada", "deep": {"er": [1, null, true, 0.5]}});
    let asked = NewBatch {
        metadata: metadata.as_object().expect("an object").clone(),
        completion_window: "48h".to_owned(),
        ..new(1, vec![own("one"), own("two")])
    };

    let batch = subject.add_at(TENANT, Target::Active, asked.clone()).await;

    assert_eq!(subject.stored(asked.id).await, batch);
    let expected = Batch {
        id: asked.id,
        schema: Schema::Pkm,
        import_id: None,
        completion_window: asked.completion_window,
        metadata: asked.metadata,
        request_count: 2,
        items: BTreeMap::from([(ItemStatus::Queued, 2)]),
        state: BatchState {
            status: BatchStatus::Queued,
            attempt: 1,
            failures: 0,
            next_at: batch.created_at,
            model: None,
            provider: Provider::default(),
            error: None,
        },
        version: 1,
        created_at: batch.created_at,
        updated_at: batch.created_at,
    };
    assert_eq!(batch, expected);
    let items = subject.items(&batch).await;
    assert!(items.iter().all(|item| item.updated_at == batch.created_at));
}

/// Who does not know whether a batch was kept adds it again. Its items are not kept a second time.
pub async fn the_same_id_again_answers_what_is_there(subject: &T1Subject) {
    let first = subject.add(1, vec![own("one"), own("two")]).await;

    let again = subject.add(1, vec![own("another")]).await;

    assert_eq!(again, first);
    assert_eq!(subject.items(&first).await.len(), 2);
}

/// Also if the test mode was changed in between.
pub async fn the_same_id_again_is_found_in_the_other_schema(subject: &T1Subject) {
    let first = subject.add(1, vec![own("one")]).await;
    subject.set_test_mode(true).await;

    let again = subject.add(1, vec![own("one")]).await;

    assert_eq!(again, first);
    assert_eq!(subject.listed(None, true, None, 50).await, [1]);
}

/// Of many who add one batch at once, one adds it.
pub async fn of_many_who_add_one_batch_at_once_one_does(subject: &T1Subject) {
    let adds = (0..20).map(|_| {
        let batches = subject.batches.clone();
        tokio::spawn(async move {
            loop {
                let asked = new(1, vec![own("one"), own("two")]);
                match batches.add_batch(TENANT, Target::Active, asked).await {
                    Err(error) if error.kind() == Kind::Unavailable => {}
                    added => return added.expect("the store answers"),
                }
            }
        })
    });
    let mut added = Vec::new();
    for add in adds.collect::<Vec<_>>() {
        added.push(add.await.expect("no panic"));
    }
    assert!(added.iter().all(|batch| *batch == added[0]));
    assert_eq!(subject.items(&added[0]).await.len(), 2);
    assert_eq!(subject.listed(None, true, None, 50).await, [1]);
}

/// A batch goes where entries go.
pub async fn a_batch_follows_the_test_mode(subject: &T1Subject) {
    let real = subject.add(1, vec![own("one")]).await;
    subject.set_test_mode(true).await;
    let test = subject.add(2, vec![own("one")]).await;

    assert_eq!((real.schema, test.schema), (Schema::Pkm, Schema::PkmTest));
    for batch in [real, test] {
        assert_eq!(subject.stored(batch.id).await, batch, "found in either");
    }
}

/// A batch that names its home goes there.
pub async fn a_pinned_batch_does_not_follow_the_test_mode(subject: &T1Subject) {
    subject.set_test_mode(true).await;
    for (number, schema) in [(1, Schema::Pkm), (2, Schema::PkmTest)] {
        let batch = subject.add_one(TENANT, schema, number).await;
        assert_eq!(batch.schema, schema);
        assert_eq!(subject.stored(batch.id).await, batch);
    }
}

/// A batch and its items are there, or neither.
pub async fn a_store_that_fails_leaves_nothing_of_a_batch(subject: &T1Subject) {
    subject.hurt(true).await;
    let asked = new(1, vec![own("one"), hurting()]);
    let added = subject
        .batches
        .add_batch(TENANT, Target::Active, asked.clone())
        .await;
    assert!(added.is_err());
    assert_eq!(subject.found(TENANT, asked.id).await, None);
    assert_eq!(subject.due(50).await, [0; 0]);

    subject.hurt(false).await;
    let batch = subject.add_at(TENANT, Target::Active, asked).await;
    assert_eq!(batch.request_count, 2);
    assert_eq!(subject.items(&batch).await.len(), 2);
}

/// The largest batch is one call.
pub async fn the_largest_batch_is_kept_in_one_call(subject: &T1Subject) {
    let items = (0..NewBatch::ITEMS_MAX).map(|number| own(&format!("text {number}")));
    let batch = subject.add(1, items.collect()).await;

    let items = subject.items(&batch).await;

    assert_eq!(batch.request_count, NewBatch::ITEMS_MAX as u64);
    assert_eq!(items.len(), NewBatch::ITEMS_MAX);
    let last = items.last().and_then(|item| item.text.clone());
    let text = format!("text {}", NewBatch::ITEMS_MAX - 1);
    assert_eq!(last.expect("it has one").clean_text, text);
}

/// What cannot be kept is said, and nothing of it is kept.
pub async fn a_batch_over_its_limits_is_refused(subject: &T1Subject) {
    let many = vec![own("x"); NewBatch::ITEMS_MAX + 1];
    for (number, items) in [(1, many), (2, Vec::new()), (3, vec![own("x"), own(" \n")])] {
        let asked = new(number, items);
        let refused = subject
            .batches
            .add_batch(TENANT, Target::Active, asked)
            .await;
        let refused = refused.expect_err("it is refused").kind();
        assert_eq!(refused, Kind::Limit, "{number}");
        assert_eq!(subject.found(TENANT, Uuid::from_u128(number)).await, None);
    }
}

/// An item is about the text that it was added with, be it an entry's or its own.
pub async fn items_are_kept_in_their_order_with_what_they_are_about(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let whole = NewItem::Own(ItemText {
        title: Some("A title".to_owned()),
        author: Some("Ada".to_owned()),
        content_type: Some("page".to_owned()),
        clean_text: "words".to_owned(),
    });
    let asked = vec![own("z"), of_entry, whole, own("a"), own("z")];

    let batch = subject.add(1, asked.clone()).await;

    let items = subject.items(&batch).await;
    assert!(items.is_sorted_by_key(|item| item.item_id));
    assert_eq!(items.len(), asked.len());
    for (item, asked) in items.iter().zip(&asked) {
        let text = item.text.clone().expect("it has one");
        assert_eq!(Some(item.hash), text.fingerprint());
        let of = match item.entry_id {
            Some(entry_id) => NewItem::OfEntry {
                entry_id,
                hash: item.hash,
            },
            None => NewItem::Own(text),
        };
        assert_eq!(of, *asked);
        assert_eq!(item.status, ItemStatus::Queued);
        assert_eq!(
            (&item.raw, &item.result, &item.error),
            (&None, &None, &None)
        );
    }
    assert_eq!(items[1].entry_id, Some(entry_id));
}
