//! Many workers at once: each job goes to one of them.

use std::collections::BTreeSet;

use serde_json::json;

use super::{acted, get, id, lease, posted, work};
use crate::both::{Store, on_both_stores};

const JOBS: usize = 200;
const WORKERS: usize = 20;

fn twenty_workers_get_two_hundred_jobs_each_once(store: Store) {
    let node = store.serve("");
    let jobs: Vec<_> = (0..JOBS).map(work).collect();
    posted(&node, "/v1/jobs/batch", &json!({"jobs": jobs}));
    let mut taken: Vec<(String, usize)> = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let node = &node;
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    loop {
                        let ask = json!({"owner": format!("w-{worker}"), "limit": 3});
                        let jobs = lease(node, &ask);
                        if jobs.is_empty() {
                            return mine;
                        }
                        for job in jobs {
                            assert_eq!((&job["epoch"], &job["attempts"]), (&json!(1), &json!(1)));
                            acted(node, &job, "advance", &json!({"to_state": "HEAD_DONE"}));
                            mine.push((id(&job), worker));
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            taken.extend(worker.join().unwrap());
        }
    });
    let distinct: BTreeSet<&String> = taken.iter().map(|(id, _)| id).collect();
    assert_eq!((taken.len(), distinct.len()), (JOBS, JOBS));
    let stats = get(&node, "/v1/jobs/stats");
    assert_eq!(
        (&stats["states"], &stats["held"], &stats["total"]),
        (&json!({"HEAD_DONE": JOBS}), &json!(JOBS), &json!(JOBS))
    );
}

fn a_job_planned_by_many_at_once_is_planned_once(store: Store) {
    let node = store.serve("");
    let planned: usize = std::thread::scope(|scope| {
        let planners: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| posted(&node, "/v1/jobs", &work(1))["planned"] == json!(true)))
            .collect();
        let each = planners.into_iter().map(|planner| planner.join().unwrap());
        each.filter(|planned| *planned).count()
    });
    assert_eq!(planned, 1);
    assert_eq!(get(&node, "/v1/jobs/stats")["total"], 1);
}

on_both_stores!(
    twenty_workers_get_two_hundred_jobs_each_once,
    a_job_planned_by_many_at_once_is_planned_once,
);
