//! What is stored comes back as it was: every column, any text, any metadata, every number.

use hapax_core::entry::{Column, ColumnKind, Target};
use serde_json::{Map, Value, json};

use super::subject::{EntrySubject, TENANT, bare, thread, with};

/// Texts that something on the way could take for its own.
const TEXTS: [&str; 14] = [
    "",
    " ",
    "back\\slash \\n \\u0000 \\x41 \\'",
    "'single' \"double\" `back` $1 $tag$ ?1 :name @name",
    "'; DROP TABLE entries; --",
    "{schema} {0} %s %(x)s ${x} {{x}}",
    "NULL",
    "null",
    "{\"a\": 1}",
    "{a,b,\"c\"}",
    "line\r\nline\u{2028}line\u{7f}\u{1}",
    "Чай 🙂 e\u{301} \u{202e}rtl \u{fffd} \u{10ffff}",
    "\u{feff}bom",
    "<script>alert(1)</script>&amp;",
];

/// An entry with a different value in every column that a caller may say.
fn full(text: &str) -> Map<String, Value> {
    let said = Column::ALL.iter().filter(|column| !column.is_given());
    said.enumerate()
        .map(|(nth, column)| {
            let value = match column.kind() {
                ColumnKind::Text | ColumnKind::Moment => {
                    json!(format!("{} {nth}{text}", column.as_str()))
                }
                ColumnKind::Count => json!(nth),
                ColumnKind::Number => json!(f64::from(u32::try_from(nth).unwrap_or(0)) / 7.0),
                ColumnKind::Flag => json!(nth % 2 == 0),
                ColumnKind::Object => json!({column.as_str(): [nth, {text: text}]}),
                ColumnKind::Texts => json!([column.as_str(), text, ""]),
            };
            (column.as_str().to_owned(), value)
        })
        .collect()
}

/// Every column comes back with its own value, when it is inserted and when it is changed.
pub async fn every_column_comes_back_as_it_was(subject: &EntrySubject) {
    let mut entry = full("");
    entry.insert(
        "idempotency_policy_key".to_owned(),
        json!("telegram_thought_v1"),
    );
    let row = subject.insert(Value::Object(entry.clone())).await.row;
    let stored = subject.stored(row.entry_id).await;
    assert_eq!(stored, row);
    assert_eq!(stored.fields.into_json(), entry);

    let mut other = full(" again");
    other.insert("entry_id".to_owned(), json!(row.entry_id));
    other.insert("boilerplate_heavy".to_owned(), json!(true));
    other.insert("low_signal".to_owned(), json!(false));
    let changed = subject.update(Value::Object(other.clone())).await.row;

    let stored = subject.stored(row.entry_id).await;
    assert_eq!(stored, changed);
    for column in Column::ALL.iter().filter(|column| column.is_changeable()) {
        if ![Column::Metadata, Column::Source].contains(column) {
            let said = &other[column.as_str()];
            assert_eq!(stored.fields.get(*column), said, "{}", column.as_str());
        }
    }
    assert_eq!(subject.revisions(row.entry_id).await, [row]);
}

/// Any text comes back as it was, in every column that holds text.
pub async fn any_text_comes_back_as_it_was(subject: &EntrySubject) {
    for text in TEXTS {
        let columns = Column::ALL.iter().filter(|column| {
            column.kind() == ColumnKind::Text
                && column.is_changeable()
                && **column != Column::Source
        });
        let mut entry: Map<String, Value> = columns
            .map(|column| (column.as_str().to_owned(), json!(text)))
            .collect();
        entry.insert("source".to_owned(), json!(format!("web{text}")));
        let texts = json!({"keywords": [text, text], "flags": {text: text}, "metadata": {text: {text: [text]}}});
        let entry = with(Value::Object(entry), texts);

        let row = subject.insert(entry.clone()).await.row;

        let stored = subject.stored(row.entry_id).await;
        assert_eq!(Value::Object(stored.fields.into_json()), entry, "{text:?}");
        let title = json!({"entry_id": row.entry_id, "title": format!("{text}!")});
        subject.update(title).await;
        assert_eq!(subject.revisions(row.entry_id).await, [row], "{text:?}");
    }
}

/// Any text can be a key, and is met again.
pub async fn any_text_can_be_a_key(subject: &EntrySubject) {
    for text in TEXTS.into_iter().filter(|text| !text.trim().is_empty()) {
        let one = subject.insert(thread(text)).await.row;
        let two = subject
            .insert(with(thread(text), json!({"gist": "again"})))
            .await
            .row;
        assert_eq!(two.entry_id, one.entry_id, "{text:?}");
        let key = two.fields.text(Column::IdempotencyKeyPrimary);
        assert_eq!(key, Some(text.trim()));
    }
}

