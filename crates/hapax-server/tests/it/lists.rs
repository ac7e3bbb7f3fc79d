//! The lists that pages read: keys by how they begin, jobs by id, entries, plans as graphs, and how the server is set up.

use serde_json::{Value, json};

use crate::both::{Node, Store, on_both_stores};

on_both_stores! {
    keys_are_found_by_their_beginning_page_by_page,
    a_key_that_is_named_whole_comes_first_however_old_it_is,
    a_job_is_found_by_its_id_and_by_its_work,
    entries_are_listed_by_source_and_words_and_shown_whole,
    a_plan_is_shown_with_how_far_it_is,
    settings_and_collections_are_told_without_secrets,
}

fn get(node: &Node, path: &str) -> Value {
    let answer = node.owner("GET", path, "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn refused(node: &Node, path: &str) -> String {
    let answer = node.owner("GET", path, "");
    assert_eq!(
        answer.refusal(),
        (400, "schema_validation_failed".to_owned()),
        "{path}"
    );
    let errors = &answer.json()["error"]["details"]["errors"];
    errors[0]["path"].as_str().unwrap().to_owned()
}

fn keys_are_found_by_their_beginning_page_by_page(store: Store) {
    let node = store.serve("");
    for key in ["order-2", "order-10", "other", "Order-1", "order-%"] {
        let claim = json!({"key": key, "method": "POST", "path": "/api/v1/orders", "body": {}});
        crate::both::completed(&node, &claim, &json!({"ok": true}));
    }
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get(&node, &format!("/v1/keys?q=order-&limit=1{cursor}"));
        found.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["key"].clone()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, ["order-%", "order-10", "order-2"], "newest first");
    let of = |query: &str| get(&node, query)["items"].as_array().unwrap().len();
    assert_eq!(of("/v1/keys?q=o&route=POST:orders&state=settled"), 4);
    assert_eq!(of("/v1/keys?q=o&state=held"), 0);
    assert_eq!(of("/v1/keys?q=o&route=POST:nothing"), 0);
    assert_eq!(of("/v1/keys?route=POST:orders&limit=2"), 2);
    assert_eq!(refused(&node, "/v1/keys?q="), "q");
    assert_eq!(refused(&node, "/v1/keys?q=%C3%A9"), "q");
    assert_eq!(refused(&node, "/v1/keys?q=o&cursor=1_2"), "cursor");
}

