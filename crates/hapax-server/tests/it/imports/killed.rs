//! kill -9 in the middle of an import, again and again: it ends with the same rows as one that nobody disturbed.

use serde_json::{Value, json};

use super::mailbox::{Form, gzip, mailbox, varied};
use super::{House, counted};
use crate::both::{Store, on_both_stores};

const MAILS: usize = 1200;

on_both_stores!(
    killed_three_times_it_ends_with_the_same_rows,
    killed_without_a_worker_the_next_who_asks_goes_on,
);

fn asked(name: &str) -> Value {
    json!({"mbox_path": name, "insert_chunk_size": 4, "async": true})
}

/// What is compared: the counters, the errors, the sizes of the batches, and every row.
fn outcome(house: &House, ended: &Value) -> (Value, Vec<Value>) {
    assert_eq!(ended["status"], "completed", "{ended}");
    let batches = ended["tier1_batches"].as_array().unwrap().iter();
    let sizes: Vec<&Value> = batches.map(|batch| &batch["request_count"]).collect();
    let told = json!({
        "counts": counted(ended), "candidates": ended["tier1_candidates"], "errors": ended["errors"],
        "sizes": sizes, "offset": ended["progress"]["offset"], "schema": ended["schema"],
    });
    (told, house.entries())
}

fn same(found: &(Value, Vec<Value>), expected: &(Value, Vec<Value>)) {
    assert_eq!(found.0, expected.0);
    assert_eq!(found.1.len(), expected.1.len());
    for (found, expected) in found.1.iter().zip(&expected.1) {
        assert_eq!(found, expected);
    }
}

fn undisturbed(store: Store, name: &str, bytes: &[u8]) -> (Value, Vec<Value>) {
    let house = House::new(store);
    house.put(name, bytes);
    let begun = house.ask(&asked(name)).json();
    let ended = house.ended(&begun["import_id"]);
    outcome(&house, &ended)
}

fn disturbed(mut house: House, name: &str, goes_on: impl Fn(&House)) -> (Value, Vec<Value>) {
    let id = house.ask(&asked(name)).json()["import_id"].clone();
    let mut kills = 0;
    for share in [1, 2, 3] {
        let enough = (MAILS * share / 4) as u64;
        house.until(&id, |now| now["total_messages"].as_u64().unwrap() >= enough);
        house = house.killed_and_restarted();
        kills += usize::from(house.shown(&id)["status"] == "running");
        goes_on(&house);
    }
    assert_eq!(kills, 3, "each kill met a running import");
    let ended = house.ended(&id);
    outcome(&house, &ended)
}

fn killed_three_times_it_ends_with_the_same_rows(store: Store) {
    let text = mailbox(Form::Mboxrd, &varied(MAILS));
    let house = House::new(store);
    house.put("a.mbox", &text);
    let found = disturbed(house, "a.mbox", |_| {});
    same(&found, &undisturbed(store, "a.mbox", text.as_bytes()));
}

fn killed_without_a_worker_the_next_who_asks_goes_on(store: Store) {
    let bytes = gzip(mailbox(Form::Mboxrd, &varied(MAILS)).as_bytes());
    let house = House::without_worker(store);
    house.put("a.mbox.gz", &bytes);
    let ask = |house: &House| assert_eq!(house.ask(&asked("a.mbox.gz")).status, 202);
    let found = disturbed(house, "a.mbox.gz", ask);
    same(&found, &undisturbed(store, "a.mbox.gz", &bytes));
}
