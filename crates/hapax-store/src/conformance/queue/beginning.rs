//! Beginning an operation: run it, or be told what came of it or who is at it.

use std::time::Duration;

use hapax_core::job::{Act, Begun, Class, Deed, Done, Fence, On, OpState, Refusal};

use super::subject::{QueueSubject, beginning, complete, fail_op, failure, fence, key, on_job};

/// A new operation has to be run, and is stored as running with all that is known of it.
pub async fn a_new_operation_is_run_and_stored_whole(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let before = subject.now();

    subject.begun(&held, "op", Class::Keyed, "secret").await;

    let op = subject.op("op").await.expect("it is stored");
    assert!(QueueSubject::is_within(
        op.started_at,
        before,
        subject.now()
    ));
    assert_eq!(
        (&op.key, &op.job, op.kind.as_str()),
        (&key("op"), &held.id, "HEAD")
    );
    assert_eq!(
        (op.state, op.class, op.tenant),
        (OpState::Running, Class::Keyed, held.tenant)
    );
    assert_eq!((op.epoch, op.tries, op.token.as_str()), (1, 1, "secret"));
    assert_eq!(
        (&op.finished_at, &op.result, &op.error),
        (&None, &None, &None)
    );
    assert_eq!(subject.shown(&held).await, (held, vec![op]));
}

/// A runner whose answer got lost asks again with its token and is told the same.
pub async fn the_same_runner_is_told_the_same(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::AtMostOnce, "t").await;
    let stored = subject.op("op").await;

    subject.begun(&held, "op", Class::AtMostOnce, "t").await;

    assert_eq!(subject.op("op").await, stored, "it was begun once");
}

/// While its runner may be at it, nobody else runs an operation, whatever its class.
pub async fn while_a_job_is_held_nobody_else_runs_its_operation(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Replayable, "t1").await;
    let stored = subject.op("op").await;

    let other = subject.begin(&held, "op", Class::Replayable, "t2").await;

    assert_eq!(other, Ok(Begun::InProgress));
    assert_eq!(subject.op("op").await, stored);
}

/// What is done is never run again: every later begin gets the same bytes.
pub async fn a_done_operation_replays_the_same_bytes(subject: &QueueSubject) {
    let result = "{ \"b\":1, \"nul\":\"\\u0000\", \"größe\": 1e2 }";
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::AtMostOnce, "t1").await;
    subject
        .end("op", complete("t1", result))
        .await
        .expect("it is done");

    let here = subject.begin(&held, "op", Class::AtMostOnce, "t2").await;
    assert_eq!(here, Ok(Begun::Replay(result.into())));
    subject.run_out();
    let job = subject.taken("other").await;
    let later = subject.begin(&job, "op", Class::Replayable, "t3").await;
    assert_eq!(later, Ok(Begun::Replay(result.into())));
}

/// An effect that may have happened is in doubt when its runner died, and stays so.
pub async fn what_a_dead_runner_may_have_done_is_in_doubt(subject: &QueueSubject) {
    for (name, class) in [("probe", Class::Probe), ("once", Class::AtMostOnce)] {
        let held = subject.held(name).await;
        subject.begun(&held, name, class, "t1").await;
        subject.run_out();
        let job = subject.taken("other").await;

        for _ in 0..2 {
            let begun = subject.begin(&job, name, class, "t2").await;
            assert_eq!(begun, Ok(Begun::InDoubt));
            let op = subject.op(name).await.expect("it is there");
            assert_eq!((op.state, op.epoch, op.tries), (OpState::InDoubt, 1, 1));
            assert_eq!(op.token, "t1");
        }
        subject
            .deed(&job, failure("doubt"))
            .await
            .expect("it failed");
    }
}

/// An effect that may be repeated is run again when its runner died, under the new lease.
pub async fn what_may_be_repeated_runs_again(subject: &QueueSubject) {
    for class in [Class::Tx, Class::Keyed, Class::Replayable] {
        let name = class.as_str();
        let held = subject.held(name).await;
        subject.begun(&held, name, class, "t1").await;
        subject.run_out();
        let job = subject.taken("other").await;
        assert_eq!(job.id, held.id);

        subject.begun(&job, name, class, "t2").await;

        let op = subject.op(name).await.expect("it is there");
        assert_eq!((op.state, op.epoch, op.tries), (OpState::Running, 2, 2));
        assert_eq!(op.token, "t2");
        subject
            .deed(&job, failure("enough"))
            .await
            .expect("it failed");
    }
}

