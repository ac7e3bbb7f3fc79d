//! Settling items: each once from where it is, with its entry, and only while the entry says what was asked about.

use std::time::Duration;

use hapax_core::entry::{Column, Fields, ItemChange, ItemScan, ItemStatus, NewItem};
use hapax_core::{Fingerprint, Kind};
use serde_json::json;

use super::subject::{
    T1Subject, TENANT, becoming, completing, gist, gist_fields, hurting, own, raw_of,
};

/// An item goes on step by step, and keeps what each step said.
pub async fn an_item_keeps_what_its_steps_said(subject: &T1Subject) {
    let batch = subject.add(1, vec![own("x")]).await;
    let item = subject.first(&batch).await;
    subject.advance(Duration::from_secs(5));
    let answered = ItemChange {
        raw: Some(raw_of("tea").into()),
        error: Some("once".to_owned()),
        ..becoming(&item, ItemStatus::Queued, ItemStatus::Answered)
    };
    let settled = subject.settle(&batch, vec![answered]).await;
    assert_eq!(settled, [Some(ItemStatus::Answered)]);
    let seen = subject.first(&batch).await;
    assert_eq!(seen.raw.as_deref(), Some(raw_of("tea").as_str()));
    assert_eq!((&seen.result, seen.error.as_deref()), (&None, Some("once")));
    assert!(seen.updated_at > item.updated_at);

    let result = json!({"gist": "tea", "keywords": ["a", "b"], "confidence": 0.5, "none": null});
    let completed = ItemChange {
        result: Some(result.clone()),
        ..becoming(&item, ItemStatus::Answered, ItemStatus::Completed)
    };
    let settled = subject.settle(&batch, vec![completed]).await;
    assert_eq!(settled, [Some(ItemStatus::Completed)]);

    let done = subject.first(&batch).await;
    assert_eq!(done.status, ItemStatus::Completed);
    assert_eq!(done.raw, seen.raw, "it is left as it was");
    assert_eq!(done.result, Some(result));
    assert_eq!(done.error, None, "nothing is wrong any more");
    assert_eq!((done.hash, done.text), (item.hash, item.text));
}

/// A result is written to its entry by the rule of entries: the old state is kept.
pub async fn a_result_is_written_to_its_entry(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let before = subject.row(entry_id).await;
    let batch = subject.add(1, vec![of_entry]).await;
    let item = subject.first(&batch).await;
    subject.advance(Duration::from_secs(5));
    let mut fields = gist_fields("hot water");
    fields.put(Column::Keywords, json!(["tea", "cup"]));
    fields.put(Column::TopicPrimaryConfidence, 0.75);
    fields.put(Column::Flags, json!({"is_ad": false}));
    fields.put(Column::Metadata, json!({"t1": {"model": "m"}}));
    let change = ItemChange {
        entry: Some(fields.clone()),
        ..completing(&item, "hot water")
    };

    assert_eq!(
        subject.settle(&batch, vec![change]).await,
        [Some(ItemStatus::Completed)]
    );

    let row = subject.row(entry_id).await;
    assert_eq!(row.revision, 2);
    assert!(row.updated_at > before.updated_at);
    for (column, value) in fields.iter() {
        assert_eq!(row.fields.get(column), value, "{column:?}");
    }
    assert_eq!(row.fields.text(Column::CleanText), Some("tea"));
    assert_eq!(subject.replaced(entry_id).await, [before]);
    let done = subject.first(&batch).await;
    assert_eq!(done.result, Some(json!({"gist": "hot water"})));
    assert_eq!(done.raw.as_deref(), Some(raw_of("hot water").as_str()));
}

/// The same change twice does it once: the second finds the item elsewhere.
pub async fn a_change_that_is_made_twice_is_made_once(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry]).await;
    let item = subject.first(&batch).await;
    subject.settle(&batch, vec![completing(&item, "one")]).await;
    let done = subject.first(&batch).await;

    let again = subject.settle(&batch, vec![completing(&item, "two")]).await;

    assert_eq!(again, [Some(ItemStatus::Completed)]);
    assert_eq!(subject.first(&batch).await, done);
    let row = subject.row(entry_id).await;
    assert_eq!((gist(&row), row.revision), (Some("one"), 2));
}

