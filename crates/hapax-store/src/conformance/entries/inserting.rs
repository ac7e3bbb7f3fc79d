//! Inserting: what is new gets a number, what is there is met by its keys, and what has no keys is new every time.

use std::collections::BTreeSet;
use std::time::Duration;

use hapax_core::entry::{Action, Column, Done, Incoming, Refused, Target};
use hapax_core::{Kind, Time};
use serde_json::json;
use uuid::Uuid;

use super::subject::{
    EntrySubject, TENANT, actions, bare, change, draft, kept, link, newsletter, read, refused,
    thought, thread, with,
};

/// A new entry is inserted, and everything of it comes back.
pub async fn a_new_entry_is_inserted_and_stored_whole(subject: &EntrySubject) {
    let entry = link("https://example.org/tea");
    let answer = subject.insert(entry.clone()).await;

    assert_eq!(answer.action, Action::Inserted);
    assert_eq!((answer.matched_on, answer.conflict), (None, None));
    let row = subject.stored(answer.row.entry_id).await;
    assert_eq!(row, answer.row);
    assert_eq!(row.revision, 1);
    assert_eq!(row.created_at, row.updated_at);
    assert_eq!(serde_json::Value::Object(row.fields.into_json()), entry);
}

/// A batch of new entries reports each as inserted, in order, with numbers that rise without a gap.
pub async fn a_fresh_batch_reports_every_item_as_inserted(subject: &EntrySubject) {
    let batch: Vec<Incoming> = (0..50)
        .map(|number| draft(link(&format!("https://example.org/{number}"))))
        .collect();

    let done = subject.write(batch).await;

    let rows: Vec<_> = done.into_iter().map(kept).collect();
    assert!(rows.iter().all(|kept| kept.action == Action::Inserted));
    let first = rows[0].row.entry_id;
    for (nth, (number, kept)) in (0..).zip(&rows).enumerate() {
        assert_eq!(kept.row.entry_id, first + number);
        let url = kept.row.fields.text(Column::Url);
        assert_eq!(url, Some(format!("https://example.org/{nth}").as_str()));
    }
    assert_eq!(subject.all().await.len(), 50);
}

/// Two equal items of one batch meet like two requests: one is inserted, the second is skipped.
pub async fn two_equal_items_of_a_batch_that_skips_make_one_row(subject: &EntrySubject) {
    let entry = link("https://example.org/tea");
    let again = with(entry.clone(), json!({"title": "another"}));

    let done = subject.write(vec![draft(entry), draft(again)]).await;

    assert_eq!(actions(&done), [Action::Inserted, Action::Skipped]);
    let [one, two] = [0, 1].map(|nth: usize| kept(done[nth].clone()));
    assert_eq!(two.row, one.row, "the row that is there is answered");
    assert_eq!(subject.all().await, [one.row]);
}

/// Two equal items of one batch under a policy that updates: the second goes over the first.
pub async fn two_equal_items_of_a_batch_that_updates_make_one_row(subject: &EntrySubject) {
    let batch = vec![draft(thought(1, "one")), draft(thought(1, "two"))];

    let done = subject.write(batch).await;

    assert_eq!(actions(&done), [Action::Inserted, Action::Updated]);
    let [one, two] = [0, 1].map(|nth: usize| kept(done[nth].clone()).row);
    assert_eq!((one.revision, two.revision), (1, 2));
    assert_eq!(one.entry_id, two.entry_id);
    assert_eq!(subject.all().await, std::slice::from_ref(&two));
    assert_eq!(subject.revisions(two.entry_id).await, [one]);
}

/// Entries without keys are all new.
pub async fn entries_without_keys_are_new_every_time(subject: &EntrySubject) {
    let one = subject.insert(bare("tea")).await;
    let two = subject.insert(bare("tea")).await;

    assert_eq!(
        (one.action, two.action),
        (Action::Inserted, Action::Inserted)
    );
    assert_eq!(two.row.entry_id, one.row.entry_id + 1);
    assert_ne!(two.row.id, one.row.id);
}

