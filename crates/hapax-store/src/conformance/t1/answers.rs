//! Answers that were paid for: kept under what was asked, the first one for good.

use std::sync::Arc;

use hapax_core::entry::Asked;
use hapax_core::{Fingerprint, Kind, Tenant};

use super::subject::{OTHER, T1Subject, TENANT};

fn key(asked: &str) -> Fingerprint {
    Fingerprint::of(asked.as_bytes())
}

async fn keep(subject: &T1Subject, tenant: Tenant, answers: &[(&str, &str)]) {
    let answers = answers
        .iter()
        .map(|(asked, raw)| (key(asked), Arc::from(*raw)));
    let kept = subject.batches.keep_answers(tenant, answers.collect());
    kept.await.expect("the store answers");
}

async fn paid(subject: &T1Subject, tenant: Tenant, asked: &[&str]) -> Vec<Option<String>> {
    let keys = asked.iter().map(|asked| key(asked)).collect();
    let paid = subject.batches.paid_answers(tenant, keys).await;
    let paid = paid.expect("the store answers");
    paid.into_iter()
        .map(|raw| raw.map(|raw| raw.to_string()))
        .collect()
}

/// Answers come in the order of the keys; what nobody asked has none.
pub async fn answers_come_in_the_order_of_their_keys(subject: &T1Subject) {
    keep(subject, TENANT, &[("a", "A"), ("b", ""), ("c", "C")]).await;

    let found = paid(subject, TENANT, &["c", "x", "a", "b", "c"]).await;

    let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
    assert_eq!(found, [Some("C"), None, Some("A"), Some(""), Some("C")]);
}

/// The first answer stays, in one call and over several.
pub async fn the_first_answer_stays(subject: &T1Subject) {
    keep(subject, TENANT, &[("a", "first"), ("a", "second")]).await;
    keep(subject, TENANT, &[("b", "new"), ("a", "third")]).await;

    let found = paid(subject, TENANT, &["a", "b"]).await;

    assert_eq!(found, [Some("first".to_owned()), Some("new".to_owned())]);
}

/// Of many who keep an answer at once, one is first for everybody.
pub async fn of_many_answers_at_once_one_stays(subject: &T1Subject) {
    let keeps = (0..20).map(|number: usize| {
        let batches = subject.batches.clone();
        let raw: Arc<str> = number.to_string().into();
        // In both orders, so that two who wait for each other are found out.
        let mut answers = vec![(key("a"), raw.clone()), (key("b"), raw)];
        if number.is_multiple_of(2) {
            answers.reverse();
        }
        tokio::spawn(async move {
            loop {
                match batches.keep_answers(TENANT, answers.clone()).await {
                    Err(error) if error.kind() == Kind::Unavailable => {}
                    kept => {
                        kept.expect("the store answers");
                        let keys = vec![key("a"), key("b")];
                        let paid = batches.paid_answers(TENANT, keys).await;
                        return paid.expect("the store answers");
                    }
                }
            }
        })
    });
    let mut seen = Vec::new();
    for keep in keeps.collect::<Vec<_>>() {
        seen.push(keep.await.expect("no panic"));
    }
    assert!(seen.iter().all(|paid| *paid == seen[0]));
    assert!(seen[0].iter().all(Option::is_some));
}

/// What one tenant paid for, another does not see.
pub async fn an_answer_belongs_to_its_tenant(subject: &T1Subject) {
    keep(subject, TENANT, &[("a", "mine")]).await;
    assert_eq!(paid(subject, OTHER, &["a"]).await, [None]);

    keep(subject, OTHER, &[("a", "theirs")]).await;

    assert_eq!(
        paid(subject, OTHER, &["a"]).await,
        [Some("theirs".to_owned())]
    );
    assert_eq!(
        paid(subject, TENANT, &["a"]).await,
        [Some("mine".to_owned())]
    );
}

/// A call takes the answers of a whole batch and no more, and may be empty.
pub async fn over_the_limit_of_answers_is_refused(subject: &T1Subject) {
    keep(subject, TENANT, &[]).await;
    assert_eq!(paid(subject, TENANT, &[]).await, []);
    let all: Vec<(Fingerprint, Arc<str>)> = (0..Asked::CALL_MAX)
        .map(|number| (key(&number.to_string()), number.to_string().into()))
        .collect();
    let kept = subject.batches.keep_answers(TENANT, all.clone()).await;
    kept.expect("the store answers");
    let keys: Vec<Fingerprint> = all.iter().map(|(key, _)| *key).collect();
    let paid = subject.batches.paid_answers(TENANT, keys.clone()).await;
    let paid = paid.expect("the store answers");
    assert!(
        paid.iter()
            .zip(&all)
            .all(|(paid, (_, raw))| paid.as_ref() == Some(raw))
    );

    let many = |of: usize| vec![keys[0]; of + 1];
    let refused = subject.batches.paid_answers(TENANT, many(Asked::CALL_MAX));
    assert_eq!(
        refused.await.expect_err("it is refused").kind(),
        Kind::Limit
    );
    let answers = many(Asked::CALL_MAX)
        .into_iter()
        .map(|key| (key, "x".into()));
    let refused = subject.batches.keep_answers(TENANT, answers.collect());
    assert_eq!(
        refused.await.expect_err("it is refused").kind(),
        Kind::Limit
    );
}

/// An answer comes back as it was, however long and strange. Only U+0000 is replaced.
pub async fn any_answer_comes_back(subject: &T1Subject) {
    let long = "an answer, and 🙂 ".repeat(250_000);
    let texts = [
        "",
        "\"\\\n\t\u{1}\u{7f}\u{2028}",
        "عربى 中文 🙂",
        long.as_str(),
    ];
    for (number, text) in texts.iter().enumerate() {
        let asked = number.to_string();
        keep(subject, TENANT, &[(asked.as_str(), text)]).await;
        let found = paid(subject, TENANT, &[asked.as_str()]).await;
        assert!(found[0].as_deref() == Some(text), "{number}");
    }
    keep(subject, TENANT, &[("nul", "a\u{0}b\u{0}")]).await;
    let found = paid(subject, TENANT, &["nul"]).await;
    assert_eq!(found[0].as_deref(), Some("a\u{fffd}b\u{fffd}"));
}
