//! A provider that is away, refuses, or does things without saying so; and a test mode that never stands still.

use std::time::Duration;

use hapax_effects::enrich::testing::{BatchScript, Endpoint, Reply};
use serde_json::json;

use super::{House, is_over, statuses, texts};
use crate::both::{Store, on_both_stores};

on_both_stores!(
    a_batch_waits_for_a_provider_that_is_away,
    a_batch_that_was_created_without_an_answer_is_adopted,
    a_provider_that_always_refuses_is_believed_in_the_end,
    a_refused_key_is_told_by_its_name_and_where_it_was_refused,
    the_next_try_of_a_batch_is_when_its_job_runs_again,
    both_schemas_complete_while_the_test_mode_flips,
    a_flood_in_one_schema_does_not_keep_the_other_waiting,
);

fn a_batch_waits_for_a_provider_that_is_away(store: Store) {
    let house = House::new(store);
    house.provider.goes_down();
    let batch = house.batch(&texts(3));
    let waiting = house.until(&batch, |now| now["error"].is_string());
    assert_eq!(waiting["status"], "queued", "{waiting}");
    house.provider.comes_back();
    house.until(&batch, |now| now["status"] != "queued");
    house.provider.goes_down();
    std::thread::sleep(Duration::from_millis(300));
    house.provider.comes_back();
    let ended = house.ended(&batch);
    assert_eq!(statuses(&ended), ["completed"; 3], "{ended}");
    assert_eq!(house.provider.counts().batches_created, 1);
}

fn a_batch_that_was_created_without_an_answer_is_adopted(store: Store) {
    let house = House::new(store);
    for reply in [Reply::CutAfter, Reply::CutBody] {
        let before = house.provider.counts().batches_created;
        house.provider.next(Endpoint::CreateBatch, reply.clone());
        let items = json!([{"clean_text": format!("Tea after {reply:?}.")}]);
        let ended = house.ended(&house.batch(&items));
        assert_eq!(statuses(&ended), ["completed"], "{ended}");
        assert_eq!(
            house.provider.counts().batches_created,
            before + 1,
            "{reply:?}"
        );
    }
    // Neither the batch nor the list can be had at first.
    house.provider.next(Endpoint::CreateBatch, Reply::CutAfter);
    for _ in 0..8 {
        house
            .provider
            .next(Endpoint::ListBatches, Reply::Status(500));
    }
    let ended = house.ended(&house.batch(&texts(1)));
    assert_eq!(statuses(&ended), ["completed"], "{ended}");
    assert_eq!(house.provider.counts().batches_created, 3);
}

fn a_provider_that_always_refuses_is_believed_in_the_end(store: Store) {
    let house = House::new(store);
    house.provider.batches_go(BatchScript {
        is_held: true,
        ..BatchScript::default()
    });
    let batch = house.batch(&texts(2));
    house.until(&batch, |now| now["status"] == "submitted");
    for _ in 0..20 {
        house.provider.next(Endpoint::ReadBatch, Reply::Status(404));
    }
    let ended = house.ended(&batch);
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(statuses(&ended), ["failed"; 2]);
    assert!(ended["error"].as_str().unwrap().contains("404"), "{ended}");
}

fn a_refused_key_is_told_by_its_name_and_where_it_was_refused(store: Store) {
    let house = House::with(store, |command| {
        command.env("LITELLM_MASTER_KEY", "sk-wrong");
    });
    let url = house.provider.base_url();
    let said = format!(
        "LITELLM_MASTER_KEY was refused by {}",
        url.trim_end_matches('/')
    );
    let answer = house.ask(&json!({"clean_text": "Tea."}));
    assert_eq!(answer.refusal(), (502, "downstream_failed".to_owned()));
    let message = answer.json()["error"]["message"].clone();
    assert!(message.as_str().unwrap().starts_with(&said), "{message}");
    let batch = house.batch(&texts(1));
    let waiting = house.until(&batch, |now| now["error"].is_string());
    let error = waiting["error"].as_str().unwrap();
    assert!(
        error.starts_with(&said) && !error.contains("sk-wrong"),
        "{error}"
    );
}

