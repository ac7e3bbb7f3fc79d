//! The fence: who no longer holds a job can do nothing to it, and nothing is written.

use std::time::Duration;

use hapax_core::job::{
    Act, Ask, By, Class, Deed, Fence, Job, JobId, On, OpState, Place, Refusal, Resolution, State,
};

use super::subject::{
    QueueSubject, TTL, ask_many, beginning, complete, complete_to, download, fail_op, failure,
    fence, last_failure, on_job, on_op, step,
};

/// The refusal that names who has the job now.
fn lost(job: &Job) -> Refusal {
    Refusal::LeaseLost {
        epoch: job.epoch,
        owner: job.lease.as_ref().map(|hold| hold.owner.clone()),
        until: job.lease.as_ref().map(|hold| hold.until),
    }
}

/// A holder whose job was taken can neither move nor end anything of it.
pub async fn a_stale_holder_can_do_nothing(subject: &QueueSubject) {
    let stale = subject.held("a").await;
    subject.begun(&stale, "op", Class::Probe, "t").await;
    subject.run_out();
    let job = subject.taken("other").await;
    let (seen, ops) = subject.shown(&job).await;
    let wait = Deed::Wait {
        token: "t".into(),
        asks: "1".into(),
    };

    let of_job = [
        Deed::Renew { ttl: TTL },
        Deed::Release,
        step(State::HeadDone),
        step(State::SkippedDuplicate),
        failure("late"),
        last_failure("late"),
        beginning("op", Class::Probe, "t"),
        beginning("new", Class::Replayable, "t"),
    ];
    let of_op = [
        complete("t", "1"),
        complete_to("t", "1", State::HeadDone),
        fail_op("t", "late", true),
        fail_op("t", "late", false),
        wait,
    ];
    let fenced = of_job.map(|deed| on_job(&stale, fence(&stale), deed));
    let acts: Vec<Act> = fenced
        .into_iter()
        .chain(of_op.map(|deed| on_op("op", fence(&stale), deed)))
        .collect();
    let answers = subject.apply(acts.clone()).await;

    for (act, answer) in acts.iter().zip(answers) {
        assert_eq!(answer, Err(lost(&job)), "{act:?}");
    }
    assert_eq!(subject.shown(&job).await, (seen, ops));
    assert_eq!(subject.op("new").await, None);
}

/// A holder may come late, as long as nobody took the job.
pub async fn a_late_holder_renews_until_somebody_has_the_job(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.run_out();

    let renewed = subject.deed(&held, Deed::Renew { ttl: TTL }).await;

    let renewed = renewed.expect("nobody took it");
    assert!(renewed.is_held(subject.now()));
    assert_eq!(
        (renewed.epoch, renewed.attempts, renewed.failures),
        (1, 1, 0)
    );
    assert_eq!(subject.stored(&held).await, renewed);
    assert_eq!(subject.next("other").await, None);
}

/// A late holder may also end its work.
pub async fn a_late_holder_moves_the_job_if_nobody_took_it(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Probe, "t").await;
    subject.run_out();

    let done = subject
        .end("op", complete_to("t", "1", State::HeadDone))
        .await;

    assert_eq!(
        done.map(|(op, job)| (op.state, job.state)),
        Ok((OpState::Done, State::HeadDone))
    );
}

/// The epoch is not enough if another name is sent with it.
pub async fn another_owner_is_refused(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let other = Fence::of("other", held.epoch);

    for deed in [
        Deed::Renew { ttl: TTL },
        Deed::Release,
        step(State::HeadDone),
        failure("no"),
    ] {
        let refused = subject.deed_by(&held, other.clone(), deed).await;
        assert_eq!(refused, Err(lost(&held)));
    }
    assert_eq!(subject.stored(&held).await, held);
}

/// Without its owner and its epoch nobody acts on a job that is held: whoever reads it knows the epoch.
pub async fn without_owner_and_epoch_a_held_job_is_out_of_reach(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Probe, "t").await;
    let (_, ops) = subject.shown(&held).await;
    let owner_alone = Fence {
        owner: Some("worker".into()),
        ..Fence::none()
    };
    let epoch_alone = Fence {
        epoch: Some(held.epoch),
        ..Fence::none()
    };

    for fence in [Fence::none(), owner_alone, epoch_alone] {
        let of_job = [
            Deed::Renew { ttl: TTL },
            Deed::Release,
            step(State::HeadDone),
            failure("no"),
            beginning("new", Class::Replayable, "t"),
        ];
        let wait = Deed::Wait {
            token: "t".into(),
            asks: "1".into(),
        };
        let of_op = [complete("t", "1"), fail_op("t", "no", true), wait];
        let of_op = of_op.map(|deed| on_op("op", fence.clone(), deed));
        let of_job = of_job.map(|deed| on_job(&held, fence.clone(), deed));
        for act in of_job.into_iter().chain(of_op) {
            let answers = subject.apply(vec![act.clone()]).await;
            assert_eq!(answers, [Err(lost(&held))], "{act:?}");
        }
    }
    assert_eq!(subject.shown(&held).await, (held, ops));
}

