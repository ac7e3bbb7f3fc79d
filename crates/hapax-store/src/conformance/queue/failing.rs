//! Failures: how long a job rests, when it is given up, and how a person brings it back.

use std::time::Duration;

use hapax_core::job::{
    Ask, Begun, Class, Deed, Fence, Job, OpState, Place, Refusal, State, backoff,
};

use super::subject::{
    QueueSubject, TTL, ask, complete, download, fail_op, failure, last_failure, step,
};

/// A failed job is given back, rests, and keeps why it failed.
pub async fn a_failed_job_rests_and_keeps_the_reason(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let before = subject.now();

    let failed = subject.deed(&held, failure("status 503 ö")).await;

    let failed = failed.expect("it failed");
    assert_eq!((failed.state, failed.failures), (State::Failed, 1));
    assert_eq!((&failed.lease, failed.epoch), (&None, 1));
    assert_eq!(failed.error.as_deref(), Some("status 503 ö"));
    let rest = backoff::rest(&held.id, backoff::FIRST, 1);
    let (first, last) = (before.plus(rest), subject.now().plus(rest));
    assert!(QueueSubject::is_within(failed.available_at, first, last));
    assert_eq!(subject.stored(&held).await, failed);
}

/// A failed job rests at least as long as it was told to.
pub async fn a_failed_job_rests_as_long_as_asked(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let after = Some(Duration::from_secs(7200));
    let fail = Deed::Fail {
        error: None,
        retryable: true,
        after,
    };
    subject.deed(&held, fail).await.expect("it failed");

    subject.advance(Duration::from_secs(7190));
    assert_eq!(subject.next("worker").await, None);
    subject.advance(Duration::from_secs(11));
    assert_eq!(subject.taken("worker").await.id, held.id);
}

/// A job that was planned to rest not at all can be leased at once after each failure.
pub async fn a_job_without_a_rest_is_due_at_once_after_a_failure(subject: &QueueSubject) {
    subject
        .plan(vec![download("a").backoff(Duration::ZERO)])
        .await;
    for failures in 1..Job::ATTEMPTS_MAX {
        let held = subject.taken("worker").await;
        let failed = subject.deed(&held, failure("again")).await;
        assert_eq!(failed.expect("it failed").failures, failures);
    }
    assert_eq!(
        subject.taken("worker").await.failures,
        Job::ATTEMPTS_MAX - 1
    );
}

/// A first rest of its own is what a job rests by, four times as long each time.
pub async fn a_job_rests_by_its_own_first_rest(subject: &QueueSubject) {
    let first = Duration::from_secs(100);
    let held = subject.held_as(download("a").backoff(first)).await;
    subject
        .deed(&held, failure("once"))
        .await
        .expect("it failed");
    subject.advance(Duration::from_secs(49));
    assert_eq!(subject.next("worker").await, None, "half of it is sure");
    subject.advance(Duration::from_secs(52));
    let held = subject.taken("worker").await;

    let failed = subject
        .deed(&held, failure("twice"))
        .await
        .expect("it failed");

    assert_eq!(failed.backoff, Some(first));
    let rest = backoff::rest(&held.id, first, 2);
    assert!(rest > Duration::from_secs(190), "{rest:?}");
    subject.advance(rest.saturating_sub(Duration::from_secs(5)));
    assert_eq!(subject.next("worker").await, None);
    subject.advance(Duration::from_secs(6));
    assert_eq!(subject.taken("worker").await.id, held.id);
}

/// Any text of an error comes back as it was.
pub async fn any_error_comes_back_as_it_was(subject: &QueueSubject) {
    for (number, error) in ["", "a\u{0}b\u{1}\u{2}c", "\u{2}=x", "zwei\nZeilen 東京"]
        .iter()
        .enumerate()
    {
        let held = subject.held(&number.to_string()).await;
        let failed = subject
            .deed(&held, last_failure(error))
            .await
            .expect("it failed");
        assert_eq!(failed.error.as_deref(), Some(*error));
        assert_eq!(subject.stored(&held).await, failed);
    }
}

