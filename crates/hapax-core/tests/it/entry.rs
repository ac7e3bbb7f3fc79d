//! The rule of entries by a table, and a batch against the same items one by one.

use hapax_core::Time;
use hapax_core::entry::{
    Action, Change, Column, ConflictAction, Done, Draft, Incoming, Judged, Kept, Merged, Plan,
    Policy, PolicyChange, Row, Seen, Which, judge, message,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

const NOW: Time = Time::from_ms(1_000);

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn draft(value: Value) -> Draft {
    Draft::read(&object(value), |_| Some(Time::from_ms(5))).expect("a readable draft")
}

fn keyed(policy: &str, primary: Option<&str>, secondary: Option<&str>, said: Value) -> Draft {
    let mut entry = object(said);
    entry.insert("source".into(), "telegram".into());
    entry.insert("idempotency_policy_key".into(), policy.into());
    entry.insert("idempotency_key_primary".into(), primary.into());
    entry.insert("idempotency_key_secondary".into(), secondary.into());
    draft(Value::Object(entry))
}

fn policy(key: &str) -> Policy {
    let seeds = Policy::seeds();
    seeds
        .into_iter()
        .find(|policy| policy.key == key)
        .expect("a seed policy")
}

fn row(entry_id: i64, draft: &Draft) -> Row {
    let id = Uuid::from_u128(u128::try_from(entry_id).expect("a number"));
    Row::new(entry_id, id, NOW, draft.fields.clone())
}

fn code(judged: Judged) -> &'static str {
    match judged {
        Judged::Refuse(refused) => refused.code,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn entries_of_mail_and_telegram_without_all_their_fields_are_refused() {
    let known = policy("telegram_link_v1");
    for source in ["telegram", "email", "email-batch", " Telegram "] {
        for keys in [
            json!({}),
            json!({"idempotency_policy_key": "telegram_link_v1"}),
            json!({"idempotency_key_primary": "a"}),
            json!({"idempotency_policy_key": "telegram_link_v1", "idempotency_key_primary": "  "}),
        ] {
            let mut entry = object(keys);
            entry.insert("source".into(), source.into());
            let draft = draft(Value::Object(entry));
            let judged = judge(Some(&known), &draft, None, None);
            assert_eq!(code(judged), "idempotency_fields_required");
        }
    }
}

#[test]
fn other_sources_need_no_keys_but_keys_need_a_policy() {
    let bare = draft(json!({"source": "web"}));
    assert!(matches!(
        judge(None, &bare, None, None),
        Judged::Insert { .. }
    ));
    let half = draft(json!({"source": "web", "idempotency_key_primary": "a"}));
    assert_eq!(
        code(judge(None, &half, None, None)),
        "idempotency_fields_required"
    );
}

#[test]
fn unknown_and_disabled_policies_take_nothing_in() {
    let item = keyed("rss_v1", Some("a"), None, json!({}));
    assert_eq!(code(judge(None, &item, None, None)), "unknown_policy");
    let off = Policy {
        enabled: false,
        ..Policy::added("rss_v1")
    };
    assert_eq!(
        code(judge(Some(&off), &item, None, None)),
        "policy_disabled"
    );
}

#[test]
fn a_link_that_is_there_stays_as_it_is() {
    let item = keyed("telegram_link_v1", Some("u"), Some("h"), json!({}));
    let there = row(3, &item);
    let judged = judge(
        Some(&policy("telegram_link_v1")),
        &item,
        Some((&there).into()),
        None,
    );
    assert!(matches!(judged, Judged::Skip(found) if found.on == Which::Primary));
    let judged = judge(
        Some(&policy("telegram_link_v1")),
        &item,
        None,
        Some((&there).into()),
    );
    assert!(matches!(judged, Judged::Skip(found) if found.on == Which::Secondary));
}

#[test]
fn a_thought_is_updated_by_its_message_and_not_by_its_words() {
    let thought = policy("telegram_thought_v1");
    let first = keyed(
        "telegram_thought_v1",
        Some("tg:1:1"),
        Some("words"),
        json!({"title": "old"}),
    );
    let there = row(3, &first);
    let edited = keyed(
        "telegram_thought_v1",
        Some("tg:1:1"),
        Some("words"),
        json!({"title": "new"}),
    );
    let Judged::Update { found, fields } = judge(
        Some(&thought),
        &edited,
        Some((&there).into()),
        Some((&there).into()),
    ) else {
        panic!("an edit is an update")
    };
    assert_eq!((found.on, found.conflict), (Which::Primary, None));
    assert_eq!(fields.text(Column::Title), Some("new"));

    let other = keyed(
        "telegram_thought_v1",
        Some("tg:1:2"),
        Some("words"),
        json!({}),
    );
    let Judged::Insert { fields, conflict } =
        judge(Some(&thought), &other, None, Some((&there).into()))
    else {
        panic!("another message is another thought")
    };
    assert!(!fields.says(Column::IdempotencyKeySecondary));
    assert_eq!(conflict.map(|conflict| conflict.entry_id), Some(3));
}

#[test]
fn the_primary_match_wins_and_the_other_row_is_named() {
    let always = Policy {
        conflict_action: ConflictAction::Update,
        ..policy("telegram_link_v1")
    };
    let one = row(
        1,
        &keyed("telegram_link_v1", Some("a"), Some("x"), json!({})),
    );
    let other = row(
        2,
        &keyed("telegram_link_v1", Some("b"), Some("y"), json!({})),
    );
    let item = keyed(
        "telegram_link_v1",
        Some("a"),
        Some("y"),
        json!({"title": "t"}),
    );
    let Judged::Update { found, fields } = judge(
        Some(&always),
        &item,
        Some((&one).into()),
        Some((&other).into()),
    ) else {
        panic!("the primary match is updated")
    };
    assert_eq!(found.on, Which::Primary);
    assert_eq!(found.conflict.map(|conflict| conflict.entry_id), Some(2));
    assert_eq!(
        fields.text(Column::IdempotencyKeySecondary),
        Some("x"),
        "keys are never rewritten"
    );
}

/// A mail of a thread.
fn mail(primary: Option<&str>, secondary: Option<&str>, id: Option<&str>, text: &str) -> Draft {
    let said = json!({
        "content_type": "correspondence_thread", "clean_text": text, "metadata": {"email": {"message_id": id}},
    });
    keyed("email_correspondence_thread_v1", primary, secondary, said)
}

#[test]
fn a_thread_merges_each_of_its_messages_once() {
    let thread = policy("email_correspondence_thread_v1");
    let first = mail(Some("tea"), None, Some("<1@a>"), "Tea?");
    let there = row(3, &first);
    let new = Seen::from(&there);
    let known = Seen {
        has_merged: true,
        ..new
    };
    let judged = judge(Some(&thread), &first, Some(new), None);
    assert!(matches!(judged, Judged::Update { .. }));
    let judged = judge(Some(&thread), &first, Some(known), None);
    assert!(matches!(judged, Judged::Skip(found) if found.on == Which::Primary));
    let judged = judge(Some(&thread), &first, Some(known), Some(known));
    assert!(
        matches!(judged, Judged::Skip(found) if found.on == Which::Primary),
        "one row under both keys"
    );
}

#[test]
fn a_message_stays_where_it_was_merged_before_a_row_had_its_primary_key() {
    let thread = policy("email_correspondence_thread_v1");
    let second = mail(Some("tea"), Some("day"), Some("<2@a>"), "Yes");
    let by_primary = row(4, &mail(Some("tea"), None, Some("<3@a>"), "When?"));
    let by_secondary = row(3, &mail(None, Some("day"), Some("<1@a>"), "Tea?"));
    let known = Seen {
        row: &by_secondary,
        has_merged: true,
    };
    let judged = judge(
        Some(&thread),
        &second,
        Some((&by_primary).into()),
        Some(known),
    );
    assert!(matches!(judged, Judged::Skip(found) if found.on == Which::Secondary));
}

#[test]
fn a_message_is_known_by_its_id_else_by_all_it_says_and_only_in_a_thread() {
    let name = |id, text| message(&mail(Some("tea"), None, id, text).fields);
    assert_eq!(name(Some("<1@a>"), "x"), name(Some(" <1@a> "), "y"));
    assert_ne!(name(Some("<1@a>"), "x"), name(Some("<2@a>"), "x"));
    for none in [None, Some(""), Some(" "), Some("<a long id, cut…")] {
        assert_ne!(name(none, "x"), name(none, "y"), "{none:?}");
        assert_eq!(name(none, "x"), name(none, "x"));
    }
    let elsewhere = mail(Some("coffee"), Some("day"), None, "x");
    assert_eq!(
        message(&elsewhere.fields),
        name(None, "x"),
        "keys do not count"
    );
    let thought = keyed("telegram_thought_v1", Some("tg:1:1"), None, json!({}));
    assert_eq!(message(&thought.fields), None);
}

#[test]
fn a_thought_that_is_edited_back_is_updated_each_time() {
    let mut shelf = Shelf::default();
    for text in ["one", "two", "one", "one"] {
        let said = json!({"content_type": "thought", "clean_text": text});
        let draft = keyed("telegram_thought_v1", Some("tg:1:1"), None, said);
        shelf.write(vec![Incoming::Insert(draft)]);
        assert_eq!(shelf.rows[0].fields.text(Column::CleanText), Some(text));
    }
    assert_eq!((shelf.rows[0].revision, shelf.merged.len()), (3, 0));
}

#[test]
fn only_the_named_columns_are_updated_and_names_that_never_change_do_nothing() {
    let only = Policy {
        update_fields: Some(vec![
            "title".into(),
            "metadata".into(),
            "idempotency_key_primary".into(),
            "entry_id".into(),
            "no_such".into(),
        ]),
        ..policy("telegram_thought_v1")
    };
    let first = keyed(
        "telegram_thought_v1",
        Some("a"),
        None,
        json!({"title": "old", "author": "Ada", "metadata": {"a": {"x": 1}}}),
    );
    let there = row(1, &first);
    let item = keyed(
        "telegram_thought_v1",
        Some("a"),
        Some("new"),
        json!({"title": "new", "author": "Bob", "metadata": {"a": {"y": 2}}}),
    );
    let Judged::Update { fields, .. } = judge(Some(&only), &item, Some((&there).into()), None)
    else {
        panic!("an update")
    };
    assert_eq!(fields.text(Column::Title), Some("new"));
    assert_eq!(fields.text(Column::Author), Some("Ada"));
    assert_eq!(
        fields.get(Column::Metadata),
        &json!({"a": {"x": 1, "y": 2}})
    );
    assert!(!fields.says(Column::IdempotencyKeySecondary));
}

#[test]
fn metadata_that_grows_past_its_limit_is_refused_and_not_cut() {
    let thought = policy("telegram_thought_v1");
    let half = "x".repeat(700_000);
    let first = keyed(
        "telegram_thought_v1",
        Some("a"),
        None,
        json!({"metadata": {"one": half}}),
    );
    let there = row(1, &first);
    let item = keyed(
        "telegram_thought_v1",
        Some("a"),
        None,
        json!({"metadata": {"two": half}}),
    );
    assert_eq!(
        code(judge(Some(&thought), &item, Some((&there).into()), None)),
        "payload_too_large"
    );
}

#[test]
fn a_draft_names_every_fault_with_its_place() {
    let entry = object(json!({
        "source": "web", "title": 7, "clean_word_count": -1, "link_ratio": "x", "metadata": [],
        "keywords": [1], "low_signal": "no", "drop table": 1, "author": "a\u{0}b", "tenant_id": "x",
    }));
    let refused = Draft::read(&entry, |_| None).expect_err("it has faults");
    let paths: Vec<&str> = refused
        .faults
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    let all = [
        "/author",
        "/clean_word_count",
        "/drop table",
        "/keywords",
        "/link_ratio",
        "/low_signal",
        "/metadata",
        "/tenant_id",
        "/title",
    ];
    assert_eq!(paths, all);
    let nowhere = Draft::read(&object(json!({"title": "x"})), |_| None).expect_err("no source");
    assert_eq!(nowhere.faults[0].0, "/source");
}

#[test]
fn an_answer_of_ours_can_be_sent_back_and_what_the_store_gives_is_ignored_by_name() {
    let entry = object(json!({
        "source": "web", "entry_id": 9, "id": "x", "revision": 3, "action": "inserted", "_batch_ok": true,
        "retrieval_update_skipped": true, "created_at": "2026-01-01T00:00:00Z",
    }));
    let draft = Draft::read(&entry, |_| Some(Time::from_ms(5))).expect("readable");
    assert_eq!(
        draft.ignored,
        [Column::EntryId, Column::Id, Column::Revision]
    );
    assert_eq!(draft.created_at, Some(Time::from_ms(5)));
}

#[test]
fn a_change_names_its_entry_and_never_its_keys() {
    let change = Change::read(&object(json!({
        "entry_id": "7", "title": "t", "idempotency_key_primary": "k", "created_at": "2026-01-01T00:00:00Z",
    })))
    .expect("readable");
    assert_eq!(change.entry_id, Some(7));
    assert!(!change.fields.says(Column::IdempotencyKeyPrimary));
    assert_eq!(
        change.ignored,
        [Column::IdempotencyKeyPrimary, Column::CreatedAt]
    );
    for (bad, path) in [
        (json!({"title": "t"}), "/entry_id"),
        (json!({"id": "not one"}), "/id"),
        (json!({"entry_id": 1.5}), "/entry_id"),
    ] {
        let refused = Change::read(&object(bad)).expect_err("it names no entry");
        assert_eq!(refused.faults[0].0, path);
    }
}

#[test]
fn a_policy_change_keeps_what_it_does_not_say_and_checks_its_columns() {
    let change = PolicyChange {
        enabled: Some(false),
        ..PolicyChange::default()
    };
    let there = policy("telegram_link_v1");
    let next = change.over("telegram_link_v1", Some(&there));
    assert_eq!(
        next,
        Policy {
            enabled: false,
            ..there
        }
    );
    let threads = PolicyChange::default().over("email_thread_refs_v1", None);
    assert_eq!(threads.conflict_action, ConflictAction::Update);

    let change = PolicyChange {
        update_fields: Some(Some(vec!["title".into(), "created_at".into(), "x".into()])),
        ..PolicyChange::default()
    };
    let refused = change.check("a b").expect_err("it has faults");
    let paths: Vec<&str> = refused
        .faults
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(
        paths,
        ["/policy_key", "/update_fields/1", "/update_fields/2"]
    );
}

#[test]
fn a_null_leaves_what_a_conflicting_row_has_and_empties_a_column_of_a_change() {
    let first = keyed(
        "telegram_thought_v1",
        Some("a"),
        None,
        json!({"title": "by hand"}),
    );
    let again = keyed(
        "telegram_thought_v1",
        Some("a"),
        None,
        json!({"title": null}),
    );
    let mut shelf = Shelf::default();
    shelf.write(vec![Incoming::Insert(first), Incoming::Insert(again)]);
    assert_eq!(shelf.rows[0].fields.text(Column::Title), Some("by hand"));
    assert!(shelf.replaced.is_empty(), "nothing changed");

    let change = json!({"entry_id": 1, "title": null, "source": "web"});
    let change = Change::read(&object(change)).expect("readable");
    assert_eq!(change.ignored, [Column::Source]);
    shelf.write(vec![Incoming::Update(change)]);
    assert_eq!(shelf.rows[0].fields.text(Column::Title), None);
    assert_eq!(shelf.rows[0].fields.text(Column::Source), Some("telegram"));
}

#[test]
fn a_batch_that_would_replace_too_much_refuses_what_is_over() {
    let large = "x".repeat(30 << 20);
    let said = json!({"clean_text": large, "title": "0"});
    let mut batch = vec![Incoming::Insert(keyed(
        "telegram_thought_v1",
        Some("a"),
        None,
        said,
    ))];
    batch.extend((1..8).map(|number| {
        let said = json!({"title": number.to_string()});
        Incoming::Insert(keyed("telegram_thought_v1", Some("a"), None, said))
    }));
    let done = Shelf::default().write(batch);
    let refused = done.iter().filter(
        |done| matches!(done, Done::Refused(refused) if refused.code == "payload_too_large"),
    );
    assert_eq!((done.len(), refused.count()), (8, 3));
}

/// A store in a vector: what the plan says is written, and nothing else is done.
#[derive(Default)]
struct Shelf {
    rows: Vec<Row>,
    replaced: Vec<Row>,
    merged: Vec<Merged>,
    made: u128,
}

impl Shelf {
    fn write(&mut self, batch: Vec<Incoming>) -> Vec<Done> {
        let lookups = Plan::lookups(&batch);
        let (numbers, ids) = Plan::named(&batch);
        let found: Vec<Row> = self
            .rows
            .iter()
            .filter(|row| {
                let policy = row.fields.text(Column::IdempotencyPolicyKey);
                numbers.contains(&row.entry_id)
                    || ids.contains(&row.id)
                    || lookups.iter().any(|lookup| {
                        Some(lookup.policy.as_str()) == policy
                            && Some(lookup.key.as_str()) == row.fields.text(lookup.which.column())
                    })
            })
            .cloned()
            .collect();
        let made = &mut self.made;
        let mut merged = Plan::merges(&batch, &found);
        merged.retain(|merged| self.merged.contains(merged));
        let mut plan = Plan::of(batch, &policies(), found, &merged, NOW, || {
            *made += 1;
            Uuid::from_u128(*made)
        });
        let next = i64::try_from(self.rows.len()).expect("a number") + 1;
        plan.number(next..);
        assert_eq!(plan.inserts().count(), plan.numbers_needed());
        let updates: Vec<Row> = plan.updates().cloned().collect();
        for row in updates {
            let place = self
                .rows
                .iter()
                .position(|there| there.entry_id == row.entry_id);
            self.rows[place.expect("it was there")] = row;
        }
        self.rows.extend(plan.inserts().cloned());
        self.replaced.extend(plan.replaced());
        self.merged.extend(plan.merged());
        plan.answers()
    }
}

fn policies() -> Vec<Policy> {
    let mut policies = Policy::seeds();
    policies.push(Policy {
        conflict_action: ConflictAction::Update,
        ..Policy::added("both_v1")
    });
    policies.push(Policy {
        enabled: false,
        ..Policy::added("off_v1")
    });
    policies
}

fn any_incoming() -> impl Strategy<Value = Incoming> {
    let policy = prop_oneof![
        Just("telegram_thought_v1"),
        Just("telegram_link_v1"),
        Just("both_v1"),
        Just("off_v1"),
        Just("none_v1"),
    ];
    let key = |letters: &'static str| {
        proptest::option::of(proptest::string::string_regex(letters).expect("a pattern"))
    };
    let said = ("[a-c]", "[x-z]", 0..4u8);
    let insert = (policy, key("[a-d]"), key("[p-s]"), said.clone()).prop_map(
        |(policy, primary, secondary, (title, member, number))| {
            let said = json!({"title": title, "metadata": {"m": {member: number}}});
            Incoming::Insert(keyed(
                policy,
                primary.as_deref(),
                secondary.as_deref(),
                said,
            ))
        },
    );
    let update = (1..6i64, said).prop_map(|(entry_id, (title, member, number))| {
        let change =
            json!({"entry_id": entry_id, "title": title, "metadata": {"u": {member: number}}});
        Incoming::Update(Change::read(&object(change)).expect("readable"))
    });
    prop_oneof![4 => insert, 1 => update]
}

fn any_message() -> impl Strategy<Value = Incoming> {
    let key = |letters: &'static str| {
        proptest::option::of(proptest::string::string_regex(letters).expect("a pattern"))
    };
    let message = (key("[a-d]"), key("[p-s]"), key("[1-6]"), "[x-z]");
    message.prop_map(|(primary, secondary, id, text)| {
        let draft = mail(
            primary.as_deref(),
            secondary.as_deref(),
            id.as_deref(),
            &text,
        );
        Incoming::Insert(draft)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn threads_that_come_again_write_nothing(
        batches in proptest::collection::vec(proptest::collection::vec(any_message(), 1..8), 1..5)
    ) {
        let mut shelf = Shelf::default();
        for batch in &batches {
            shelf.write(batch.clone());
        }
        let (rows, replaced, merged) = (shelf.rows.clone(), shelf.replaced.clone(), shelf.merged.clone());
        let whole: Vec<Incoming> = batches.concat();
        for batch in batches.into_iter().rev().chain([whole]) {
            for done in shelf.write(batch) {
                let is_quiet = match &done {
                    Done::Kept(kept) => kept.action == Action::Skipped,
                    Done::Refused(refused) => refused.code == "idempotency_fields_required",
                    Done::Missing => false,
                };
                prop_assert!(is_quiet, "{:?}", done);
            }
        }
        prop_assert_eq!(&shelf.rows, &rows);
        prop_assert_eq!(&shelf.replaced, &replaced);
        prop_assert_eq!(&shelf.merged, &merged);
    }

    #[test]
    fn a_batch_does_what_its_items_do_one_by_one(batch in proptest::collection::vec(any_incoming(), 0..14)) {
        // A change by number can only meet a row of an earlier batch, so rows are there before.
        let before: Vec<Incoming> = ["1", "2", "3"]
            .iter()
            .map(|key| Incoming::Insert(keyed("both_v1", Some(key), None, json!({}))))
            .collect();
        let (mut whole, mut single) = (Shelf::default(), Shelf::default());
        whole.write(before.clone());
        single.write(before);
        let number_past = 4;
        let batch: Vec<Incoming> = batch
            .into_iter()
            .filter(|item| !matches!(item, Incoming::Update(change) if change.entry_id >= Some(number_past)))
            .collect();
        let at_once = whole.write(batch.clone());
        let in_turn: Vec<Done> = batch.into_iter().flat_map(|item| single.write(vec![item])).collect();
        prop_assert_eq!(at_once, in_turn);
        prop_assert_eq!(&whole.rows, &single.rows);
        prop_assert_eq!(&whole.replaced, &single.replaced);
    }

    #[test]
    fn no_two_rows_share_a_key_and_no_row_changes_its_keys(
        batches in proptest::collection::vec(proptest::collection::vec(any_incoming(), 1..5), 1..6)
    ) {
        let mut shelf = Shelf::default();
        let mut first_keys: Vec<[Option<String>; 3]> = Vec::new();
        let keys_of = |row: &Row| {
            [Column::IdempotencyPolicyKey, Column::IdempotencyKeyPrimary, Column::IdempotencyKeySecondary]
                .map(|column| row.fields.text(column).map(str::to_owned))
        };
        for batch in batches {
            let done = shelf.write(batch);
            for done in &done {
                if let Done::Kept(kept) = done {
                    let Kept { action, row, matched_on, .. } = kept.as_ref();
                    prop_assert!(row.entry_id > 0);
                    prop_assert_eq!(*action == Action::Inserted, matched_on.is_none() && row.revision == 1);
                }
            }
            for (nth, row) in shelf.rows.iter().enumerate() {
                match first_keys.get(nth) {
                    Some(first) => prop_assert_eq!(first, &keys_of(row)),
                    None => first_keys.push(keys_of(row)),
                }
            }
            for which in [1, 2] {
                let mut seen: Vec<_> = first_keys.iter().filter(|keys| keys[which].is_some()).map(|keys| (&keys[0], &keys[which])).collect();
                let all = seen.len();
                seen.sort();
                seen.dedup();
                prop_assert_eq!(seen.len(), all, "a key belongs to one row");
            }
        }
        for row in &shelf.rows {
            let kept = shelf.replaced.iter().filter(|old| old.entry_id == row.entry_id).count();
            prop_assert_eq!(usize::try_from(row.revision).expect("small"), kept + 1, "every replaced state is kept");
        }
    }
}
