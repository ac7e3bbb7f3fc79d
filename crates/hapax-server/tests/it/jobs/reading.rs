//! Lists, counts and pages of jobs.

use serde_json::{Value, json};

use super::{acted, get, id, lease, posted, work};
use crate::both::{Store, on_both_stores};

fn jobs_are_listed_newest_first_by_state_kind_work_and_holder(store: Store) {
    let node = store.serve("");
    let mut planned = Vec::new();
    for n in 0..6 {
        let mut asked = work(n);
        if n % 2 == 1 {
            asked["kind"] = json!("enrich");
        }
        planned.push(id(&posted(&node, "/v1/jobs", &asked)));
    }
    let held = lease(
        &node,
        &json!({"owner": "w", "kinds": ["enrich"], "limit": 2}),
    );
    acted(&node, &held[1], "fail", &json!({"retryable": false}));
    let ids = |query: &str| -> Vec<String> {
        let page = get(&node, &format!("/v1/jobs{query}"));
        page["items"].as_array().unwrap().iter().map(id).collect()
    };
    let newest: Vec<String> = planned.iter().rev().cloned().collect();
    assert_eq!(ids(""), newest);
    assert_eq!(
        ids("?kind=download"),
        [&*planned[4], &*planned[2], &*planned[0]]
    );
    assert_eq!(ids("?state=DEAD"), [&*planned[3]]);
    assert_eq!(ids("?state=PLANNED&kind=enrich"), [&*planned[5]]);
    assert_eq!(ids("?work_id=w-4"), [&*planned[4]]);
    assert_eq!(ids("?held=true"), [&*planned[1]]);
    assert_eq!(ids("?held=false").len(), 6);
    assert_eq!(ids("?work_id=none"), [] as [&str; 0]);

    let mut seen = Vec::new();
    let mut query = "?limit=4".to_owned();
    loop {
        let page = get(&node, &format!("/v1/jobs{query}"));
        seen.extend(page["items"].as_array().unwrap().iter().map(id));
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        query = format!("?limit=4&cursor={cursor}");
    }
    assert_eq!(seen, newest, "each once, in order");
}

fn jobs_are_counted_by_kind_and_state(store: Store) {
    let node = store.serve("");
    let empty = get(&node, "/v1/jobs/stats");
    assert_eq!(
        empty,
        json!({"items": [], "states": {}, "total": 0, "held": 0, "ops_in_doubt": 0})
    );
    for n in 0..3 {
        posted(&node, "/v1/jobs", &work(n));
    }
    lease(&node, &json!({"owner": "w"}));
    let stats = get(&node, "/v1/jobs/stats");
    assert_eq!(stats["states"], json!({"PLANNED": 2, "LEASED": 1}));
    assert_eq!((&stats["total"], &stats["held"]), (&json!(3), &json!(1)));
    let items = stats["items"].as_array().unwrap();
    assert!(
        items.contains(&json!({"kind": "download", "state": "LEASED", "count": 1, "held": 1})),
        "{stats}"
    );
}

fn a_list_says_what_it_cannot_follow(store: Store) {
    let node = store.serve("");
    for query in [
        "limit=0",
        "limit=501",
        "limit=x",
        "state=planned",
        "state=NOWHERE",
        "kind=A",
        "kind=",
        "work_id=",
        "work_id=%00",
        "held=maybe",
        "cursor=x",
        "unknown=1",
    ] {
        let answer = node.owner("GET", &format!("/v1/jobs?{query}"), "");
        assert_eq!(
            answer.refusal(),
            (400, "schema_validation_failed".to_owned()),
            "{query}"
        );
        let errors = answer.json()["error"]["details"]["errors"].clone();
        assert!(
            matches!(errors, Value::Array(ref list) if !list.is_empty()),
            "{query}"
        );
    }
}

on_both_stores!(
    jobs_are_listed_newest_first_by_state_kind_work_and_holder,
    jobs_are_counted_by_kind_and_state,
    a_list_says_what_it_cannot_follow,
);
