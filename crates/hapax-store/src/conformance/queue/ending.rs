//! Ending an operation: its result is recorded once, whole, and with the step of its job.

use std::time::Duration;

use hapax_core::Tenant;
use hapax_core::job::{Begun, Class, Deed, Fence, Job, Op, OpState, Refusal, Resolution, State};

use super::subject::{QueueSubject, complete, complete_to, fail_op, failure, on_op};

/// A job with the operation `op` in doubt, held by its second worker.
async fn doubted(subject: &QueueSubject) -> Job {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::AtMostOnce, "t1").await;
    subject.run_out();
    let job = subject.taken("other").await;
    let begun = subject.begin(&job, "op", Class::AtMostOnce, "t2").await;
    assert_eq!(begun, Ok(Begun::InDoubt));
    job
}

/// The result and the step of the job are recorded together.
pub async fn a_result_and_the_step_are_recorded_together(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Replayable, "t").await;
    let before = subject.now();

    let (op, job) = subject
        .end("op", complete_to("t", r#"{"status":200}"#, State::HeadDone))
        .await
        .expect("it is done");

    assert_eq!((op.state, job.state), (OpState::Done, State::HeadDone));
    assert_eq!(op.result.as_deref(), Some(r#"{"status":200}"#));
    let finished_at = op.finished_at.expect("it is over");
    assert!(QueueSubject::is_within(finished_at, before, subject.now()));
    assert_eq!(job.lease, held.lease, "the worker goes on");
    assert_eq!(
        job.result, None,
        "a step on the way is no result of the job"
    );
}

/// A result that comes with the job's last step is the job's result too.
pub async fn the_last_result_is_kept_with_the_job(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let all = [State::HeadDone, State::Streaming, State::Finalized];
    let job = subject.walk(&held, &all).await;
    subject.begun(&job, "op", Class::Tx, "t").await;

    let (_, ended) = subject
        .end("op", complete_to("t", r#"{"sha256":"ab"}"#, State::Indexed))
        .await
        .expect("it is done");

    assert_eq!((ended.state, ended.lease), (State::Indexed, None));
    assert_eq!(ended.result.as_deref(), Some(r#"{"sha256":"ab"}"#));
}

/// If the step is denied the result is not recorded either.
pub async fn a_denied_step_records_nothing(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Replayable, "t").await;
    let stored = subject.op("op").await;

    let refused = subject
        .end("op", complete_to("t", "1", State::Indexed))
        .await;

    assert!(
        matches!(refused, Err(Refusal::Denied { .. })),
        "{refused:?}"
    );
    assert_eq!(subject.op("op").await, stored);
    assert_eq!(subject.stored(&held).await, held);
}

/// The same result again, because an answer got lost, is harmless; the first time stays.
pub async fn a_result_told_twice_is_recorded_once(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Replayable, "t").await;
    let deed = complete_to("t", "[1]", State::HeadDone);
    let first = subject.end("op", deed.clone()).await.expect("it is done");
    subject.advance(Duration::from_secs(5));

    let again = subject.end("op", deed).await;

    assert_eq!(again, Ok(first));
}

/// Another result for what is done is a conflict, and the first one stays.
pub async fn another_result_conflicts(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Replayable, "t").await;
    subject
        .end("op", complete("t", "[1]"))
        .await
        .expect("it is done");

    let refused = subject.end("op", complete("t", "[2]")).await;

    let conflict = Refusal::KeyConflict {
        job: held.id,
        kind: "HEAD".to_owned(),
    };
    assert_eq!(refused, Err(conflict));
    let stored = subject.op("op").await.and_then(|op| op.result);
    assert_eq!(stored.as_deref(), Some("[1]"));
}

/// A result of a mebibyte comes back whole; one byte more is refused and nothing is stored.
pub async fn a_result_is_whole_or_refused(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Replayable, "t").await;
    let largest = format!("\"{}\"", "x".repeat(Op::RESULT_BYTES_MAX - 2));
    let larger = format!("{largest} ");

    let refused = subject.end("op", complete("t", &larger)).await;
    let bytes = Op::RESULT_BYTES_MAX + 1;
    assert_eq!(refused, Err(Refusal::TooLarge { bytes }));
    assert_eq!(subject.op("op").await.map(|op| op.result), Some(None));

    subject
        .end("op", complete("t", &largest))
        .await
        .expect("it fits");
    let begun = subject.begin(&held, "op", Class::Replayable, "t2").await;
    assert_eq!(begun, Ok(Begun::Replay(largest.into())));
}

/// Only the runner ends an operation: another token is refused.
pub async fn another_token_is_refused(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Replayable, "t").await;
    let stored = subject.op("op").await;
    let wait = Deed::Wait {
        token: "x".into(),
        asks: "1".into(),
    };

    for deed in [
        complete("x", "1"),
        fail_op("x", "no", true),
        fail_op("x", "no", false),
        wait,
    ] {
        let refused = subject.end("op", deed).await;
        assert!(
            matches!(refused, Err(Refusal::LeaseLost { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(subject.op("op").await, stored);
}

/// A failure that is told again is harmless.
pub async fn a_failure_of_an_operation_told_twice_is_harmless(subject: &QueueSubject) {
    for (name, retryable) in [("passing", true), ("for good", false)] {
        let name = &name.replace(' ', "-");
        let held = subject.held(name).await;
        subject.begun(&held, name, Class::Replayable, "t").await;
        let deed = fail_op("t", "a\u{0}ö", retryable);
        let first = subject.end(name, deed.clone()).await.expect("it failed");
        assert_eq!(first.0.error.as_deref(), Some("a\u{0}ö"));
        assert_eq!(first.0.finished_at.is_some(), !retryable);

        assert_eq!(subject.end(name, deed).await, Ok(first));
        subject
            .deed(&held, failure("enough"))
            .await
            .expect("it failed");
    }
}

/// What its runner recorded late counts, if nobody took the job: doubt ends.
pub async fn a_doubted_operation_is_completed_by_its_own_runner(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::AtMostOnce, "t").await;
    subject.advance(Duration::from_secs(700));
    let (op, _) = subject
        .end("op", Deed::Doubt)
        .await
        .expect("it is looked at");
    assert_eq!(op.state, OpState::InDoubt);

    let (op, job) = subject
        .end("op", complete_to("t", "[1]", State::HeadDone))
        .await
        .expect("nobody took the job");

    assert_eq!((op.state, job.state), (OpState::Done, State::HeadDone));
}

/// Doubt ends with a result that somebody found out.
pub async fn doubt_ends_with_a_result(subject: &QueueSubject) {
    let job = doubted(subject).await;

    let found = Deed::Resolve(Resolution::Result("[7]".into()));
    let (op, _) = subject.end("op", found).await.expect("it was in doubt");

    assert_eq!(
        (op.state, op.result.as_deref()),
        (OpState::Done, Some("[7]"))
    );
    let begun = subject.begin(&job, "op", Class::AtMostOnce, "t3").await;
    assert_eq!(begun, Ok(Begun::Replay("[7]".into())));
}

/// Doubt ends with another run.
pub async fn doubt_ends_with_another_run(subject: &QueueSubject) {
    let job = doubted(subject).await;

    let retry = Deed::Resolve(Resolution::Retry);
    let (op, _) = subject.end("op", retry).await.expect("it was in doubt");

    assert_eq!(op.state, OpState::Retryable);
    subject.begun(&job, "op", Class::AtMostOnce, "t3").await;
}

/// Doubt ends with a failure for good.
pub async fn doubt_ends_with_a_failure(subject: &QueueSubject) {
    let job = doubted(subject).await;

    let fail = Deed::Resolve(Resolution::Error("it bounced".into()));
    let (op, _) = subject.end("op", fail).await.expect("it was in doubt");

    assert_eq!(op.state, OpState::Failed);
    let begun = subject.begin(&job, "op", Class::AtMostOnce, "t3").await;
    assert_eq!(begun, Ok(Begun::Failed("it bounced".into())));
}

/// What is done, failed or being worked on is not resolved.
pub async fn only_doubt_and_waiting_are_resolved(subject: &QueueSubject) {
    let held = subject.held("a").await;
    for name in ["done", "failed", "passing", "running"] {
        subject.begun(&held, name, Class::Probe, "t").await;
    }
    subject
        .end("done", complete("t", "1"))
        .await
        .expect("it is done");
    subject
        .end("failed", fail_op("t", "no", false))
        .await
        .expect("it failed");
    subject
        .end("passing", fail_op("t", "no", true))
        .await
        .expect("it failed");

    for (name, have) in [
        ("done", OpState::Done),
        ("failed", OpState::Failed),
        ("passing", OpState::Retryable),
        ("running", OpState::Running),
    ] {
        let resolve = Deed::Resolve(Resolution::Result("2".into()));
        let refused = subject.end(name, resolve).await;
        assert_eq!(refused, Err(Refusal::NotOpen { have }));
        assert_eq!(subject.op_state(name).await, have);
    }
}

/// An operation that waits says what it asks, and its job is given back.
pub async fn an_operation_that_waits_says_what_it_asks(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::AtMostOnce, "t").await;
    let wait = Deed::Wait {
        token: "t".into(),
        asks: r#"{"approve":"größe"}"#.into(),
    };

    let (op, job) = subject.end("op", wait).await.expect("it waits");

    assert_eq!((op.state, &job.lease), (OpState::Waiting, &None));
    let begun = subject.begin(&job, "op", Class::AtMostOnce, "t2").await;
    assert_eq!(begun, Ok(Begun::Waiting(r#"{"approve":"größe"}"#.into())));
    let deny = Deed::Resolve(Resolution::Error("denied".into()));
    let (op, _) = subject.end("op", deny).await.expect("it waited");
    assert_eq!(
        (op.state, op.error.as_deref()),
        (OpState::Failed, Some("denied"))
    );
}

/// An operation that was never begun is not found.
pub async fn an_unknown_operation_is_not_found(subject: &QueueSubject) {
    for deed in [
        complete("t", "1"),
        fail_op("t", "no", true),
        Deed::Resolve(Resolution::Retry),
        Deed::Doubt,
    ] {
        let answers = subject
            .apply(vec![on_op("nobody", Fence::none(), deed)])
            .await;
        assert_eq!(answers, [Err(Refusal::NotFound)]);
    }
    let found = subject
        .queue
        .op(Tenant::DEFAULT, super::subject::key("nobody"))
        .await;
    assert_eq!(found.expect("the queue answers"), None);
}