/// Of many who settle one item at once, one does.
pub async fn of_many_who_settle_an_item_at_once_one_does(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry, own("x")]).await;
    let items = subject.items(&batch).await;
    let settles = (0..20).map(|number| {
        let (batches, batch) = (subject.batches.clone(), batch.clone());
        let gist = format!("gist {number}");
        let changes: Vec<ItemChange> = items.iter().map(|item| completing(item, &gist)).collect();
        tokio::spawn(async move {
            loop {
                let settled = batches.settle_items(TENANT, batch.schema, batch.id, changes.clone());
                match settled.await {
                    Err(error) if error.kind() == Kind::Unavailable => {}
                    settled => return settled.expect("the store answers"),
                }
            }
        })
    });
    for settle in settles.collect::<Vec<_>>() {
        assert_eq!(
            settle.await.expect("no panic"),
            [Some(ItemStatus::Completed); 2]
        );
    }
    let row = subject.row(entry_id).await;
    assert_eq!(row.revision, 2);
    let items = subject.items(&batch).await;
    let written = Some(json!({"gist": gist(&row)}));
    assert!(items.iter().all(|item| item.result == written));
}

/// An item that is not where the change begins stays, and says where it is.
pub async fn an_item_that_is_elsewhere_stays(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry]).await;
    let item = subject.first(&batch).await;
    let early = ItemChange {
        from: ItemStatus::Answered,
        ..completing(&item, "early")
    };

    assert_eq!(
        subject.settle(&batch, vec![early]).await,
        [Some(ItemStatus::Queued)]
    );

    assert_eq!(subject.first(&batch).await, item);
    assert_eq!(subject.row(entry_id).await.revision, 1);
}

/// An entry that says something else by now is left alone. What was paid for is kept.
pub async fn an_entry_that_changed_meanwhile_stays(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry]).await;
    let item = subject.first(&batch).await;
    subject.say(entry_id, "coffee").await;
    let before = subject.row(entry_id).await;

    let settled = subject
        .settle(&batch, vec![completing(&item, "of tea")])
        .await;

    assert_eq!(settled, [Some(ItemStatus::Stale)]);
    assert_eq!(subject.row(entry_id).await, before);
    let stale = subject.first(&batch).await;
    assert_eq!(stale.status, ItemStatus::Stale);
    assert_eq!(stale.raw.as_deref(), Some(raw_of("of tea").as_str()));
    assert_eq!(stale.result, Some(json!({"gist": "of tea"})));
    let again = subject
        .settle(&batch, vec![completing(&item, "of tea")])
        .await;
    assert_eq!(again, [Some(ItemStatus::Stale)]);
    assert_eq!(
        subject.stored(batch.id).await.items,
        [(ItemStatus::Stale, 1)].into()
    );
}

/// What counts is the text, not how often it was changed; and other columns do not count.
pub async fn an_entry_that_changed_back_is_written(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry]).await;
    let item = subject.first(&batch).await;
    subject.say(entry_id, "coffee").await;
    subject.say(entry_id, "tea").await;

    let settled = subject
        .settle(&batch, vec![completing(&item, "of tea")])
        .await;

    assert_eq!(settled, [Some(ItemStatus::Completed)]);
    let row = subject.row(entry_id).await;
    assert_eq!((gist(&row), row.revision), (Some("of tea"), 4));
}

/// A result for an entry that is not there is for nobody.
pub async fn an_entry_that_is_not_there_makes_its_item_stale(subject: &T1Subject) {
    let gone = NewItem::OfEntry {
        entry_id: 77,
        hash: Fingerprint::of(b"it was here"),
    };
    let batch = subject.add(1, vec![gone]).await;
    let item = subject.first(&batch).await;

    let settled = subject
        .settle(&batch, vec![completing(&item, "of nothing")])
        .await;

    assert_eq!(settled, [Some(ItemStatus::Stale)]);
    assert_eq!(subject.statuses(&batch).await, [ItemStatus::Stale]);
}