/// An operation that failed may run again if its failure says so.
pub async fn a_passing_failure_runs_again(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::AtMostOnce, "t1").await;
    let fail = fail_op("t1", "status 503", true);
    subject.end("op", fail).await.expect("it failed");

    subject.begun(&held, "op", Class::AtMostOnce, "t2").await;

    let op = subject.op("op").await.expect("it is there");
    assert_eq!(
        (op.tries, &op.error, op.state),
        (2, &None, OpState::Running)
    );
}

/// An operation that failed for good is not run again: every begin is told why.
pub async fn a_failure_for_good_is_told(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Replayable, "t1").await;
    let fail = fail_op("t1", "status 410", false);
    subject.end("op", fail).await.expect("it failed");

    let told = Ok(Begun::Failed("status 410".into()));
    assert_eq!(
        subject.begin(&held, "op", Class::Replayable, "t2").await,
        told
    );
    subject.run_out();
    let job = subject.taken("other").await;
    assert_eq!(
        subject.begin(&job, "op", Class::Replayable, "t3").await,
        told
    );
}

/// One key stands for one job: another job is told whose it is.
pub async fn one_key_on_two_jobs_conflicts(subject: &QueueSubject) {
    let first = subject.held("a").await;
    subject.begun(&first, "op", Class::Replayable, "t1").await;
    let second = subject.held("b").await;

    let refused = subject.begin(&second, "op", Class::Replayable, "t2").await;

    let conflict = Refusal::KeyConflict {
        job: first.id.clone(),
        kind: "HEAD".to_owned(),
    };
    assert_eq!(refused, Err(conflict));
    assert_eq!(subject.op("op").await.map(|op| op.job), Some(first.id));
}

/// One key stands for one kind of operation.
pub async fn one_key_of_two_kinds_conflicts(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Replayable, "t").await;
    let other = Deed::Begin {
        key: key("op"),
        kind: "STREAM".into(),
        class: Class::Replayable,
        token: "t".into(),
    };

    let refused = subject
        .apply(vec![on_job(&held, fence(&held), other)])
        .await;

    let conflict = Refusal::KeyConflict {
        job: held.id.clone(),
        kind: "HEAD".to_owned(),
    };
    assert_eq!(refused, [Err(conflict)]);
}

/// Without a lease behind it an operation counts as worked on for ten minutes, and no longer.
pub async fn an_operation_without_a_lease_is_abandoned_after_a_while(subject: &QueueSubject) {
    let planned = subject.planned("a").await;
    subject.begun(&planned, "op", Class::Probe, "t1").await;

    subject.advance(Duration::from_secs(590));
    let soon = subject.begin(&planned, "op", Class::Probe, "t2").await;
    assert_eq!(soon, Ok(Begun::InProgress));
    subject.advance(Duration::from_secs(11));
    let late = subject.begin(&planned, "op", Class::Probe, "t2").await;
    assert_eq!(late, Ok(Begun::InDoubt));
}

/// A begin on a job that is held needs its fence.
pub async fn a_begin_needs_the_fence(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let act = Act {
        on: On::Job(held.id.clone()),
        fence: Fence::none(),
        deed: beginning("op", Class::Replayable, "t"),
    };

    let refused = subject.apply(vec![act]).await.remove(0);

    assert!(
        matches!(refused, Err(Refusal::LeaseLost { .. })),
        "{refused:?}"
    );
    assert_eq!(subject.op("op").await, None);
}

/// Of runners who begin at once under one lease, one runs it.
pub async fn concurrent_begins_run_it_once(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let begins = (0..16).map(|number| {
        let deed = beginning("op", Class::Replayable, &format!("t{number}"));
        let act = on_job(&held, fence(&held), deed);
        let queue = subject.queue.clone();
        tokio::spawn(async move { queue.apply(hapax_core::Tenant::DEFAULT, vec![act]).await })
    });
    let mut run = 0;
    for begin in begins.collect::<Vec<_>>() {
        let answers = begin.await.expect("no panic").expect("the queue answers");
        match &answers[0] {
            Ok(Done::Begun(Begun::Execute(_), _)) => run += 1,
            Ok(Done::Begun(Begun::InProgress, _)) => {}
            other => panic!("it runs or is told that somebody is at it, got {other:?}"),
        }
    }

    assert_eq!(run, 1);
}
