//! Jobs that the program runs itself, driven over the API.

use serde_json::{Value, json};

use crate::both::{Store, on_both_stores};
use crate::fixture::{Server, path, run};
use crate::http::Answer;
use crate::intents::{arguments, token_of_role};

const DEFAULT: &str = "00000000-0000-0000-0000-000000000000";
const OTHER: &str = "8f14e45f-ceea-467f-a0e6-d00b8d2b0d0a";

/// A server that has one job of each kind that the program runs itself, and works on none.
struct House {
    server: Server,
    store: Vec<String>,
    _folder: tempfile::TempDir,
}

impl House {
    fn new(store: Store) -> Self {
        let store = arguments(store);
        let folder = tempfile::tempdir().unwrap();
        let mail =
            "From a@example.org Mon Jan  1 00:00:00 2024\nMessage-ID: <1@x>\nSubject: s\n\ntext\n";
        std::fs::write(folder.path().join("box.mbox"), mail).unwrap();
        let server = Server::start_with(|command| {
            command
                .args(&store)
                .arg("--no-worker")
                .env("EMAIL_IMPORT_ROOT", folder.path())
                // Nobody listens there: what is asked stays a job that failed.
                .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
                .env("LITELLM_MASTER_KEY", "sk-1");
        });
        let house = Self {
            server,
            store,
            _folder: folder,
        };
        house.fill();
        house
    }

    fn fill(&self) {
        let packet =
            json!({"kind": "intent", "intent_type": "create_task", "fields": {"title": "t"}});
        let asked = self
            .server
            .owner("POST", "/v1/intents", &packet.to_string());
        assert_eq!(asked.status, 200, "{}", asked.text());
        let import = json!({"mbox_path": "box.mbox"}).to_string();
        let imported = self.server.owner("POST", "/import/email/mbox", &import);
        assert_eq!(imported.status, 200, "{}", imported.text());
        let text = json!({"clean_text": "tea is made of leaves"}).to_string();
        let enriched = self.server.owner("POST", "/enrich/t1", &text);
        assert!(enriched.status >= 500, "{}", enriched.text());
        let manifest = self.server.data().join("manifest.jsonl");
        let line = r#"{"work_id":"w","artifact_id":"a","canonical_url":"http://127.0.0.1:9/a"}"#;
        std::fs::write(&manifest, line).unwrap();
        let (data, out) = (self.server.data(), self.server.data().join("out"));
        let words = [
            "download",
            path(&manifest),
            "--out",
            path(&out),
            "--data",
            path(&data),
        ];
        let store: Vec<&str> = self.store.iter().map(String::as_str).collect();
        let downloaded = run(&[&words[..], &store].concat());
        assert_eq!(downloaded.status.code(), Some(1), "{downloaded:?}");
    }

    /// The jobs, one of each kind.
    fn jobs(&self) -> Vec<Value> {
        let jobs = self.server.owner("GET", "/v1/jobs", "").json();
        let jobs = jobs["items"].as_array().unwrap().clone();
        let mut kinds: Vec<&str> = jobs
            .iter()
            .map(|job| job["kind"].as_str().unwrap())
            .collect();
        kinds.retain(|kind| *kind != "own");
        kinds.sort_unstable();
        assert_eq!(kinds, ["download", "enrich", "import", "intent"]);
        jobs
    }

    fn shown(&self, id: &str) -> String {
        let shown = self.server.owner("GET", &format!("/v1/jobs/{id}"), "");
        assert_eq!(shown.status, 200, "it is read: {}", shown.text());
        shown.text()
    }

    fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.server.bearing(token, "POST", path, &body.to_string())
    }
}

