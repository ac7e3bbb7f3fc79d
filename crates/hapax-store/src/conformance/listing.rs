//! Lists of records: newest first, by how their keys begin, by their route, and past what is not listed, never more than is
//! allowed at a time.

use std::time::Duration;

use hapax_core::{Key, OnLost, Outcome, Page, Policy, Scan, Space, Sweep, Tenant};

use super::subject::{Subject, space, tenant};

async fn page(subject: &Subject, scan: Scan) -> Page {
    subject.ledger.scan(scan).await.expect("the ledger answers")
}

/// Every key of a scan, page by page, and how many pages there were.
async fn all(subject: &Subject, mut scan: Scan) -> (Vec<String>, usize) {
    let (mut keys, mut pages) = (Vec::new(), 0);
    loop {
        let page = page(subject, scan.clone()).await;
        pages += 1;
        assert!(pages < 1000, "the list comes to an end");
        assert!(page.records.len() <= scan.limit);
        keys.extend(page.records.iter().map(|record| record.key.to_string()));
        match page.next {
            Some(next) => scan.after = Some(next),
            None => return (keys, pages),
        }
    }
}

async fn settled(subject: &Subject, of: Tenant, route: &str, key: &str) {
    let claim = subject.claim_in(&space(of, route), key);
    let lease = subject.take(&claim).await.lease();
    assert!(subject.settle(lease, Outcome::text(200, "ok")).await);
    subject.advance(Duration::from_millis(1));
}

fn beginning(of: Tenant, text: &str, limit: usize) -> Scan {
    Scan {
        prefix: Some(Key::new(text).expect("a key")),
        limit,
        ..Scan::of(of)
    }
}

/// Keys are found by how they begin, newest first, page by page and whatever a pattern would mean.
pub async fn keys_are_found_by_how_they_begin(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    for key in ["b", "a_1", "ab", "a%", "a", "A", "a~", "aZ", "c", "a~~"] {
        settled(subject, Tenant::DEFAULT, "POST:one", key).await;
    }
    settled(subject, Tenant::DEFAULT, "POST:two", "ab").await;
    settled(subject, tenant(2), "POST:one", "ab").await;
    for limit in [1, 3, 50] {
        let found = async |text: &str| {
            all(subject, beginning(Tenant::DEFAULT, text, limit))
                .await
                .0
        };
        assert_eq!(
            found("a").await,
            ["ab", "a~~", "aZ", "a~", "a", "a%", "ab", "a_1"]
        );
        assert_eq!(found("a%").await, ["a%"]);
        assert_eq!(found("a_").await, ["a_1"]);
        assert_eq!(found("a~").await, ["a~~", "a~"]);
        assert_eq!(found("ab").await, ["ab", "ab"]);
        assert!(found("abc").await.is_empty());
    }
    let scan = Scan {
        space: Some(Space::new("POST:two").expect("a space")),
        ..beginning(Tenant::DEFAULT, "a", 50)
    };
    assert_eq!(page(subject, scan).await.records.len(), 1);
    let theirs = page(subject, beginning(tenant(2), "a", 50)).await;
    assert_eq!(theirs.records.len(), 1, "another tenant has its own");
}