fn a_key_that_is_named_whole_comes_first_however_old_it_is(store: Store) {
    let node = store.serve("");
    for (key, path) in [
        ("k", "/api/v1/orders"),
        ("k", "/api/v1/refunds"),
        ("k2", "/api/v1/orders"),
        ("k3", "/api/v1/orders"),
    ] {
        let claim = json!({"key": key, "method": "POST", "path": path, "body": {}});
        crate::both::completed(&node, &claim, &json!({"ok": true}));
    }
    for limit in [1, 2, 3, 50] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = get(&node, &format!("/v1/keys?q=k&limit={limit}{cursor}"));
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= limit, "{page}");
            found.extend(
                items
                    .iter()
                    .map(|item| format!("{} {}", item["key"], item["route_pattern"])),
            );
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let (first, rest) = found.split_at(limit.min(2));
        assert!(
            first.iter().all(|one| one.starts_with("\"k\" ")),
            "{found:?}"
        );
        let mut all = found.clone();
        all.sort();
        all.dedup();
        assert_eq!(
            (all.len(), found.len()),
            (4, 4),
            "each once: {found:?}, {rest:?}"
        );
    }
    // Pages of another size on the way.
    for limits in [[1, 50], [2, 1], [50, 1]] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        for limit in limits.into_iter().chain([50]) {
            let page = get(&node, &format!("/v1/keys?q=k&limit={limit}{cursor}"));
            let items = page["items"].as_array().unwrap();
            found.extend(items.iter().map(|item| item["id"].to_string()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let shown = found.len();
        found.sort();
        found.dedup();
        assert_eq!((found.len(), shown), (4, 4), "each once with {limits:?}");
    }
    let of = |query: &str| get(&node, query)["items"].as_array().unwrap().len();
    assert_eq!(of("/v1/keys?q=k&route=POST:refunds"), 1);
    assert_eq!(of("/v1/keys?q=k2&state=held"), 0);
}

fn a_job_is_found_by_its_id_and_by_its_work(store: Store) {
    let node = store.serve("");
    let plan = |work: &str, artifact: &str, kind: &str| {
        let job = json!({"kind": kind, "work_id": work, "artifact_id": artifact, "canonical_url": "https://example.org/"});
        let planned = node.owner("POST", "/v1/jobs", &job.to_string());
        planned.json()["job_id"].as_str().unwrap().to_owned()
    };
    let (one, two) = (plan("w-1", "a", "mine"), plan("w-1", "b", "other"));
    plan("w-2", "a", "mine");
    let ids = |query: &str| -> Vec<String> {
        let page = get(&node, query);
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|item| item["job_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        ids(&format!("/v1/jobs?q={one}")),
        std::slice::from_ref(&one)
    );
    assert_eq!(ids("/v1/jobs?q=w-1"), [two.clone(), one.clone()]);
    assert_eq!(ids("/v1/jobs?q=w-1&kind=mine"), std::slice::from_ref(&one));
    assert!(ids(&format!("/v1/jobs?q={one}&state=DEAD")).is_empty());
    assert!(ids("/v1/jobs?q=nothing").is_empty());
    assert_eq!(ids("/v1/jobs?kind=other&state=PLANNED"), [two]);
    assert_eq!(refused(&node, "/v1/jobs?q=a&work_id=b"), "q");
}

fn entries_are_listed_by_source_and_words_and_shown_whole(store: Store) {
    let node = store.serve("");
    let items: Vec<Value> = (0..5)
        .map(|number| {
            let source = ["web", "telegram-note"][number % 2];
            json!({"source": source, "title": format!("entry {number}"), "clean_text": "tea"})
        })
        .collect();
    let inserted = node.owner("POST", "/db/insert", &json!({"items": items}).to_string());
    assert_eq!(inserted.status, 200, "{}", inserted.text());
    let mut titles = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get(&node, &format!("/v1/entries?limit=2{cursor}"));
        titles.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["title"].clone()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(
        titles,
        ["entry 4", "entry 3", "entry 2", "entry 1", "entry 0"]
    );
    let of = |query: &str| get(&node, query)["items"].as_array().unwrap().len();
    assert_eq!(of("/v1/entries?source=web"), 3);
    assert_eq!(of("/v1/entries?q=tea&source=web&limit=500"), 3);
    assert_eq!(of("/v1/entries?q=coffee"), 0);
    assert_eq!(of("/v1/entries?schema=pkm_test"), 0);
    let number = inserted.json()[0]["entry_id"].to_string();
    let whole = get(&node, &format!("/v1/entries/{number}"));
    assert_eq!(
        (&whole["title"], &whole["clean_text"]),
        (&json!("entry 0"), &json!("tea"))
    );
    for path in [
        "/v1/entries/999999",
        "/v1/entries/x",
        "/v1/entries/x/revisions",
        &format!("/v1/entries/{number}?schema=pkm_test"),
    ] {
        assert_eq!(
            node.owner("GET", path, "").refusal(),
            (404, "not_found".to_owned()),
            "{path}"
        );
    }
    assert_eq!(refused(&node, "/v1/entries?limit=501"), "limit");
    assert_eq!(refused(&node, "/v1/entries?cursor=x"), "cursor");
    assert_eq!(refused(&node, "/v1/entries?schema=x"), "schema");
}

fn a_plan_is_shown_with_how_far_it_is(store: Store) {
    let node = store.serve("");
    let job = json!({"work_id": "w", "artifact_id": "a", "canonical_url": "https://example.org/"});
    let id = node.owner("POST", "/v1/jobs", &job.to_string()).json()["job_id"].clone();
    let id = id.as_str().unwrap();
    let leased = node
        .owner(
            "POST",
            "/v1/jobs/lease",
            &json!({"owner": "me"}).to_string(),
        )
        .json();
    let epoch = &leased["jobs"][0]["epoch"];
    let begin = json!({"job_id": id, "kind": "HEAD", "context": {}, "owner": "me", "epoch": epoch});
    let started = node
        .owner("POST", "/v1/ops/begin", &begin.to_string())
        .json();
    let state = |name: &str| {
        let graph = get(&node, &format!("/v1/jobs/{id}/graph"));
        let nodes = graph["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["name"] == name).unwrap()["state"].clone()
    };
    assert_eq!(
        (state("HEAD"), state("STREAM")),
        (json!("running"), json!("pending"))
    );
    let done =
        json!({"token": started["token"], "result": {"size": 7}, "owner": "me", "epoch": epoch});
    let done = done.to_string();
    let op = started["op_key"].as_str().unwrap();
    let answer = node.owner("POST", &format!("/v1/ops/{op}/complete"), &done);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(state("HEAD"), "done");
    let graph = get(&node, &format!("/v1/jobs/{id}/graph"));
    assert_eq!(graph["plan"], "download");
    let head = graph["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["name"] == "HEAD")
        .unwrap();
    assert_eq!(
        (&head["op_key"], &head["result"]),
        (&json!(op), &json!({"size": 7}))
    );
    let names: Vec<&Value> = graph["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| &node["name"])
        .collect();
    for edge in graph["edges"].as_array().unwrap() {
        assert!(
            names.contains(&&edge[0]) && names.contains(&&edge[1]),
            "{edge}"
        );
    }
    let own = json!({"kind": "mine", "work_id": "w", "artifact_id": "a", "canonical_url": "https://example.org/"});
    let own = node.owner("POST", "/v1/jobs", &own.to_string()).json()["job_id"].clone();
    let path = format!("/v1/jobs/{}/graph", own.as_str().unwrap());
    assert_eq!(
        get(&node, &path),
        json!({"plan": "", "nodes": [], "edges": []}),
        "it runs by no plan"
    );
}

fn settings_and_collections_are_told_without_secrets(store: Store) {
    let node = store.serve(
        "otlp_endpoint = \"http://me:planted@127.0.0.1:9/x?key=planted\"\n[collections.orders]\nid = \"/number\"\n",
    );
    let viewer = node.token_of("11111111-1111-1111-1111-111111111111", "viewer");
    let writer = node.token_of("11111111-1111-1111-1111-111111111111", "writer");
    let seen = node.bearing(&viewer, "GET", "/v1/settings", "");
    let answer = node.bearing(&writer, "GET", "/v1/settings", "");
    assert_eq!((seen.status, answer.status), (200, 200));
    let settings = answer.json();
    assert!(!answer.text().contains("planted"), "{settings}");
    assert_eq!(settings["config"]["otlp_endpoint"], "http://127.0.0.1:9/x");
    assert!(settings["database"].is_string(), "{settings}");
    let data = node.data();
    let data = data.to_str().unwrap();
    assert!(settings.to_string().contains(data), "{settings}");
    assert_eq!(
        settings["listen"],
        node.address.to_string(),
        "where it listens, and not the port 0 that was asked for"
    );
    let seen = seen.json();
    assert_eq!((seen.get("config"), seen.get("database")), (None, None));
    assert!(!seen.to_string().contains(data), "{seen}");
    assert_eq!(seen["limits"], settings["limits"]);
    let health = node.send("GET", "/health", &[], b"").json();
    assert_eq!(
        (&settings["store"], &settings["durability"]),
        (&health["store"], &health["durability"])
    );
    assert!(settings["limits"]["body_bytes_max"].as_u64().unwrap() > 0);
    let listed = get(&node, "/v1/collections");
    let expected = json!({"items": [
        {"name": "courses", "id_path": "/course/id"},
        {"name": "orders", "id_path": "/number"},
    ]});
    assert_eq!(listed, expected);
}
