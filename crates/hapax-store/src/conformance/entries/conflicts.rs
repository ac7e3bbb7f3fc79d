//! Conflicts: what an entry does whose key is there. The primary key decides, and no key ever moves to another row.

use std::time::Duration;

use hapax_core::entry::{
    Action, Column, Done, Incoming, KeyConflict, PolicyChange, SecondaryMatch, Which,
};
use serde_json::{Value, json};

use super::subject::{
    EntrySubject, actions, draft, kept, link, newsletter, thought, thread, with, write_again,
};

fn conflict(key: &str, entry_id: i64) -> KeyConflict {
    KeyConflict {
        which: Which::Secondary,
        key: key.to_owned(),
        entry_id,
    }
}

/// Under a policy that skips, the row that is there stays as it is and is answered.
pub async fn a_skip_leaves_the_row_as_it_is(subject: &EntrySubject) {
    let one = subject.insert(link("https://example.org/a")).await;
    subject.advance(Duration::from_secs(60));
    let other = json!({"title": "another", "clean_text": "new", "metadata": {"a": 1}});

    let two = subject
        .insert(with(link("https://example.org/a"), other))
        .await;

    assert_eq!(
        (two.action, two.matched_on),
        (Action::Skipped, Some(Which::Primary))
    );
    assert_eq!(two.row, one.row);
    assert_eq!(subject.stored(one.row.entry_id).await, one.row);
    assert!(subject.revisions(one.row.entry_id).await.is_empty());
}

/// Under a policy that updates, what comes in goes over the row; what is not said stays, and the old state is kept.
pub async fn an_update_goes_over_the_row(subject: &EntrySubject) {
    let first = with(thought(1, "one"), json!({"author": "me", "link_count": 3}));
    let one = subject.insert(first).await.row;
    subject.advance(Duration::from_secs(60));

    let two = subject
        .insert(with(thought(1, "two"), json!({"gist": "short"})))
        .await;

    assert_eq!(
        (two.action, two.matched_on),
        (Action::Updated, Some(Which::Primary))
    );
    let row = subject.stored(one.entry_id).await;
    assert_eq!(row, two.row);
    for (column, value) in [
        (Column::Title, json!("two")),
        (Column::CleanText, json!("two")),
        (Column::Author, json!("me")),
        (Column::LinkCount, json!(3)),
        (Column::Gist, json!("short")),
    ] {
        assert_eq!(*row.fields.get(column), value, "{}", column.as_str());
    }
    assert_eq!(
        (row.id, row.created_at, row.revision),
        (one.id, one.created_at, 2)
    );
    assert!(row.updated_at > one.updated_at);
    assert_eq!(subject.revisions(one.entry_id).await, [one]);
}

/// A null in an entry that comes in says nothing; in a change it empties its column, but for the metadata.
pub async fn a_null_says_nothing_in_an_insert_and_empties_in_a_change(subject: &EntrySubject) {
    let first = with(thread("tea"), json!({"author": "me", "metadata": {"a": 1}}));
    let one = subject.insert(first).await.row;

    let nulls = json!({"author": null, "title": null, "metadata": null});
    subject.insert(with(thread("tea"), nulls.clone())).await;
    assert_eq!(subject.stored(one.entry_id).await, one);

    subject
        .update(with(nulls, json!({"entry_id": one.entry_id})))
        .await;
    let row = subject.stored(one.entry_id).await;
    assert_eq!(*row.fields.get(Column::Author), Value::Null);
    assert_eq!(*row.fields.get(Column::Title), Value::Null);
    assert_eq!(*row.fields.get(Column::Metadata), json!({"a": 1}));
}

/// An update that changes nothing keeps no state and moves nothing.
pub async fn an_update_that_changes_nothing_keeps_no_state(subject: &EntrySubject) {
    let entry = json!({"link_ratio": 1, "quality_score": 0.25, "keywords": ["a"], "flags": {"x": [1]},
                       "metadata": {"a": {"b": 1.5}}});
    let entry = with(thought(1, "one"), entry);
    let one = subject.insert(entry.clone()).await.row;
    subject.advance(Duration::from_secs(60));

    let two = subject.insert(entry).await;

    assert_eq!(two.action, Action::Updated);
    assert_eq!(two.row, one);
    assert_eq!(subject.stored(one.entry_id).await, one);
    assert!(subject.revisions(one.entry_id).await.is_empty());
}

