//! Collections of the config file, and the command that fills in missing hashes.

use serde_json::json;

use super::{course, get, ingest, items, posted, refused, send, text};
use crate::both::{Store, on_both_stores};
use crate::fixture::{path, refused as refused_command, run};

const ORDERS: &str = r#"
[collections.orders]
id = "/order/number"
label = "/order/title"

[collections.orders.schema]
type = "object"
required = ["order"]

[collections.orders.schema.properties.order]
type = "object"
required = ["number", "total"]

[collections.orders.schema.properties.order.properties.total]
type = "number"
minimum = 0
"#;

fn another_collection_works_the_same_way_under_its_own_name(store: Store) {
    let node = store.serve(ORDERS);
    let order =
        |total: i64| json!({"order": {"number": 7, "title": "Seven", "total": total}}).to_string();
    let first = posted(&node, "/v1/orders/ingest", &order(10));
    assert_eq!((&first["id"], first.get("courseId")), (&json!("7"), None));
    assert_eq!(
        posted(&node, "/v1/orders/ingest", &order(10))["idempotent"],
        true
    );
    let batch = format!("[{},{}]", order(11), order(-1));
    let told = posted(&node, "/v1/orders/ingest/batch", &batch);
    assert_eq!(
        (&told["succeeded"], &told["failed"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&told["results"][0]["id"], &told["errors"][0]["id"]),
        (&json!("7"), &json!("7"))
    );
    assert_eq!(
        told["errors"][0]["details"]["errors"][0]["path"],
        "/order/total"
    );

    let refusal = send(&node, "/v1/orders/ingest", &[], r#"{"order":{"number":7}}"#);
    let details = refused(&refusal, 400, "schema_validation_failed");
    assert_eq!(details["errors"][0]["path"], "/order/total");
    let listed = get(&node, "/v1/orders?search=seven");
    assert_eq!(
        (&items(&listed)[0]["id"], &items(&listed)[0]["label"]),
        (&json!("7"), &json!("Seven"))
    );
    assert_eq!(items(&get(&node, "/v1/orders/7/snapshots")).len(), 2);
    let sid = text(&first["snapshotId"]);
    assert_eq!(
        get(&node, &format!("/v1/orders/7/snapshots/{sid}"))["id"],
        "7"
    );
    let diff = get(&node, "/v1/orders/7/diff");
    assert_eq!(diff["diff_summary"], json!(["order.total: '10' → '11'"]));
    assert_eq!(
        ingest(&node, &course("7", "C"))["idempotent"],
        false,
        "courses are there too"
    );
    assert_eq!(items(&get(&node, "/v1/courses")).len(), 1, "and apart");
}

fn the_same_text_in_two_collections_is_two_snapshots(store: Store) {
    let node = store.serve("[collections.lessons]\nid = '/course/id'\n");
    let payload = course("c", "C").to_string();
    let courses = posted(&node, "/v1/courses/ingest", &payload);
    let lessons = posted(&node, "/v1/lessons/ingest", &payload);
    assert_eq!(lessons["idempotent"], false);
    assert_ne!(lessons["snapshotId"], courses["snapshotId"]);
    let across = format!("/v1/lessons/c/snapshots/{}", text(&courses["snapshotId"]));
    refused(&node.owner("GET", &across, ""), 404, "not_found");
}

fn backfill_has_nothing_to_do_where_every_row_has_its_hash(store: Store) {
    let node = store.serve("");
    ingest(&node, &course("c", "C"));
    let nothing = json!({"filled": 0, "duplicates": 0, "unreadable": 0});
    assert_eq!(node.command(&["backfill"]), nothing);
    let said = String::from_utf8(node.run(&["backfill"], 0).stdout).unwrap();
    assert!(said.starts_with("filled 0 hashes"), "{said}");
    assert_eq!(ingest(&node, &course("c", "C"))["idempotent"], true);
}

#[test]
fn a_collection_that_cannot_be_followed_stops_the_start_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("hapax.toml"));
    for (text, said) in [
        (
            "[collections.keys]\nid = '/id'\n",
            "collections.keys: /v1/keys is taken",
        ),
        (
            "[collections.orders]\nid = 'number'\n",
            "collections.orders: id: a JSON pointer",
        ),
        (
            "[collections.orders]\nid = '/n'\nschema_file = 'no-such-file'\n",
            "no-such-file",
        ),
        (
            "[collections.orders]\nid = '/n'\nschema = { type = 'thing' }\n",
            "collections.orders: schema",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let arguments = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
            path(&data),
            "--config",
            path(&file),
        ];
        let told = refused_command(&arguments, 2);
        assert!(told.contains(said), "{told}");
        assert!(!data.exists(), "it leaves nothing behind");
        let found = run(&["doctor", "--data", path(&data), "--config", path(&file)]);
        assert_eq!(found.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&found.stdout).contains(said));
    }
}

on_both_stores!(
    another_collection_works_the_same_way_under_its_own_name,
    the_same_text_in_two_collections_is_two_snapshots,
    backfill_has_nothing_to_do_where_every_row_has_its_hash,
);
