//! A rerun leaves the database as it was: the dump of entries and of replaced states is the same, byte for byte.

use std::process::Command;

use hapax_store::sqlite::rusqlite::Connection;
use hapax_store::sqlite::rusqlite::types::Value as Stored;
use serde_json::json;

use super::mailbox::{Form, Mail, gzip, mailbox, varied};
use super::{House, counted};
use crate::both::{Store, on_both_stores};

on_both_stores!(
    any_number_of_reruns_leaves_the_dump_as_it_was,
    a_rerun_brings_only_the_messages_that_are_new,
    a_database_of_before_is_updated_once_and_then_never,
);

/// A statement on the database of this house, by somebody who may do anything; what it answers, row by row.
fn sql(house: &House, statement: &str) -> Vec<String> {
    if let [_, url] = &house.store[..] {
        let output = Command::new("psql")
            .args([url, "-qAtc", statement])
            .output()
            .unwrap();
        assert!(output.status.success(), "{statement}: {output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        return said.lines().map(str::to_owned).collect();
    }
    let connection = Connection::open(house.data().join("hapax.db")).unwrap();
    let mut prepared = connection
        .prepare(&statement.replace("pkm.", "pkm_"))
        .unwrap();
    let columns = prepared.column_count();
    let rows = prepared.query_map([], |row| {
        let values = (0..columns).map(|at| row.get::<_, Stored>(at));
        Ok(format!("{:?}", values.collect::<Result<Vec<_>, _>>()?))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// All entries and all their replaced states.
fn dump(house: &House) -> Vec<String> {
    let entries = sql(house, "SELECT * FROM pkm.entries ORDER BY entry_id");
    let states = "SELECT * FROM pkm.entry_revisions ORDER BY entry_id, revision";
    [entries, sql(house, states)].concat()
}

fn any_number_of_reruns_leaves_the_dump_as_it_was(store: Store) {
    let house = House::new(store);
    let file = mailbox(Form::Mboxrd, &varied(400));
    house.put("a.mbox", &file);
    house.put("again.mbox.gz", gzip(file.as_bytes()));
    let first = house.import("a.mbox");
    assert!(first["updated"].as_u64() > Some(0), "{first}");
    let before = dump(&house);

    for name in ["a.mbox", "again.mbox.gz", "a.mbox"] {
        let asked = json!({"mbox_path": name, "insert_chunk_size": 7});
        let [total, inserted, updated, skipped, ..] = counted(&house.done(&asked));
        let kept = counted(&first)[1] + counted(&first)[2] + counted(&first)[3];
        assert_eq!([total, inserted, updated, skipped], [400, 0, 0, kept]);
        assert!(dump(&house) == before, "{name} wrote something");
    }
}

fn a_rerun_brings_only_the_messages_that_are_new(store: Store) {
    let house = House::new(store);
    let thread =
        |count: usize| -> Vec<Mail> { (0..count).map(|nth| Mail::reply("tea", nth)).collect() };
    house.put("a.mbox", mailbox(Form::Mboxrd, &thread(5)));
    house.import("a.mbox");
    house.put("a.mbox", mailbox(Form::Mboxrd, &thread(7)));
    let grown = house.import("a.mbox");
    assert_eq!(counted(&grown), [7, 0, 2, 5, 0, 0, 1], "{grown}");
    assert_eq!(house.entries()[0]["clean_text"], "Answer 6 about tea.");
}

fn a_database_of_before_is_updated_once_and_then_never(store: Store) {
    let house = House::new(store);
    house.put("a.mbox", mailbox(Form::Mboxrd, &varied(100)));
    house.import("a.mbox");
    let texts = house.entries();
    // What an older program left: rows, and no word of what they merged.
    sql(&house, "DELETE FROM pkm.entry_messages");

    let once = house.import("a.mbox");
    assert!(once["updated"].as_u64() > Some(0), "{once}");
    let said = |entries: &[serde_json::Value]| -> Vec<serde_json::Value> {
        entries
            .iter()
            .map(|entry| entry["clean_text"].clone())
            .collect()
    };
    assert_eq!(said(&house.entries()), said(&texts));
    let before = dump(&house);
    assert_eq!(house.import("a.mbox")["updated"], 0);
    assert!(dump(&house) == before);
}
