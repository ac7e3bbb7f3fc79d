//! Lists, searches, histories and single snapshots.

use serde_json::{Value, json};

use super::{course, get, ingest, items, refused, text};
use crate::both::{Node, Store, on_both_stores};

fn ids(list: &Value) -> Vec<&str> {
    items(list).iter().map(|it| text(&it["courseId"])).collect()
}

fn entities_are_listed_with_what_changed_last_first(store: Store) {
    let node = store.serve("");
    for name in ["a", "b", "c"] {
        ingest(&node, &course(name, &name.to_uppercase()));
    }
    let newest = ingest(&node, &course("a", "A2"));
    ingest(&node, &course("b", "B"));
    let list = get(&node, "/v1/courses");
    assert_eq!(
        ids(&list),
        ["a", "c", "b"],
        "what came again did not change"
    );
    let first = &items(&list)[0];
    assert_eq!(
        first,
        &json!({
            "courseId": "a",
            "name": "A2",
            "currentSnapshotId": newest["snapshotId"],
            "snapshots": 2,
            "created_at": first["created_at"],
            "updated_at": first["updated_at"],
        })
    );
    assert!(text(&first["created_at"]) <= text(&first["updated_at"]));
    assert_eq!(list["next_cursor"], Value::Null);
}

fn entities_are_found_by_id_and_name_as_written(store: Store) {
    let node = store.serve("");
    for (id, name) in [
        ("alg-1", "Linear Algebra"),
        ("ana-1", "Analysis"),
        ("odd", "100% of a_b"),
    ] {
        ingest(&node, &course(id, name));
    }
    for (search, found) in [
        ("ALG", &["alg-1"][..]),
        ("alys", &["ana-1"]),
        ("-1", &["ana-1", "alg-1"]),
        ("%25", &["odd"]),
        ("a_b", &["odd"]),
        ("_", &["odd"]),
        ("%25%25", &[]),
        ("", &["odd", "ana-1", "alg-1"]),
        ("nothing", &[]),
    ] {
        let list = get(&node, &format!("/v1/courses?search={search}"));
        assert_eq!(ids(&list), found, "{search}");
    }
}

fn pages_follow_each_other_without_a_gap(store: Store) {
    let node = store.serve("");
    for n in 0..7 {
        ingest(&node, &course(&format!("c-{n}"), "C"));
    }
    let walk = |start: &str| {
        let (mut seen, mut path) = (Vec::new(), start.to_owned());
        loop {
            let page = get(&node, &path);
            seen.push(ids(&page).join(" "));
            match page["next_cursor"].as_str() {
                Some(cursor) => path = format!("{start}&cursor={cursor}"),
                None => return seen,
            }
        }
    };
    assert_eq!(
        walk("/v1/courses?limit=3"),
        ["c-6 c-5 c-4", "c-3 c-2 c-1", "c-0"]
    );
    assert_eq!(
        walk("/v1/courses?limit=7").len(),
        1,
        "no empty page at the end"
    );
    let page = get(&node, "/v1/courses?limit=2&offset=4");
    assert_eq!(
        (ids(&page), &page["next_cursor"]),
        (vec!["c-2", "c-1"], &json!("6"))
    );
    assert_eq!(get(&node, "/v1/courses?offset=70")["items"], json!([]));
    for wrong in [
        "limit=0",
        "limit=501",
        "limit=x",
        "offset=-1",
        "cursor=x",
        "offset=1&cursor=1",
        "serch=x",
    ] {
        let answer = node.owner("GET", &format!("/v1/courses?{wrong}"), "");
        refused(&answer, 400, "schema_validation_failed");
    }
    for wrong in ["%00".to_owned(), "x".repeat(256)] {
        let answer = node.owner("GET", &format!("/v1/courses?search={wrong}"), "");
        refused(&answer, 400, "schema_validation_failed");
    }
}

