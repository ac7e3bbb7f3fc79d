//! Changing entries that are there, by their number or their id, and the states that are replaced.

use std::time::Duration;

use hapax_core::entry::{Action, Column, Done, Row, Search, Target};
use serde_json::{Value, json};
use uuid::Uuid;

use super::subject::{
    EntrySubject, TENANT, bare, change, kept, link, refused, thought, thread, with, write_again,
};

/// A change goes over the row; what it does not say stays.
pub async fn a_change_goes_over_the_row(subject: &EntrySubject) {
    let one = subject
        .insert(with(thought(1, "one"), json!({"author": "me"})))
        .await
        .row;
    subject.advance(Duration::from_secs(60));
    let said = json!({"entry_id": one.entry_id, "title": "new", "retrieval_excerpt": "n…", "low_signal": true});

    let two = subject.update(said).await;

    assert_eq!((two.action, two.matched_on), (Action::Updated, None));
    let row = subject.stored(one.entry_id).await;
    assert_eq!(row, two.row);
    assert_eq!(row.fields.text(Column::Title), Some("new"));
    assert_eq!(row.fields.text(Column::CleanText), Some("one"));
    assert_eq!(row.fields.text(Column::Author), Some("me"));
    assert_eq!(*row.fields.get(Column::LowSignal), json!(true));
    assert_eq!((row.revision, row.created_at), (2, one.created_at));
    assert!(row.updated_at > one.updated_at);
    assert_eq!(subject.revisions(one.entry_id).await, [one]);
}

/// A row is named by its number, its id, or both.
pub async fn a_row_is_named_by_its_number_or_its_id(subject: &EntrySubject) {
    let row = subject.insert(bare("tea")).await.row;
    for (nth, name) in [
        json!({"entry_id": row.entry_id}),
        json!({"entry_id": row.entry_id.to_string()}),
        json!({"id": row.id}),
        json!({"id": row.id, "entry_id": row.entry_id}),
    ]
    .into_iter()
    .enumerate()
    {
        let title = format!("title {nth}");
        let met = subject.update(with(name, json!({"title": title}))).await;
        assert_eq!(met.row.entry_id, row.entry_id);
        assert_eq!(met.row.fields.text(Column::Title), Some(title.as_str()));
    }
}

/// A row that is not there is missing, and nothing is written. A number and an id of two rows name none.
pub async fn a_row_that_is_not_there_is_missing(subject: &EntrySubject) {
    let one = subject.insert(bare("one")).await.row;
    let two = subject.insert(bare("two")).await.row;
    for name in [
        json!({"entry_id": two.entry_id + 1000}),
        json!({"entry_id": -1}),
        json!({"entry_id": i64::MAX}),
        json!({"id": Uuid::from_u128(1)}),
        json!({"entry_id": one.entry_id, "id": two.id}),
        json!({"entry_id": one.entry_id, "id": Uuid::from_u128(1)}),
        json!({"entry_id": two.entry_id + 1000, "id": one.id}),
    ] {
        let done = subject.write(vec![change(with(name.clone(), json!({"title": "x"})))]);
        assert_eq!(done.await, [Done::Missing], "{name}");
    }
    assert_eq!(subject.all().await, [two, one]);
}

