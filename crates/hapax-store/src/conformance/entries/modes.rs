//! The test mode: which home the next write goes to.

use hapax_core::entry::{Schema, Target, TestMode};

use super::subject::{EntrySubject, OTHER, PKM, PKM_TEST, TENANT, bare, draft, link};

async fn is_on(subject: &EntrySubject) -> bool {
    let mode = subject.catalog.test_mode(TENANT).await;
    mode.expect("the store answers")
}

/// It is off until somebody turns it on, and stays as it was set.
pub async fn the_test_mode_is_off_until_it_is_turned_on(subject: &EntrySubject) {
    assert!(!is_on(subject).await);
    for set in [false, true, true, false] {
        assert_eq!(subject.mode(TestMode::Set(set)).await, set);
        assert_eq!(is_on(subject).await, set);
    }
}

/// A toggle turns it into the other, and answers which that is.
pub async fn a_toggle_turns_it_into_the_other(subject: &EntrySubject) {
    for turned in [true, false, true] {
        assert_eq!(subject.mode(TestMode::Toggle).await, turned);
        assert_eq!(is_on(subject).await, turned);
    }
}

/// Fifty toggles at once end where they began; each saw a state that was its own.
pub async fn fifty_toggles_at_once_end_where_they_began(subject: &EntrySubject) {
    let toggles = (0..50).map(|_| {
        let catalog = subject.catalog.clone();
        tokio::spawn(async move {
            loop {
                match catalog.change_test_mode(TENANT, TestMode::Toggle).await {
                    Err(error) if error.kind() == hapax_core::Kind::Unavailable => {}
                    changed => return changed.expect("the store answers"),
                }
            }
        })
    });
    let mut turned_on = 0;
    for toggle in toggles.collect::<Vec<_>>() {
        turned_on += usize::from(toggle.await.expect("no panic"));
    }
    assert_eq!(turned_on, 25);
    assert!(!is_on(subject).await);
}

/// The next write follows the mode, and says where it went.
pub async fn a_write_follows_the_mode(subject: &EntrySubject) {
    for (mode, schema) in [
        (false, Schema::Pkm),
        (true, Schema::PkmTest),
        (false, Schema::Pkm),
    ] {
        subject.mode(TestMode::Set(mode)).await;
        let batch = vec![draft(bare("tea"))];
        let written = subject.write_to(TENANT, Target::Active, batch, false).await;
        assert_eq!(written.schema, schema);
    }
    assert_eq!(subject.all_at(TENANT, PKM).await.len(), 2);
    assert_eq!(subject.all_at(TENANT, PKM_TEST).await.len(), 1);
}

/// A write that names its home does not follow the mode.
pub async fn a_pinned_write_does_not_follow_the_mode(subject: &EntrySubject) {
    for mode in [false, true] {
        subject.mode(TestMode::Set(mode)).await;
        for (target, schema) in [(PKM, Schema::Pkm), (PKM_TEST, Schema::PkmTest)] {
            let batch = vec![draft(bare("tea"))];
            let written = subject.write_to(TENANT, target, batch, false).await;
            assert_eq!(written.schema, schema);
        }
    }
    assert_eq!(subject.all_at(TENANT, PKM).await.len(), 2);
    assert_eq!(subject.all_at(TENANT, PKM_TEST).await.len(), 2);
}

/// Reads and policies follow the mode as well.
pub async fn reads_follow_the_mode(subject: &EntrySubject) {
    let real = subject.insert(link("https://example.org/a")).await.row;
    subject.mode(TestMode::Set(true)).await;
    assert!(subject.all().await.is_empty());
    assert!(subject.found("example").await.is_empty());
    let here = subject
        .stored_at(TENANT, Target::Active, real.entry_id)
        .await;
    assert_eq!(here, None);
    let there = subject.stored_at(TENANT, PKM, real.entry_id).await;
    assert_eq!(there.as_ref(), Some(&real));
    let disabled = hapax_core::entry::PolicyChange {
        enabled: Some(false),
        ..Default::default()
    };
    subject.set("telegram_link_v1", disabled).await;

    subject.mode(TestMode::Set(false)).await;

    assert_eq!(subject.all().await, [real]);
    let policies = subject.policies_at(TENANT, Target::Active).await;
    assert!(policies.iter().all(|policy| policy.enabled));
}

/// A tenant's mode is its own.
pub async fn a_mode_belongs_to_its_tenant(subject: &EntrySubject) {
    subject.mode(TestMode::Set(true)).await;
    let theirs = subject.catalog.test_mode(OTHER).await;
    assert!(!theirs.expect("the store answers"));
    let batch = vec![draft(bare("tea"))];
    let written = subject.write_to(OTHER, Target::Active, batch, false).await;
    assert_eq!(written.schema, Schema::Pkm);

    let theirs = subject
        .catalog
        .change_test_mode(OTHER, TestMode::Toggle)
        .await;
    assert!(theirs.expect("the store answers"));
    subject.mode(TestMode::Set(false)).await;

    let theirs = subject.catalog.test_mode(OTHER).await;
    assert!(theirs.expect("the store answers"));
}
