//! What an import refuses to be asked, and by whom.

use serde_json::{Value, json};

use super::House;
use super::mailbox::{Form, Mail, mailbox};
use crate::both::{Store, on_both_stores};

#[test]
fn every_member_out_of_its_limits_is_named() {
    let house = House::new(Store::Sqlite);
    house.put("a.mbox", mailbox(Form::Mboxrd, &[Mail::news(1)]));
    let paths = |more: Value| {
        let mut body = json!({"mbox_path": "a.mbox"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = house.ask(&body);
        assert_eq!(
            answer.refusal(),
            (400, "schema_validation_failed".to_owned()),
            "{body}"
        );
        let errors = answer.json()["error"]["details"]["errors"].clone();
        let errors = errors.as_array().unwrap().iter();
        errors
            .map(|error| error["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for size in [
        json!(0),
        json!(499),
        json!(2001),
        json!(-1),
        json!(1e3),
        json!("500"),
        json!(500.5),
    ] {
        assert_eq!(
            paths(json!({ "batch_size": size })),
            ["batch_size"],
            "{size}"
        );
    }
    for size in [json!(0), json!(2001), json!(-7), json!("1")] {
        assert_eq!(
            paths(json!({ "insert_chunk_size": size })),
            ["insert_chunk_size"],
            "{size}"
        );
    }
    for window in ["", "24", "24 h", "1w", "soon", "0h"] {
        assert_eq!(
            paths(json!({ "completion_window": window })),
            ["completion_window"],
            "{window}"
        );
    }
    let all = json!({"batch_size": 1, "insert_chunk_size": 9999, "completion_window": "x"});
    assert_eq!(
        paths(all),
        ["batch_size", "insert_chunk_size", "completion_window"]
    );
    assert_eq!(paths(json!({"async": "yes"})), ["async"]);
    assert_eq!(house.ask(&json!({})).status, 400);
    assert_eq!(
        house.ask(&json!({"mbox_path": "a.mbox", "mode": 1})).status,
        400
    );
    let good = json!({"mbox_path": "a.mbox", "batch_size": 2000, "insert_chunk_size": 1, "completion_window": "48h"});
    assert_eq!(house.done(&good)["total_messages"], 1);
}

#[test]
fn a_viewer_reads_and_does_not_import() {
    let house = House::new(Store::Sqlite);
    house.put("a.mbox", mailbox(Form::Mboxrd, &[Mail::news(1)]));
    let import = house.import("a.mbox");
    let (_, viewer) = house.mint("default", "viewer");
    let path = format!("/import/{}", import["import_id"].as_str().unwrap());
    assert_eq!(house.bearing(&viewer, "GET", &path, "").json(), import);
    assert_eq!(house.bearing(&viewer, "GET", "/v1/imports", "").status, 200);
    let refused = house.bearing(
        &viewer,
        "POST",
        "/import/email/mbox",
        r#"{"mbox_path":"a.mbox"}"#,
    );
    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(
        house.send("POST", "/import/email/mbox", &[], b"{}").status,
        401
    );
    assert_eq!(house.send("GET", &path, &[], b"").status, 401);
}

#[test]
fn a_writer_imports() {
    let house = House::new(Store::Sqlite);
    house.put("a.mbox", mailbox(Form::Mboxrd, &[Mail::news(1)]));
    let (_, writer) = house.mint("default", "writer");
    let body = r#"{"mbox_path":"a.mbox"}"#;
    let answer = house.bearing(&writer, "POST", "/import/email/mbox", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["inserted"], 1);
}

on_both_stores!(a_thread_policy_that_cannot_be_used_is_refused_at_the_start);

fn a_thread_policy_that_cannot_be_used_is_refused_at_the_start(store: Store) {
    let house = House::new(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &[Mail::reply("tea", 1)]));
    let body = json!({"mbox_path": "a.mbox", "thread_policy": "email_thread_refs_v1"});
    let path = "/v1/policies/email_thread_refs_v1";
    let mode = |is_on: bool| {
        let body = json!({ "is_test_mode": is_on }).to_string();
        assert_eq!(house.owner("POST", "/db/test-mode/set", &body).status, 200);
    };
    let set = |schema: &str, enabled: bool| {
        let path = format!("{path}?schema={schema}");
        let answer = house.owner("PUT", &path, &json!({ "enabled": enabled }).to_string());
        assert_eq!(answer.status, 200, "{}", answer.text());
    };

    let answer = house.ask(&body);
    assert_eq!(answer.refusal(), (400, "unknown_policy".to_owned()));
    assert!(answer.text().contains("hapax policies set"));
    set("pkm", false);
    assert_eq!(
        house.ask(&body).refusal(),
        (400, "policy_disabled".to_owned())
    );
    set("pkm", true);
    mode(true);
    assert_eq!(
        house.ask(&body).refusal(),
        (400, "unknown_policy".to_owned())
    );
    mode(false);
    let listed = house.owner("GET", "/v1/imports", "").json();
    assert_eq!(listed["items"], json!([]));
    let done = house.done(&body);
    assert_eq!(
        (&done["inserted"], &done["schema"]),
        (&json!(1), &json!("pkm"))
    );
}

#[test]
fn an_id_that_nobody_has_is_not_found() {
    let house = House::new(Store::Sqlite);
    for id in ["11111111-1111-1111-1111-111111111111", "x", "%00"] {
        let answer = house.owner("GET", &format!("/import/{id}"), "");
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{id}");
    }
    for query in ["limit=0", "limit=501", "cursor=x", "more=1"] {
        let answer = house.owner("GET", &format!("/v1/imports?{query}"), "");
        assert_eq!(answer.status, 400, "{query}");
    }
}