/// A draft says when it was made, and a row that is new takes it. A row that is there keeps its own.
pub async fn the_time_of_a_draft_is_taken_by_a_new_row_only(subject: &EntrySubject) {
    let at = |ms: i64, text: &str| {
        let mut draft = read(&thought(1, text)).expect("it is an entry");
        draft.created_at = Some(Time::from_ms(ms));
        Incoming::Insert(draft)
    };
    let one = kept(subject.write(vec![at(1_000_000, "one")]).await.remove(0));
    assert_eq!(one.row.created_at, Time::from_ms(1_000_000));
    assert!(one.row.updated_at > one.row.created_at);

    let two = kept(subject.write(vec![at(2_000_000, "two")]).await.remove(0));

    assert_eq!(two.action, Action::Updated);
    let row = subject.stored(two.row.entry_id).await;
    assert_eq!(row.created_at, Time::from_ms(1_000_000));
    assert_eq!(row, two.row);
}

/// What the store gives cannot be sent; the answer says what was ignored.
pub async fn what_the_store_gives_cannot_be_sent(subject: &EntrySubject) {
    let id = Uuid::from_u128(7);
    let sent =
        json!({"entry_id": 999, "id": id, "revision": 9, "updated_at": "2001-01-01T00:00:00Z"});

    let answer = subject.insert(with(bare("tea"), sent)).await;

    let row = subject.stored(answer.row.entry_id).await;
    assert_ne!(row.id, id);
    assert!(row.entry_id < 999 && row.revision == 1);
    let mut ignored = answer.ignored;
    ignored.sort();
    let given = [
        Column::EntryId,
        Column::Id,
        Column::UpdatedAt,
        Column::Revision,
    ];
    assert_eq!(ignored, given);
}

/// Telegram, e-mail and backlogs of e-mail are refused without their keys, however the source is spelled.
pub async fn sources_with_keys_are_refused_without_them(subject: &EntrySubject) {
    for source in ["telegram", "email", "email-batch", "Telegram", " EMAIL "] {
        let no_keys = json!({"source": source, "title": "tea"});
        let no_policy = with(no_keys.clone(), json!({"idempotency_key_primary": "a"}));
        let policy = json!({"idempotency_policy_key": "telegram_link_v1"});
        let only_policy = with(no_keys.clone(), policy.clone());
        let empty = json!({"idempotency_key_primary": " ", "idempotency_key_secondary": ""});
        let empty = with(only_policy.clone(), empty);
        for entry in [no_keys, no_policy, only_policy, empty] {
            let code = subject.refused(entry).await;
            assert_eq!(code, "idempotency_fields_required", "{source}");
        }
    }
    assert!(subject.all().await.is_empty());
}

/// Half of the keys is refused of any source.
pub async fn half_of_the_keys_is_refused_of_any_source(subject: &EntrySubject) {
    for half in [
        json!({"idempotency_policy_key": "telegram_link_v1"}),
        json!({"idempotency_key_primary": "a"}),
        json!({"idempotency_key_secondary": "a"}),
    ] {
        let code = subject.refused(with(bare("tea"), half)).await;
        assert_eq!(code, "idempotency_fields_required");
    }
}

/// A secondary key is enough, if there is no primary one.
pub async fn a_secondary_key_alone_is_enough(subject: &EntrySubject) {
    let one = subject.insert(newsletter(None, "monday")).await;
    let two = subject.insert(newsletter(None, "monday")).await;

    assert_eq!(
        (one.action, two.action),
        (Action::Inserted, Action::Skipped)
    );
    assert_eq!(two.row, one.row);
}

/// Keys are trimmed before they meet, and stored so.
pub async fn keys_meet_trimmed(subject: &EntrySubject) {
    let one = subject.insert(thread("tea")).await;
    let padded = with(thread("x"), json!({"idempotency_key_primary": " tea \n"}));

    let two = subject.insert(padded).await;

    assert_eq!(two.action, Action::Updated);
    assert_eq!(two.row.entry_id, one.row.entry_id);
    assert_eq!(
        two.row.fields.text(Column::IdempotencyKeyPrimary),
        Some("tea")
    );
}

/// The same key under another policy is another entry.
pub async fn a_key_belongs_to_its_policy(subject: &EntrySubject) {
    let of = |policy: &str| {
        let keys = json!({"idempotency_policy_key": policy, "idempotency_key_primary": "same",
                          "idempotency_key_secondary": "same"});
        with(bare(policy), keys)
    };
    for policy in [
        "telegram_link_v1",
        "telegram_thought_v1",
        "email_newsletter_v1",
    ] {
        assert_eq!(subject.insert(of(policy)).await.action, Action::Inserted);
    }
    assert_eq!(subject.all().await.len(), 3);
}