/// Metadata comes back equal, however deep, wide or strange.
pub async fn any_metadata_comes_back_equal(subject: &EntrySubject) {
    let mut deep = json!("end");
    for _ in 0..100 {
        deep = json!({"d": deep});
    }
    let metadata = json!({
        "": {"": ""}, "null": null, "empty": [{}, [], ""], "mixed": [1, "1", true, null, {"a": [[]]}],
        "numbers": [0, -1, 9_007_199_254_740_993_i64, u64::MAX, i64::MIN, 0.1, -2.5e-300, 1.5e300, 3.5],
        "ключ": "🙂", "a.b": {"a": 1}, "$ref": "#/", "__proto__": {"x": 1}, "e\u{301}": 1, "é": 2,
        "quote\"back\\slash": "\u{1}\u{7f}\u{2028}", "deep": deep,
    });
    let row = subject
        .insert(with(bare("tea"), json!({"metadata": metadata})))
        .await
        .row;

    let stored = subject.stored(row.entry_id).await;
    assert_eq!(*stored.fields.get(Column::Metadata), metadata);
    assert_eq!(stored, row);

    let added = json!({"entry_id": row.entry_id, "metadata": {"more": 1}});
    subject.update(added).await;
    let stored = subject.stored(row.entry_id).await;
    let merged = with(metadata, json!({"more": 1}));
    assert_eq!(*stored.fields.get(Column::Metadata), merged);
    assert_eq!(subject.revisions(row.entry_id).await, [row]);
}

/// Numbers come back exact, to the last bit.
pub async fn numbers_come_back_exact(subject: &EntrySubject) {
    let doubles = [
        0.0,
        -0.5,
        0.1,
        1.0 / 3.0,
        0.18,
        1.0 - f64::EPSILON,
        f64::MIN_POSITIVE,
        5e-324,
        f64::MAX,
        f64::MIN,
        1e15,
        123_456_789.123_456_78,
    ];
    for double in doubles {
        let said = json!({"link_ratio": double, "quality_score": double});
        let row = subject.insert(with(bare("tea"), said)).await.row;
        let stored = subject.stored(row.entry_id).await;
        let bits = |column| stored.fields.get(column).as_f64().map(f64::to_bits);
        assert_eq!(bits(Column::LinkRatio), Some(double.to_bits()), "{double}");
        assert_eq!(
            bits(Column::QualityScore),
            Some(double.to_bits()),
            "{double}"
        );
    }
    for count in [0, 1, (1_i64 << 53) - 1] {
        let row = subject
            .insert(with(bare("tea"), json!({"clean_word_count": count})))
            .await
            .row;
        let stored = subject.stored(row.entry_id).await;
        assert_eq!(*stored.fields.get(Column::CleanWordCount), json!(count));
    }
}

/// A whole number in a column of doubles is the same number when it comes again.
pub async fn a_whole_number_is_the_same_double(subject: &EntrySubject) {
    let entry = with(thread("tea"), json!({"link_ratio": 1, "quality_score": 0}));
    let one = subject.insert(entry.clone()).await.row;
    assert_eq!(subject.stored(one.entry_id).await, one);
    let two = subject.insert(entry).await.row;
    assert_eq!(two, one);
}

/// Lists of texts and flags come back as they were, empty ones too.
pub async fn lists_and_flags_come_back_as_they_were(subject: &EntrySubject) {
    for (keywords, flags) in [
        (json!([]), json!({})),
        (json!(["a", "a", ""]), json!({"x": null})),
        (
            json!(["{}", "NULL", "a,b", "\"q\"", "\\"]),
            json!({"a": {"b": [1]}}),
        ),
    ] {
        let said = json!({"keywords": keywords, "flags": flags});
        let row = subject.insert(with(bare("tea"), said)).await.row;
        let stored = subject.stored(row.entry_id).await;
        assert_eq!(*stored.fields.get(Column::Keywords), keywords);
        assert_eq!(*stored.fields.get(Column::Flags), flags);
    }
}

/// Texts of a mebibyte in every long column come back whole.
pub async fn long_texts_come_back_whole(subject: &EntrySubject) {
    let text = "чай \\ \" ' ".repeat(1 << 16);
    let said = json!({"title": text, "capture_text": text, "extracted_text": text, "clean_text": text,
                      "url": text, "url_canonical": text, "retrieval_excerpt": text});
    let row = subject.insert(with(bare("x"), said)).await.row;
    let stored = subject
        .stored_at(TENANT, Target::Active, row.entry_id)
        .await;
    assert!(stored == Some(row), "it comes back whole");
}
