//! Who asks what: one at a time, until it is answered, the asker stops, or its time is over.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{Asked, BatchState, BatchStatus};
use hapax_core::{Fingerprint, Kind, Tenant};
use uuid::Uuid;

use super::subject::{OTHER, T1Subject, TENANT, own};

const HOUR: Duration = Duration::from_secs(3600);
const ONE: Uuid = Uuid::from_u128(1);
const TWO: Uuid = Uuid::from_u128(2);

fn key(asked: &str) -> Fingerprint {
    Fingerprint::of(asked.as_bytes())
}

async fn ask(subject: &T1Subject, tenant: Tenant, who: Uuid, asked: &[&str]) -> Vec<Asked> {
    let keys = asked.iter().map(|asked| key(asked)).collect();
    let asked = subject.batches.ask(tenant, who, HOUR, keys).await;
    asked.expect("the store answers")
}

async fn keep(subject: &T1Subject, asked: &str, raw: &str) {
    let answers = vec![(key(asked), Arc::from(raw))];
    let kept = subject.batches.keep_answers(TENANT, answers).await;
    kept.expect("the store answers");
}

/// What one asks, nobody else is told to ask; the one who does is told the same again.
pub async fn what_one_asks_nobody_else_is_told_to_ask(subject: &T1Subject) {
    let first = ask(subject, TENANT, ONE, &["a", "b", "a"]).await;
    let other = ask(subject, TENANT, TWO, &["c", "b", "a"]).await;
    let again = ask(subject, TENANT, ONE, &["c", "b", "a"]).await;

    assert_eq!(first, [Asked::Ours, Asked::Ours, Asked::Ours]);
    assert_eq!(other, [Asked::Ours, Asked::Theirs, Asked::Theirs]);
    assert_eq!(again, [Asked::Theirs, Asked::Ours, Asked::Ours]);
}

/// Of many who want to ask the same at once, one is told to.
pub async fn of_many_who_ask_at_once_one_is_told_to(subject: &T1Subject) {
    let asks = (1..=20_u128).map(|number| {
        let batches = subject.batches.clone();
        // In both orders, so that two who wait for each other are found out.
        let mut keys: Vec<Fingerprint> = (0..10).map(|one| key(&format!("k{one}"))).collect();
        if number.is_multiple_of(2) {
            keys.reverse();
        }
        tokio::spawn(async move {
            loop {
                let who = Uuid::from_u128(number);
                match batches.ask(TENANT, who, HOUR, keys.clone()).await {
                    Err(error) if error.kind() == Kind::Unavailable => {}
                    asked => return asked.expect("the store answers"),
                }
            }
        })
    });
    let mut ours = 0;
    for ask in asks.collect::<Vec<_>>() {
        let asked = ask.await.expect("no panic");
        ours += asked.iter().filter(|one| **one == Asked::Ours).count();
    }

    assert_eq!(ours, 10);
}

/// What was answered is not asked again.
pub async fn what_was_answered_is_not_asked(subject: &T1Subject) {
    keep(subject, "a", "A").await;

    let asked = ask(subject, TENANT, ONE, &["a", "b"]).await;

    assert_eq!(asked, [Asked::Paid("A".into()), Asked::Ours]);
}

/// An answer ends the asking for everybody.
pub async fn an_answer_ends_the_asking(subject: &T1Subject) {
    ask(subject, TENANT, ONE, &["a"]).await;
    keep(subject, "a", "A").await;

    let asked = ask(subject, TENANT, TWO, &["a"]).await;

    assert_eq!(asked, [Asked::Paid("A".into())]);
}

/// Who stops lets others ask, and only what was its own.
pub async fn who_stops_asks_nothing_any_more(subject: &T1Subject) {
    ask(subject, TENANT, ONE, &["a", "b"]).await;
    ask(subject, TENANT, TWO, &["c"]).await;
    for _ in 0..2 {
        let stopped = subject.batches.stop_asking(TENANT, ONE).await;
        stopped.expect("the store answers");
    }

    let other = ask(subject, TENANT, TWO, &["a"]).await;
    let again = ask(subject, TENANT, ONE, &["a", "b", "c"]).await;

    assert_eq!(other, [Asked::Ours]);
    assert_eq!(again, [Asked::Theirs, Asked::Ours, Asked::Theirs]);
}

/// An asking whose time is over is for the next one who wants to ask; asking again begins the time anew.
pub async fn an_asking_ends_with_its_time(subject: &T1Subject) {
    ask(subject, TENANT, ONE, &["a", "b"]).await;
    subject.advance(HOUR / 2);
    ask(subject, TENANT, ONE, &["b"]).await;
    subject.advance(HOUR / 2);

    let other = ask(subject, TENANT, TWO, &["a", "b"]).await;
    let again = ask(subject, TENANT, ONE, &["a", "b"]).await;

    assert_eq!(other, [Asked::Ours, Asked::Theirs]);
    assert_eq!(again, [Asked::Theirs, Asked::Ours]);
}

/// A batch asks until it ends, however that is.
pub async fn a_batch_that_ends_asks_nothing_any_more(subject: &T1Subject) {
    for (number, status) in [(7, BatchStatus::Completed), (8, BatchStatus::Failed)] {
        let batch = subject.add(number, vec![own("a text")]).await;
        ask(subject, TENANT, batch.id, &["a"]).await;
        let change = |version, status| {
            let state = BatchState {
                status,
                ..batch.state.clone()
            };
            subject
                .batches
                .change_batch(TENANT, batch.schema, batch.id, version, state)
        };
        let sent = change(batch.version, BatchStatus::Submitted).await;
        let sent = sent
            .expect("the store answers")
            .expect("it is as it was seen");
        assert_eq!(ask(subject, TENANT, TWO, &["a"]).await, [Asked::Theirs]);
        let refused = change(batch.version, status).await;
        assert!(refused.expect("the store answers").is_none());
        assert_eq!(ask(subject, TENANT, TWO, &["a"]).await, [Asked::Theirs]);

        change(sent.version, status)
            .await
            .expect("the store answers")
            .expect("it is as it was seen");

        assert_eq!(ask(subject, TENANT, TWO, &["a"]).await, [Asked::Ours]);
        let stopped = subject.batches.stop_asking(TENANT, TWO).await;
        stopped.expect("the store answers");
    }
}

/// Tenants ask for themselves, under whatever name.
pub async fn tenants_ask_for_themselves(subject: &T1Subject) {
    ask(subject, TENANT, ONE, &["a"]).await;

    let other = ask(subject, OTHER, TWO, &["a"]).await;
    let stopped = subject.batches.stop_asking(OTHER, ONE).await;
    stopped.expect("the store answers");
    let again = ask(subject, TENANT, TWO, &["a"]).await;

    assert_eq!(other, [Asked::Ours]);
    assert_eq!(again, [Asked::Theirs]);
}

/// More than one call takes is refused, and nothing is asked.
pub async fn over_the_limit_of_questions_is_refused(subject: &T1Subject) {
    let keys = |count: usize| (0..count).map(|one| key(&one.to_string())).collect();
    let most = Asked::CALL_MAX;
    let asked = subject.batches.ask(TENANT, ONE, HOUR, keys(most + 1)).await;
    assert_eq!(asked.expect_err("too many").kind(), Kind::Limit);

    let asked = subject.batches.ask(TENANT, TWO, HOUR, keys(most)).await;

    let asked = asked.expect("the store answers");
    assert!(asked.iter().all(|one| *one == Asked::Ours));
}
