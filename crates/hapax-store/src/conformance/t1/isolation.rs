//! Tenants: nothing of one is seen, changed or settled through another.

use hapax_core::entry::{Batch, ItemScan, ItemStatus, Schema, Target};

use super::subject::{OTHER, T1Subject, TENANT, completing, gist, new, own};

/// Another tenant's batch cannot be found, listed, changed, read or settled.
pub async fn another_tenants_batch_is_not_there(subject: &T1Subject) {
    let batch = subject.add(1, vec![own("x")]).await;
    let item = subject.first(&batch).await;
    let store = &subject.batches;

    assert_eq!(subject.found(OTHER, batch.id).await, None);
    let listed = store.batches(OTHER, None, true, None, 50).await;
    assert_eq!(listed.expect("the store answers"), []);
    let changed = store.change_batch(OTHER, batch.schema, batch.id, 1, batch.state.clone());
    assert_eq!(changed.await.expect("the store answers"), None);
    let scan = ItemScan {
        status: None,
        after: None,
        with_text: true,
        limit: 50,
    };
    let items = store.batch_items(OTHER, batch.schema, batch.id, scan).await;
    assert_eq!(items.expect("the store answers"), []);
    let result = vec![completing(&item, "theirs")];
    let settled = store.settle_items(OTHER, batch.schema, batch.id, result);
    assert_eq!(settled.await.expect("the store answers"), [None]);

    assert_eq!(subject.stored(batch.id).await, batch);
    assert_eq!(subject.first(&batch).await, item);
}

/// The same id of two tenants is two batches.
pub async fn the_same_id_of_two_tenants_is_two_batches(subject: &T1Subject) {
    let mine = subject.add(1, vec![own("x")]).await;
    let asked = new(1, vec![own("y"), own("z")]);
    let theirs = subject.add_at(OTHER, Target::Active, asked).await;

    assert_eq!((mine.request_count, theirs.request_count), (1, 2));
    assert_eq!(subject.stored(mine.id).await, mine);
    assert_eq!(subject.found(OTHER, mine.id).await, Some(theirs));
    let after = subject
        .batches
        .batches(OTHER, None, true, Some(mine.id), 50);
    assert_eq!(
        after.await.expect("the store answers"),
        [],
        "nothing after their own"
    );
    let texts = subject.items(&mine).await;
    let texts = texts.iter().filter_map(|item| item.text.as_ref());
    assert_eq!(
        texts
            .map(|text| text.clean_text.as_str())
            .collect::<Vec<_>>(),
        ["x"]
    );
}

/// An item that names another tenant's entry neither reads nor writes it.
pub async fn an_item_does_not_reach_another_tenants_entry(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let before = subject.row(entry_id).await;
    let target = Target::Pinned(Schema::Pkm);
    let theirs: Batch = subject.add_at(OTHER, target, new(1, vec![of_entry])).await;
    let scan = ItemScan {
        status: None,
        after: None,
        with_text: true,
        limit: 50,
    };
    let items = subject
        .batches
        .batch_items(OTHER, Schema::Pkm, theirs.id, scan)
        .await;
    let items = items.expect("the store answers");
    assert_eq!(items[0].text, None);

    let changes = vec![completing(&items[0], "theirs")];
    let settled = subject
        .batches
        .settle_items(OTHER, Schema::Pkm, theirs.id, changes)
        .await;

    let settled = settled.expect("the store answers");
    assert_eq!(settled, [Some(ItemStatus::Stale)]);
    assert_eq!(subject.row(entry_id).await, before);
    assert_eq!(gist(&before), None);
}

/// An item of one home does not reach the entry with the same number in the other.
pub async fn an_item_does_not_reach_the_other_schemas_entry(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let before = subject.row(entry_id).await;
    let target = Target::Pinned(Schema::PkmTest);
    let batch = subject.add_at(TENANT, target, new(1, vec![of_entry])).await;
    let item = subject.first(&batch).await;
    assert_eq!(item.text, None);

    let settled = subject
        .settle(&batch, vec![completing(&item, "a gist")])
        .await;

    assert_eq!(settled, [Some(ItemStatus::Stale)]);
    assert_eq!(subject.row(entry_id).await, before);
}
