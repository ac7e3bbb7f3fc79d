//! The audit trail: written with what it is about or not at all, read by its tenant only, and kept for its time.

use std::time::Duration;

use hapax_core::{
    Action, Move, Note, NotePage, NoteScan, Outcome, Policy, Record, RecordId, Space, Swap, Sweep,
    Tenant, Time,
};

use super::subject::{Subject, copy, space, tenant};

const DAY: Duration = Duration::from_secs(86_400);

async fn page(subject: &Subject, scan: NoteScan) -> NotePage {
    subject
        .ledger
        .notes(scan)
        .await
        .expect("the ledger answers")
}

async fn trail(subject: &Subject, tenant: Tenant) -> Vec<Note> {
    page(subject, NoteScan::of(tenant)).await.notes
}

async fn add(subject: &Subject, notes: Vec<Note>) {
    subject
        .ledger
        .note(notes)
        .await
        .expect("the ledger answers");
}

fn note(subject: &Subject, of: Tenant, count: u32) -> Note {
    Note::new(of, subject.ledger.now(), Action::Replay).saying([("count", count.into())])
}

fn about(record: &Record, action: Action, at: Time) -> Note {
    Note::of(record, at, action)
        .by("ann")
        .saying([("key", record.key.as_str().into())])
}

/// A move that is written takes its note along.
pub async fn a_move_that_is_written_leaves_its_note(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let claim = subject.claim("k");
    let lease = subject.take(&claim).await.lease();
    assert_eq!(trail(subject, Tenant::DEFAULT).await, []);

    let now = subject.ledger.now();
    let note = about(lease.record(), Action::Settled, now);
    let step = lease
        .settle(Outcome::text(200, "ok"), now)
        .noted(note.clone());
    assert_eq!(subject.swap(step).await, Swap::Written);
    assert_eq!(trail(subject, Tenant::DEFAULT).await, [note]);
}

/// A move that comes too late leaves no note, whatever is written beside it.
pub async fn a_move_that_is_not_written_leaves_no_note(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let first = subject.take(&subject.claim("k")).await.lease();
    let late = copy(&first);
    let other = subject.take(&subject.claim("other")).await.lease();
    let now = subject.ledger.now();
    assert!(subject.settle(first, Outcome::text(200, "ok")).await);

    let refused = about(late.record(), Action::Released, now);
    let written = about(other.record(), Action::Released, now);
    let moves = vec![
        late.release(now).noted(refused),
        other.release(now).noted(written.clone()),
    ];
    let swaps = subject.ledger.swap(moves).await;
    let swaps = swaps.expect("the ledger answers");
    assert!(matches!(swaps[..], [Swap::Stale(Some(_)), Swap::Written]));
    assert_eq!(trail(subject, Tenant::DEFAULT).await, [written]);
}

/// Moves of many tenants in one batch leave their notes with their own tenants.
pub async fn notes_of_a_batch_go_to_their_own_tenants(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let mut moves = Vec::new();
    let mut notes = Vec::new();
    for number in 1..=3 {
        let scope = space(tenant(number), "POST:test");
        let lease = subject.take(&subject.claim_in(&scope, "k")).await.lease();
        let now = subject.ledger.now();
        let note = about(lease.record(), Action::Deleted, now);
        notes.push(note.clone());
        moves.push(lease.release(now).noted(note));
    }
    let swaps = subject.ledger.swap(moves).await;
    assert_eq!(
        swaps.expect("the ledger answers"),
        [Swap::Written, Swap::Written, Swap::Written]
    );
    for (number, note) in (1..=3).zip(notes) {
        assert_eq!(trail(subject, tenant(number)).await, [note]);
    }
}

/// Every field of a note survives the store, with text in any script and with quotes.
pub async fn a_note_comes_back_as_it_was(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let mut note = Note::new(Tenant::DEFAULT, subject.ledger.now(), Action::Conflict)
        .by("Zoë \"'\\ 🦀")
        .saying([
            ("zeta", "é \" \\ 🦀".into()),
            ("a", 1.into()),
            ("long_name", true.into()),
        ]);
    note.key_id = Some(RecordId::from_uuid(uuid::Uuid::from_u128(7)));
    note.space = Space::new("PUT:customers-{id}").ok();
    let bare = Note::new(Tenant::DEFAULT, subject.ledger.now(), Action::Cleanup);
    add(subject, vec![note.clone(), bare.clone()]).await;
    assert_eq!(trail(subject, Tenant::DEFAULT).await, [bare, note]);
    add(subject, Vec::new()).await;
}

/// Pages list every note once, newest first, while many have the same time.
pub async fn notes_page_newest_first_without_gap(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let mut noted = Vec::new();
    for count in 0..23 {
        let note = note(subject, Tenant::DEFAULT, count);
        noted.push(note.clone());
        add(subject, vec![note]).await;
        if count % 4 == 0 {
            subject.advance(Duration::from_millis(5));
        }
    }
    let mut scan = NoteScan {
        limit: 5,
        ..NoteScan::of(Tenant::DEFAULT)
    };
    let mut listed = Vec::new();
    loop {
        let page = page(subject, scan.clone()).await;
        assert!(page.notes.len() <= 5);
        listed.extend(page.notes);
        match page.next {
            Some(next) => scan.after = Some(next),
            None => break,
        }
    }
    noted.reverse();
    assert_eq!(listed, noted);
}