/// Primary hits one row and secondary another: the first is met, the other is untouched and reported.
pub async fn primary_wins_and_the_row_of_the_secondary_is_reported(subject: &EntrySubject) {
    let one = subject.insert(link("https://example.org/a")).await.row;
    let two = subject.insert(link("https://example.org/b")).await.row;
    let keys =
        json!({"idempotency_key_secondary": "hash of https://example.org/b", "title": "both"});

    let met = subject
        .insert(with(link("https://example.org/a"), keys))
        .await;

    assert_eq!(
        (met.action, met.matched_on),
        (Action::Skipped, Some(Which::Primary))
    );
    assert_eq!(met.row, one);
    assert_eq!(
        met.conflict,
        Some(conflict("hash of https://example.org/b", two.entry_id))
    );
    assert_eq!(subject.all().await.len(), 2);
    assert_eq!(subject.stored(two.entry_id).await, two);
}

/// The same under a policy that updates: the row of the primary key changes, and both rows keep their own keys.
pub async fn an_update_by_primary_leaves_the_row_of_the_secondary(subject: &EntrySubject) {
    let one = subject.insert(thought(1, "one")).await.row;
    let two = subject.insert(thought(2, "two")).await.row;

    let met = subject.insert(thought(1, "two")).await;

    assert_eq!(
        (met.action, met.matched_on),
        (Action::Updated, Some(Which::Primary))
    );
    assert_eq!(met.conflict, Some(conflict("hash of two", two.entry_id)));
    let row = subject.stored(one.entry_id).await;
    assert_eq!(row.fields.text(Column::Title), Some("two"));
    let secondary = row.fields.text(Column::IdempotencyKeySecondary);
    assert_eq!(secondary, Some("hash of one"), "a key is never rewritten");
    assert_eq!(subject.stored(two.entry_id).await, two);
}

/// Rows that the same batch makes meet and are reported by their numbers as well.
pub async fn rows_of_the_same_batch_conflict_by_their_numbers(subject: &EntrySubject) {
    let both = json!({"idempotency_key_secondary": "hash of https://example.org/b"});
    let done = subject
        .write(vec![
            draft(link("https://example.org/a")),
            draft(link("https://example.org/b")),
            draft(with(link("https://example.org/a"), both)),
        ])
        .await;

    let [one, two, met] = [0, 1, 2].map(|nth: usize| kept(done[nth].clone()));
    assert_eq!(
        actions(&done),
        [Action::Inserted, Action::Inserted, Action::Skipped]
    );
    assert_eq!(met.row, one.row);
    let there = Some(conflict("hash of https://example.org/b", two.row.entry_id));
    assert_eq!(met.conflict, there);
    assert_eq!(subject.stored(two.row.entry_id).await, two.row);
}

/// Two messages with the same words are two thoughts: the second has no secondary key, and says whose it is.
pub async fn a_secondary_match_alone_does_not_merge_thoughts(subject: &EntrySubject) {
    let one = subject.insert(thought(1, "tea")).await.row;

    let two = subject.insert(thought(2, "tea")).await;

    assert_eq!((two.action, two.matched_on), (Action::Inserted, None));
    assert_eq!(two.conflict, Some(conflict("hash of tea", one.entry_id)));
    let row = subject.stored(two.row.entry_id).await;
    assert_eq!(row, two.row);
    assert_eq!(
        *row.fields.get(Column::IdempotencyKeySecondary),
        Value::Null
    );
    assert_eq!(
        row.fields.text(Column::IdempotencyKeyPrimary),
        Some("tg:1:2")
    );
    assert_eq!(subject.stored(one.entry_id).await, one);
    let again = subject.insert(thought(2, "tea")).await;
    assert_eq!(
        again.row.entry_id, row.entry_id,
        "it is met by its primary key"
    );
    assert_eq!(again.conflict, Some(conflict("hash of tea", one.entry_id)));
}

/// The same for two thoughts of one batch.
pub async fn thoughts_of_one_batch_with_the_same_words_are_two(subject: &EntrySubject) {
    let done = subject.write(vec![draft(thought(1, "tea")), draft(thought(2, "tea"))]);
    let done = done.await;
    let [one, two] = [0, 1].map(|nth: usize| kept(done[nth].clone()));
    assert_eq!(actions(&done), [Action::Inserted, Action::Inserted]);
    assert_eq!(two.row.entry_id, one.row.entry_id + 1);
    assert_eq!(
        two.conflict,
        Some(conflict("hash of tea", one.row.entry_id))
    );
}

/// A thought without a message number is met by its words.
pub async fn a_thought_without_a_primary_key_is_met_by_its_secondary(subject: &EntrySubject) {
    let one = subject.insert(thought(1, "tea")).await.row;
    let bare = with(
        thought(2, "tea"),
        json!({"idempotency_key_primary": null, "gist": "new"}),
    );

    let met = subject.insert(bare).await;

    assert_eq!(
        (met.action, met.matched_on),
        (Action::Updated, Some(Which::Secondary))
    );
    assert_eq!(met.row.entry_id, one.entry_id);
    let primary = met.row.fields.text(Column::IdempotencyKeyPrimary);
    assert_eq!(primary, Some("tg:1:1"));
}

