//! Reading items: in their order, by how far they are, and with the text as it is now.

use hapax_core::Fingerprint;
use hapax_core::entry::{Fields, ItemScan, ItemStatus, ItemText, NewItem, Schema};
use uuid::Uuid;

use super::subject::{T1Subject, TENANT, becoming, new, own};

fn scan(limit: usize) -> ItemScan {
    ItemScan {
        status: None,
        after: None,
        with_text: false,
        limit,
    }
}

/// Items come in the order of the batch, page by page.
pub async fn items_page_in_their_order(subject: &T1Subject) {
    let texts: Vec<String> = (0..7).map(|number| format!("text {number}")).collect();
    let batch = subject
        .add(1, texts.iter().map(|text| own(text)).collect())
        .await;
    let mut seen: Vec<String> = Vec::new();
    let mut after = None;
    for expected in [3, 3, 1, 0] {
        let page = ItemScan {
            after,
            with_text: true,
            ..scan(3)
        };
        let page = subject.page(&batch, page).await;
        assert_eq!(page.len(), expected);
        after = page.last().map(|item| item.item_id).or(after);
        seen.extend(
            page.into_iter()
                .filter_map(|item| Some(item.text?.clean_text)),
        );
    }
    assert_eq!(seen, texts);
    assert!(subject.page(&batch, scan(0)).await.is_empty());
}

/// No page is larger than the largest.
pub async fn a_page_of_items_is_bounded(subject: &T1Subject) {
    let batch = subject
        .add(1, vec![own("x"); ItemScan::LIMIT_MAX + 1])
        .await;
    let page = subject.page(&batch, scan(usize::MAX)).await;
    assert_eq!(page.len(), ItemScan::LIMIT_MAX);
    let rest = ItemScan {
        after: page.last().map(|item| item.item_id),
        ..scan(usize::MAX)
    };
    assert_eq!(subject.page(&batch, rest).await.len(), 1);
}

/// Items that are this far, and no others.
pub async fn items_are_found_by_how_far_they_are(subject: &T1Subject) {
    let batch = subject.add(1, vec![own("x"); 6]).await;
    let items = subject.items(&batch).await;
    let to = [ItemStatus::Answered, ItemStatus::Failed];
    let changes = items[..4]
        .iter()
        .zip(to.into_iter().cycle())
        .map(|(item, to)| becoming(item, ItemStatus::Queued, to));
    subject.settle(&batch, changes.collect()).await;

    for (status, places) in [
        (ItemStatus::Answered, &[0, 2][..]),
        (ItemStatus::Failed, &[1, 3]),
        (ItemStatus::Queued, &[4, 5]),
        (ItemStatus::Completed, &[]),
    ] {
        let found = ItemScan {
            status: Some(status),
            ..scan(50)
        };
        let found = subject.page(&batch, found).await;
        let expected: Vec<i64> = places.iter().map(|place| items[*place].item_id).collect();
        let numbers: Vec<i64> = found.iter().map(|item| item.item_id).collect();
        assert_eq!(numbers, expected, "{status:?}");
        assert!(found.iter().all(|item| item.status == status));
    }
    let second = ItemScan {
        status: Some(ItemStatus::Answered),
        after: Some(items[0].item_id),
        ..scan(50)
    };
    assert_eq!(subject.page(&batch, second).await.len(), 1);
}

/// Texts come along if they are asked for.
pub async fn texts_come_along_if_asked_for(subject: &T1Subject) {
    let (_, of_entry) = subject.entry("tea").await;
    let batch = subject.add(1, vec![own("x"), of_entry]).await;
    let bare = subject.page(&batch, scan(50)).await;
    assert!(bare.iter().all(|item| item.text.is_none()));
    let texts = subject.items(&batch).await;
    assert!(texts.iter().all(|item| item.text.is_some()));
}

/// What is asked about an entry is what it says now; the fingerprint is of what it said.
pub async fn the_text_of_an_entrys_item_is_the_entrys_as_it_is_now(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let NewItem::OfEntry { hash: before, .. } = of_entry else {
        panic!("it is of an entry");
    };
    let batch = subject.add(1, vec![of_entry]).await;
    subject.say(entry_id, "coffee").await;

    let item = subject.first(&batch).await;

    let row = subject.row(entry_id).await;
    assert_eq!(item.text, Some(ItemText::of(&row.fields)));
    assert_eq!(
        item.text.as_ref().map(|text| text.clean_text.as_str()),
        Some("coffee")
    );
    assert_eq!(item.hash, before);
    assert_ne!(item.text.and_then(|text| text.fingerprint()), Some(before));
}