/// The end of a very long error is cut off, at a whole character.
pub async fn a_very_long_error_is_cut(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let long = format!("x{}", "ö".repeat(Job::ERROR_BYTES_MAX));

    subject
        .deed(&held, failure(&long))
        .await
        .expect("it failed");

    let kept = subject.stored(&held).await.error.expect("it is kept");
    assert_eq!(kept.len(), Job::ERROR_BYTES_MAX - 1);
    assert!(long.starts_with(&*kept));
}

/// A failure that no other attempt can help gives the job up.
pub async fn a_failure_for_good_gives_up(subject: &QueueSubject) {
    let held = subject.held("a").await;

    let dead = subject.deed(&held, last_failure("status 404")).await;

    let dead = dead.expect("it failed");
    assert_eq!((dead.state, &dead.lease), (State::Dead, &None));
    assert_eq!(subject.stored(&held).await, dead);
}

/// After five failures a job is given up.
pub async fn five_failures_give_up(subject: &QueueSubject) {
    subject.planned("a").await;
    for failures in 1..=Job::ATTEMPTS_MAX {
        let job = subject.taken("worker").await;
        let failed = subject
            .deed(&job, failure("again"))
            .await
            .expect("it failed");
        assert_eq!(failed.failures, failures);
        let state = if failures < 5 {
            State::Failed
        } else {
            State::Dead
        };
        assert_eq!(failed.state, state);
        subject.advance(backoff::LONGEST);
    }
    assert_eq!(subject.next("worker").await, None);
}

/// A failure that is told again, because the answer got lost, counts once.
pub async fn a_failure_told_twice_counts_once(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let failed = subject
        .deed(&held, failure("once"))
        .await
        .expect("it failed");

    let again = subject.deed(&held, failure("once")).await;

    assert_eq!(again, Ok(failed));
    assert_eq!(subject.stored(&held).await.failures, 1);
}

/// A job at its end cannot fail any more.
pub async fn a_finished_job_cannot_fail(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let ended = subject.walk(&held, &[State::SkippedDuplicate]).await;

    let refused = subject.deed(&held, failure("late")).await;

    assert!(
        matches!(refused, Err(Refusal::Denied { .. })),
        "{refused:?}"
    );
    assert_eq!(subject.stored(&held).await, ended);
}

/// A person who retries a job that was given up gives it all its attempts again, at once.
pub async fn a_retry_starts_over_with_all_attempts(subject: &QueueSubject) {
    let held = subject.held_as(download("a").max_attempts(1)).await;
    let dead = subject.deed(&held, failure("no")).await.expect("it failed");
    assert_eq!(dead.state, State::Dead);

    let retried = subject
        .deed(&dead, Deed::Retry)
        .await
        .expect("it is retried");

    assert_eq!((retried.state, retried.failures), (State::Planned, 0));
    assert_eq!((retried.epoch, &retried.error), (2, &None));
    assert_eq!(subject.stored(&held).await, retried);
    let again = subject.taken("worker").await;
    assert_eq!(
        (again.state, again.epoch, again.attempts),
        (State::Leased, 3, 2)
    );
}

/// A job that rests need not be waited for.
pub async fn a_retry_ends_a_rest(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let after = Some(Duration::from_secs(3600));
    let fail = Deed::Fail {
        error: None,
        retryable: true,
        after,
    };
    let failed = subject.deed(&held, fail).await.expect("it failed");
    assert_eq!(subject.next("worker").await, None);

    subject
        .deed(&failed, Deed::Retry)
        .await
        .expect("it is retried");

    assert_eq!(subject.taken("worker").await.id, held.id);
}