/// The primary key of one entry and the secondary of another are not the same key.
pub async fn primary_and_secondary_keys_do_not_mix(subject: &EntrySubject) {
    subject.insert(newsletter(Some("same"), "monday")).await;
    let other = subject.insert(newsletter(Some("other"), "same")).await;
    assert_eq!(other.action, Action::Inserted);
}

/// Keys that differ in case, or in one character at the end of a long text, are different.
pub async fn keys_are_compared_byte_for_byte(subject: &EntrySubject) {
    let long = "k".repeat(1000);
    for key in [
        "tea",
        "Tea",
        "té",
        "te\u{301}",
        &long,
        &format!("{long}x"),
        "a_",
        "a%",
        "a\\",
    ] {
        let entry = subject.insert(thread(key)).await;
        assert_eq!(entry.action, Action::Inserted, "{key}");
    }
    for key in ["tea", "Tea", "té", "te\u{301}", &long, "a_", "a%", "a\\"] {
        let entry = subject.insert(thread(key)).await;
        assert_eq!(entry.action, Action::Skipped, "{key}");
        assert_eq!(entry.row.fields.text(Column::Title), Some(key));
    }
}

/// Keys longer than an index takes meet by their hash.
pub async fn keys_of_any_length_meet(subject: &EntrySubject) {
    let long = format!("https://example.org{}", "/".repeat(4000));
    let huge = "x".repeat(1 << 20);
    for url in [&long, &huge] {
        let one = subject.insert(link(url)).await;
        assert_eq!(one.action, Action::Inserted);
        let two = subject.insert(link(url)).await;
        assert_eq!((two.action, &two.row), (Action::Skipped, &one.row));
        let other = subject.insert(link(&format!("{url}a"))).await;
        assert_eq!(other.action, Action::Inserted);
        let stored = subject.stored(one.row.entry_id).await;
        assert_eq!(stored.fields.text(Column::Url), Some(url.as_str()));
        let key = stored.fields.text(Column::IdempotencyKeyPrimary);
        assert!(key.is_some_and(|key| key.starts_with("sha256:")), "{key:?}");
    }
}

/// The longest key that is kept as it is fits, of several bytes a character too.
pub async fn the_longest_keys_fit(subject: &EntrySubject) {
    let long = "ж".repeat(512);
    let entry = with(newsletter(Some(&long), &long), json!({"title": "tea"}));
    let one = subject.insert(entry.clone()).await;
    assert_eq!(
        one.row.fields.text(Column::IdempotencyKeyPrimary),
        Some(long.as_str())
    );
    assert_eq!(subject.insert(entry).await.action, Action::Skipped);
}

/// Items are answered in their order, each on its own: what is refused keeps its place and nothing else.
pub async fn items_are_answered_in_order_each_on_its_own(subject: &EntrySubject) {
    let there = subject.insert(link("https://example.org/a")).await;
    let before = Refused::new("bad_json", "not an entry");
    let batch = vec![
        draft(link("https://example.org/b")),
        Incoming::Refused(before.clone()),
        draft(json!({"source": "email", "title": "no keys"})),
        draft(link("https://example.org/a")),
        change(json!({"entry_id": 987_654_321, "title": "x"})),
        draft(json!({"title": "no source"})),
        draft(thought(5, "tea")),
    ];

    let done = subject.write(batch).await;

    assert_eq!(kept(done[0].clone()).action, Action::Inserted);
    assert_eq!(done[1], Done::Refused(before));
    assert_eq!(refused(done[2].clone()).code, "idempotency_fields_required");
    let skipped = kept(done[3].clone());
    assert_eq!((skipped.action, skipped.row), (Action::Skipped, there.row));
    assert_eq!(done[4], Done::Missing);
    assert_eq!(refused(done[5].clone()).code, "schema_validation_failed");
    assert_eq!(kept(done[6].clone()).action, Action::Inserted);
    assert_eq!(subject.all().await.len(), 3);
}

