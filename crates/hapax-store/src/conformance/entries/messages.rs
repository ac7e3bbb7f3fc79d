//! Messages of threads: a thread's row merges each of them once, and remembers which it has merged.

use std::time::Duration;

use hapax_core::entry::{Action, Column, Incoming, PolicyChange, SecondaryMatch};
use serde_json::{Value, json};

use super::subject::{
    EntrySubject, OTHER, PKM, PKM_TEST, TENANT, actions, draft, kept, thread, with, write_again,
};

/// A mail of the thread about tea.
fn mail(id: &str, text: &str) -> Value {
    let metadata = json!({"email": {"message_id": id}});
    with(
        thread("tea"),
        json!({"clean_text": text, "metadata": metadata}),
    )
}

/// A message that was merged is skipped, also after later ones, and nothing is written.
pub async fn a_message_is_merged_once(subject: &EntrySubject) {
    let first = subject.insert(mail("<1@a>", "Tea?")).await.row;
    subject.advance(Duration::from_secs(60));
    let second = subject.insert(mail("<2@a>", "Yes")).await;
    assert_eq!(second.action, Action::Updated);
    subject.advance(Duration::from_secs(60));

    for (id, text) in [("<1@a>", "Tea?"), ("<2@a>", "Yes"), ("<1@a>", "Tea?")] {
        let again = subject.insert(mail(id, text)).await;
        assert_eq!(again.action, Action::Skipped, "{id}");
        assert_eq!(again.row, second.row);
    }
    assert_eq!(subject.stored(first.entry_id).await, second.row);
    assert_eq!(subject.revisions(first.entry_id).await, [first]);
}

/// Two messages of one batch meet like two requests.
pub async fn a_message_that_is_twice_in_a_batch_is_merged_once(subject: &EntrySubject) {
    let batch = || {
        let mails = [("<1@a>", "Tea?"), ("<2@a>", "Yes"), ("<1@a>", "Tea?")];
        mails.map(|(id, text)| draft(mail(id, text))).to_vec()
    };
    let once = [Action::Inserted, Action::Updated, Action::Skipped];
    assert_eq!(actions(&subject.write(batch()).await), once);
    let rows = subject.all().await;
    assert_eq!(rows[0].fields.text(Column::CleanText), Some("Yes"));

    assert_eq!(
        actions(&subject.write(batch()).await),
        [Action::Skipped; 3],
        "a rerun"
    );
    assert_eq!(subject.all().await, rows);
}

/// Without an id a message is known by what it says.
pub async fn a_message_without_an_id_is_known_by_its_content(subject: &EntrySubject) {
    let say = |text: &str| with(thread("tea"), json!({"clean_text": text}));
    subject.insert(say("one")).await;
    let two = subject.insert(say("two")).await;
    assert_eq!(two.action, Action::Updated);
    let again = subject.insert(say("one")).await;
    assert_eq!((again.action, again.row), (Action::Skipped, two.row));
}

/// What changed nothing when it was merged is remembered, too.
pub async fn a_message_that_changes_nothing_is_remembered(subject: &EntrySubject) {
    let columns = Some(Some(vec!["gist".to_owned()]));
    let change = PolicyChange {
        update_fields: columns,
        ..PolicyChange::default()
    };
    subject.set("email_correspondence_thread_v1", change).await;
    let one = subject.insert(mail("<1@a>", "Tea?")).await.row;
    let other = subject.insert(mail("<2@a>", "Yes")).await;
    assert_eq!((other.action, &other.row), (Action::Updated, &one));
    let again = subject.insert(mail("<2@a>", "Yes")).await;
    assert_eq!((again.action, again.row), (Action::Skipped, one));
}