/// A page looks at no more records than it may, says where it stopped, and the next goes on there: nothing is missed.
pub async fn a_page_ends_where_it_may_look_no_further(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    for number in 0..12 {
        let route = if number % 4 == 0 {
            "POST:rare"
        } else {
            "POST:usual"
        };
        settled(subject, Tenant::DEFAULT, route, &format!("k{number:02}")).await;
    }
    let held = subject.claim("k99");
    let _held = subject.take(&held).await.lease();
    let looking = |scan: Scan| Scan {
        looks_at: 5,
        limit: 2,
        ..scan
    };
    let held = looking(Scan {
        state: Some("held"),
        ..Scan::of(Tenant::DEFAULT)
    });
    let (keys, pages) = all(subject, held.clone()).await;
    assert_eq!(keys, ["k99"]);
    assert!((3..=4).contains(&pages), "{pages}");
    let in_doubt = Scan {
        state: Some("in_doubt"),
        ..held
    };
    let first = page(subject, in_doubt.clone()).await;
    assert!(first.records.is_empty() && first.next.is_some());
    assert!(all(subject, in_doubt).await.0.is_empty());

    let rare = looking(Scan {
        space: Some(Space::new("POST:rare").expect("a space")),
        ..Scan::of(Tenant::DEFAULT)
    });
    let (keys, pages) = all(subject, rare).await;
    assert_eq!(
        (keys, pages),
        (vec!["k08".to_owned(), "k04".into(), "k00".into()], 2)
    );
    let everything = all(subject, looking(Scan::of(Tenant::DEFAULT))).await.0;
    assert_eq!(everything.len(), 13);

    let held = looking(Scan {
        state: Some("held"),
        ..beginning(Tenant::DEFAULT, "k", 2)
    });
    assert_eq!(all(subject, held).await.0, ["k99"]);
    let oldest = looking(beginning(Tenant::DEFAULT, "k00", 2));
    let first = page(subject, oldest.clone()).await;
    assert!(first.records.is_empty() && first.next.is_some());
    assert_eq!(all(subject, oldest).await.0, ["k00"]);
}

/// The spaces of a tenant are told in order, each once, and no more than are asked for.
pub async fn spaces_are_told_once_each(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    let told = async |of: Tenant, limit: usize| -> Vec<String> {
        let spaces = subject.ledger.spaces(of, limit).await;
        let spaces = spaces.expect("the ledger answers").into_iter();
        spaces.map(|space| space.to_string()).collect()
    };
    assert!(told(Tenant::DEFAULT, 10).await.is_empty());
    for (route, key) in [
        ("POST:b", "1"),
        ("POST:a", "1"),
        ("POST:b", "2"),
        ("PUT:c-{id}", "3"),
    ] {
        settled(subject, Tenant::DEFAULT, route, key).await;
    }
    settled(subject, tenant(2), "POST:theirs", "1").await;
    assert_eq!(
        told(Tenant::DEFAULT, 10).await,
        ["POST:a", "POST:b", "PUT:c-{id}"]
    );
    assert_eq!(told(Tenant::DEFAULT, 2).await, ["POST:a", "POST:b"]);
    assert_eq!(told(tenant(2), 10).await, ["POST:theirs"]);
}

/// What was swept is walked past, and not for ever at once.
pub async fn swept_records_are_not_listed_and_do_not_hide_the_others(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    settled(subject, Tenant::DEFAULT, "POST:test", "old").await;
    subject.advance(Policy::default().ttl + Duration::from_secs(1));
    settled(subject, Tenant::DEFAULT, "POST:test", "new").await;
    subject.sweep(Sweep::default()).await;
    let scan = Scan {
        looks_at: 1,
        ..Scan::of(Tenant::DEFAULT)
    };
    assert_eq!(all(subject, scan).await.0, ["new"]);
}

/// Keys in doubt are counted among the newest, those included of which nobody has written so.
pub async fn doubts_are_counted_among_the_newest(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    let holding = Policy {
        on_lost: OnLost::Hold,
        ..Policy::default()
    };
    for key in ["lost", "lost-too"] {
        let claim = subject.claim(key).with_policy(holding);
        let _lost = subject.take(&claim).await.lease();
        subject.advance(holding.lease + Duration::from_secs(1));
    }
    let counted = async |of: Tenant, looks_at: usize| {
        let count = subject.ledger.doubts(of, looks_at).await;
        count.expect("the ledger answers")
    };
    assert_eq!(counted(Tenant::DEFAULT, 10).await, 2);
    assert_eq!(counted(Tenant::DEFAULT, 1).await, 1);
    assert_eq!(counted(tenant(2), 10).await, 0);
    settled(subject, Tenant::DEFAULT, "POST:test", "settled").await;
    assert_eq!(counted(Tenant::DEFAULT, 2).await, 1);
}
