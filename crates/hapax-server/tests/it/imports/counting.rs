//! What an import answers: each message once, in the counter it belongs to.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::mailbox::{Form, Mail, gzip, mailbox, varied};
use super::{House, counted};
use crate::both::{Store, on_both_stores};

on_both_stores!(
    an_import_answers_what_became_of_each_message,
    every_form_of_a_mailbox_gives_the_same_entries,
    a_second_import_inserts_nothing_and_queues_nothing,
    several_mails_of_a_thread_are_one_entry_and_one_item,
    what_changed_is_queued_again,
    errors_are_listed_up_to_fifty_and_all_are_counted,
    candidates_are_queued_in_batches_of_the_size_asked_for,
    an_empty_file_is_an_import_of_nothing,
    a_file_that_is_no_mailbox_fails_and_says_so,
    what_a_torn_file_brought_is_queued_and_the_whole_one_brings_the_rest,
    entries_go_where_the_test_mode_pointed_when_it_began,
    imports_are_listed_newest_first,
    a_chunk_of_one_message_counts_the_same,
);

fn an_import_answers_what_became_of_each_message(store: Store) {
    let house = House::new(store);
    let mails = [
        Mail::news(1),
        Mail::empty(),
        Mail::news(2),
        Mail::news(1),
        Mail::keyless(),
        Mail::reply("tea", 1),
    ];
    house.put("a.mbox", mailbox(Form::Mboxrd, &mails));

    let import = house.import("a.mbox");

    assert_eq!(counted(&import), [6, 3, 0, 1, 1, 1, 3], "{import}");
    let errors = import["errors"].as_array().unwrap();
    let told: Vec<(&str, u64)> = errors
        .iter()
        .map(|error| {
            (
                error["phase"].as_str().unwrap(),
                error["index"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [("normalize", 1), ("insert", 4)]);
    assert!(
        errors[0]["message"].as_str().unwrap().contains("no_text"),
        "{errors:?}"
    );
    let why = errors[1]["message"].as_str().unwrap();
    assert!(why.contains("known again by: the subject"), "{why}");
    assert!(!why.contains("normalise route"), "{why}");
    assert_eq!(import["status"], "completed");
    assert_eq!(import["schema"], "pkm");
    assert_eq!(import["mbox_path"], "a.mbox");
    assert_eq!(import["tier1_candidates"], 3);
    let size = std::fs::metadata(house.root.path().join("a.mbox"))
        .unwrap()
        .len();
    assert_eq!(import["progress"], json!({"offset": size, "bytes": size}));
    let batches = import["tier1_batches"].as_array().unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0]["schema"], "pkm");
    assert_eq!(batches[0]["status"], "queued");
    assert_eq!(batches[0]["request_count"], 3);
    assert!(batches[0]["batch_id"].is_string());
    assert_eq!(house.shown(&import["import_id"]), import);
    let entries = house.entries();
    assert_eq!(entries.len(), 3);
    assert!(
        entries.iter().all(|entry| entry["source"] == "email-batch"),
        "{entries:?}"
    );
}

fn every_form_of_a_mailbox_gives_the_same_entries(store: Store) {
    let tricky = "First words.\n\nFrom here on it is text.\n\nThe end.\n";
    let mut mails = varied(40);
    mails.push(Mail::news(900).saying(tricky));
    mails.push(Mail::news(901));
    let plain = mailbox(Form::Mboxrd, &mails);
    let files = [
        ("rd.mbox", plain.clone().into_bytes()),
        ("o.mbox", mailbox(Form::Mboxo, &mails).into_bytes()),
        ("cl.mbox", mailbox(Form::Mboxcl, &mails).into_bytes()),
        ("rd.mbox.gz", gzip(plain.as_bytes())),
        ("crlf.mbox", plain.replace('\n', "\r\n").into_bytes()),
    ];
    let mut first: Option<(Vec<Value>, [u64; 7])> = None;
    for (name, bytes) in files {
        let house = House::new(store);
        house.put(name, bytes);
        let import = house.import(name);
        let found = (house.entries(), counted(&import));
        let says = |entry: &Value| entry["capture_text"] == tricky.trim_end();
        assert!(found.0.iter().any(says), "{name}");
        let first = first.get_or_insert_with(|| found.clone());
        assert_eq!(first.1, found.1, "{name}");
        for (one, other) in first.0.iter().zip(&found.0) {
            assert_eq!(one, other, "{name}");
        }
    }
}

fn a_second_import_inserts_nothing_and_queues_nothing(store: Store) {
    let house = House::new(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(100)));
    let first = house.import("a.mbox");
    let rows = house.entries();
    house.put(
        "again.mbox.gz",
        gzip(mailbox(Form::Mboxrd, &varied(100)).as_bytes()),
    );

    for name in ["a.mbox", "again.mbox.gz"] {
        let second = house.import(name);
        assert_ne!(second["import_id"], first["import_id"]);
        assert_eq!(second["total_messages"], 100);
        assert_eq!(second["inserted"], 0, "{second}");
        assert_eq!(second["tier1_batches"], json!([]), "{second}");
        assert_eq!(second["tier1_enqueued_items"], 0, "{second}");
        assert_eq!(house.entries().len(), rows.len());
    }
}