/// A newsletter that comes under another message id is met by its secondary key.
pub async fn a_newsletter_is_skipped_by_its_secondary_key_alone(subject: &EntrySubject) {
    let one = subject
        .insert(newsletter(Some("<1@a>"), "monday"))
        .await
        .row;

    for message_id in [Some("<2@a>"), None] {
        let met = subject.insert(newsletter(message_id, "monday")).await;
        assert_eq!(
            (met.action, met.matched_on),
            (Action::Skipped, Some(Which::Secondary))
        );
        assert_eq!((met.row, met.conflict), (one.clone(), None));
    }
    assert_eq!(subject.all().await, std::slice::from_ref(&one));
    let other = subject.insert(newsletter(Some("<2@a>"), "tuesday")).await;
    assert_eq!(other.action, Action::Inserted, "its key was not taken");
}

/// Keys that the row does not have are not added to it by an update.
pub async fn an_update_adds_no_key(subject: &EntrySubject) {
    let one = subject.insert(thread("tea")).await.row;
    let more = json!({"idempotency_key_secondary": "second", "title": "new"});

    let met = subject.insert(with(thread("tea"), more)).await;

    let row = subject.stored(one.entry_id).await;
    assert_eq!(row, met.row);
    assert_eq!(
        *row.fields.get(Column::IdempotencyKeySecondary),
        Value::Null
    );
    assert_eq!(row.fields.text(Column::Title), Some("new"));
}

/// A policy that names columns updates those and no other.
pub async fn only_the_named_columns_are_updated(subject: &EntrySubject) {
    let only = PolicyChange {
        update_fields: Some(Some(vec!["author".to_owned(), "metadata".to_owned()])),
        ..PolicyChange::default()
    };
    subject.set("email_correspondence_thread_v1", only).await;
    let entry = |said: &str| {
        let more =
            json!({"title": said, "author": said, "clean_text": said, "metadata": {said: 1}});
        with(thread("tea"), more)
    };
    let one = subject.insert(entry("one")).await.row;

    let two = subject.insert(entry("two")).await.row;

    assert_eq!(subject.stored(one.entry_id).await, two);
    assert_eq!(two.fields.text(Column::Author), Some("two"));
    assert_eq!(two.fields.text(Column::Title), Some("one"));
    assert_eq!(two.fields.text(Column::CleanText), Some("one"));
    assert_eq!(
        *two.fields.get(Column::Metadata),
        json!({"one": 1, "two": 1})
    );
}

/// An empty list of columns updates nothing, and keeps no state.
pub async fn an_empty_list_of_columns_updates_nothing(subject: &EntrySubject) {
    let none = PolicyChange {
        update_fields: Some(Some(Vec::new())),
        ..PolicyChange::default()
    };
    subject.set("telegram_thought_v1", none).await;
    let one = subject.insert(thought(1, "one")).await.row;
    let two = subject.insert(thought(1, "two")).await;
    assert_eq!((two.action, two.row), (Action::Updated, one.clone()));
    assert!(subject.revisions(one.entry_id).await.is_empty());
}

/// A policy can say how far its secondary key reaches.
pub async fn the_reach_of_the_secondary_key_is_the_policys(subject: &EntrySubject) {
    let reach = |secondary_match| PolicyChange {
        secondary_match: Some(secondary_match),
        ..PolicyChange::default()
    };
    let always = reach(SecondaryMatch::Always);
    subject.set("telegram_thought_v1", always).await;
    let one = subject.insert(thought(1, "tea")).await.row;
    let two = subject.insert(thought(2, "tea")).await;
    assert_eq!(
        (two.action, two.matched_on),
        (Action::Updated, Some(Which::Secondary))
    );
    assert_eq!(two.row.entry_id, one.entry_id);

    let missing = reach(SecondaryMatch::OnlyIfPrimaryMissing);
    subject.set("telegram_thought_v1", missing).await;
    assert_eq!(
        subject.insert(thought(2, "tea")).await.action,
        Action::Inserted
    );
}

/// Metadata is merged member by member, deep; anything else in it is replaced.
pub async fn metadata_is_merged_not_overwritten(subject: &EntrySubject) {
    let say = |metadata: Value| with(thread("tea"), json!({"metadata": metadata}));
    subject
        .insert(say(
            json!({"a": {"x": 1, "deep": {"l": [1, 2]}}, "tags": [1], "n": {"k": 1}}),
        ))
        .await;

    let row = subject
        .insert(say(
            json!({"a": {"y": null, "deep": {"m": {}}}, "tags": [2], "n": 5, "ж": "🙂"}),
        ))
        .await
        .row;

    let merged = json!({"a": {"x": 1, "y": null, "deep": {"l": [1, 2], "m": {}}}, "tags": [2], "n": 5, "ж": "🙂"});
    assert_eq!(*row.fields.get(Column::Metadata), merged);
    assert_eq!(subject.stored(row.entry_id).await, row);
}