/// Everything that a caller may say to a job and its operations.
fn acts(job: &Value, op: Option<&str>) -> Vec<(String, Value)> {
    let id = job["job_id"].as_str().unwrap();
    let mut acts = vec![
        (format!("/v1/jobs/{id}/renew"), json!({"ttl_s": 86400})),
        (format!("/v1/jobs/{id}/release"), json!({})),
        (
            format!("/v1/jobs/{id}/advance"),
            json!({"to_state": "FINALIZED"}),
        ),
        (
            format!("/v1/jobs/{id}/advance"),
            json!({"to_state": job["state"]}),
        ),
        (
            format!("/v1/jobs/{id}/fail"),
            json!({"error": "x", "retryable": false}),
        ),
        (
            "/v1/ops/begin".to_owned(),
            json!({"job_id": id, "kind": "NEW", "context": {}}),
        ),
        (
            "/v1/ops/begin".to_owned(),
            json!({"job_id": id, "kind": "NEW", "op_key": "new"}),
        ),
    ];
    if let Some(op) = op {
        acts.push((
            format!("/v1/ops/{op}/complete"),
            json!({"token": "t", "result": 1}),
        ));
        acts.push((
            format!("/v1/ops/{op}/fail"),
            json!({"token": "t", "error": "x"}),
        ));
        acts.push((format!("/v1/ops/{op}/resolve"), json!({"result": 1})));
        acts.push((format!("/v1/ops/{op}/resolve"), json!({"retry": true})));
    }
    acts
}

fn the_programs_jobs_are_read_and_driven_by_nobody_outside(store: Store) {
    let house = House::new(store);
    let [writer, owner, theirs] = [(DEFAULT, "writer"), (DEFAULT, "owner"), (OTHER, "owner")]
        .map(|(tenant, role)| token_of_role(&house.server, &house.store, tenant, role));
    for job in house.jobs() {
        let id = job["job_id"].as_str().unwrap();
        let before = house.shown(id);
        let whole: Value = serde_json::from_str(&before).unwrap();
        assert_ne!(whole["place"], "", "{whole}");
        let op = whole["ops"][0]["op_key"].as_str();
        let fences = [
            json!({}),
            json!({"epoch": job["epoch"]}),
            json!({"owner": job["owner"].as_str().unwrap_or("w"), "epoch": job["epoch"]}),
        ];
        for (path, body) in acts(&job, op) {
            for fence in &fences {
                let mut body = body.clone();
                for (name, value) in fence.as_object().unwrap() {
                    body[name] = value.clone();
                }
                for token in [&writer, &owner] {
                    if *token == owner && path.ends_with("/resolve") {
                        continue;
                    }
                    let answer = house.post(token, &path, &body);
                    assert_eq!(answer.status, 403, "{path} {body}: {}", answer.text());
                    let error = &answer.json()["error"];
                    assert_eq!(error["code"], "forbidden", "{path} {body}");
                    assert_eq!(
                        error["details"]["reason"], "job_of_the_program",
                        "{path} {body}"
                    );
                }
                let answer = house.post(&theirs, &path, &body);
                assert_eq!(answer.code(), "not_found", "{path} {body}");
            }
        }
        for body in [json!({"to_state": "FINALIZED"}), json!({"error": "x"})] {
            let mut item = body.clone();
            item["job_id"] = id.into();
            item["epoch"] = job["epoch"].clone();
            let settled = house.post(&writer, "/v1/jobs/settle", &json!({"items": [item]}));
            let error = settled.json()["items"][0]["error"].clone();
            assert_eq!(error["details"]["reason"], "job_of_the_program", "{error}");
        }
        assert_eq!(house.shown(id), before, "nothing changed");
    }
    let lease = json!({"owner": "w", "limit": 50});
    for token in [&writer, &owner] {
        let leased = house.post(token, "/v1/jobs/lease", &lease).json();
        assert_eq!(leased["jobs"], json!([]), "none is leased");
    }
}