fn a_history_is_paged_newest_first(store: Store) {
    let node = store.serve("");
    for n in 0..5 {
        ingest(&node, &course("c", &format!("V{n}")));
    }
    let (mut names, mut path) = (Vec::new(), "/v1/courses/c/snapshots?limit=2".to_owned());
    loop {
        let page = get(&node, &path);
        names.push(
            items(&page)
                .iter()
                .map(|it| text(&it["name"]).to_owned())
                .collect::<Vec<_>>(),
        );
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/courses/c/snapshots?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(names, [vec!["V4", "V3"], vec!["V2", "V1"], vec!["V0"]]);
    let page = get(&node, "/v1/courses/c/snapshots");
    assert!(
        items(&page)[0].get("payload").is_none(),
        "a history is short"
    );
    let current: Vec<_> = items(&page)
        .iter()
        .map(|it| it["current"] == true)
        .collect();
    assert_eq!(current, [true, false, false, false, false]);
    let wrong = node.owner("GET", "/v1/courses/c/snapshots?cursor=x", "");
    refused(&wrong, 400, "schema_validation_failed");
}

fn a_snapshot_says_who_sent_it(store: Store) {
    let node = store.serve("");
    let writer = node.token_of("default", "writer");
    let first = ingest(&node, &course("c", "C"));
    let again = node.bearing(
        &writer,
        "POST",
        super::INGEST,
        &course("c", "C").to_string(),
    );
    assert_eq!(again.status, 200, "{}", again.text());
    let path = format!("/v1/courses/c/snapshots/{}", text(&first["snapshotId"]));
    let shown = get(&node, &path);
    assert_eq!(
        (
            &shown["courseId"],
            &shown["snapshotId"],
            &shown["seen"],
            &shown["current"]
        ),
        (&json!("c"), &first["snapshotId"], &json!(2), &json!(true))
    );
    assert_eq!(text(&shown["hash"]).len(), 64);
    assert_eq!(shown["payload"], course("c", "C"));
    let seen = shown["observations"].as_array().unwrap();
    assert_eq!(seen.len(), 2);
    assert!(text(&seen[0]["by"]).starts_with("token "));
    assert_ne!(seen[0]["by"], seen[1]["by"]);
    assert!(text(&seen[0]["at"]) >= text(&seen[1]["at"]));
}

fn an_id_may_hold_whatever_a_path_can_carry(store: Store) {
    let node = store.serve("");
    for (id, written) in [
        ("a/b", "a%2Fb"),
        ("a/b/snapshots", "a%2Fb%2Fsnapshots"),
        ("100% ?#", "100%25%20%3F%23"),
        ("naïve 日本", "na%C3%AFve%20%E6%97%A5%E6%9C%AC"),
        ("ingest", "ingest"),
        ("ingest/batch", "ingest%2Fbatch"),
        ("a+b", "a+b"),
    ] {
        let sid = ingest(&node, &course(id, "C"))["snapshotId"].clone();
        let root = format!("/v1/courses/{written}");
        assert_eq!(get(&node, &root)["courseId"], id);
        assert_eq!(get(&node, &root)["currentSnapshotId"], sid);
        let history = get(&node, &format!("{root}/snapshots"));
        assert_eq!(items(&history).len(), 1, "{id}");
        let shown = get(&node, &format!("{root}/snapshots/{}", text(&sid)));
        assert_eq!(shown["courseId"], id);
        assert_eq!(get(&node, &format!("{root}/diff"))["courseId"], id);
    }
}

fn what_is_not_there_is_not_found(store: Store) {
    let node = store.serve("");
    let of_a = ingest(&node, &course("a", "A"))["snapshotId"].clone();
    ingest(&node, &course("b", "B"));
    let missing = |node: &Node, path: &str| {
        refused(&node.owner("GET", path, ""), 404, "not_found");
    };
    for path in [
        "/v1/courses/nobody",
        "/v1/courses/nobody/snapshots",
        "/v1/courses/nobody/diff",
        "/v1/courses/a/snapshots/nothing",
        "/v1/courses/a/snapshots/00000000-0000-8000-8000-000000000000",
        "/v1/courses/a/diff?from=nothing",
        "/v1/courses/%00",
        "/v1/courses/%ff",
        "/v1/lessons",
        "/v1/lessons/a",
        "/v1/lessons/a/snapshots",
    ] {
        missing(&node, path);
    }
    missing(&node, &format!("/v1/courses/{}", "x".repeat(256)));
    // A snapshot of another entity is none of this one.
    missing(&node, &format!("/v1/courses/b/snapshots/{}", text(&of_a)));
    missing(&node, &format!("/v1/courses/b/diff?from={}", text(&of_a)));
    let unknown = node.owner("POST", "/v1/lessons/ingest", "{}");
    refused(&unknown, 404, "not_found");
}

on_both_stores!(
    entities_are_listed_with_what_changed_last_first,
    entities_are_found_by_id_and_name_as_written,
    pages_follow_each_other_without_a_gap,
    a_history_is_paged_newest_first,
    a_snapshot_says_who_sent_it,
    an_id_may_hold_whatever_a_path_can_carry,
    what_is_not_there_is_not_found,
);