/// A change that says nothing of the entry does not ask what it says.
pub async fn a_change_without_a_result_leaves_the_entry(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry]).await;
    let item = subject.first(&batch).await;
    subject.say(entry_id, "coffee").await;
    let failed = ItemChange {
        raw: Some("no JSON".into()),
        error: Some("is not JSON".to_owned()),
        ..becoming(&item, ItemStatus::Queued, ItemStatus::ParseError)
    };

    assert_eq!(
        subject.settle(&batch, vec![failed]).await,
        [Some(ItemStatus::ParseError)]
    );

    let kept = subject.first(&batch).await;
    assert_eq!(kept.raw.as_deref(), Some("no JSON"));
    assert_eq!(kept.error.as_deref(), Some("is not JSON"));
    assert_eq!(subject.row(entry_id).await.revision, 2);
}

/// An item of no entry has nothing to write to, and is completed all the same.
pub async fn an_item_with_its_own_text_is_completed_without_an_entry(subject: &T1Subject) {
    let batch = subject.add(1, vec![own("x")]).await;
    let item = subject.first(&batch).await;
    let settled = subject
        .settle(&batch, vec![completing(&item, "an x")])
        .await;
    assert_eq!(settled, [Some(ItemStatus::Completed)]);
    assert_eq!(
        subject.first(&batch).await.result,
        Some(json!({"gist": "an x"}))
    );
}

/// A result that says what the entry says already keeps no state of it.
pub async fn a_result_that_changes_nothing_keeps_no_state(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry.clone(), of_entry]).await;
    let items = subject.items(&batch).await;

    let changes = items.iter().map(|item| completing(item, "same"));
    let settled = subject.settle(&batch, changes.collect()).await;

    assert_eq!(settled, [Some(ItemStatus::Completed); 2]);
    assert_eq!(subject.row(entry_id).await.revision, 2);
    assert_eq!(subject.replaced(entry_id).await.len(), 1);
}

/// Two items of one entry go over it one after the other.
pub async fn two_items_of_one_entry_are_written_in_order(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry.clone(), of_entry]).await;
    let items = subject.items(&batch).await;
    let changes = vec![
        completing(&items[1], "first"),
        completing(&items[0], "second"),
    ];

    assert_eq!(
        subject.settle(&batch, changes).await,
        [Some(ItemStatus::Completed); 2]
    );

    let row = subject.row(entry_id).await;
    assert_eq!((gist(&row), row.revision), (Some("second"), 3));
    let replaced = subject.replaced(entry_id).await;
    assert_eq!(
        replaced.iter().map(gist).collect::<Vec<_>>(),
        [Some("first"), None]
    );
}

/// Changes of one item in one call happen in order.
pub async fn steps_of_one_item_fit_one_call(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry]).await;
    let item = subject.first(&batch).await;
    let answered = ItemChange {
        raw: Some("the answer".into()),
        ..becoming(&item, ItemStatus::Queued, ItemStatus::Answered)
    };
    let completed = ItemChange {
        from: ItemStatus::Answered,
        raw: None,
        ..completing(&item, "of tea")
    };

    let settled = subject.settle(&batch, vec![answered, completed]).await;

    assert_eq!(
        settled,
        [Some(ItemStatus::Answered), Some(ItemStatus::Completed)]
    );
    let done = subject.first(&batch).await;
    assert_eq!(
        (done.status, done.raw.as_deref()),
        (ItemStatus::Completed, Some("the answer"))
    );
    assert_eq!(gist(&subject.row(entry_id).await), Some("of tea"));
}

/// Everything of a call is written, or nothing.
pub async fn a_store_that_fails_settles_nothing(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![of_entry, hurting(), own("x")]).await;
    let items = subject.items(&batch).await;
    let changes: Vec<ItemChange> = items
        .iter()
        .map(|item| completing(item, "a gist"))
        .collect();
    let before = (subject.row(entry_id).await, subject.stored(batch.id).await);
    subject.hurt(true).await;

    let failed = subject
        .batches
        .settle_items(TENANT, batch.schema, batch.id, changes.clone())
        .await;

    assert!(failed.is_err());
    assert_eq!(subject.items(&batch).await, items);
    assert_eq!(
        (subject.row(entry_id).await, subject.stored(batch.id).await),
        before
    );
    assert_eq!(subject.replaced(entry_id).await, []);

    subject.hurt(false).await;
    let settled = subject.settle(&batch, changes).await;
    let (done, stale) = (Some(ItemStatus::Completed), Some(ItemStatus::Stale));
    assert_eq!(settled, [done, stale, done]);
    assert_eq!(gist(&subject.row(entry_id).await), Some("a gist"));
}

