//! The provider's files: in any order, with lines that are missing, there twice, unknown or broken, and batches that fail.

use hapax_effects::enrich::testing::{BatchScript, Fate};
use serde_json::json;

use super::{House, statuses, texts};
use crate::both::{Store, on_both_stores};

on_both_stores!(
    a_mangled_output_is_taken_as_far_as_it_is_ours,
    an_expired_batch_is_sent_once_more,
    a_batch_that_fails_twice_is_reported,
    lines_that_all_fail_are_sent_once_more_and_then_reported,
    a_line_that_is_refused_is_not_sent_again,
);

fn a_mangled_output_is_taken_as_far_as_it_is_ours(store: Store) {
    let house = House::new(store);
    house.provider.batch_goes(BatchScript {
        duplicates: 2,
        unknown: 3,
        broken: 1,
        missing: 2,
        ..BatchScript::default()
    });
    let batch = house.batch(&texts(8));
    let ended = house.ended(&batch);
    assert_eq!(
        (&ended["status"], &ended["attempt"]),
        (&json!("completed"), &json!(2))
    );
    assert_eq!(statuses(&ended), ["completed"; 8], "{ended}");
    let error = ended["error"].as_str().unwrap();
    for told in ["3 unknown", "2 there twice", "1 unreadable"] {
        assert!(error.contains(told), "{error}");
    }
}

fn an_expired_batch_is_sent_once_more(store: Store) {
    let house = House::new(store);
    house.provider.batch_goes(BatchScript {
        fate: Fate::Expired,
        ..BatchScript::default()
    });
    let batch = house.batch(&texts(6));
    let ended = house.ended(&batch);
    assert_eq!(
        (&ended["status"], &ended["attempt"]),
        (&json!("completed"), &json!(2))
    );
    let told = ended["error"].as_str().unwrap();
    assert!(told.contains("the provider's batch is expired"), "{told}");
    // What was done by then is not paid for again.
    assert_eq!(house.provider.answers_max(), 1);
    assert_eq!(statuses(&ended), ["completed"; 6], "{ended}");
}

fn a_batch_that_fails_twice_is_reported(store: Store) {
    let house = House::new(store);
    house.provider.batches_go(BatchScript {
        fate: Fate::Failed,
        ..BatchScript::default()
    });
    let entry = house.entry("Tea is made of leaves.");
    let ended = house.ended(&house.batch(&json!([{ "entry_id": entry }])));
    assert_eq!(
        (&ended["status"], &ended["attempt"]),
        (&json!("failed"), &json!(2))
    );
    assert_eq!(statuses(&ended), ["failed"], "{ended}");
    let error = ended["error"].as_str().unwrap();
    assert!(error.contains("the fake refuses the input"), "{error}");
    assert_eq!(house.provider.counts().batches_created, 2);
    assert!(house.pull(entry)["enrichment_status"].is_null());
}

fn lines_that_all_fail_are_sent_once_more_and_then_reported(store: Store) {
    let house = House::new(store);
    house.provider.batches_go(BatchScript {
        has_errors_alone: true,
        ..BatchScript::default()
    });
    let ended = house.ended(&house.batch(&texts(3)));
    assert_eq!(statuses(&ended), ["failed"; 3], "{ended}");
    assert_eq!(
        (&ended["status"], &ended["attempt"]),
        (&json!("failed"), &json!(2))
    );
    assert!(
        ended["items"][0]["error"].as_str().unwrap().contains("500"),
        "{ended}"
    );
    assert_eq!(house.provider.counts().batches_created, 2);
}

fn a_line_that_is_refused_is_not_sent_again(store: Store) {
    let house = House::new(store);
    let items = json!([{"clean_text": "Tea."}, {"clean_text": "Coffee. fake-reply:400 "}]);
    let ended = house.ended(&house.batch(&items));
    assert_eq!(statuses(&ended), ["completed", "failed"], "{ended}");
    assert_eq!(
        (&ended["status"], &ended["attempt"]),
        (&json!("completed"), &json!(1))
    );
    assert_eq!(house.provider.counts().batches_created, 1);
}
