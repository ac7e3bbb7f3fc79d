//! Batches: kept here first, sent once, collected, and written to their entries.

use hapax_effects::enrich::testing::{BatchScript, Fate};
use serde_json::json;

use super::{House, is_over, statuses, texts};
use crate::both::{Store, on_both_stores};

on_both_stores!(
    a_batch_enriches_its_entries,
    every_bad_item_is_named,
    a_batch_with_a_key_is_added_once,
    a_text_that_changed_meanwhile_is_not_overwritten,
    what_was_paid_for_is_not_paid_for_again,
    batches_are_listed_in_both_schemas,
);

fn a_batch_enriches_its_entries(store: Store) {
    let house = House::new(store);
    let entries: Vec<i64> = (0..3)
        .map(|number| house.entry(&format!("Tea number {number} is made of leaves.")))
        .collect();
    let mut items: Vec<_> = entries.iter().map(|id| json!({"entry_id": id})).collect();
    items.push(json!({"title": "Alone", "clean_text": "Coffee is made of beans."}));
    let added = house.post(
        "/enrich/t1/batch",
        &json!({"items": items, "completion_window": "24h", "metadata": {"why": "test"}}),
    );
    assert_eq!(added["schema"], "pkm");
    assert_eq!(added["request_count"], 4);
    let id = added["batch_id"].as_str().unwrap();
    let ended = house.ended(id);
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(statuses(&ended), ["completed"; 4], "{ended}");
    assert_eq!(ended["counts"]["completed"], 4);
    assert_eq!(ended["metadata"], json!({"why": "test"}));
    assert_eq!(
        (&ended["model"], &ended["attempt"]),
        (&json!("t1-batch"), &json!(1))
    );
    assert!(ended["error"].is_null(), "{ended}");
    for (entry, item) in entries.iter().zip(ended["items"].as_array().unwrap()) {
        let row = house.pull(*entry);
        for column in ["topic_primary", "keywords", "gist", "flags"] {
            assert_eq!(row[column], item["result"][column], "{column}");
        }
        assert_eq!(row["enrichment_status"], "completed");
        assert_eq!(row["enrichment_model"], "t1-batch");
        assert_eq!(row["prompt_version"], "t1-v2");
        assert_eq!(row["enriched_hash"], item["content_hash"]);
    }
    let counts = house.provider.counts();
    assert_eq!((counts.batches_created, counts.lines_answered), (1, 4));
    assert_eq!(counts.chat, 0);
}

fn every_bad_item_is_named(store: Store) {
    let house = House::new(store);
    let entry = house.entry("Tea.");
    let add = |body: &serde_json::Value| house.owner("POST", "/enrich/t1/batch", &body.to_string());
    for (body, paths) in [
        (json!({"items": []}), vec!["/items"]),
        (
            json!({"items": [{"clean_text": "Tea."}, {}, {"clean_text": " "}, 7, {"entry_id": "x"}, {"sauce": 1}]}),
            vec![
                "/items/1/clean_text",
                "/items/2/clean_text",
                "/items/3",
                "/items/4",
                "/items/5/clean_text",
            ],
        ),
        (
            json!({"items": [{"entry_id": entry}, {"entry_id": entry}]}),
            vec!["/items/1/entry_id"],
        ),
        (
            json!({"items": [{"entry_id": entry}, {"entry_id": 999}, {"entry_id": 998}]}),
            vec!["/items/1/entry_id", "/items/2/entry_id"],
        ),
        (
            json!({"items": [{"entry_id": entry, "clean_text": "Coffee."}]}),
            vec!["/items/0/entry_id"],
        ),
        (
            json!({"items": [{"clean_text": "Tea."}], "completion_window": "soon", "metadata": {"hapax_op": "x"}}),
            vec!["/completion_window", "/metadata"],
        ),
    ] {
        let answer = add(&body);
        assert_eq!(
            answer.refusal(),
            (400, "schema_validation_failed".to_owned()),
            "{body}"
        );
        let details = answer.json()["error"]["details"]["errors"].clone();
        let found: Vec<&str> = details
            .as_array()
            .unwrap()
            .iter()
            .map(|fault| fault["path"].as_str().unwrap())
            .collect();
        assert_eq!(found, paths, "{body}");
    }
    let answer = add(&json!({"items": texts(50_001)}));
    assert_eq!(answer.refusal(), (413, "payload_too_large".to_owned()));
    let path = "/status/t1/batch/00000000-0000-0000-0000-000000000000";
    assert_eq!(house.owner("GET", path, "").status, 404);
}

