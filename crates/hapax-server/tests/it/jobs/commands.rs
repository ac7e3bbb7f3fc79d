//! `hapax jobs`, beside a running server.

use serde_json::{Value, json};

use super::{acted, begin, get, id, lease, leased, plan, posted, work};
use crate::both::{Node, Store, on_both_stores};

fn text(node: &Node, arguments: &[&str]) -> String {
    String::from_utf8(node.run(arguments, 0).stdout).unwrap()
}

fn jobs_are_listed_and_shown(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let mut enrich = work(2);
    enrich["kind"] = json!("enrich");
    enrich["payload"] = json!({"a": 1});
    posted(&node, "/v1/jobs", &enrich);
    let job = lease(&node, &json!({"owner": "w", "kinds": ["enrich"]})).remove(0);
    begin(&node, &job, "LLM", &json!({}));

    assert_eq!(node.command(&["jobs", "list"]), get(&node, "/v1/jobs"));
    let filtered = [
        "jobs",
        "list",
        "--kind",
        "enrich",
        "--state",
        "LEASED",
        "--work-id",
        "w-2",
        "--held",
    ];
    assert_eq!(node.command(&filtered)["items"][0]["job_id"], job["job_id"]);
    let limited = node.command(&["jobs", "list", "--limit", "1"]);
    assert_eq!(limited["items"].as_array().unwrap().len(), 1);
    assert!(limited["next_cursor"].is_string());
    let other = [
        "jobs",
        "list",
        "--tenant",
        "11111111-1111-1111-1111-111111111111",
    ];
    assert_eq!(node.command(&other)["items"], json!([]));
    let lines = text(&node, &["jobs", "list"]);
    assert_eq!(
        lines.lines().count(),
        2,
        "no head and no frame in a pipe: {lines}"
    );
    let first: Vec<&str> = lines.lines().next().unwrap().split('\t').collect();
    assert_eq!(first[..5], [&*id(&job), "enrich", "LEASED", "1", "w"]);

    let show = ["jobs", "show", &id(&job)];
    assert_eq!(
        node.command(&show),
        get(&node, &format!("/v1/jobs/{}", id(&job)))
    );
    let shown = text(&node, &show);
    assert!(
        shown.contains("state\tLEASED\n") && shown.contains("\tLLM\trunning\t"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "no colours in a pipe");
    let missing = node.run(&["jobs", "show", "nothing"], 1);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no job with the id nothing"));
    node.run(&["jobs", "list", "--state", "nowhere"], 2);
    node.run(&["jobs", "list", "--kind", "A"], 2);
}

fn jobs_are_counted_and_their_holders_named(store: Store) {
    let node = store.serve("");
    for n in 0..3 {
        plan(&node, n);
    }
    let job = leased(&node, "worker-7");
    assert_eq!(
        node.command(&["jobs", "stats"]),
        get(&node, "/v1/jobs/stats")
    );
    let lines = text(&node, &["jobs", "stats"]);
    assert!(lines.contains("download\tPLANNED\t2\t0\n"), "{lines}");
    assert!(lines.contains("download\tLEASED\t1\t1\n"), "{lines}");

    let leases = node.command(&["jobs", "leases"])["items"].clone();
    assert_eq!(leases.as_array().unwrap().len(), 1);
    assert_eq!(
        (
            &leases[0]["job_id"],
            &leases[0]["owner"],
            &leases[0]["epoch"],
            &leases[0]["lease_until"]
        ),
        (
            &job["job_id"],
            &json!("worker-7"),
            &json!(1),
            &job["lease_until"]
        )
    );
    let left = leases[0]["seconds_left"].as_f64().unwrap();
    assert!((100.0..=120.0).contains(&left), "{left}");
    let lines = text(&node, &["jobs", "leases"]);
    assert!(
        lines.starts_with(&format!("worker-7\t{}\tdownload\tLEASED\t1\t", id(&job))),
        "{lines}"
    );
    acted(&node, &job, "release", &json!({}));
    assert_eq!(text(&node, &["jobs", "leases"]), "");
}

fn given_up_jobs_are_retried_by_id_or_all_at_once(store: Store) {
    let node = store.serve("");
    for n in 0..4 {
        plan(&node, n);
    }
    let jobs = lease(&node, &json!({"owner": "w", "limit": 3}));
    for job in &jobs {
        acted(&node, job, "fail", &json!({"retryable": false}));
    }
    let one = node.command(&["jobs", "retry", &id(&jobs[0])]);
    assert_eq!(
        one,
        json!({"retried": 1, "items": [{"ok": true, "job_id": jobs[0]["job_id"], "state": "PLANNED"}]})
    );
    // One that is not given up, and one that is not there.
    let mixed = node.run(
        &[
            "jobs",
            "retry",
            &id(&jobs[0]),
            &id(&jobs[1]),
            "nothing",
            "--json",
        ],
        1,
    );
    let mixed: Value = serde_json::from_slice(&mixed.stdout).unwrap();
    let codes: Vec<&Value> = mixed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["error"]["code"])
        .collect();
    assert_eq!(
        codes,
        [
            &json!("state_transition_denied"),
            &Value::Null,
            &json!("not_found")
        ]
    );
    assert_eq!(mixed["retried"], 1);
    let all = text(&node, &["jobs", "retry", "--state", "DEAD"]);
    assert!(all.starts_with("1 jobs start over"), "{all}");
    assert_eq!(
        get(&node, "/v1/jobs/stats")["states"],
        json!({"PLANNED": 4})
    );
    let audit = get(&node, "/v1/audit?action=job_retried");
    assert_eq!(audit["items"].as_array().unwrap().len(), 3);
    assert_eq!(audit["items"][0]["actor"], "hapax jobs retry");
    for wrong in [
        &["jobs", "retry"][..],
        &["jobs", "retry", "--state", "PLANNED"],
        &["jobs", "retry", "x", "--state", "DEAD"],
    ] {
        node.run(wrong, 2);
    }
}

on_both_stores!(
    jobs_are_listed_and_shown,
    jobs_are_counted_and_their_holders_named,
    given_up_jobs_are_retried_by_id_or_all_at_once,
);