fn several_mails_of_a_thread_are_one_entry_and_one_item(store: Store) {
    let house = House::new(store);
    let mails: Vec<Mail> = (0..30).map(|number| Mail::reply("tea", number)).collect();
    house.put("a.mbox", mailbox(Form::Mboxrd, &mails));

    let import = house.done(&json!({"mbox_path": "a.mbox", "insert_chunk_size": 7}));

    assert_eq!(counted(&import), [30, 1, 29, 0, 0, 0, 1], "{import}");
    let entries = house.entries();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["clean_text"], "Answer 29 about tea.");
}

fn what_changed_is_queued_again(store: Store) {
    let house = House::new(store);
    let thread = |last: usize| {
        let mails: Vec<Mail> = (0..=last)
            .map(|number| Mail::reply("tea", number))
            .collect();
        mailbox(Form::Mboxrd, &mails)
    };
    house.put("a.mbox", thread(2));
    assert_eq!(house.import("a.mbox")["tier1_enqueued_items"], 1);
    house.put("a.mbox", thread(3));
    assert_eq!(house.import("a.mbox")["tier1_enqueued_items"], 1);
    assert_eq!(house.import("a.mbox")["tier1_enqueued_items"], 0);
}

fn errors_are_listed_up_to_fifty_and_all_are_counted(store: Store) {
    let house = House::new(store);
    let mails: Vec<Mail> = (0..120)
        .map(|number| {
            if number < 2 {
                Mail::news(number)
            } else {
                Mail::empty()
            }
        })
        .collect();
    house.put("a.mbox", mailbox(Form::Mboxrd, &mails));
    let import = house.done(&json!({"mbox_path": "a.mbox", "insert_chunk_size": 9}));
    assert_eq!(counted(&import), [120, 2, 0, 0, 118, 0, 2]);
    let indices = import["errors"].as_array().unwrap().iter();
    let indices: Vec<u64> = indices
        .map(|error| error["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indices, (2..52).collect::<Vec<u64>>());
}

fn candidates_are_queued_in_batches_of_the_size_asked_for(store: Store) {
    let house = House::new(store);
    let mails: Vec<Mail> = (0..1101).map(Mail::news).collect();
    house.put("a.mbox", mailbox(Form::Mboxrd, &mails));
    let import = house.import("a.mbox");
    let sizes: Vec<u64> = import["tier1_batches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|batch| batch["request_count"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [500, 500, 101], "{import}");
}

fn an_empty_file_is_an_import_of_nothing(store: Store) {
    let house = House::new(store);
    house.put("a.mbox", "");
    house.put("a.mbox.gz", gzip(b""));
    for name in ["a.mbox", "a.mbox.gz"] {
        let import = house.import(name);
        assert_eq!(counted(&import), [0; 7]);
        assert_eq!(import["status"], "completed");
    }
}

fn a_file_that_is_no_mailbox_fails_and_says_so(store: Store) {
    let house = House::new(store);
    house.put("a.txt", "Dear Ada,\n\nthis is a letter.\n");
    let mut torn = gzip(mailbox(Form::Mboxrd, &varied(400)).as_bytes());
    torn.truncate(torn.len() / 2);
    house.put("torn.mbox.gz", torn);
    for (name, says) in [
        ("a.txt", "not a mailbox"),
        ("torn.mbox.gz", "damaged or ends early"),
    ] {
        let import = house.import(name);
        assert_eq!(import["status"], "failed", "{import}");
        assert!(import["error"].as_str().unwrap().contains(says), "{import}");
    }
}

/// The entries in the batches of an import.
fn items(house: &House, import: &Value) -> Vec<i64> {
    let mut entries = Vec::new();
    for batch in import["tier1_batches"].as_array().unwrap() {
        let id = batch["batch_id"].as_str().unwrap();
        let path = format!("/status/t1/batch/{id}?include_items=true");
        let shown = house.owner("GET", &path, "").json();
        let items = shown["items"].as_array().unwrap().iter();
        entries.extend(items.map(|item| item["entry_id"].as_i64().unwrap()));
    }
    entries
}

fn what_a_torn_file_brought_is_queued_and_the_whole_one_brings_the_rest(store: Store) {
    let house = House::new(store);
    let mails: Vec<Mail> = (0..700).map(Mail::news).collect();
    let whole = gzip(mailbox(Form::Mboxrd, &mails).as_bytes());
    house.put("a.mbox.gz", &whole[..whole.len() / 2]);

    let torn = house.import("a.mbox.gz");

    assert_eq!(torn["status"], "failed", "{torn}");
    let [total, inserted, _, _, faults, _, queued] = counted(&torn);
    assert!(inserted > 100, "{torn}");
    assert_eq!((total, faults), (inserted + 1, 1), "{torn}");
    assert_eq!(queued, inserted, "{torn}");
    let cut = &torn["errors"][0];
    assert_eq!(
        (&cut["phase"], cut["index"].as_u64()),
        (&json!("normalize"), Some(inserted))
    );

    house.put("a.mbox.gz", &whole);
    let mended = house.import("a.mbox.gz");
    assert_eq!(mended["status"], "completed");
    let rest = 700 - inserted;
    assert_eq!(
        counted(&mended),
        [700, rest, 0, inserted, 0, 0, rest],
        "{mended}"
    );
    let texts = house.entries();
    assert_eq!(texts.len(), 700);
    let is_whole = |entry: &Value| {
        let text = entry["capture_text"].as_str().unwrap();
        text.contains("words and more words of issue") && text.ends_with('.')
    };
    assert!(texts.iter().all(is_whole));
    let items: BTreeSet<i64> = [&torn, &mended]
        .into_iter()
        .flat_map(|import| items(&house, import))
        .collect();
    assert_eq!(items.len(), 700, "every entry is an item of a batch");
    let again = house.import("a.mbox.gz");
    assert_eq!(counted(&again), [700, 0, 0, 700, 0, 0, 0], "{again}");
}

fn entries_go_where_the_test_mode_pointed_when_it_began(store: Store) {
    let house = House::new(store);
    let set = |on: bool| {
        let body = json!({"is_test_mode": on}).to_string();
        assert_eq!(house.owner("POST", "/db/test-mode/set", &body).status, 200);
    };
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(400)));
    set(true);
    let asked = json!({"mbox_path": "a.mbox", "insert_chunk_size": 3, "async": true});
    let begun = house.ask(&asked).json();

    let mut on = true;
    let ended = loop {
        let now = house.shown(&begun["import_id"]);
        if now["status"] != "running" {
            break now;
        }
        on = !on;
        set(on);
    };

    assert_eq!(ended["schema"], "pkm_test", "{ended}");
    assert_eq!(ended["total_messages"], 400, "{ended}");
    set(true);
    assert_eq!(
        house.entries().len() as u64,
        ended["inserted"].as_u64().unwrap()
    );
    set(false);
    assert_eq!(house.entries(), Vec::<Value>::new());
    assert_eq!(
        house.import("a.mbox")["inserted"],
        ended["inserted"],
        "schemas do not mix"
    );
}

fn imports_are_listed_newest_first(store: Store) {
    let house = House::new(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &[Mail::news(1)]));
    let ids: Vec<Value> = (0..3)
        .map(|_| house.import("a.mbox")["import_id"].clone())
        .collect();
    let mut seen = Vec::new();
    let mut next = String::new();
    loop {
        let page = house
            .owner("GET", &format!("/v1/imports?limit=2{next}"), "")
            .json();
        for item in page["items"].as_array().unwrap() {
            seen.push(item["import_id"].clone());
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    seen.reverse();
    assert_eq!(seen, ids);
}

fn a_chunk_of_one_message_counts_the_same(store: Store) {
    let mails = mailbox(Form::Mboxrd, &varied(60));
    let run = |size: u64| {
        let house = House::new(store);
        house.put("a.mbox", &mails);
        let import = house.done(&json!({"mbox_path": "a.mbox", "insert_chunk_size": size}));
        (counted(&import), import["errors"].clone(), house.entries())
    };
    let (one, many) = (run(1), run(2000));
    assert_eq!(one, many);
}
