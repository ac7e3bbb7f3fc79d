//! Lists of imports.

use hapax_core::Tenant;
use hapax_core::entry::{Import, Search};
use uuid::Uuid;

use super::subject::{ImportSubject, keyless, new, newsletter};

async fn page(subject: &ImportSubject, after: Option<Uuid>, limit: usize) -> Vec<Import> {
    let page = subject.imports.imports(Tenant::DEFAULT, after, limit).await;
    page.expect("the store answers")
}

fn ids(page: &[Import]) -> Vec<u128> {
    page.iter().map(|import| import.id.as_u128()).collect()
}

/// The one that was begun last comes first, whatever the ids are.
pub async fn imports_are_listed_newest_first(subject: &ImportSubject) {
    for number in [5, 1, 9, 3] {
        subject.begin(new(number, &format!("{number}.mbox"))).await;
    }
    subject.run(7, "7.mbox", vec![newsletter("<1>")]).await;
    assert_eq!(ids(&page(subject, None, 50).await), [7, 3, 9, 1, 5]);
}

/// Page after page lists every import once.
pub async fn imports_page_without_gap(subject: &ImportSubject) {
    for number in 1..=7 {
        subject.begin(new(number, &format!("{number}.mbox"))).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let listed = page(subject, after, 3).await;
        let Some(last) = listed.last() else { break };
        after = Some(last.id);
        seen.extend(ids(&listed));
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
}

/// No limit is too large, and none is too small.
pub async fn a_page_of_imports_is_bounded(subject: &ImportSubject) {
    for number in 1..=3 {
        subject.begin(new(number, &format!("{number}.mbox"))).await;
    }
    assert_eq!(page(subject, None, 0).await, []);
    assert_eq!(page(subject, None, Search::LIMIT_MAX + 1).await.len(), 3);
    assert_eq!(page(subject, None, usize::MAX).await.len(), 3);
}

/// A listed import has its faults and batches, like one that is looked up.
pub async fn a_listed_import_is_whole(subject: &ImportSubject) {
    let all = vec![
        newsletter("<1>"),
        keyless(),
        newsletter("<2>"),
        newsletter("<3>"),
    ];
    let done = subject.run(1, "a.mbox", all).await;
    subject.set_test_mode(true).await;
    let other = subject.run(2, "b.mbox", vec![newsletter("<1>")]).await;
    assert_eq!((done.batches.len(), done.errors.len()), (2, 1));
    assert_eq!(other.batches.len(), 1);
    assert_eq!(page(subject, None, 50).await, [other, done]);
}