fn an_owner_still_retries_what_the_program_gave_up(store: Store) {
    let house = House::new(store);
    let owner = token_of_role(&house.server, &house.store, DEFAULT, "owner");
    let jobs = house.jobs();
    let download = jobs.iter().find(|job| job["kind"] == "download").unwrap();
    assert_eq!(download["state"], "DEAD");
    let path = format!("/v1/jobs/{}/retry", download["job_id"].as_str().unwrap());
    let retried = house.post(&owner, &path, &json!({}));
    assert_eq!(
        (retried.status, &retried.json()["state"]),
        (200, &json!("PLANNED"))
    );
}

fn no_other_name_of_a_job_and_no_session_drives_the_programs_jobs(store: Store) {
    let house = House::new(store);
    let [writer, owner] =
        ["writer", "owner"].map(|role| token_of_role(&house.server, &house.store, DEFAULT, role));
    let body = json!({ "token": owner }).to_string();
    let json_type = ("content-type", "application/json");
    let signed_in = house
        .server
        .send("POST", "/session", &[json_type], body.as_bytes());
    let cookie = signed_in.header("set-cookie").unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    for job in house.jobs() {
        let id = job["job_id"].as_str().unwrap();
        let before = house.shown(id);
        let whole: Value = serde_json::from_str(&before).unwrap();
        let op = whole["ops"][0]["op_key"].as_str();
        let key = job["job_key"].as_str().unwrap();
        for name in [key.to_owned(), id.to_uppercase(), id.replace('-', "%2D")] {
            let mut named = job.clone();
            named["job_id"] = name.as_str().into();
            for (path, body) in acts(&named, op) {
                if path.ends_with("/resolve") {
                    continue;
                }
                let by_token = house.post(&writer, &path, &body);
                let headers = [json_type, ("cookie", cookie), ("x-hapax-csrf", "1")];
                let text = body.to_string();
                let by_session = house.server.send("POST", &path, &headers, text.as_bytes());
                for answer in [by_token, by_session] {
                    let code = answer.code();
                    // A spelling that is no name of a job names none.
                    assert!(
                        code == "forbidden" || (name != key && code == "not_found"),
                        "{path} {body}: {}",
                        answer.text()
                    );
                }
            }
            let item = json!({"job_id": name, "to_state": "FINALIZED"});
            let settled = house.post(&writer, "/v1/jobs/settle", &json!({ "items": [item] }));
            assert_eq!(settled.json()["items"][0]["ok"], Value::Null);
        }
        let retried = house.post(&writer, &format!("/v1/jobs/{key}/retry"), &json!({}));
        assert_eq!(retried.code(), "forbidden", "a writer is no owner");
        assert_eq!(house.shown(id), before, "nothing changed");
    }
}

fn the_key_of_a_programs_operation_opens_nothing_from_another_job(store: Store) {
    let house = House::new(store);
    let writer = token_of_role(&house.server, &house.store, DEFAULT, "writer");
    let own = json!({"kind": "own", "work_id": "w", "artifact_id": "a", "canonical_url": "https://example.org/"});
    let own = house.post(&writer, "/v1/jobs", &own).json()["job_id"].clone();
    for job in house.jobs().iter().filter(|job| job["kind"] != "own") {
        let id = job["job_id"].as_str().unwrap();
        let before = house.shown(id);
        let whole: Value = serde_json::from_str(&before).unwrap();
        let ops = whole["ops"].as_array().unwrap();
        for op in ops {
            let asked = json!({"job_id": own, "kind": op["kind"], "op_key": op["op_key"], "class": "replayable", "token": "t"});
            let begun = house.post(&writer, "/v1/ops/begin", &asked);
            assert_eq!(begun.refusal(), (409, "key_conflict".to_owned()));
            assert!(begun.json()["result"].is_null(), "{}", begun.text());
        }
        assert_eq!(house.shown(id), before, "nothing changed");
    }
}

on_both_stores!(
    no_other_name_of_a_job_and_no_session_drives_the_programs_jobs,
    the_key_of_a_programs_operation_opens_nothing_from_another_job,
    the_programs_jobs_are_read_and_driven_by_nobody_outside,
    an_owner_still_retries_what_the_program_gave_up,
);
