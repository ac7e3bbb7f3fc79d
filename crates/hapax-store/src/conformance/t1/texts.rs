//! Texts of any kind come back as they were; only U+0000 is replaced, by U+FFFD, in every store alike.

use hapax_core::entry::{
    BatchState, Column, ItemChange, ItemStatus, ItemText, NewBatch, NewItem, Provider, Target,
};
use serde_json::{Value, json};

use super::subject::{T1Subject, TENANT, becoming, completing, new, own};

/// Strange and long, but text.
fn strange() -> Vec<String> {
    vec![
        "\"quoted\" \\ {\"json\": [1]}".to_owned(),
        "'; DROP TABLE t1_batches; --".to_owned(),
        "line\nbreak\r\n\ttab \u{1}\u{7f}\u{85}\u{2028}\u{feff}".to_owned(),
        "e\u{301} é 🙂 中文 עברית \u{202e}".to_owned(),
        "/".repeat(4000),
    ]
}

/// Own texts come back as they were.
pub async fn any_text_of_an_item_comes_back(subject: &T1Subject) {
    let items: Vec<NewItem> = strange()
        .into_iter()
        .map(|text| {
            NewItem::Own(ItemText {
                title: Some(text.clone()),
                author: Some(text.clone()),
                content_type: Some(text.clone()),
                clean_text: text,
            })
        })
        .collect();
    let batch = subject.add(1, items.clone()).await;

    let kept = subject.items(&batch).await;

    for (item, asked) in kept.iter().zip(&items) {
        assert_eq!(item.text.clone().map(NewItem::Own).as_ref(), Some(asked));
        let text = item.text.as_ref();
        assert_eq!(Some(item.hash), text.and_then(ItemText::fingerprint));
    }
}

/// An empty text of an item's title is not a missing one.
pub async fn an_empty_title_is_not_a_missing_one(subject: &T1Subject) {
    let missing = ItemText {
        clean_text: "x".to_owned(),
        ..ItemText::default()
    };
    let empty = ItemText {
        title: Some(String::new()),
        ..missing.clone()
    };
    let asked = [empty, missing];
    let batch = subject.add(1, asked.clone().map(NewItem::Own).to_vec());
    let items = subject.items(&batch.await).await;
    let texts: Vec<_> = items.into_iter().filter_map(|item| item.text).collect();
    assert_eq!(texts, asked);
}

/// Answers, results, errors and metadata come back as they were.
pub async fn any_text_of_a_change_comes_back(subject: &T1Subject) {
    let batch = subject
        .add(1, strange().iter().map(|_| own("x")).collect())
        .await;
    let items = subject.items(&batch).await;
    let changes = items.iter().zip(strange()).map(|(item, text)| ItemChange {
        raw: Some(text.as_str().into()),
        result: Some(json!({text.as_str(): [text.as_str(), {"n": 12_345_678_901_i64}]})),
        error: Some(text),
        ..becoming(item, ItemStatus::Queued, ItemStatus::ParseError)
    });
    let changes: Vec<ItemChange> = changes.collect();
    subject.settle(&batch, changes.clone()).await;

    for (item, change) in subject.items(&batch).await.into_iter().zip(changes) {
        assert_eq!(
            (item.raw, item.result, item.error),
            (change.raw, change.result, change.error)
        );
    }
}

/// A long answer and a long text are kept whole.
pub async fn long_texts_come_back_whole(subject: &T1Subject) {
    let long = "five megabytes 🙂 ".repeat(300_000);
    let batch = subject.add(1, vec![own(&long)]).await;
    let item = subject.first(&batch).await;
    assert!(item.text.clone().map(NewItem::Own) == Some(own(&long)));
    let change = ItemChange {
        raw: Some(long.as_str().into()),
        result: Some(json!({"gist": long})),
        ..becoming(&item, ItemStatus::Queued, ItemStatus::Completed)
    };
    subject.settle(&batch, vec![change.clone()]).await;

    let done = subject.first(&batch).await;

    assert!(done.raw == change.raw && done.result == change.result);
}