/// Keys, the id, the number and the beginning of a row never change, and the answer says what was ignored.
pub async fn what_never_changes_is_ignored(subject: &EntrySubject) {
    let one = subject.insert(link("https://example.org/a")).await.row;
    let said = json!({
        "entry_id": one.entry_id, "created_at": "2001-01-01T00:00:00Z", "updated_at": "2001-01-01T00:00:00Z",
        "revision": 99, "idempotency_policy_key": "x", "idempotency_key_primary": "y",
        "idempotency_key_secondary": null, "title": "new",
    });

    let two = subject.update(said).await;

    let row = subject.stored(one.entry_id).await;
    assert_eq!(
        (row.id, row.created_at, row.revision),
        (one.id, one.created_at, 2)
    );
    for column in Column::ALL.iter().filter(|column| column.is_key()) {
        assert_eq!(row.fields.get(*column), one.fields.get(*column));
    }
    assert_eq!(row.fields.text(Column::Title), Some("new"));
    let mut ignored = two.ignored;
    ignored.sort();
    let never = [
        Column::CreatedAt,
        Column::UpdatedAt,
        Column::Revision,
        Column::IdempotencyPolicyKey,
        Column::IdempotencyKeyPrimary,
        Column::IdempotencyKeySecondary,
    ];
    assert_eq!(ignored, never);
    let again = subject.insert(link("https://example.org/a")).await;
    assert_eq!(
        again.row.entry_id, one.entry_id,
        "it is still met by its key"
    );
}

/// Several changes of one row in a batch happen in their order; each replaced state is kept.
pub async fn changes_of_one_row_in_a_batch_happen_in_order(subject: &EntrySubject) {
    let one = subject.insert(bare("one")).await.row;
    let say = |title: &str, metadata: Value| {
        change(json!({"entry_id": one.entry_id, "title": title, "metadata": metadata}))
    };
    let batch = vec![
        say("two", json!({"a": 1})),
        say("three", json!({"b": 2})),
        say("three", json!({"b": 2})),
        say("four", json!({"a": 3})),
    ];

    let done = subject.write(batch).await;

    let told: Vec<u32> = done
        .iter()
        .map(|done| kept(done.clone()).row.revision)
        .collect();
    assert_eq!(told, [2, 3, 3, 4]);
    let row = subject.stored(one.entry_id).await;
    assert_eq!(row.revision, 4);
    assert_eq!(*row.fields.get(Column::Metadata), json!({"a": 3, "b": 2}));
    let titles: Vec<String> = subject
        .revisions(one.entry_id)
        .await
        .iter()
        .map(super::subject::title)
        .collect();
    assert_eq!(titles, ["three", "two", "one"]);
}

/// A change that changes nothing keeps no state and moves nothing.
pub async fn a_change_that_changes_nothing_keeps_no_state(subject: &EntrySubject) {
    let one = subject
        .insert(with(bare("one"), json!({"metadata": {"a": [1]}})))
        .await
        .row;
    subject.advance(Duration::from_secs(60));
    for said in [
        json!({}),
        json!({"title": "one"}),
        json!({"author": null}),
        json!({"metadata": null}),
        json!({"metadata": {"a": [1]}}),
        json!({"revision": 7}),
    ] {
        let told = subject
            .update(with(said, json!({"entry_id": one.entry_id})))
            .await;
        assert_eq!((told.action, told.row), (Action::Updated, one.clone()));
    }
    assert_eq!(subject.stored(one.entry_id).await, one);
    assert!(subject.revisions(one.entry_id).await.is_empty());
}

/// An entry of the same batch is met by its key and changed by a later item, and the answer of each is its own.
pub async fn inserts_and_changes_share_a_batch(subject: &EntrySubject) {
    let there = subject.insert(thread("tea")).await.row;
    let batch = vec![
        super::subject::draft(with(thread("tea"), json!({"title": "by key"}))),
        change(json!({"entry_id": there.entry_id, "author": "by number"})),
        change(json!({"id": there.id, "gist": "by id"})),
    ];

    let done = subject.write(batch).await;

    let [one, _, three] = [0, 1, 2].map(|nth: usize| kept(done[nth].clone()));
    assert_eq!((one.row.revision, three.row.revision), (2, 4));
    let row = subject.stored(there.entry_id).await;
    assert_eq!(row, three.row);
    assert_eq!(row.fields.text(Column::Title), Some("by key"));
    assert_eq!(row.fields.text(Column::Author), Some("by number"));
    assert_eq!(row.fields.text(Column::Gist), Some("by id"));
    let kept = subject.revisions(there.entry_id).await;
    assert_eq!(kept.len(), 3);
    assert_eq!(kept[2], there);
}

