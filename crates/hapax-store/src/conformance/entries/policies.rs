//! Policies: rows that decide the next write, each home's and each tenant's own.

use hapax_core::entry::{
    Action, Column, ConflictAction, Policy, PolicyChange, SecondaryMatch, Target,
};
use serde_json::json;

use super::subject::{
    EntrySubject, OTHER, PKM, PKM_TEST, TENANT, bare, draft, link, refused, thought, with,
};

fn seeds() -> Vec<Policy> {
    let mut seeds = Policy::seeds();
    seeds.sort_by(|one, other| one.key.cmp(&other.key));
    seeds
}

/// The policies without their numbers.
fn unnumbered(policies: Vec<Policy>) -> Vec<Policy> {
    let without = |policy| Policy { id: 0, ..policy };
    policies.into_iter().map(without).collect()
}

fn enabled(enabled: bool) -> PolicyChange {
    PolicyChange {
        enabled: Some(enabled),
        ..PolicyChange::default()
    }
}

fn action(conflict_action: ConflictAction) -> PolicyChange {
    PolicyChange {
        conflict_action: Some(conflict_action),
        ..PolicyChange::default()
    }
}

/// Both homes start with the seed policies, for every tenant, by name.
pub async fn every_home_starts_with_the_seed_policies(subject: &EntrySubject) {
    for tenant in [TENANT, OTHER] {
        for target in [PKM, PKM_TEST, Target::Active] {
            let policies = subject.policies_at(tenant, target).await;
            let mut numbers: Vec<i64> = policies.iter().map(|policy| policy.id).collect();
            assert!(numbers.iter().all(|number| *number > 0), "{numbers:?}");
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 4);
            assert_eq!(unnumbered(policies.clone()), seeds());
            assert_eq!(subject.policies_at(tenant, target).await, policies);
        }
    }
}

/// A new tenant writes without having looked at its policies.
pub async fn a_new_tenants_first_write_finds_the_seed_policies(subject: &EntrySubject) {
    let one = subject
        .insert_at(OTHER, PKM, link("https://example.org/a"))
        .await;
    let two = subject
        .insert_at(OTHER, PKM, link("https://example.org/a"))
        .await;
    assert_eq!(
        (one.action, two.action),
        (Action::Inserted, Action::Skipped)
    );
    assert_eq!(unnumbered(subject.policies_at(OTHER, PKM).await), seeds());
}

/// Many first looks at once write the seeds once.
pub async fn many_first_looks_at_once_write_the_seeds_once(subject: &EntrySubject) {
    let looks = (0..20).map(|_| {
        let catalog = subject.catalog.clone();
        tokio::spawn(async move { catalog.policies(OTHER, PKM).await })
    });
    for look in looks.collect::<Vec<_>>() {
        let policies = look.await.expect("no panic").expect("the store answers");
        assert_eq!(unnumbered(policies), seeds());
    }
    assert_eq!(subject.policies_at(OTHER, PKM).await.len(), 4);
}

/// A policy that nobody added is unknown, and its entries are refused.
pub async fn an_unknown_policy_is_refused(subject: &EntrySubject) {
    for key in [
        "nobody_v1",
        "TELEGRAM_LINK_V1",
        "x'; DROP TABLE entries; --",
    ] {
        let keys = json!({"idempotency_policy_key": key, "idempotency_key_primary": "a"});
        let code = subject.refused(with(bare("tea"), keys)).await;
        assert_eq!(code, "unknown_policy", "{key}");
    }
    assert!(subject.all().await.is_empty());
}

/// A disabled policy takes nothing in until it is enabled again. What is there stays.
pub async fn a_disabled_policy_takes_nothing_in(subject: &EntrySubject) {
    let one = subject.insert(link("https://example.org/a")).await.row;
    let set = subject.set("telegram_link_v1", enabled(false)).await;
    assert!(!set.enabled);
    for url in ["https://example.org/a", "https://example.org/b"] {
        assert_eq!(subject.refused(link(url)).await, "policy_disabled");
    }
    assert_eq!(
        subject.insert(thought(1, "tea")).await.action,
        Action::Inserted
    );

    subject.set("telegram_link_v1", enabled(true)).await;

    let again = subject.insert(link("https://example.org/a")).await;
    assert_eq!((again.action, again.row), (Action::Skipped, one));
}

/// A change says what it changes, and nothing else of the policy changes.
pub async fn a_change_of_a_policy_leaves_the_rest(subject: &EntrySubject) {
    let before = subject.policies_at(TENANT, Target::Active).await;
    let fields = Some(vec!["title".to_owned(), "metadata".to_owned()]);
    let change = PolicyChange {
        update_fields: Some(fields.clone()),
        ..PolicyChange::default()
    };

    let set = subject.set("telegram_thought_v1", change).await;

    let old = before.iter().find(|policy| policy.key == set.key);
    let mut expected = old.expect("it is there").clone();
    expected.update_fields = fields;
    assert_eq!(set, expected);
    let after = subject.policies_at(TENANT, Target::Active).await;
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(new, if new.key == set.key { &set } else { old });
    }

    let all = PolicyChange {
        update_fields: Some(None),
        ..PolicyChange::default()
    };
    let set = subject.set("telegram_thought_v1", all).await;
    assert_eq!(set.update_fields, None);
}

