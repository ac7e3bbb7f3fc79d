//! Updates of the Bot API: every kind of message that holds text, and what holds none.

use hapax_core::entry::{Column, Fields};
use hapax_intake::telegram::Update;
use hapax_intake::url::Tracking;
use serde_json::{Value, json};

use crate::paths;

fn entry(update: Value) -> Fields {
    let message = Update::read(update).unwrap().message.unwrap();
    message.normalize(&Tracking::default()).unwrap()
}

#[test]
fn every_kind_of_message_is_read() {
    for kind in [
        "message",
        "edited_message",
        "channel_post",
        "edited_channel_post",
        "business_message",
        "edited_business_message",
    ] {
        let update = json!({
            "update_id": 10,
            kind: { "message_id": 3, "date": 1_771_336_843, "chat": { "id": -1_001_234_567_890_i64 }, "text": "hello" },
        });
        let read = Update::read(update.clone()).unwrap();
        assert_eq!(read.date, Some(1_771_336_843));
        assert_eq!(read.delivery_key(), "tg-update:10");
        assert_eq!(
            entry(update).get(Column::IdempotencyKeyPrimary),
            "tg:-1001234567890:3",
            "{kind}"
        );
    }
}

#[test]
fn an_edit_has_the_key_of_what_it_edits_and_says_that_it_is_one() {
    let edit = entry(json!({ "update_id": 11, "edited_message": {
        "message_id": 3, "date": 1, "edit_date": 2, "chat": { "id": 4, "title": "Tea" }, "text": "hello again",
        "from": { "first_name": "Ada", "last_name": "L.", "username": "ada" }, "media_group_id": "m",
        "message_thread_id": 9, "forward_origin": { "type": "hidden_user", "sender_user_name": "B" },
    }}));
    assert_eq!(edit.get(Column::IdempotencyKeyPrimary), "tg:4:3");
    assert_eq!(edit.get(Column::Author), "Ada L.");
    assert_eq!(
        edit.get(Column::Metadata)["telegram"],
        json!({
            "chat_id": 4, "message_id": 3, "date": 1, "edit_date": 2, "media_group_id": "m", "message_thread_id": 9,
            "forward_origin": { "type": "hidden_user", "sender_user_name": "B" },
        })
    );
}

#[test]
fn the_words_under_a_picture_count_with_their_hidden_links() {
    let captioned = entry(json!({ "update_id": 12, "channel_post": {
        "message_id": 3, "chat": { "id": 4, "title": "Tea news" }, "photo": [], "caption": "🍵 read this",
        "caption_entities": [{ "type": "text_link", "offset": 3, "length": 9, "url": "https://Example.org/tea/" }],
    }}));
    assert_eq!(captioned.get(Column::ContentType), "link");
    assert_eq!(
        captioned.get(Column::IdempotencyKeyPrimary),
        "https://example.org/tea"
    );
    assert_eq!(captioned.get(Column::Author), "Tea news");
}

#[test]
fn an_update_without_text_has_nothing_to_keep() {
    for update in [
        json!({ "update_id": 1 }),
        json!({ "update_id": 1, "callback_query": { "id": "x" } }),
        json!({ "update_id": 1, "message": { "message_id": 2, "chat": { "id": 3 }, "sticker": {} } }),
        json!({ "update_id": 1, "message": { "message_id": 2, "chat": { "id": 3 }, "text": " \n\u{0}" } }),
    ] {
        assert_eq!(
            Update::read(update.clone()).unwrap().message,
            None,
            "{update}"
        );
    }
}

#[test]
fn an_update_of_another_shape_is_refused_with_every_fault() {
    let refused = |update: Value| paths(&Update::read(update).unwrap_err()).join(" ");
    assert_eq!(refused(json!("x")), "");
    assert_eq!(refused(json!({ "message": 1 })), "/message /update_id");
    assert_eq!(
        refused(json!({ "update_id": {}, "message": { "text": "x" } })),
        "/message/chat/id /message/message_id /update_id"
    );
}
