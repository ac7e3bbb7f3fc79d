//! The same text in several places at once: one asks, and the others get that answer.

use hapax_effects::enrich::testing::{BatchScript, Fate};
use serde_json::{Value, json};

use super::{House, statuses};
use crate::both::{Store, on_both_stores};

on_both_stores!(
    two_batches_that_ask_the_same_at_once_pay_once,
    a_batch_that_has_nothing_of_its_own_to_ask_is_never_sent,
    what_came_to_nothing_elsewhere_is_asked_by_the_one_who_waits,
    a_request_for_what_a_batch_asks_is_told_so_and_can_be_forced,
    a_batch_that_waits_survives_a_kill,
);

const BATCH_MODEL: &str = "t1-batch";

fn item(name: &str) -> Value {
    json!({"clean_text": format!("Tea of the kind {name} is made of leaves.")})
}

fn held(house: &House) {
    house.provider.batches_go(BatchScript {
        is_held: true,
        ..BatchScript::default()
    });
}

fn is_sent(batch: &Value) -> bool {
    batch["status"] == "submitted"
}

fn two_batches_that_ask_the_same_at_once_pay_once(store: Store) {
    let house = House::new(store);
    held(&house);
    let one = house.batch(&json!([item("x"), item("y")]));
    house.until(&one, is_sent);

    let other = house.batch(&json!([item("x"), item("z")]));
    let sent = house.until(&other, is_sent);

    assert_eq!(statuses(&sent), ["waiting", "queued"], "{sent}");
    assert_eq!(sent["counts"]["waiting"], 1);
    house.provider.release_batches();
    let (one, other) = (house.ended(&one), house.ended(&other));
    assert_eq!(statuses(&one), ["completed"; 2], "{one}");
    assert_eq!(statuses(&other), ["completed"; 2], "{other}");
    assert_eq!(one["items"][0]["result"], other["items"][0]["result"]);
    let counts = house.provider.counts();
    assert_eq!((counts.batches_created, counts.lines_answered), (2, 3));
    assert_eq!(house.provider.answers_max(), 1);
}

fn a_batch_that_has_nothing_of_its_own_to_ask_is_never_sent(store: Store) {
    let house = House::new(store);
    held(&house);
    let one = house.batch(&json!([item("x"), item("y")]));
    house.until(&one, is_sent);

    let other = house.batch(&json!([item("y"), item("x"), item("y")]));
    let waits = house.until(&other, |now| !now["error"].is_null());

    let told = "3 items wait for what others ask already";
    assert!(waits["error"].as_str().unwrap().contains(told), "{waits}");
    assert_eq!(waits["status"], "queued");
    assert_eq!(statuses(&waits), ["waiting"; 3]);
    house.provider.release_batches();
    let ended = house.ended(&other);
    assert_eq!(statuses(&ended), ["completed"; 3], "{ended}");
    assert!(ended["error"].is_null(), "{ended}");
    let counts = house.provider.counts();
    assert_eq!((counts.batches_created, counts.lines_answered), (1, 2));
}

fn what_came_to_nothing_elsewhere_is_asked_by_the_one_who_waits(store: Store) {
    let house = House::new(store);
    for _ in 0..2 {
        house.provider.batch_goes(BatchScript {
            is_held: true,
            fate: Fate::Failed,
            ..BatchScript::default()
        });
    }
    let one = house.batch(&json!([item("x")]));
    house.until(&one, is_sent);
    let other = house.batch(&json!([item("x")]));
    house.until(&other, |now| statuses(now) == ["waiting"]);

    // The first one fails and is sent once more. That fails too; what the second one sends does not.
    house.provider.release_batches();
    let again = house.until(&one, |now| now["attempt"] == 2 && is_sent(now));
    let why = again["items"][0]["error"].as_str().unwrap();
    assert!(why.contains("the provider's batch is failed"), "{again}");
    assert_eq!(statuses(&house.shown(&other)), ["waiting"]);
    house.provider.release_batches();

    let failed = house.ended(&one);
    assert_eq!(failed["status"], "failed");
    assert_eq!(statuses(&failed), ["failed"]);
    let ended = house.ended(&other);
    assert_eq!(statuses(&ended), ["completed"], "{ended}");
    assert_eq!(house.provider.counts().lines_answered, 1);
}

fn a_request_for_what_a_batch_asks_is_told_so_and_can_be_forced(store: Store) {
    let house = House::with(store, |command| {
        command.env("T1_DEFAULT_MODEL", BATCH_MODEL);
    });
    held(&house);
    let batch = house.batch(&json!([item("x")]));
    house.until(&batch, is_sent);

    for _ in 0..2 {
        let told = house.ask(&item("x"));
        assert_eq!(told.refusal(), (503, "llm_unavailable".to_owned()));
        assert_eq!(told.json()["error"]["details"]["reason"], "in_batch");
        assert_eq!(told.header("retry-after"), Some("60"));
    }
    assert_eq!(house.provider.counts().chat, 0);
    let mut forced = item("x");
    forced["force"] = json!(true);
    let forced = house.ask(&forced);
    assert_eq!(forced.status, 200, "{}", forced.text());
    assert_eq!(house.provider.counts().chat, 1);

    house.provider.release_batches();
    assert_eq!(statuses(&house.ended(&batch)), ["completed"]);
}

fn a_batch_that_waits_survives_a_kill(store: Store) {
    let house = House::new(store);
    held(&house);
    let one = house.batch(&json!([item("x")]));
    house.until(&one, is_sent);
    let other = house.batch(&json!([item("x"), item("y")]));
    house.until(&other, is_sent);

    let house = house.restarted(|_| {});
    house.provider.release_batches();

    assert_eq!(statuses(&house.ended(&one)), ["completed"]);
    assert_eq!(statuses(&house.ended(&other)), ["completed"; 2]);
    assert_eq!(house.provider.counts().lines_answered, 2);
}
