//! The process dies right before and right after each of its writes in turn, in the middle of a batch: nothing that was answered is lost, no
//! second batch is made at the provider, and nothing is paid for twice.

use hapax_effects::enrich::testing::{BatchScript, Endpoint, Fate, Reply};
use serde_json::{Value, json};

use super::{House, is_over, statuses};
use crate::both::{Store, on_both_stores};

on_both_stores!(
    a_batch_survives_a_death_after_every_write,
    a_batch_survives_a_death_before_every_write,
    an_expired_batch_survives_a_death_after_every_write,
    a_batch_survives_a_kill_while_the_provider_creates_it,
    a_batch_that_is_listed_late_is_adopted_after_a_kill,
);

/// How a process dies: right before its n-th write, or right after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Death {
    Before,
    After,
}

/// Adds a batch to a server that dies at its `write`th write, lets it die, and brings the batch to its end with another.
/// Answers the batch, and whether the first server died before that.
fn disturbed(house: House, items: &Value, death: Death, write: usize) -> (House, Value, bool) {
    let before = newest(&house);
    // A job that the one before still held would be given back by a write of its own, maybe before this one says that it listens.
    let house = house.relieved(|command| {
        let name = match death {
            Death::Before => "HAPAX_TEST_ABORT_BEFORE",
            Death::After => "HAPAX_TEST_ABORT_AFTER",
        };
        command.env(name, write.to_string());
    });
    let bearer = format!("Bearer {}", house.token());
    let headers = [("authorization", bearer.as_str())];
    let ask = |method: &str, path: &str, body: &Value| {
        let body = body.to_string();
        crate::http::try_request(house.address, method, path, &headers, body.as_bytes())
    };
    let added = ask("POST", "/enrich/t1/batch", &json!({ "items": items }));
    let mut batch = added.map(|answer| answer.json()["batch_id"].as_str().unwrap().to_owned());
    let mut died = batch.is_none();
    while let (Some(id), false) = (&batch, died) {
        match ask("GET", &format!("/status/t1/batch/{id}"), &Value::Null) {
            Some(answer) if is_over(&answer.json()) => break,
            Some(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            None => died = true,
        }
    }
    let house = if died {
        house.revived(|_| {})
    } else {
        house.restarted(|_| {})
    };
    // It may have died before it could say which batch it added, or before it added one.
    let id = batch.take().unwrap_or_else(|| match newest(&house) {
        Some(now) if before.as_ref() != Some(&now) => now,
        Some(_) | None => house.batch(items),
    });
    let ended = house.ended(&id);
    (house, ended, died)
}

/// The batch that was added last.
fn newest(house: &House) -> Option<String> {
    let page = house.owner("GET", "/status/t1/batch?include_terminal=true&limit=1", "");
    let page = page.json();
    page["items"][0]["batch_id"].as_str().map(str::to_owned)
}

fn items(mark: &str) -> Value {
    (0..3)
        .map(|number| json!({"clean_text": format!("Tea {number} of {mark} is made of leaves.")}))
        .collect()
}

fn a_batch_survives_a_death_after_every_write(store: Store) {
    survives(store, Death::After);
}

fn a_batch_survives_a_death_before_every_write(store: Store) {
    survives(store, Death::Before);
}

fn survives(store: Store, death: Death) {
    let mut house = House::new(store);
    for write in 1.. {
        let before = house.provider.counts();
        let mark = format!("{death:?} {write}");
        let (next, ended, died) = disturbed(house, &items(&mark), death, write);
        house = next;
        assert_eq!(statuses(&ended), ["completed"; 3], "write {write}: {ended}");
        let now = house.provider.counts();
        assert_eq!(
            now.batches_created,
            before.batches_created + 1,
            "write {write}: {ended}"
        );
        assert_eq!(
            now.lines_answered,
            before.lines_answered + 3,
            "write {write}"
        );
        if !died {
            assert!(write > 20, "both graphs were gone through: {write}");
            break;
        }
    }
    assert_eq!(house.provider.answers_max(), 1);
}

fn an_expired_batch_survives_a_death_after_every_write(store: Store) {
    let mut house = House::new(store);
    house.provider.batches_go(BatchScript {
        fate: Fate::Expired,
        ..BatchScript::default()
    });
    // Every third write: each of the four jobs dies several times.
    for write in (2..).step_by(3) {
        let before = house.provider.counts();
        let (next, ended, died) = disturbed(house, &items(&write.to_string()), Death::After, write);
        house = next;
        let now = house.provider.counts();
        assert_eq!(
            now.batches_created,
            before.batches_created + 2,
            "write {write}"
        );
        assert_eq!(
            (&ended["attempt"], &ended["status"]),
            (&json!(2), &json!("completed"))
        );
        let all = statuses(&ended);
        assert!(
            all.iter()
                .all(|status| ["completed", "failed"].contains(status)),
            "{ended}"
        );
        if !died {
            break;
        }
    }
    assert_eq!(house.provider.answers_max(), 1);
}

fn a_batch_survives_a_kill_while_the_provider_creates_it(store: Store) {
    is_adopted(House::new(store), "a kill");
}

fn a_batch_that_is_listed_late_is_adopted_after_a_kill(store: Store) {
    let house = House::new(store);
    house.provider.batches_go(BatchScript {
        listed_after_ms: 2500,
        ..BatchScript::default()
    });
    is_adopted(house, "a late list");
}

/// The provider creates a batch, and the process dies before it hears of it.
fn is_adopted(house: House, mark: &str) {
    house.provider.next(Endpoint::CreateBatch, Reply::HangAfter);
    let batch = house.batch(&items(mark));
    let until = std::time::Instant::now() + super::PATIENCE;
    while house.provider.counts().batches_created == 0 {
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let house = house.restarted(|_| {});
    let ended = house.ended(&batch);
    assert_eq!(statuses(&ended), ["completed"; 3], "{ended}");
    assert_eq!(house.provider.counts().batches_created, 1);
}
