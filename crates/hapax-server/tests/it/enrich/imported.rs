//! A mailbox is imported while the provider is away: the import succeeds, the work waits, and is done without a person.

use std::fmt::Write as _;

use serde_json::json;

use super::House;
use crate::both::{Store, on_both_stores};

on_both_stores!(an_import_is_enriched_when_the_provider_is_back);

fn mailbox(mails: usize) -> String {
    let mut text = String::new();
    for number in 0..mails {
        let _ = write!(
            text,
            "From news@example.org Thu Aug 22 12:00:00 2002\nFrom: News <news@example.org>\nSubject: Issue {number}\n\
             Message-ID: <n-{number}@example.org>\nDate: Thu, 22 Aug 2002 12:00:00 +0000\n\n\
             What is new in issue {number}: tea, leaves and water.\n\n"
        );
    }
    text
}

fn an_import_is_enriched_when_the_provider_is_back(store: Store) {
    let house = House::new(store);
    house.provider.goes_down();
    std::fs::write(house.root.path().join("news.mbox"), mailbox(30)).unwrap();
    let import = house.post("/import/email/mbox", &json!({"mbox_path": "news.mbox"}));
    assert_eq!(
        (&import["status"], &import["inserted"]),
        (&json!("completed"), &json!(30))
    );
    let batches = import["tier1_batches"].as_array().unwrap();
    assert_eq!(batches.len(), 1, "{import}");
    let batch = batches[0]["batch_id"].as_str().unwrap();
    let waiting = house.until(batch, |now| now["failures"].as_u64().unwrap() > 0);
    assert_eq!(waiting["counts"]["queued"], 30, "{waiting}");
    house.provider.comes_back();
    let ended = house.ended(batch);
    assert_eq!(ended["counts"]["completed"], 30, "{ended}");
    for entry in 1..=30 {
        assert_eq!(house.pull(entry)["enrichment_status"], "completed");
    }
    let again = house.post("/import/email/mbox", &json!({"mbox_path": "news.mbox"}));
    assert_eq!(again["tier1_enqueued_items"], 0, "{again}");
    assert_eq!(house.provider.counts().batches_created, 1);
}