/// A retry keeps what was recorded; what failed for good runs again.
pub async fn a_retry_keeps_what_operations_recorded(subject: &QueueSubject) {
    let held = subject.held("a").await;
    for name in ["done", "failed"] {
        subject.begun(&held, name, Class::AtMostOnce, name).await;
    }
    subject
        .end("done", complete("done", "[1]"))
        .await
        .expect("it is done");
    let fail = fail_op("failed", "status 403", false);
    subject.end("failed", fail).await.expect("it failed");
    let dead = subject.deed(&held, last_failure("status 403")).await;
    let dead = dead.expect("it failed");
    subject
        .deed(&dead, Deed::Retry)
        .await
        .expect("it is retried");

    let job = subject.taken("worker").await;

    let done = subject.begin(&job, "done", Class::AtMostOnce, "t2").await;
    assert_eq!(done, Ok(Begun::Replay("[1]".into())));
    let failed = subject.begin(&job, "failed", Class::AtMostOnce, "t2").await;
    assert_eq!(failed, Ok(Begun::Execute("t2".into())));
}

/// A job under way, or at its good end, is not retried.
pub async fn only_failed_jobs_are_retried(subject: &QueueSubject) {
    let planned = subject.planned("a").await;
    let refused = subject.deed(&planned, Deed::Retry).await;
    assert!(
        matches!(refused, Err(Refusal::Denied { .. })),
        "{refused:?}"
    );

    let held = subject.taken("worker").await;
    let refused = subject.deed(&held, Deed::Retry).await;
    assert!(
        matches!(refused, Err(Refusal::Denied { .. })),
        "{refused:?}"
    );

    let ended = subject.walk(&held, &[State::SkippedDuplicate]).await;
    let refused = subject.deed(&ended, Deed::Retry).await;
    assert!(
        matches!(refused, Err(Refusal::Denied { .. })),
        "{refused:?}"
    );
    assert_eq!(subject.stored(&ended).await, ended);
}

/// A job whose product is gone is planned anew, elsewhere if asked, and its operations run again.
pub async fn a_job_done_anew_forgets_its_operations(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::AtMostOnce, "t").await;
    subject
        .end("op", complete("t", "[1]"))
        .await
        .expect("it is done");
    let ended = subject.walk(&held, &[State::SkippedDuplicate]).await;
    let place = Place::new("host-2").expect("a place");

    let redo = Deed::Redo {
        place: place.clone(),
    };
    let anew = subject.deed(&ended, redo).await.expect("nobody holds it");

    assert_eq!(
        (anew.state, anew.epoch, &anew.place),
        (State::Planned, 2, &place)
    );
    assert_eq!(subject.stored(&held).await, anew);
    assert_eq!(
        subject.next("worker").await,
        None,
        "it is not for every place"
    );
    let ask = Ask {
        place,
        ..ask("worker")
    };
    let job = subject.lease(ask).await.remove(0);
    let begun = subject.begin(&job, "op", Class::AtMostOnce, "t2").await;
    assert_eq!(begun, Ok(Begun::Execute("t2".into())));
    assert_eq!(subject.op_state("op").await, OpState::Running);
}

/// While somebody holds a job nobody else does it anew.
pub async fn a_held_job_is_not_done_anew(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let redo = Deed::Redo {
        place: Place::default(),
    };

    let refused = subject.deed_by(&held, Fence::none(), redo).await;

    assert!(
        matches!(refused, Err(Refusal::LeaseLost { .. })),
        "{refused:?}"
    );
    assert_eq!(subject.stored(&held).await, held);
}

/// A step to FAILED is a failure like any other.
pub async fn a_step_to_failed_is_a_failure(subject: &QueueSubject) {
    let held = subject.held("a").await;

    let failed = subject.deed(&held, step(State::Failed)).await;

    let failed = failed.expect("it failed");
    assert_eq!((failed.state, failed.failures), (State::Failed, 1));
    assert!(failed.available_at > held.updated_at && failed.lease.is_none());
    subject.advance(TTL);
    assert_eq!(subject.taken("worker").await.state, State::Leased);
}
