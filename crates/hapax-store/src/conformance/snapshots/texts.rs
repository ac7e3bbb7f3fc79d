//! Texts: payloads, ids and labels come back as they were.

use hapax_core::snapshot::NewSnapshot;

use super::subject::{SnapshotSubject, kept, new, shelf, shelf_of};

/// A payload of one mebibyte comes back byte for byte, and is known again.
pub async fn a_payload_of_a_mebibyte_comes_back_byte_for_byte(subject: &SnapshotSubject) {
    let words: Vec<String> = (0..90_000_u32)
        .map(|number| format!("{:x}", number.wrapping_mul(2_654_435_761)))
        .collect();
    let words = words.join(" ");
    let payload = format!(r#"{{"course":{{"id":"c-1"}},"text":"{words}é"}}"#);
    let text = &payload[..];
    assert!(text.len() > 700_000);
    let padded = format!("{text}{}", " ".repeat((1 << 20) - text.len()));
    let asked = new("c-1", &padded);

    let put = subject.put_one(asked.clone()).await;

    assert!(!kept(&put).1);
    let stored = subject.stored(asked.id).await;
    assert!(*stored.payload == *padded, "not a byte differs");
    assert!(kept(&subject.put_one(asked).await).1);
    assert!(kept(&subject.put_one(new("c-1", text)).await).1);
}

/// Escapes, control characters and any script come back as they were.
pub async fn any_text_comes_back_as_it_was(subject: &SnapshotSubject) {
    let payloads = [
        r#"{"text":"a\u0000b"}"#,
        r#"{"\u0000":"\u0002"}"#,
        "{\"text\":\"Käse, 日本語, 🧀\"}",
        r#"{"text":"\ud83e\uddc0\u2028"}"#,
        " [ 1.0, 12345678901234567890 ] ",
        r#""just a text""#,
        "null",
    ];
    let words = [
        "plain",
        "a\0b",
        "\0",
        "\u{2}\u{1}",
        "Käse 日本語 🧀",
        "it's \"quoted\" \\ %_",
        " spaces ",
    ];
    for (payload, words) in payloads.into_iter().zip(words) {
        let asked = NewSnapshot {
            label: Some(words.to_owned()),
            by: Some(words.to_owned()),
            ..new(words, payload)
        };
        subject.put_one(asked.clone()).await;

        let stored = subject.stored(asked.id).await;
        assert_eq!(stored.payload, asked.payload);
        assert_eq!(stored.entity_id, words);
        assert_eq!(stored.label.as_deref(), Some(words));
        let entity = subject.entity(words).await.expect("it is there");
        assert_eq!((&*entity.id, entity.label.as_deref()), (words, Some(words)));
        assert_eq!(subject.history(words).await, [stored]);
        assert!(subject.found(words).await.contains(&words.to_owned()));
        let seen = subject.snapshots.observations(shelf(), asked.id, 9).await;
        let by = seen.expect("the store answers").remove(0).by;
        assert_eq!(by.as_deref(), Some(words));
        assert!(kept(&subject.put_one(asked).await).1, "it is known again");
    }
}

/// What has no label has none.
pub async fn an_absent_label_stays_absent(subject: &SnapshotSubject) {
    let asked = NewSnapshot {
        label: None,
        by: None,
        aliases: Vec::new(),
        ..new("c-1", "[1]")
    };
    subject.put_one(asked.clone()).await;

    let stored = subject.stored(asked.id).await;
    assert_eq!((stored.label, stored.aliases), (None, Vec::new()));
    let entity = subject.entity("c-1").await.expect("it is there");
    assert_eq!(entity.label, None);
    assert_eq!(subject.found("c-1").await, ["c-1"]);
}

/// The longest words that doors let through fit.
pub async fn the_longest_words_fit(subject: &SnapshotSubject) {
    let (id, label) = ("🧀".repeat(255), "🧀".repeat(500));
    let shelf = shelf_of(hapax_core::Tenant::DEFAULT, &"c".repeat(200));
    let asked = NewSnapshot {
        label: Some(label.clone()),
        ..new(&id, "[1]")
    };

    subject.put_on(shelf.clone(), vec![asked.clone()]).await;

    let stored = subject.stored_on(shelf, asked.id).await;
    let stored = stored.expect("it is there");
    assert_eq!((stored.entity_id, stored.label), (id, Some(label)));
}
