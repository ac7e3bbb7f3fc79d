//! The keys of jobs and operations against the shared vectors, which Python's `json.dumps` made.

use hapax_core::canonical::{Profile, canonical};
use hapax_core::job::{JobId, JobKind, NewJob, job_key, op_key};
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../spec/vectors/keys.json"
    )))
    .unwrap()
}

fn text<'a>(case: &'a Value, member: &str) -> &'a str {
    case[member].as_str().unwrap()
}

#[test]
fn every_job_key_is_what_the_vectors_say() {
    for case in vectors()["job"].as_array().unwrap() {
        let kind = JobKind::new(text(case, "kind")).unwrap();
        let of = ["work_id", "artifact_id", "canonical_url"].map(|member| text(case, member));
        let key = job_key(&kind, of[0], of[1], of[2]);
        assert_eq!(case["hash"], key, "{}", case["name"]);
        if let Ok(job) = NewJob::new(kind, of[0], of[1], of[2]) {
            assert_eq!(job.key(), key, "{}", case["name"]);
        }
    }
}

#[test]
fn every_op_key_is_what_the_vectors_say() {
    for case in vectors()["op"].as_array().unwrap() {
        let job = JobId::new(text(case, "job_id")).unwrap();
        let key = op_key(text(case, "kind"), &job, Some(text(case, "context"))).unwrap();
        assert_eq!(case["hash"], key.as_str(), "{}", case["name"]);
    }
}

#[test]
fn what_is_hashed_is_the_py_json_form() {
    let vectors = vectors();
    let cases = ["job", "op"].map(|what| vectors[what].as_array().unwrap());
    for case in cases.into_iter().flatten() {
        let stated = text(case, "canonical");
        let again = canonical(stated.as_bytes(), Profile::PyJson).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), stated);
    }
}

#[test]
fn no_context_is_the_empty_one() {
    let job = JobId::new("j-1").unwrap();
    assert_eq!(
        op_key("INDEX", &job, None).unwrap(),
        op_key("INDEX", &job, Some("{}")).unwrap()
    );
}

#[test]
fn a_context_that_has_no_form_is_refused() {
    let job = JobId::new("j-1").unwrap();
    for context in [
        "[]",
        "1",
        "null",
        "",
        "{",
        r#"{"a":1,"a":2}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":1e999}"#,
    ] {
        assert!(op_key("HEAD", &job, Some(context)).is_err(), "{context}");
    }
}
