//! Tenants and homes: neither sees, meets or changes anything of another.

use hapax_core::Tenant;
use hapax_core::entry::{Action, Done, Search, Sort, Target};
use serde_json::json;

use super::subject::{
    EntrySubject, OTHER, PKM, PKM_TEST, TENANT, change, kept, link, newsletter, thought, title,
};

const HOMES: [(Tenant, Target); 4] = [
    (TENANT, PKM),
    (TENANT, PKM_TEST),
    (OTHER, PKM),
    (OTHER, PKM_TEST),
];

/// The same keys in another home or of another tenant are another entry.
pub async fn the_same_keys_elsewhere_are_another_entry(subject: &EntrySubject) {
    for round in 0..2 {
        for (tenant, target) in HOMES {
            for entry in [
                link("https://example.org/a"),
                thought(1, "tea"),
                newsletter(None, "monday"),
            ] {
                let met = subject.insert_at(tenant, target, entry).await;
                assert_eq!(met.action == Action::Inserted, round == 0);
                assert_eq!(met.conflict, None);
            }
        }
    }
    for (tenant, target) in HOMES {
        assert_eq!(subject.all_at(tenant, target).await.len(), 3);
    }
}

/// An update by a key changes the entry of its own tenant and home only.
pub async fn an_update_by_a_key_stays_at_home(subject: &EntrySubject) {
    for (tenant, target) in HOMES {
        subject.insert_at(tenant, target, thought(1, "tea")).await;
    }
    subject
        .insert_at(OTHER, PKM_TEST, thought(1, "coffee"))
        .await;
    for (tenant, target) in &HOMES[..3] {
        let rows = subject.all_at(*tenant, *target).await;
        assert_eq!(title(&rows[0]), "tea");
        assert_eq!(rows[0].revision, 1);
    }
}

/// Another's entries and their states cannot be read, by number or by words.
pub async fn what_is_elsewhere_cannot_be_read(subject: &EntrySubject) {
    let mine = subject.insert_at(TENANT, PKM, thought(1, "tea")).await.row;
    subject
        .insert_at(TENANT, PKM, thought(1, "green tea"))
        .await;
    for (tenant, target) in &HOMES[1..] {
        let row = subject.stored_at(*tenant, *target, mine.entry_id).await;
        assert_eq!(row, None);
        assert!(subject.all_at(*tenant, *target).await.is_empty());
        let states = subject
            .catalog
            .entry_revisions(*tenant, *target, mine.entry_id, None, 50)
            .await;
        assert!(states.expect("the store answers").is_empty());
        for sort in [Sort::Best, Sort::Newest] {
            let search = Search {
                words: Some("tea".to_owned()),
                source: None,
                since: None,
                before: None,
                sort,
                limit: 50,
            };
            let found = subject
                .catalog
                .search_entries(*tenant, *target, search)
                .await;
            assert!(found.expect("the store answers").is_empty());
        }
    }
    assert_eq!(subject.revisions(mine.entry_id).await, [mine]);
}

/// Another's entries cannot be changed, by number or by id.
pub async fn what_is_elsewhere_cannot_be_changed(subject: &EntrySubject) {
    let mine = subject.insert_at(TENANT, PKM, thought(1, "tea")).await.row;
    for (tenant, target) in &HOMES[1..] {
        let batch = vec![
            change(json!({"entry_id": mine.entry_id, "title": "x"})),
            change(json!({"id": mine.id, "title": "x"})),
        ];
        let written = subject.write_to(*tenant, *target, batch, false).await;
        assert_eq!(written.done, [Done::Missing, Done::Missing]);
    }
    assert_eq!(subject.all_at(TENANT, PKM).await, [mine]);
}

/// Two tenants' searches find each its own, with the same words in both.
pub async fn a_search_finds_what_is_at_home(subject: &EntrySubject) {
    for nth in 0..30 {
        subject
            .insert_at(OTHER, PKM, thought(nth, "green tea of theirs"))
            .await;
    }
    subject
        .insert_at(TENANT, PKM, thought(1, "tea of mine"))
        .await;
    for sort in [Sort::Best, Sort::Newest] {
        let found = subject.found_by("tea", sort, None, 5).await;
        assert_eq!(
            found,
            ["tea of mine"],
            "others' rows take no place in the answer"
        );
    }
}

/// Numbers of one tenant and home rise, whatever others insert in between.
pub async fn numbers_rise_whatever_others_insert(subject: &EntrySubject) {
    let mut last = 0;
    for nth in 0..10 {
        for (tenant, target) in &HOMES[1..] {
            subject.insert_at(*tenant, *target, thought(nth, "x")).await;
        }
        let batch = vec![super::subject::draft(thought(nth, "x"))];
        let written = subject.write_to(TENANT, PKM, batch, false).await;
        let number = kept(written.done[0].clone()).row.entry_id;
        assert!(number > last);
        last = number;
    }
}