/// Notes can be asked for by what happened and by what it happened to.
pub async fn notes_are_filtered_by_action_and_key(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let one = subject.take(&subject.claim("one")).await.lease();
    let two = subject.take(&subject.claim("two")).await.lease();
    let now = subject.ledger.now();
    let notes = [
        about(one.record(), Action::Replay, now),
        about(one.record(), Action::Conflict, now),
        about(two.record(), Action::Replay, now),
    ];
    add(subject, notes.to_vec()).await;

    let all = NoteScan::of(Tenant::DEFAULT);
    let of_one = NoteScan {
        key_id: Some(one.id()),
        ..all.clone()
    };
    let replays = NoteScan {
        action: Some(Action::Replay),
        ..all.clone()
    };
    let both = NoteScan {
        action: Some(Action::Replay),
        ..of_one.clone()
    };
    let [first, second, third] = notes;
    let expected = [
        (of_one, vec![second, first.clone()]),
        (replays, vec![third, first.clone()]),
        (both, vec![first]),
    ];
    for (scan, expected) in expected {
        assert_eq!(page(subject, scan).await.notes, expected);
    }
}

/// A tenant sees its own notes and no others.
pub async fn another_tenants_notes_are_not_listed(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let notes: Vec<Note> = [(1, 1), (2, 2), (1, 3)]
        .map(|(number, count)| note(subject, tenant(number), count))
        .to_vec();
    add(subject, notes.clone()).await;
    assert_eq!(trail(subject, tenant(2)).await, [notes[1].clone()]);
    assert_eq!(trail(subject, tenant(1)).await.len(), 2);
    assert_eq!(trail(subject, Tenant::DEFAULT).await, []);
}

/// A sweep step notes, for each tenant it touched, how much it removed.
pub async fn a_sweep_notes_what_it_removed_for_each_tenant(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let policy = Policy {
        ttl: Duration::from_secs(60),
        ..Policy::default()
    };
    for (number, count) in [(1, 2), (2, 1)] {
        for key in 0..count {
            let scope = space(tenant(number), "POST:test");
            let claim = subject.claim_in(&scope, &format!("k{key}"));
            let lease = subject.take(&claim.with_policy(policy)).await.lease();
            assert!(subject.settle(lease, Outcome::text(200, "ok")).await);
        }
    }
    subject.advance(Duration::from_secs(61));
    assert_eq!(subject.sweep(Sweep::default()).await.expired, 3);

    for (number, count) in [(1, 2), (2, 1)] {
        let notes = trail(subject, tenant(number)).await;
        let [note] = &notes[..] else {
            panic!("one step, one note, got {notes:?}");
        };
        assert_eq!(note.action, Action::Cleanup);
        let expected = format!(r#"{{"deleted_count":{count},"forgotten":0,"retired":0}}"#);
        assert_eq!(note.details, expected);
    }
    assert_eq!(trail(subject, tenant(3)).await, []);
}

/// A sweep that finds nothing notes nothing.
pub async fn a_sweep_that_finds_nothing_notes_nothing(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let _held = subject.take(&subject.claim("k")).await.lease();
    subject.sweep(Sweep::default()).await;
    assert_eq!(trail(subject, Tenant::DEFAULT).await, []);
}

/// Notes are removed after their time, in bounded steps, and no earlier.
pub async fn old_notes_are_removed_in_bounded_steps(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    for count in 0..7 {
        let of = tenant(u128::from(count % 2) + 1);
        add(subject, vec![note(subject, of, count)]).await;
    }
    subject.advance(29 * DAY);
    let kept = note(subject, tenant(1), 99);
    add(subject, vec![kept.clone()]).await;
    let step = Sweep {
        limit: 3,
        ..Sweep::default()
    };
    let removed = async || subject.ledger.sweep(step).await.expect("it sweeps").notes;
    assert_eq!(removed().await, 0, "their time is not over");

    subject.advance(2 * DAY);
    let mut steps = Vec::new();
    for _ in 0..4 {
        steps.push(removed().await);
    }
    assert_eq!(steps, [3, 3, 1, 0]);
    assert_eq!(trail(subject, tenant(1)).await, [kept]);
    assert_eq!(trail(subject, tenant(2)).await, []);
}

/// The grant of an expired key can be noted like any other move.
pub async fn a_claim_can_be_noted(subject: &Subject) {
    if !subject.audits().await {
        return;
    }
    let claim = subject.claim("k");
    let now = subject.ledger.now();
    let next = Record::granted(&claim, hapax_core::Version::seeded(now), now);
    let note = about(&next, Action::Expired, now);
    let twice = Move::inserting(next.clone()).noted(note.clone());
    assert_eq!(
        subject
            .swap(Move::inserting(next).noted(note.clone()))
            .await,
        Swap::Written
    );
    assert!(matches!(subject.swap(twice).await, Swap::Stale(Some(_))));
    assert_eq!(trail(subject, Tenant::DEFAULT).await, [note]);
}
