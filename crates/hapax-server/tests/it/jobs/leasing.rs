//! One worker at a time, fenced by the epoch, and nothing to clean up after a dead one.

use serde_json::{Value, json};

use super::{
    act, acted, advance, get, id, lease, leased, leased_later, plan, post, posted, refused, work,
};
use crate::both::{Store, on_both_stores, seconds_left};

fn a_lease_is_for_one_worker_and_says_until_when(store: Store) {
    let node = store.serve("");
    let planned = plan(&node, 1);
    let job = leased(&node, "worker-1");
    assert_eq!(job["job_id"], planned.as_str());
    assert_eq!(
        (
            &job["state"],
            &job["epoch"],
            &job["attempts"],
            &job["owner"]
        ),
        (&json!("LEASED"), &json!(1), &json!(1), &json!("worker-1"))
    );
    let left = seconds_left(&node, &job["lease_until"]);
    assert!(
        (115..=120).contains(&left),
        "two minutes unless asked: {left}"
    );
    assert_eq!(
        lease(&node, &json!({"owner": "worker-2"})),
        [] as [Value; 0]
    );
}

fn jobs_are_leased_by_kind_and_in_the_order_of_attempts_and_planning(store: Store) {
    let node = store.serve("");
    let mut enrich = work(9);
    enrich["kind"] = json!("enrich");
    let enrich = id(&posted(&node, "/v1/jobs", &enrich));
    let downloads: Vec<String> = (0..4).map(|n| plan(&node, n)).collect();
    let ids = |jobs: &[Value]| jobs.iter().map(id).collect::<Vec<_>>();

    let of_kind = lease(
        &node,
        &json!({"owner": "w", "kinds": ["enrich", "other"], "limit": 9}),
    );
    assert_eq!(ids(&of_kind), [enrich]);
    let two = lease(&node, &json!({"owner": "w", "limit": 2}));
    assert_eq!(ids(&two), downloads[..2]);
    for job in &two {
        acted(&node, job, "release", &json!({}));
    }
    let all = lease(
        &node,
        &json!({"owner": "w", "kinds": ["download"], "limit": 500}),
    );
    let first: Vec<String> = downloads[2..]
        .iter()
        .chain(&downloads[..2])
        .cloned()
        .collect();
    assert_eq!(ids(&all), first, "those that nobody tried yet come first");
    assert_eq!(all[3]["attempts"], 2);
}

fn an_expired_lease_is_taken_over_and_progress_is_kept(store: Store) {
    let node = store.serve("");
    for (n, steps) in [
        &[][..],
        &["HEAD_DONE"],
        &["HEAD_DONE", "RESUME_OK"],
        &["HEAD_DONE", "STREAMING"],
        &["HEAD_DONE", "STREAMING", "FINALIZED"],
    ]
    .iter()
    .enumerate()
    {
        plan(&node, n);
        let job = leased(&node, "worker-1");
        let state = steps.last().copied().unwrap_or("LEASED");
        for step in *steps {
            advance(&node, &job, step);
        }
        acted(&node, &job, "renew", &json!({"ttl_s": 0.05}));
        let taken = leased_later(&node, "worker-2");
        assert_eq!(taken["job_id"], job["job_id"]);
        assert_eq!(
            (&taken["state"], &taken["epoch"], &taken["attempts"]),
            (&json!(state), &json!(2), &json!(2)),
            "{state}"
        );
        // The first worker wakes up: whatever it does is refused, and changes nothing.
        for (verb, more) in [
            ("renew", json!({"ttl_s": 60})),
            ("release", json!({})),
            ("advance", json!({"to_state": "SKIPPED_DUPLICATE"})),
            ("fail", json!({"error": "late"})),
        ] {
            let details = refused(&act(&node, &job, verb, &more), 409, "lease_lost");
            assert_eq!(
                (
                    &details["epoch"],
                    &details["owner"],
                    &details["lease_until"]
                ),
                (&json!(2), &json!("worker-2"), &taken["lease_until"]),
                "{verb}"
            );
        }
        let shown = get(&node, &format!("/v1/jobs/{}", id(&job)));
        assert_eq!(
            (&shown["state"], &shown["owner"]),
            (&json!(state), &json!("worker-2"))
        );
        advance(&node, &taken, "SKIPPED_DUPLICATE");
    }
}

fn a_holder_renews_even_late_until_somebody_else_has_the_job(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = lease(&node, &json!({"owner": "w", "ttl_s": 0.001})).remove(0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let renewed = acted(&node, &job, "renew", &json!({"ttl_s": 60}));
    assert_eq!(renewed["epoch"], 1);
    assert_eq!(lease(&node, &json!({"owner": "x"})), [] as [Value; 0]);
    let left = seconds_left(&node, &renewed["lease_until"]);
    assert!((55..=60).contains(&left), "{left}");
    let usual = acted(&node, &job, "renew", &json!({}));
    assert!(seconds_left(&node, &usual["lease_until"]) > 100);
}

fn a_released_job_is_there_for_the_next_at_once(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "worker-1");
    advance(&node, &job, "HEAD_DONE");
    let released = acted(&node, &job, "release", &json!({}));
    assert_eq!(
        (
            &released["owner"],
            &released["lease_until"],
            &released["state"]
        ),
        (&Value::Null, &Value::Null, &json!("HEAD_DONE"))
    );
    let next = leased(&node, "worker-2");
    assert_eq!(
        (&next["epoch"], &next["state"]),
        (&json!(2), &json!("HEAD_DONE"))
    );
    assert_eq!(next["failures"], 0, "giving back is no failure");
}

fn owner_and_epoch_may_be_left_out_where_nobody_holds_the_job(store: Store) {
    let node = store.serve("");
    let planned = plan(&node, 1);
    let path = |verb: &str| format!("/v1/jobs/{planned}/{verb}");
    assert_eq!(node.owner("POST", &path("release"), "").status, 200);
    let job = leased(&node, "w");
    let step = json!({"to_state": "HEAD_DONE"});
    refused(&post(&node, &path("advance"), &step), 409, "lease_lost");
    refused(&post(&node, &path("fail"), &json!({})), 409, "lease_lost");
    refused(
        &post(&node, &path("release"), &json!({})),
        409,
        "lease_lost",
    );
    refused(&post(&node, &path("renew"), &json!({})), 409, "lease_lost");
    let other = json!({"owner": "x", "epoch": 1, "to_state": "HEAD_DONE"});
    refused(&post(&node, &path("advance"), &other), 409, "lease_lost");
    acted(&node, &job, "release", &json!({}));
    assert_eq!(posted(&node, &path("advance"), &step)["state"], "HEAD_DONE");
}

on_both_stores!(
    a_lease_is_for_one_worker_and_says_until_when,
    jobs_are_leased_by_kind_and_in_the_order_of_attempts_and_planning,
    an_expired_lease_is_taken_over_and_progress_is_kept,
    a_holder_renews_even_late_until_somebody_else_has_the_job,
    a_released_job_is_there_for_the_next_at_once,
    owner_and_epoch_may_be_left_out_where_nobody_holds_the_job,
);