/// A job with a place is the program's own: whatever a caller says, nothing is done and nothing is written.
pub async fn a_job_of_the_program_is_driven_by_no_caller(subject: &QueueSubject) {
    let place = Place::new("here").expect("a place");
    let own = download("a").in_place(place.clone());
    subject.plan(vec![own]).await;
    let ask = Ask {
        place,
        ..ask_many("worker", 1)
    };
    let held = subject.lease(ask).await.remove(0);
    subject.begun(&held, "op", Class::Probe, "t").await;
    let before = subject.shown(&held).await;
    let caller = || fence(&held).by(By::Caller);

    let of_job = [
        Deed::Renew { ttl: TTL },
        Deed::Release,
        step(State::HeadDone),
        last_failure("no"),
        Deed::Retry,
        beginning("new", Class::Replayable, "t"),
    ];
    let of_op = [
        complete("t", "1"),
        fail_op("t", "no", false),
        Deed::Resolve(Resolution::Retry),
    ];
    let of_job = of_job.map(|deed| on_job(&held, caller(), deed));
    let of_op = of_op.map(|deed| on_op("op", caller(), deed));
    for act in of_job.into_iter().chain(of_op) {
        let answers = subject.apply(vec![act.clone()]).await;
        assert_eq!(answers, [Err(Refusal::OfTheProgram)], "{act:?}");
    }

    assert_eq!(subject.shown(&held).await, before);
    assert_eq!(subject.op("new").await, None);
}

/// A job that nobody holds needs no fence.
pub async fn a_job_that_nobody_holds_needs_no_fence(subject: &QueueSubject) {
    let planned = subject.planned("a").await;
    let skipped = subject.deed(&planned, step(State::SkippedDuplicate)).await;
    assert_eq!(skipped.map(|job| job.state), Ok(State::SkippedDuplicate));

    let left = subject.held("b").await;
    subject.run_out();
    let moved = subject
        .deed_by(&left, Fence::none(), step(State::HeadDone))
        .await;
    assert_eq!(moved.map(|job| job.state), Ok(State::HeadDone));
}

/// A renewed lease lasts from now.
pub async fn a_renewed_lease_lasts_from_now(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.advance(TTL / 2);
    let before = subject.now();
    let renewed = subject.deed(&held, Deed::Renew { ttl: TTL }).await;
    let until = renewed
        .expect("it is held")
        .lease
        .expect("it is held")
        .until;
    let (first, last) = (before.plus(TTL), subject.now().plus(TTL));
    assert!(QueueSubject::is_within(until, first, last));

    subject.advance(TTL / 2 + Duration::from_secs(5));

    assert_eq!(subject.next("other").await, None, "past its first end");
}

/// A lease that was given back is gone.
pub async fn a_lease_that_was_given_back_is_not_renewed(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let released = subject
        .deed(&held, Deed::Release)
        .await
        .expect("it is given back");

    let renewed = subject.deed(&held, Deed::Renew { ttl: TTL }).await;

    assert_eq!(renewed, Err(lost(&released)));
    assert_eq!(subject.stored(&held).await, released);
}

/// Giving back twice is harmless.
pub async fn giving_back_twice_is_harmless(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let released = subject
        .deed(&held, Deed::Release)
        .await
        .expect("it is given back");

    let again = subject.deed(&held, Deed::Release).await;

    assert_eq!(again, Ok(released));
}

/// A person who retries a job shuts its last holder out.
pub async fn a_retry_shuts_the_last_holder_out(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.deed(&held, failure("no")).await.expect("it failed");
    let retried = subject.deed_by(&held, Fence::none(), Deed::Retry).await;
    let retried = retried.expect("it is retried");
    assert_eq!(retried.epoch, held.epoch + 1);

    let late = subject.deed(&held, step(State::HeadDone)).await;

    assert_eq!(late, Err(lost(&retried)));
}

/// Whoever resolves an operation under an old epoch is refused.
pub async fn a_stale_holder_cannot_resolve(subject: &QueueSubject) {
    let stale = subject.held("a").await;
    subject.begun(&stale, "op", Class::AtMostOnce, "t").await;
    subject.run_out();
    let job = subject.taken("other").await;
    let resolve = on_op("op", fence(&stale), Deed::Resolve(Resolution::Retry));

    assert_eq!(subject.apply(vec![resolve]).await, [Err(lost(&job))]);
    assert_eq!(subject.op_state("op").await, OpState::Running);
}

/// A job that was never planned is not found, and nothing comes of acting on it.
pub async fn an_unknown_job_is_not_found(subject: &QueueSubject) {
    let id = JobId::new("nobody").expect("an id");
    for deed in [
        Deed::Renew { ttl: TTL },
        Deed::Release,
        step(State::HeadDone),
        failure("no"),
        Deed::Retry,
        Deed::Expire,
        beginning("op", Class::Keyed, "t"),
    ] {
        let act = Act {
            on: On::Job(id.clone()),
            fence: Fence::none(),
            deed,
        };
        assert_eq!(subject.apply(vec![act]).await, [Err(Refusal::NotFound)]);
    }
    let found = subject.queue.job(hapax_core::Tenant::DEFAULT, id).await;
    assert_eq!(found.expect("the queue answers"), None);
    assert_eq!(subject.op("op").await, None);
}