/// A policy's action decides the next write, without a restart.
pub async fn a_changed_action_decides_the_next_write(subject: &EntrySubject) {
    subject.insert(link("https://example.org/a")).await;
    subject
        .set("telegram_link_v1", action(ConflictAction::Update))
        .await;
    let new = with(link("https://example.org/a"), json!({"title": "new"}));
    let two = subject.insert(new).await;
    assert_eq!(two.action, Action::Updated);
    assert_eq!(two.row.fields.text(Column::Title), Some("new"));

    subject
        .set("telegram_link_v1", action(ConflictAction::Skip))
        .await;

    let newer = with(link("https://example.org/a"), json!({"title": "newer"}));
    let three = subject.insert(newer).await;
    assert_eq!((three.action, three.row), (Action::Skipped, two.row));
}

/// A policy that is set and not there is added, and its entries are taken.
pub async fn a_new_policy_is_added(subject: &EntrySubject) {
    let change = PolicyChange {
        source: Some("rss".to_owned()),
        content_type: Some("article".to_owned()),
        conflict_action: Some(ConflictAction::Update),
        update_fields: Some(Some(vec!["title".to_owned()])),
        secondary_match: Some(SecondaryMatch::OnlyIfPrimaryMissing),
        enabled: None,
    };
    let set = subject.set("rss_v1", change.clone()).await;
    assert!(set.id > 0);
    let expected = Policy {
        id: set.id,
        ..change.over("rss_v1", None)
    };
    assert_eq!(set, expected);
    let policies = subject.policies_at(TENANT, Target::Active).await;
    assert_eq!(policies.len(), 5);
    assert!(policies.contains(&set));

    let keys = json!({"idempotency_policy_key": "rss_v1", "idempotency_key_primary": "a"});
    let entry = with(bare("tea"), keys);
    assert_eq!(subject.insert(entry.clone()).await.action, Action::Inserted);
    assert_eq!(subject.insert(entry).await.action, Action::Updated);
}

/// A policy that we know starts as what we know when it is added.
pub async fn a_known_policy_is_added_as_it_is_known(subject: &EntrySubject) {
    let set = subject
        .set("email_thread_refs_v1", PolicyChange::default())
        .await;
    let known = Policy::added("email_thread_refs_v1");
    assert_eq!(Policy { id: 0, ..set }, known);
    assert_eq!(known.conflict_action, ConflictAction::Update);
}

/// A tenant that sets a policy before it ever looked gets the seeds as well.
pub async fn a_new_tenants_first_change_writes_the_seeds(subject: &EntrySubject) {
    let set = subject
        .set_at(OTHER, PKM, "telegram_link_v1", enabled(false))
        .await;
    let policies = subject.policies_at(OTHER, PKM).await;
    assert_eq!(policies.len(), 4);
    assert!(policies.contains(&set) && !set.enabled);
    assert_eq!(policies.iter().filter(|policy| policy.enabled).count(), 3);
}

/// Policies of one home are not the other's.
pub async fn a_policy_belongs_to_its_home(subject: &EntrySubject) {
    subject
        .set_at(TENANT, PKM_TEST, "telegram_link_v1", enabled(false))
        .await;
    subject
        .set_at(TENANT, PKM_TEST, "mine_v1", PolicyChange::default())
        .await;

    assert_eq!(unnumbered(subject.policies_at(TENANT, PKM).await), seeds());
    let there = subject
        .insert_at(TENANT, PKM, link("https://example.org/a"))
        .await;
    assert_eq!(there.action, Action::Inserted);
    let batch = vec![draft(link("https://example.org/a"))];
    let written = subject.write_to(TENANT, PKM_TEST, batch, false).await;
    assert_eq!(refused(written.done[0].clone()).code, "policy_disabled");
}

/// Policies of one tenant are not another's.
pub async fn a_policy_belongs_to_its_tenant(subject: &EntrySubject) {
    subject
        .set_at(OTHER, PKM, "telegram_link_v1", enabled(false))
        .await;
    subject
        .set_at(OTHER, PKM, "mine_v1", PolicyChange::default())
        .await;

    assert_eq!(unnumbered(subject.policies_at(TENANT, PKM).await), seeds());
    assert_eq!(subject.policies_at(OTHER, PKM).await.len(), 5);
    let keys = json!({"idempotency_policy_key": "mine_v1", "idempotency_key_primary": "a"});
    let code = subject.refused(with(bare("tea"), keys)).await;
    assert_eq!(code, "unknown_policy");
    let link = subject.insert(link("https://example.org/a")).await;
    assert_eq!(link.action, Action::Inserted);
}

/// Changes of different parts of one policy at once do not lose each other.
pub async fn changes_of_a_policy_at_once_lose_nothing(subject: &EntrySubject) {
    let fields = vec!["title".to_owned()];
    let changes = [
        action(ConflictAction::Update),
        enabled(false),
        PolicyChange {
            update_fields: Some(Some(fields.clone())),
            ..PolicyChange::default()
        },
        PolicyChange {
            source: Some("signal".to_owned()),
            ..PolicyChange::default()
        },
    ];
    let sets: Vec<_> = changes
        .into_iter()
        .map(|change| {
            let catalog = subject.catalog.clone();
            let key = "telegram_link_v1".to_owned();
            tokio::spawn(async move { catalog.set_policy(TENANT, PKM, key, change).await })
        })
        .collect();
    for set in sets {
        set.await.expect("no panic").expect("the store answers");
    }
    let policies = subject.policies_at(TENANT, PKM).await;
    let link = policies
        .iter()
        .find(|policy| policy.key == "telegram_link_v1");
    let link = link.expect("it is there");
    assert_eq!(
        (link.conflict_action, link.enabled),
        (ConflictAction::Update, false)
    );
    assert_eq!(
        (link.update_fields.as_ref(), &*link.source),
        (Some(&fields), "signal")
    );
}