fn the_next_try_of_a_batch_is_when_its_job_runs_again(store: Store) {
    let house = House::new(store);
    // Longer than a call waits by itself.
    house
        .provider
        .next(Endpoint::Upload, Reply::RateLimited(100));
    let waiting = {
        let batch = house.batch(&texts(1));
        house.until(&batch, |now| now["error"].is_string())
    };
    let at = |name: &str| {
        let said = waiting[name].as_str().unwrap();
        hapax_intake::date::time(said).unwrap().as_ms()
    };
    let rest_ms = at("next_at") - at("updated_at");
    assert!(
        (80_000..=110_000).contains(&rest_ms),
        "{rest_ms}: {waiting}"
    );
}

/// It takes as long as a job rests between its attempts.
#[test]
#[ignore = "a soak of a minute: ./test --soak"]
fn soak_a_batch_that_cannot_be_created_is_given_up() {
    let house = House::new(Store::Sqlite);
    for _ in 0..20 {
        house
            .provider
            .next(Endpoint::CreateBatch, Reply::Status(422));
    }
    let batch = house.batch(&texts(2));
    let until = std::time::Instant::now() + Duration::from_secs(200);
    while !is_over(&house.shown(&batch)) && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(200));
    }
    let ended = house.shown(&batch);
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(statuses(&ended), ["failed"; 2], "{ended}");
    assert!(ended["error"].as_str().unwrap().contains("422"), "{ended}");
    assert_eq!(house.provider.counts().batches_created, 0);
}

fn both_schemas_complete_while_the_test_mode_flips(store: Store) {
    let house = House::new(store);
    std::thread::scope(|scope| {
        let (done, stop) = std::sync::mpsc::channel::<()>();
        let (house, done) = (&house, done);
        scope.spawn(move || {
            while stop.recv_timeout(Duration::from_millis(200)).is_err() {
                let answer = house.owner("POST", "/db/test-mode/toggle", "{}");
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
        });
        let mut batches = Vec::new();
        for number in 0..8 {
            let items = json!([{"clean_text": format!("Tea number {number}.")}]);
            batches.push(house.batch(&items));
            std::thread::sleep(Duration::from_millis(110));
        }
        let ended: Vec<_> = batches.iter().map(|batch| house.ended(batch)).collect();
        let _ = done.send(());
        for batch in &ended {
            assert!(is_over(batch));
            assert_eq!(statuses(batch), ["completed"], "{batch}");
        }
        for schema in ["pkm", "pkm_test"] {
            assert!(
                ended.iter().any(|batch| batch["schema"] == schema),
                "{schema}"
            );
        }
    });
}

fn a_flood_in_one_schema_does_not_keep_the_other_waiting(store: Store) {
    const FLOOD: usize = 10;
    let house = House::new(store);
    // The first upload never ends, so all of the flood waits behind it.
    house.provider.next(Endpoint::Upload, Reply::Hang);
    for number in 0..FLOOD {
        house.batch(&json!([{"clean_text": format!("Flood number {number}.")}]));
    }
    let until = std::time::Instant::now() + super::PATIENCE;
    while house.provider.scripted(Endpoint::Upload) > 0 {
        assert!(std::time::Instant::now() < until, "nothing is uploaded");
        std::thread::sleep(Duration::from_millis(5));
    }
    house.post("/db/test-mode/set", &json!({"is_test_mode": true}));

    let drop = house.batch(&json!([{"clean_text": "A drop."}]));

    let ended = house.ended(&drop);
    assert_eq!(statuses(&ended), ["completed"], "{ended}");
    let open = house.owner("GET", "/status/t1/batch?schema=pkm&limit=500", "");
    assert_eq!(open.json()["items"].as_array().unwrap().len(), FLOOD);
}