/// What no database takes everywhere is replaced, and the item is about the text that is kept.
pub async fn a_null_character_is_replaced_everywhere(subject: &T1Subject) {
    let (entry_id, of_entry) = subject.entry("tea").await;
    let hostile = NewItem::Own(ItemText {
        title: Some("\u{0}".to_owned()),
        clean_text: "a\u{0}b".to_owned(),
        ..ItemText::default()
    });
    let metadata = json!({"k\u{0}": ["\u{0}"]});
    let asked = NewBatch {
        metadata: metadata.as_object().expect("an object").clone(),
        completion_window: "24h\u{0}".to_owned(),
        ..new(1, vec![hostile, of_entry])
    };
    let batch = subject.add_at(TENANT, Target::Active, asked).await;
    assert_eq!(
        Value::Object(batch.metadata.clone()),
        json!({"k\u{fffd}": ["\u{fffd}"]})
    );
    assert_eq!(batch.completion_window, "24h\u{fffd}");
    assert_eq!(subject.stored(batch.id).await, batch);
    let items = subject.items(&batch).await;
    let text = items[0].text.clone().expect("it has one");
    assert_eq!(
        (text.title.as_deref(), text.clean_text.as_str()),
        (Some("\u{fffd}"), "a\u{fffd}b")
    );
    assert_eq!(Some(items[0].hash), text.fingerprint());

    let mut change = completing(&items[1], "g\u{0}");
    change.raw = Some("r\u{0}".into());
    change.error = Some("e\u{0}".to_owned());
    if let Some(fields) = change.entry.as_mut() {
        fields.put(Column::Metadata, json!({"m\u{0}": {"n": "\u{0}"}}));
    }
    assert_eq!(
        subject.settle(&batch, vec![change]).await,
        [Some(ItemStatus::Completed)]
    );
    let item = subject.items(&batch).await.remove(1);
    assert_eq!(
        (item.raw.as_deref(), item.error.as_deref()),
        (Some("r\u{fffd}"), Some("e\u{fffd}"))
    );
    assert_eq!(item.result, Some(json!({"gist": "g\u{fffd}"})));
    let row = subject.row(entry_id).await;
    assert_eq!(row.fields.text(Column::Gist), Some("g\u{fffd}"));
    assert_eq!(
        row.fields.get(Column::Metadata),
        &json!({"m\u{fffd}": {"n": "\u{fffd}"}})
    );

    let text = || Some("x\u{0}".to_owned());
    let state = BatchState {
        model: text(),
        provider: Provider {
            batch_id: text(),
            status: text(),
            input_file: text(),
            output_file: text(),
            error_file: text(),
        },
        error: text(),
        ..batch.state.clone()
    };
    let changed = subject.change(&batch, state).await.expect("it is changed");
    assert_eq!(subject.stored(batch.id).await, changed);
    let kept = Some("x\u{fffd}");
    let provider = changed.state.provider;
    for text in [
        changed.state.model,
        changed.state.error,
        provider.batch_id,
        provider.status,
        provider.input_file,
        provider.output_file,
        provider.error_file,
    ] {
        assert_eq!(text.as_deref(), kept);
    }
}

/// Metadata of any depth that a door takes comes back.
pub async fn deep_metadata_comes_back(subject: &T1Subject) {
    let mut deep = json!("the bottom");
    for _ in 0..120 {
        deep = json!({"d": deep});
    }
    let metadata = deep.as_object().expect("an object").clone();
    let asked = NewBatch {
        metadata: metadata.clone(),
        ..new(1, vec![own("x")])
    };
    let batch = subject.add_at(TENANT, Target::Active, asked).await;
    assert_eq!(batch.metadata, metadata);
    assert_eq!(subject.stored(batch.id).await, batch);
}