/// Metadata that would grow too large is refused, and the row stays as it was.
pub async fn metadata_that_grows_too_large_is_refused(subject: &EntrySubject) {
    let half = "x".repeat(600 * 1024);
    let one = subject
        .insert(with(thread("tea"), json!({"metadata": {"a": half}})))
        .await
        .row;
    let more = json!({"metadata": {"b": half}});
    let by_key = super::subject::draft(with(thread("tea"), more.clone()));
    let by_number = change(with(more, json!({"entry_id": one.entry_id})));

    for done in subject.write(vec![by_key, by_number]).await {
        assert_eq!(refused(done).code, "payload_too_large");
    }
    assert_eq!(subject.stored(one.entry_id).await, one);
}

/// Replaced states are listed newest first, page after page, each whole and as it was.
pub async fn replaced_states_page_newest_first(subject: &EntrySubject) {
    let entry = subject
        .insert(with(bare("0"), json!({"metadata": {"n": [0.1, null]}})))
        .await
        .row;
    let mut states = vec![entry.clone()];
    for nth in 1..=10 {
        subject.advance(Duration::from_secs(1));
        let said = json!({"entry_id": entry.entry_id, "title": nth.to_string(), "link_ratio": 0.1 * f64::from(nth)});
        states.push(subject.update(said).await.row);
    }
    states.pop();
    states.reverse();
    let page = async |before: Option<u32>, limit: usize| -> Vec<Row> {
        let page = subject
            .catalog
            .entry_revisions(TENANT, Target::Active, entry.entry_id, before, limit)
            .await;
        page.expect("the store answers")
    };
    assert_eq!(page(None, 100).await, states);
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = page(before, 3).await;
        let Some(last) = page.last() else { break };
        before = Some(last.revision);
        seen.extend(page);
    }
    assert_eq!(seen, states);
    assert!(page(None, 0).await.is_empty());
    assert_eq!(page(None, usize::MAX).await.len(), 10);
    assert!(page(Some(1), 9).await.is_empty());
    assert!(subject.revisions(entry.entry_id + 1).await.is_empty());
}

/// However many states there are, one answer is bounded.
pub async fn a_page_of_states_is_bounded(subject: &EntrySubject) {
    let row = subject.insert(bare("0")).await.row;
    let changes = (0..=Search::LIMIT_MAX)
        .map(|nth| change(json!({"entry_id": row.entry_id, "title": format!("t{nth}")})));
    subject.write(changes.collect()).await;
    assert_eq!(
        subject.revisions(row.entry_id).await.len(),
        Search::LIMIT_MAX
    );
}

/// A thousand changes at once of one row lose nothing of its metadata, and keep every state.
pub async fn a_thousand_changes_at_once_lose_nothing(subject: &EntrySubject) {
    let row = subject.insert(bare("tea")).await.row;
    let writes = (0..1000).map(|nth| {
        let catalog = subject.catalog.clone();
        let said = json!({"entry_id": row.entry_id, "metadata": {"seen": {nth.to_string(): nth}}});
        tokio::spawn(async move { write_again(&*catalog, vec![change(said)]).await })
    });
    for write in writes.collect::<Vec<_>>() {
        kept(write.await.expect("no panic").remove(0));
    }
    let row = subject.stored(row.entry_id).await;
    assert_eq!(row.revision, 1001);
    let seen = &row.fields.get(Column::Metadata)["seen"];
    assert_eq!(seen.as_object().map(serde_json::Map::len), Some(1000));
    for nth in 0..1000 {
        assert_eq!(seen[nth.to_string()], json!(nth));
    }
}

/// An entry that nobody inserted is not there.
pub async fn what_nobody_inserted_is_not_there(subject: &EntrySubject) {
    for number in [0, -1, 1, i64::MIN, i64::MAX] {
        let row = subject.stored_at(TENANT, Target::Active, number).await;
        assert_eq!(row, None, "{number}");
    }
    assert!(subject.all().await.is_empty());
}