fn a_batch_with_a_key_is_added_once(store: Store) {
    let house = House::new(store);
    let bearer = format!("Bearer {}", house.token());
    let headers = [
        ("authorization", bearer.as_str()),
        ("idempotency-key", "b-1"),
    ];
    // More than a body may have elsewhere.
    let long = "Tea is made of leaves. ".repeat(60_000);
    let body = json!({"items": [{"clean_text": long}]}).to_string();
    let send = || house.send("POST", "/enrich/t1/batch", &headers, body.as_bytes());
    let (first, again) = (send(), send());
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(first.body, again.body);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let batch = first.json()["batch_id"].as_str().unwrap().to_owned();
    assert_eq!(house.ended(&batch)["status"], "completed");
    assert_eq!(house.provider.counts().batches_created, 1);
}

fn a_text_that_changed_meanwhile_is_not_overwritten(store: Store) {
    let house = House::new(store);
    house.provider.batches_go(BatchScript {
        is_held: true,
        ..BatchScript::default()
    });
    let (changed, same) = (
        house.entry("Tea is made of leaves."),
        house.entry("Coffee is not."),
    );
    let batch = house.batch(&json!([{"entry_id": changed}, {"entry_id": same}]));
    house.until(&batch, |now| now["status"] == "submitted");
    house.post(
        "/db/update",
        &json!({"entry_id": changed, "clean_text": "Something else now."}),
    );
    house.provider.release_batches();
    let ended = house.ended(&batch);
    assert_eq!(statuses(&ended), ["stale", "completed"], "{ended}");
    let row = house.pull(changed);
    assert_eq!(row["clean_text"], "Something else now.");
    assert!(
        row["topic_primary"].is_null() && row["enrichment_status"].is_null(),
        "{row}"
    );
    assert_eq!(house.pull(same)["enrichment_status"], "completed");
}

fn what_was_paid_for_is_not_paid_for_again(store: Store) {
    // One model for both, so that they ask the same.
    let house = House::with(store, |command| {
        command.env("T1_BATCH_MODEL", "t1-default");
    });
    let text = "Tea is made of leaves.";
    let asked = house.enriched(text);
    let items = json!([
        {"clean_text": text}, {"clean_text": "Coffee."}, {"clean_text": "Coffee."}, {"clean_text": text},
    ]);
    let ended = house.ended(&house.batch(&items));
    assert_eq!(statuses(&ended), ["completed"; 4], "{ended}");
    assert_eq!(ended["items"][0]["result"]["gist"], asked["gist"]);
    assert_eq!(ended["items"][1]["result"], ended["items"][2]["result"]);
    let counts = house.provider.counts();
    assert_eq!((counts.chat, counts.lines_answered), (1, 1));
    // Nothing is left to be asked.
    let again = house.ended(&house.batch(&items));
    assert_eq!(statuses(&again), ["completed"; 4], "{again}");
    assert_eq!(
        house.enriched("Coffee.")["gist"],
        again["items"][1]["result"]["gist"]
    );
    assert_eq!(house.provider.counts().batches_created, 1);
    assert_eq!(house.provider.answers_max(), 1);
    let forced = json!({"items": items, "force": true});
    let forced = house.post("/enrich/t1/batch", &forced);
    house.ended(forced["batch_id"].as_str().unwrap());
    assert_eq!(house.provider.counts().lines_answered, 3);
}

fn batches_are_listed_in_both_schemas(store: Store) {
    let house = House::new(store);
    house.provider.batches_go(BatchScript {
        is_held: true,
        fate: Fate::Completed,
        ..BatchScript::default()
    });
    let first = house.batch(&texts(1));
    house.post("/db/test-mode/set", &json!({"is_test_mode": true}));
    let second = house.batch(&texts(1));
    let list = |query: &str| {
        let answer = house.owner("GET", &format!("/status/t1/batch{query}"), "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let page = answer.json();
        let items = page["items"].as_array().unwrap().iter();
        let ids: Vec<String> = items
            .map(|batch| batch["batch_id"].as_str().unwrap().to_owned())
            .collect();
        (ids, page["next_cursor"].clone())
    };
    assert_eq!(list("").0, [second.as_str(), &first]);
    assert_eq!(list("?schema=pkm").0, [first.as_str()]);
    assert_eq!(
        list("?schema=pkm_test&include_terminal=false").0,
        [second.as_str()]
    );
    let (page, next) = list("?limit=1");
    assert_eq!(page, [second.as_str()]);
    let rest = list(&format!("?limit=1&cursor={}", next.as_str().unwrap()));
    assert_eq!(rest.0, [first.as_str()]);
    assert_eq!(
        house
            .owner("GET", "/status/t1/batch?schema=public", "")
            .status,
        400
    );
    house.provider.release_batches();
    for batch in [&first, &second] {
        assert!(is_over(&house.ended(batch)));
    }
    assert_eq!(list("").0, Vec::<String>::new());
    assert_eq!(list("?include_terminal=true").0, [second, first]);
}
