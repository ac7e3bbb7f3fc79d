//! A job that a writer plans in advance under the name of one of the program's own.

use serde_json::{Value, json};

use crate::both::{Node, Store, on_both_stores};
use crate::fixture::{path, run};

const DEFAULT: &str = "00000000-0000-0000-0000-000000000000";

fn packet() -> Value {
    json!({"kind": "intent", "source": "s", "intent_type": "create_task", "fields": {"title": "t"}})
}

/// The job of the receipt of this packet, as another server names it. The same packet is the same job everywhere.
fn foretold(node: &Node) -> Value {
    let receipt = node
        .owner("POST", "/v1/intents", &packet().to_string())
        .json();
    let path = format!("/v1/jobs/{}", receipt["receipt_id"].as_str().unwrap());
    node.owner("GET", &path, "").json()
}

fn a_download_that_was_planned_in_other_words_is_not_adopted(store: Store) {
    let node = store.serve("");
    let writer = node.token_of(DEFAULT, "writer");
    let line = json!({"work_id": "w", "artifact_id": "a", "canonical_url": "http://127.0.0.1:1/a"});
    let mut planted = line.clone();
    planted["payload"] = json!({"sha256": "0".repeat(64)});
    let planted = node.bearing(&writer, "POST", "/v1/jobs", &planted.to_string());
    let id = planted.json()["job_id"].as_str().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let (manifest, out) = (folder.path().join("manifest"), folder.path().join("out"));
    std::fs::write(&manifest, format!("{line}\n")).unwrap();
    let (data, of_store) = (node.data(), node.store.clone());
    let of_store: Vec<&str> = of_store.iter().map(String::as_str).collect();
    let words = [
        "download",
        path(&manifest),
        "--out",
        path(&out),
        "--data",
        path(&data),
    ];
    let ended = run(&[&words[..], &["--allow-private-addresses"], &of_store[..]].concat());
    let job = node.owner("GET", &format!("/v1/jobs/{id}"), "").json();
    assert_eq!(
        (&job["place"], &job["state"]),
        (&json!(""), &json!("PLANNED")),
        "{ended:?}"
    );
    assert!(!out.join("files/w/a").exists());
}

fn no_job_is_planted_under_a_name_of_the_program(store: Store) {
    let job = foretold(&Store::Sqlite.serve(""));
    let node = store.serve("");
    let writer = node.token_of(DEFAULT, "writer");
    let plant = json!({
        "kind": "intent", "work_id": job["work_id"], "artifact_id": job["artifact_id"],
        "canonical_url": job["canonical_url"], "payload": {"packet": {"kind": "intent", "forged": true}},
    });
    let id = "4b5bd5b5-8b0c-4b6e-9d6e-2f6a0b2c7d11";
    let named = |kind: &str, url: String| json!({"kind": kind, "work_id": "w", "artifact_id": "a", "canonical_url": url});
    for planted in [
        plant,
        named("import", format!("import:{id}")),
        named("enrich", format!("t1-batch:t1-schedule-pkm-{id}-1")),
        named("enrich", format!("t1-request:{}", "0".repeat(64))),
    ] {
        let alone = node.bearing(&writer, "POST", "/v1/jobs", &planted.to_string());
        let many = json!({"jobs": [planted]}).to_string();
        let many = node.bearing(&writer, "POST", "/v1/jobs/batch", &many);
        for answer in [alone, many] {
            assert_eq!(answer.status, 403, "{planted}: {}", answer.text());
            let error = &answer.json()["error"];
            assert_eq!(error["details"]["reason"], "job_of_the_program", "{error}");
        }
    }
    let jobs = node.owner("GET", "/v1/jobs", "").json();
    assert_eq!(jobs["items"], json!([]), "nothing is planned");

    let answer = node.owner("POST", "/v1/intents", &packet().to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["receipt_id"], job["job_id"]);

    // A kind is no secret: other jobs of the same kinds are their planners' own.
    for kind in ["intent", "import", "enrich", "download"] {
        let own = named(kind, "https://example.org/".to_owned()).to_string();
        let own = node.bearing(&writer, "POST", "/v1/jobs", &own);
        assert_eq!(own.status, 201, "{}", own.text());
        assert_eq!(own.json()["place"], "");
    }
}

fn no_kind_takes_the_keys_of_downloads(store: Store) {
    let node = store.serve("");
    let writer = node.token_of(DEFAULT, "writer");
    let plan = |kind: &str, number: u32| {
        let url = format!("https://example.org/{number}");
        let job = json!({"kind": kind, "work_id": "w", "artifact_id": "a", "canonical_url": url});
        node.bearing(&writer, "POST", "/v1/jobs", &job.to_string())
    };
    // In its keys a download is called `artifact`.
    for (number, kinds) in [["artifact", "download"], ["download", "artifact"]]
        .into_iter()
        .enumerate()
    {
        let number = u32::try_from(number).unwrap();
        let [first, second] = kinds.map(|kind| {
            let planned = plan(kind, number);
            assert_eq!(planned.status, 201, "{kind}: {}", planned.text());
            let job = planned.json();
            assert_eq!(job["kind"], kind, "{job}");
            job
        });
        assert_ne!(first["job_key"], second["job_key"]);
        for kind in kinds {
            assert_eq!(plan(kind, number).status, 200, "{kind} is found again");
        }
    }
}

on_both_stores!(
    no_kind_takes_the_keys_of_downloads,
    no_job_is_planted_under_a_name_of_the_program,
    a_download_that_was_planned_in_other_words_is_not_adopted,
);