/// With all or nothing, one fault leaves nothing of the batch; the answers still say what each would have been.
pub async fn all_or_nothing_keeps_nothing_of_a_batch_with_a_fault(subject: &EntrySubject) {
    let there = subject.insert(thought(1, "one")).await;
    let faults = [
        draft(json!({"source": "telegram"})),
        draft(json!({"title": "no source"})),
        change(json!({"entry_id": 987_654_321, "title": "x"})),
    ];
    for (nth, fault) in faults.into_iter().enumerate() {
        let batch = vec![
            draft(thought(1, "two")),
            draft(bare("new")),
            change(json!({"entry_id": there.row.entry_id, "title": "three"})),
            fault,
        ];

        let written = subject.write_to(TENANT, Target::Active, batch, true).await;

        assert!(!written.kept, "fault {nth}");
        assert!(!matches!(written.done[3], Done::Kept(_)), "fault {nth}");
        assert_eq!(subject.all().await, std::slice::from_ref(&there.row));
        assert!(subject.revisions(there.row.entry_id).await.is_empty());
    }
}

/// With all or nothing, a batch without a fault is kept whole.
pub async fn all_or_nothing_keeps_a_batch_without_a_fault(subject: &EntrySubject) {
    let batch = vec![
        draft(bare("a")),
        draft(thought(1, "b")),
        draft(link("https://example.org/c")),
        draft(link("https://example.org/c")),
    ];

    let written = subject.write_to(TENANT, Target::Active, batch, true).await;

    assert!(written.kept, "a skipped entry is no fault");
    assert_eq!(subject.all().await.len(), 3);
}

/// Neither a conflict nor a refused batch uses a number up.
pub async fn only_an_inserted_row_uses_a_number(subject: &EntrySubject) {
    let first = subject.insert(thought(1, "one")).await.row.entry_id;
    for turn in 0..5 {
        subject.insert(thought(1, &format!("turn {turn}"))).await;
        subject.insert(link("https://example.org/a")).await;
        subject.refused(json!({"source": "email"})).await;
        let batch = vec![draft(bare("new")), draft(json!({"source": "email"}))];
        let written = subject.write_to(TENANT, Target::Active, batch, true).await;
        assert!(!written.kept);
    }
    let last = subject.insert(bare("last")).await.row.entry_id;
    assert_eq!(last, first + 2, "the link took the one between");
}

/// A full batch is written in one call, and skipped in another.
pub async fn the_largest_batch_is_written_in_one_call(subject: &EntrySubject) {
    let batch = || -> Vec<Incoming> {
        (0..Incoming::BATCH_MAX)
            .map(|number| draft(link(&format!("https://example.org/{number}"))))
            .collect()
    };
    let done = subject.write(batch()).await;
    assert!(
        actions(&done)
            .iter()
            .all(|action| *action == Action::Inserted)
    );
    let again = subject.write(batch()).await;
    assert!(
        actions(&again)
            .iter()
            .all(|action| *action == Action::Skipped)
    );

    let ids = |done: Vec<Done>| -> Vec<i64> {
        done.into_iter()
            .map(|done| kept(done).row.entry_id)
            .collect()
    };
    let (one, two) = (ids(done), ids(again));
    assert_eq!(one, two);
    assert_eq!(
        one.iter().collect::<BTreeSet<_>>().len(),
        Incoming::BATCH_MAX
    );
}

/// More than a batch holds is refused, and nothing is kept.
pub async fn over_the_limit_of_a_batch_is_refused(subject: &EntrySubject) {
    let batch = (0..=Incoming::BATCH_MAX)
        .map(|_| draft(bare("tea")))
        .collect();
    let answer = subject
        .catalog
        .write_entries(TENANT, Target::Active, batch, false);
    assert_eq!(answer.await.expect_err("too many").kind(), Kind::Limit);
    assert!(subject.all().await.is_empty());
}

/// An empty batch answers nothing.
pub async fn writing_nothing_answers_nothing(subject: &EntrySubject) {
    assert!(subject.write(Vec::new()).await.is_empty());
}

/// Every row has an id of its own.
pub async fn every_row_has_an_id_of_its_own(subject: &EntrySubject) {
    let batch = (0..200).map(|_| draft(bare("tea"))).collect();
    let done = subject.write(batch).await;
    let ids: BTreeSet<Uuid> = done.into_iter().map(|done| kept(done).row.id).collect();
    assert_eq!(ids.len(), 200);
}

/// What is new says when it came, by the store's clock.
pub async fn a_row_says_when_it_came(subject: &EntrySubject) {
    let one = subject.insert(bare("one")).await.row;
    subject.advance(Duration::from_secs(3601));
    let two = subject.insert(bare("two")).await.row;
    assert!(two.created_at.since(one.created_at) >= Duration::from_secs(3601));
}