/// Two hundred equal links at once make one row; one is told that it is new, the others that they were skipped.
pub async fn two_hundred_equal_inserts_at_once_make_one_row(subject: &EntrySubject) {
    let told = at_once(subject, 200, |_| link("https://example.org/a")).await;
    let told_of = |action| told.iter().filter(|told| **told == action).count();
    assert_eq!(
        (told_of(Action::Inserted), told_of(Action::Skipped)),
        (1, 199)
    );
    let rows = subject.all().await;
    assert_eq!((rows.len(), rows[0].revision), (1, 1));
}

/// Two hundred states of one thought at once make one row, and every state but the last is kept.
pub async fn two_hundred_updates_at_once_make_one_row(subject: &EntrySubject) {
    let told = at_once(subject, 200, |nth| thought(1, &format!("thought {nth}"))).await;
    let told_of = |action| told.iter().filter(|told| **told == action).count();
    assert_eq!(
        (told_of(Action::Inserted), told_of(Action::Updated)),
        (1, 199)
    );
    let rows = subject.all().await;
    assert_eq!((rows.len(), rows[0].revision), (1, 200));
    let kept = subject.revisions(rows[0].entry_id).await;
    let numbers: Vec<u32> = kept.iter().map(|row| row.revision).collect();
    assert_eq!(numbers, (1..200).rev().collect::<Vec<u32>>());
}

/// Batches that overlap, in whatever order, make one row of each key.
pub async fn overlapping_batches_at_once_make_one_row_each(subject: &EntrySubject) {
    let writes = (0..12_usize).map(|turn| {
        let catalog = subject.catalog.clone();
        tokio::spawn(async move {
            let mut batch: Vec<Incoming> = (0..40)
                .map(|number| match number % 2 {
                    0 => draft(link(&format!("https://example.org/{number}"))),
                    _ => draft(thought(number, &format!("{number}"))),
                })
                .collect();
            batch.rotate_left(turn * 7 % 40);
            if turn % 2 == 1 {
                batch.reverse();
            }
            write_again(&*catalog, batch).await
        })
    });
    let mut inserted = 0;
    for write in writes.collect::<Vec<_>>() {
        let done = write.await.expect("no panic");
        let is_new = |action: &Action| *action == Action::Inserted;
        inserted += actions(&done).into_iter().filter(is_new).count();
    }
    assert_eq!(inserted, 40);
    let mut numbers: Vec<i64> = subject.all().await.iter().map(|row| row.entry_id).collect();
    numbers.sort_unstable();
    let last = numbers[0] + 39;
    assert_eq!(
        numbers,
        (numbers[0]..=last).collect::<Vec<_>>(),
        "no number is lost"
    );
}

/// A thousand merges at once through conflicts lose nothing.
pub async fn a_thousand_merges_at_once_lose_nothing(subject: &EntrySubject) {
    let entry = |nth: usize| {
        let metadata = json!({"seen": {(nth % 10).to_string(): {nth.to_string(): nth}}});
        with(thread("tea"), json!({"metadata": metadata}))
    };
    let told = at_once(subject, 1000, entry).await;
    let inserted = told.iter().filter(|told| **told == Action::Inserted);
    assert_eq!(inserted.count(), 1);
    let rows = subject.all().await;
    assert_eq!((rows.len(), rows[0].revision), (1, 1000));
    let metadata = rows[0].fields.get(Column::Metadata);
    for nth in 0..1000 {
        let (group, name) = ((nth % 10).to_string(), nth.to_string());
        assert_eq!(metadata["seen"][group][name], json!(nth));
    }
}

/// Inserts many entries, each by a task of its own. Returns what each was told.
async fn at_once(
    subject: &EntrySubject,
    count: usize,
    entry: impl Fn(usize) -> Value,
) -> Vec<Action> {
    let writes: Vec<_> = (0..count)
        .map(|nth| {
            let (catalog, entry) = (subject.catalog.clone(), draft(entry(nth)));
            tokio::spawn(async move { write_again(&*catalog, vec![entry]).await })
        })
        .collect();
    let mut told = Vec::with_capacity(count);
    for write in writes {
        let done: Vec<Done> = write.await.expect("no panic");
        told.extend(actions(&done));
    }
    told
}