/// What was refused was not merged.
pub async fn a_message_of_a_batch_that_was_not_kept_is_not_remembered(subject: &EntrySubject) {
    let one = subject.insert(mail("<1@a>", "Tea?")).await.row;
    let batch = vec![
        draft(mail("<2@a>", "Yes")),
        draft(json!({"source": "email"})),
    ];
    let written = subject.write_to(TENANT, PKM, batch, true).await;
    assert!(!written.kept);
    assert_eq!(subject.stored(one.entry_id).await, one);
    let again = subject.insert(mail("<2@a>", "Yes")).await;
    assert_eq!((again.action, again.row.revision), (Action::Updated, 2));
}

/// A message stays where it was merged, when a later one made a row of its primary key.
pub async fn a_message_stays_in_the_row_that_merged_it(subject: &EntrySubject) {
    let keyed = |id: &str, primary: Option<&str>, secondary: Option<&str>| {
        let keys =
            json!({"idempotency_key_primary": primary, "idempotency_key_secondary": secondary});
        with(mail(id, id), keys)
    };
    let mails = || {
        vec![
            draft(keyed("<1@a>", None, Some("day"))),
            draft(keyed("<2@a>", Some("tea"), Some("day"))),
            draft(keyed("<3@a>", Some("tea"), None)),
        ]
    };
    let first = [Action::Inserted, Action::Updated, Action::Inserted];
    assert_eq!(actions(&subject.write(mails()).await), first);
    let rows = subject.all().await;

    assert_eq!(actions(&subject.write(mails()).await), [Action::Skipped; 3]);
    let narrow = PolicyChange {
        secondary_match: Some(SecondaryMatch::OnlyIfPrimaryMissing),
        ..PolicyChange::default()
    };
    subject.set("email_correspondence_thread_v1", narrow).await;
    assert_eq!(actions(&subject.write(mails()).await), [Action::Skipped; 3]);
    assert_eq!(subject.all().await, rows);
}

/// Another tenant and another home have merged nothing of it.
pub async fn a_merged_message_belongs_to_its_tenant_and_home(subject: &EntrySubject) {
    for (tenant, target) in [(TENANT, PKM), (TENANT, PKM_TEST), (OTHER, PKM)] {
        let mut told = Vec::new();
        for id in ["<1@a>", "<2@a>", "<1@a>", "<2@a>"] {
            told.push(subject.insert_at(tenant, target, mail(id, id)).await.action);
        }
        let once = [Action::Inserted, Action::Updated];
        assert_eq!(
            (&told[..2], &told[2..]),
            (&once[..], &[Action::Skipped; 2][..])
        );
    }
}

/// Of many who send one message at once one merges it.
pub async fn a_message_that_comes_at_once_many_times_is_merged_once(subject: &EntrySubject) {
    let one = subject.insert(mail("<0@a>", "Tea?")).await.row;
    let writes: Vec<_> = (0..200)
        .map(|nth| {
            let (catalog, id) = (subject.catalog.clone(), format!("<{}@a>", nth % 4 + 1));
            let entry = draft(mail(&id, &id));
            tokio::spawn(async move { write_again(&*catalog, vec![entry]).await })
        })
        .collect();
    let mut merged = 0;
    for write in writes {
        let told = kept(write.await.expect("no panic").remove(0));
        merged += usize::from(told.action == Action::Updated);
    }
    assert_eq!(merged, 4);
    assert_eq!(subject.stored(one.entry_id).await.revision, 5);
}

/// A long thread comes again in large batches, and writes nothing.
pub async fn a_long_thread_that_comes_again_writes_nothing(subject: &EntrySubject) {
    let thread = || -> Vec<Incoming> {
        let mails = (0..Incoming::BATCH_MAX).map(|nth| mail(&format!("<{nth}@a>"), "Tea?"));
        mails.map(draft).collect()
    };
    subject.write(thread()).await;
    let rows = subject.all().await;
    let again = actions(&subject.write(thread()).await);
    assert!(again.iter().all(|told| *told == Action::Skipped));
    assert_eq!(subject.all().await, rows);
    assert_eq!(rows.len(), 1);
}