/// Answers are in the order of the changes; what is not of the batch is nothing.
pub async fn an_item_of_another_batch_is_not_settled(subject: &T1Subject) {
    let batch = subject.add(1, vec![own("x"), own("y")]).await;
    let other = subject.add(2, vec![own("z")]).await;
    let (items, foreign) = (subject.items(&batch).await, subject.first(&other).await);
    let mut unknown = becoming(&foreign, ItemStatus::Queued, ItemStatus::Failed);
    unknown.item_id = i64::MAX;
    let changes = vec![
        completing(&items[1], "y"),
        completing(&foreign, "z"),
        unknown,
        becoming(&items[0], ItemStatus::Queued, ItemStatus::Failed),
    ];

    let settled = subject.settle(&batch, changes).await;

    let expected = [
        Some(ItemStatus::Completed),
        None,
        None,
        Some(ItemStatus::Failed),
    ];
    assert_eq!(settled, expected);
    assert_eq!(subject.first(&other).await, foreign);
    assert_eq!(
        subject.statuses(&batch).await,
        [ItemStatus::Failed, ItemStatus::Completed]
    );
}

/// A result that the rule of entries refuses is no result of theirs; the item says so, and the others go on.
pub async fn a_result_that_the_rule_refuses_fails_its_item(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let (next_id, next) = subject.entry("coffee").await;
    let batch = subject.add(1, vec![of_entry, next]).await;
    let items = subject.items(&batch).await;
    let mut fields = Fields::new();
    fields.put(Column::Metadata, json!({"huge": "x".repeat(4 << 20)}));
    let huge = ItemChange {
        entry: Some(fields),
        ..completing(&items[0], "huge")
    };

    let settled = subject
        .settle(&batch, vec![huge, completing(&items[1], "of coffee")])
        .await;

    assert_eq!(
        settled,
        [Some(ItemStatus::Failed), Some(ItemStatus::Completed)]
    );
    assert_eq!(subject.row(entry_id).await.revision, 1);
    assert_eq!(gist(&subject.row(next_id).await), Some("of coffee"));
    let failed = subject.first(&batch).await;
    assert_eq!(
        failed.raw.as_deref(),
        Some(raw_of("huge").as_str()),
        "it was paid for"
    );
    assert!(failed.error.is_some());
}

/// A call has its limit, and may be empty.
pub async fn over_the_limit_of_changes_is_refused(subject: &T1Subject) {
    let batch = subject.add(1, vec![own("x")]).await;
    let item = subject.first(&batch).await;
    let failed = becoming(&item, ItemStatus::Queued, ItemStatus::Failed);
    let many = vec![failed.clone(); ItemScan::LIMIT_MAX + 1];
    let refused = subject
        .batches
        .settle_items(TENANT, batch.schema, batch.id, many)
        .await;
    assert_eq!(refused.expect_err("it is refused").kind(), Kind::Limit);
    assert_eq!(subject.statuses(&batch).await, [ItemStatus::Queued]);

    assert_eq!(subject.settle(&batch, Vec::new()).await, []);
    let most = vec![failed; ItemScan::LIMIT_MAX];
    let settled = subject.settle(&batch, most).await;
    assert_eq!(settled, [Some(ItemStatus::Failed); ItemScan::LIMIT_MAX]);
}

/// A full page of results is one call.
pub async fn a_full_page_is_settled_in_one_call(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let mut asked = vec![own("x"); ItemScan::LIMIT_MAX - 1];
    asked.push(of_entry);
    let batch = subject.add(1, asked).await;
    let items = subject.items(&batch).await;

    let changes = items.iter().map(|item| completing(item, "a gist"));
    let settled = subject.settle(&batch, changes.collect()).await;

    assert_eq!(settled, [Some(ItemStatus::Completed); ItemScan::LIMIT_MAX]);
    let counted = subject.stored(batch.id).await.items;
    assert_eq!(
        counted,
        [(ItemStatus::Completed, ItemScan::LIMIT_MAX as u64)].into()
    );
    assert_eq!(gist(&subject.row(entry_id).await), Some("a gist"));
}