/// An entry that is not there has no text.
pub async fn the_text_of_an_entry_that_is_not_there_is_none(subject: &T1Subject) {
    let gone = NewItem::OfEntry {
        entry_id: 77,
        hash: Fingerprint::of(b"it was here"),
    };
    let batch = subject.add(1, vec![gone, own("x")]).await;

    let items = subject.items(&batch).await;

    assert_eq!(items[0].text, None);
    assert!(items[1].text.is_some());
    assert_eq!(items[0].entry_id, Some(77));
}

/// A page with texts ends after the item that makes it large, so that no answer is.
pub async fn a_page_with_long_texts_ends_early(subject: &T1Subject) {
    let long = "long ".repeat(600_000);
    let (_, of_entry) = subject.entry(&long).await;
    let texts = vec![own(&long), of_entry, own(&long), own(&long), own("short")];
    let batch = subject.add(1, texts).await;
    let with_text = ItemScan {
        with_text: true,
        ..scan(50)
    };

    let first = subject.page(&batch, with_text.clone()).await;
    let rest = ItemScan {
        after: first.last().map(|item| item.item_id),
        ..with_text
    };
    let rest = subject.page(&batch, rest).await;

    assert_eq!((first.len(), rest.len()), (3, 2));
    let whole = |item: &hapax_core::entry::Item| {
        item.text
            .as_ref()
            .is_some_and(|text| text.clean_text == long)
    };
    assert!(first.iter().all(whole) && whole(&rest[0]));
    assert_eq!(
        subject.page(&batch, scan(50)).await.len(),
        5,
        "without texts"
    );
}

/// One item is given however long it is.
pub async fn an_item_of_any_length_is_given_alone(subject: &T1Subject) {
    let huge = "x".repeat(ItemScan::TEXT_BYTES + 1);
    let batch = subject.add(1, vec![own(&huge), own("short")]).await;
    let page = ItemScan {
        with_text: true,
        ..scan(50)
    };
    let page = subject.page(&batch, page).await;
    assert_eq!(page.len(), 1);
    assert_eq!(
        page[0].text.as_ref().map(|text| text.clean_text.len()),
        Some(huge.len())
    );
}

/// A batch tells how many of its items are how far.
pub async fn a_batch_counts_its_items(subject: &T1Subject) {
    let batch = subject.add(1, vec![own("x"); 5]).await;
    let other = subject.add(2, vec![own("x"); 3]).await;
    let items = subject.items(&batch).await;
    let to = [ItemStatus::Answered, ItemStatus::Failed, ItemStatus::Failed];
    let changes = items
        .iter()
        .zip(to)
        .map(|(item, to)| becoming(item, ItemStatus::Queued, to));
    subject.settle(&batch, changes.collect()).await;

    let counted = subject.stored(batch.id).await;

    let expected = [
        (ItemStatus::Queued, 2),
        (ItemStatus::Answered, 1),
        (ItemStatus::Failed, 2),
    ];
    assert_eq!(counted.items, expected.into_iter().collect());
    assert_eq!((counted.request_count, counted.version), (5, batch.version));
    let listed = subject.batches.batches(TENANT, None, true, None, 50).await;
    let listed = listed.expect("the store answers");
    assert!(listed.contains(&counted) && listed.contains(&other));
}

/// A batch that is not there has no items.
pub async fn a_batch_that_is_not_there_has_no_items(subject: &T1Subject) {
    let batch = subject.add(1, vec![own("x")]).await;
    let store = &subject.batches;
    let elsewhere = store.batch_items(TENANT, Schema::PkmTest, batch.id, scan(50));
    assert_eq!(elsewhere.await.expect("the store answers"), []);
    let unknown = store.batch_items(TENANT, Schema::Pkm, Uuid::from_u128(9), scan(50));
    assert_eq!(unknown.await.expect("the store answers"), []);
}

/// The same entry in both homes is two entries; an item reads that of its own.
pub async fn an_item_reads_the_entry_of_its_own_schema(subject: &T1Subject) {
    let mut ids = Vec::new();
    for (number, schema, text) in [(1, Schema::Pkm, "real"), (2, Schema::PkmTest, "tried")] {
        let target = hapax_core::entry::Target::Pinned(schema);
        let (entry_id, item) = subject.entry_at(TENANT, target, text).await;
        let batch = subject
            .add_at(TENANT, target, new(number, vec![item]))
            .await;
        let item = subject.first(&batch).await;
        assert_eq!(item.text.map(|text| text.clean_text).as_deref(), Some(text));
        ids.push(entry_id);
    }
    assert_eq!(ids[0], ids[1], "they have the same number");
    let fields: Fields = subject.row(ids[0]).await.fields;
    assert_eq!(ItemText::of(&fields).clean_text, "real");
}
