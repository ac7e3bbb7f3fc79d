//! The rule of jobs as tables: what a lease does, and every deed on what it may meet, refusals included.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::job::judge::ABANDONED_AFTER;
use hapax_core::job::{
    Act, Begun, By, Change, Class, Deed, Done, Fence, Job, JobKind, Knock, NewJob, On, Op, OpKey,
    OpState, Place, Refusal, Resolution, State, Taken, judge, take,
};
use hapax_core::{Tenant, Time};

const TTL: Duration = Duration::from_secs(120);

fn at(seconds: u64) -> Time {
    Time::from_ms(1_700_000_000_000).plus(Duration::from_secs(seconds))
}

fn planned() -> Job {
    NewJob::download("w-1", "a-1", "https://example.org/a")
        .unwrap()
        .at(Tenant::DEFAULT, 1, at(0))
}

/// Leased by `w` with epoch 1 until 120, and in this state.
fn held(state: State) -> Job {
    let Taken::Leased(job) = take(&planned(), "w", TTL, at(0)) else {
        panic!("a planned job can be leased");
    };
    Job { state, ..job }
}

/// As it is when nobody has it.
fn idle(state: State) -> Job {
    Job {
        lease: None,
        available_at: at(0),
        ..held(state)
    }
}

fn key() -> OpKey {
    OpKey::new("op-1").unwrap()
}

/// An operation of the job, begun at 0 by the holder of epoch 1 with the token `t`.
fn op(state: OpState) -> Op {
    let is_done = state == OpState::Done;
    Op {
        tenant: Tenant::DEFAULT,
        key: key(),
        job: planned().id,
        kind: "HEAD".to_owned(),
        state,
        class: Class::Probe,
        epoch: 1,
        token: "t".to_owned(),
        tries: 1,
        started_at: at(0),
        finished_at: is_done.then(|| at(1)),
        result: matches!(state, OpState::Done | OpState::Waiting).then(|| "1".into()),
        error: (state == OpState::Failed).then(|| "gone".into()),
    }
}

fn on_job(fence: Fence, deed: Deed) -> Act {
    Act {
        on: On::Job(planned().id),
        fence,
        deed,
    }
}

/// By the holder of epoch 1.
fn on_op(deed: Deed) -> Act {
    Act {
        on: On::Op(key()),
        fence: mine(),
        deed,
    }
}

fn mine() -> Fence {
    Fence::of("w", 1)
}

fn to(to: State) -> Deed {
    Deed::Advance {
        to,
        allowed_from: None,
        result: None,
    }
}

fn fail(retryable: bool) -> Deed {
    Deed::Fail {
        error: Some("broke".into()),
        retryable,
        after: None,
    }
}

fn begin(class: Class, token: &str) -> Deed {
    Deed::Begin {
        key: key(),
        kind: "HEAD".into(),
        class,
        token: token.into(),
    }
}

fn complete(token: &str, result: &str, advance_to: Option<State>) -> Deed {
    Deed::Complete {
        token: token.into(),
        result: result.into(),
        advance_to,
    }
}

fn see(job: &Job, op: Option<&Op>, seconds: u64, act: &Act) -> Result<Change, Refusal> {
    let now = at(seconds);
    let job = Some(job);
    judge(Knock { job, op, now }, act)
}

/// What came of it in short, so that the tables below read as such.
fn word(answer: &Result<Change, Refusal>) -> String {
    match answer {
        Err(Refusal::NotFound) => "not found".to_owned(),
        Err(Refusal::OfTheProgram) => "of the program".to_owned(),
        Err(Refusal::LeaseLost { .. }) => "lost".to_owned(),
        Err(Refusal::Denied { .. }) => "denied".to_owned(),
        Err(Refusal::KeyConflict { .. }) => "key conflict".to_owned(),
        Err(Refusal::NotOpen { .. }) => "not open".to_owned(),
        Err(Refusal::TooLarge { .. }) => "too large".to_owned(),
        Ok(change) => {
            let job = change.job.as_ref().map_or("same", |job| job.state.as_str());
            let op = change.op.as_ref().map_or("same", |op| op.state.as_str());
            match &change.done {
                Done::Job(_) => format!("job {job}"),
                Done::Begun(begun, _) => format!("{} {op}", begun_word(begun)),
                Done::Op(..) => format!("op {op}, job {job}"),
            }
        }
    }
}

fn begun_word(begun: &Begun) -> &'static str {
    match begun {
        Begun::Execute(_) => "execute",
        Begun::Replay(_) => "replay",
        Begun::InProgress => "in progress",
        Begun::InDoubt => "in doubt",
        Begun::Failed(_) => "failed",
        Begun::Waiting(_) => "waiting",
    }
}

#[test]
fn a_lease_raises_attempts_and_epoch_and_keeps_progress() {
    for (state, after) in [
        (State::Planned, State::Leased),
        (State::Failed, State::Leased),
        (State::Leased, State::Leased),
        (State::HeadDone, State::HeadDone),
        (State::ResumeOk, State::ResumeOk),
        (State::Streaming, State::Streaming),
        (State::Finalized, State::Finalized),
    ] {
        let Taken::Leased(job) = take(&idle(state), "v", TTL, at(500)) else {
            panic!("{state} can be leased");
        };
        assert_eq!((job.state, job.epoch, job.attempts), (after, 2, 2));
        assert_eq!(job.failures, 0, "giving a job back is no failure");
        assert!(job.is_held(at(619)) && !job.is_held(at(620)));
        assert!(!job.is_due(at(619)) && job.is_due(at(620)));
    }
}

#[test]
fn a_lease_that_ran_out_is_a_failure_and_the_last_one_is_the_end() {
    let ran_out = held(State::Streaming);
    let Taken::Leased(job) = take(&ran_out, "v", TTL, at(200)) else {
        panic!("it has attempts left");
    };
    assert_eq!((job.failures, job.state), (1, State::Streaming));
    let last = Job {
        failures: 4,
        ..held(State::Streaming)
    };
    let Taken::Dead(job) = take(&last, "v", TTL, at(200)) else {
        panic!("it has no attempts left");
    };
    assert_eq!((job.state, job.failures, job.attempts), (State::Dead, 5, 1));
    assert!(job.lease.is_none() && job.error.is_some());
}

#[test]
fn a_lease_is_neither_shorter_nor_longer_than_allowed() {
    for (ttl, kept) in [
        (Duration::ZERO, Job::LEASES.0),
        (Duration::MAX, Job::LEASES.1),
        (TTL, TTL),
    ] {
        let Taken::Leased(job) = take(&planned(), "w", ttl, at(0)) else {
            panic!("it can be leased");
        };
        assert_eq!(job.lease.unwrap().until, at(0).plus(kept));
    }
}

#[test]
fn the_fence_decides_who_may_act() {
    let ttl = TTL;
    let live = held(State::Leased);
    let free = idle(State::Leased);
    let anyone = Fence::none;
    let other = || Fence::of("v", 1);
    let stale = || Fence::of("w", 0);
    let epoch_only = || Fence {
        owner: None,
        epoch: Some(1),
        ..Fence::none()
    };
    let name_only = || Fence {
        owner: Some("w".into()),
        epoch: None,
        ..Fence::none()
    };
    let step = || to(State::HeadDone);
    for (job, seconds, fence, deed, expected) in [
        (&live, 1, mine(), step(), "job HEAD_DONE"),
        (&live, 1, epoch_only(), step(), "lost"),
        (&live, 1, epoch_only(), Deed::Release, "lost"),
        (&live, 1, epoch_only(), Deed::Renew { ttl }, "lost"),
        (&live, 1, epoch_only(), fail(true), "lost"),
        (&live, 1, epoch_only(), begin(Class::Tx, "t"), "lost"),
        (&live, 500, epoch_only(), step(), "job HEAD_DONE"),
        (&live, 500, epoch_only(), Deed::Renew { ttl }, "lost"),
        (&live, 500, name_only(), step(), "job HEAD_DONE"),
        (&live, 500, name_only(), Deed::Renew { ttl }, "lost"),
        (&live, 500, other(), Deed::Renew { ttl }, "lost"),
        (&free, 1, epoch_only(), step(), "job HEAD_DONE"),
        (&live, 1, other(), step(), "lost"),
        (&live, 1, stale(), step(), "lost"),
        (&live, 1, anyone(), step(), "lost"),
        (&live, 1, name_only(), step(), "lost"),
        (&live, 500, mine(), step(), "job HEAD_DONE"),
        (&live, 500, anyone(), step(), "job HEAD_DONE"),
        (&live, 500, other(), step(), "lost"),
        (&free, 1, anyone(), step(), "job HEAD_DONE"),
        (&free, 1, mine(), step(), "job HEAD_DONE"),
        (&free, 1, stale(), step(), "lost"),
        (&live, 1, mine(), Deed::Renew { ttl }, "job LEASED"),
        (&live, 500, mine(), Deed::Renew { ttl }, "job LEASED"),
        (&live, 500, anyone(), Deed::Renew { ttl }, "lost"),
        (&live, 1, stale(), Deed::Renew { ttl }, "lost"),
        (&free, 1, mine(), Deed::Renew { ttl }, "lost"),
        (&live, 1, mine(), Deed::Release, "job LEASED"),
        (&live, 1, anyone(), Deed::Release, "lost"),
        (&live, 500, anyone(), Deed::Release, "job LEASED"),
        (&free, 1, mine(), Deed::Release, "job same"),
        (&live, 1, stale(), fail(true), "lost"),
        (&live, 1, stale(), begin(Class::Tx, "t"), "lost"),
        (&live, 1, anyone(), begin(Class::Tx, "t"), "lost"),
        (&free, 1, anyone(), begin(Class::Tx, "t"), "execute running"),
    ] {
        let act = on_job(fence, deed);
        assert_eq!(word(&see(job, None, seconds, &act)), expected, "{act:?}");
    }
}

#[test]
fn the_graph_has_these_steps_and_no_other() {
    let enrich = JobKind::new("enrich").unwrap();
    for kind in [JobKind::DOWNLOAD, enrich] {
        for have in State::ALL {
            for wants in State::ALL {
                let job = Job {
                    kind: kind.clone(),
                    ..held(have)
                };
                let answer = see(&job, None, 1, &on_job(mine(), to(wants)));
                let expected = if have == wants {
                    "job same".to_owned()
                } else if have.followers(&kind).contains(&wants) {
                    format!("job {wants}")
                } else {
                    "denied".to_owned()
                };
                assert_eq!(word(&answer), expected, "{kind}: {have} to {wants}");
                if let Err(Refusal::Denied { from, .. }) = answer {
                    assert_eq!(from, wants.leaders(&kind), "{kind}: {have} to {wants}");
                }
            }
        }
    }
}

#[test]
fn a_caller_can_narrow_the_graph_and_not_widen_it() {
    let narrowed = |from: &[State], to| Deed::Advance {
        to,
        allowed_from: Some(from.to_vec()),
        result: None,
    };
    let head = held(State::HeadDone);
    for (deed, expected) in [
        (
            narrowed(&[State::HeadDone], State::Streaming),
            "job STREAMING",
        ),
        (narrowed(&[State::ResumeOk], State::Streaming), "denied"),
        (narrowed(&[], State::Streaming), "denied"),
        (narrowed(&[State::HeadDone], State::Indexed), "denied"),
        (narrowed(&[State::Leased], State::HeadDone), "denied"),
    ] {
        let act = on_job(mine(), deed);
        assert_eq!(word(&see(&head, None, 1, &act)), expected, "{act:?}");
    }
}

#[test]
fn a_job_that_is_done_has_no_holder_and_keeps_its_result() {
    let deed = Deed::Advance {
        to: State::Indexed,
        allowed_from: None,
        result: Some("{\"bytes\":7}".into()),
    };
    let change = see(&held(State::Finalized), None, 1, &on_job(mine(), deed)).unwrap();
    let job = change.job.unwrap();
    assert!(job.lease.is_none() && !job.is_due(at(9999)));
    assert_eq!(job.result.as_deref(), Some("{\"bytes\":7}"));
}

#[test]
fn a_failure_rests_and_the_last_or_a_final_one_is_the_end() {
    let live = held(State::Streaming);
    let failed = see(&live, None, 1, &on_job(mine(), fail(true))).unwrap();
    let failed = failed.job.unwrap();
    assert_eq!((failed.state, failed.failures), (State::Failed, 1));
    assert!(failed.lease.is_none() && !failed.is_due(at(1)) && failed.is_due(at(2)));
    assert_eq!(failed.error.as_deref(), Some("broke"));

    let long = Deed::Fail {
        error: None,
        retryable: true,
        after: Some(Duration::from_secs(60)),
    };
    let rests = see(&live, None, 1, &on_job(mine(), long))
        .unwrap()
        .job
        .unwrap();
    assert_eq!(rests.available_at, at(61));

    let last = Job {
        failures: 4,
        ..live.clone()
    };
    for (job, deed, expected) in [
        (&last, fail(true), "job DEAD"),
        (&live, fail(false), "job DEAD"),
        (&last, to(State::Failed), "job DEAD"),
        (&live, to(State::Failed), "job FAILED"),
        (&idle(State::Failed), fail(true), "job same"),
        (&idle(State::Dead), fail(true), "job same"),
        (&idle(State::Planned), fail(true), "denied"),
        (&idle(State::Indexed), fail(true), "denied"),
    ] {
        let act = on_job(mine(), deed);
        assert_eq!(word(&see(job, None, 1, &act)), expected, "{act:?}");
    }
    let unfenced = on_job(Fence::none(), fail(true));
    let again = see(&idle(State::Failed), None, 1, &unfenced);
    assert_eq!(word(&again), "denied", "nobody's answer got lost");
}

#[test]
fn an_error_that_is_too_long_is_cut_at_a_character() {
    let deed = Deed::Fail {
        error: Some("é".repeat(Job::ERROR_BYTES_MAX).into()),
        retryable: true,
        after: None,
    };
    let change = see(&held(State::Leased), None, 1, &on_job(mine(), deed)).unwrap();
    let error = change.job.unwrap().error.unwrap();
    assert_eq!(error.len(), Job::ERROR_BYTES_MAX);
}

#[test]
fn only_a_person_takes_a_job_out_of_its_end() {
    for state in State::ALL {
        let retried = see(&idle(state), None, 1, &on_job(Fence::none(), Deed::Retry));
        let expected = match state {
            State::Failed | State::Dead => "job PLANNED",
            _ => "denied",
        };
        assert_eq!(word(&retried), expected, "{state}");
        let place = Place::new("there").unwrap();
        let redo = on_job(Fence::none(), Deed::Redo { place });
        let redone = see(&idle(state), None, 1, &redo).unwrap().job.unwrap();
        assert_eq!((redone.state, redone.epoch), (State::Planned, 2), "{state}");
        assert_eq!((redone.redone, redone.place.as_str()), (1, "there"));
    }
    let place = Place::default();
    let redo = on_job(Fence::none(), Deed::Redo { place });
    let busy = see(&held(State::Streaming), None, 1, &redo);
    assert_eq!(word(&busy), "lost", "not under the hands of its holder");
}

#[test]
fn a_retry_gives_all_attempts_back_at_once_under_a_new_fence() {
    let dead = Job {
        failures: 5,
        error: Some("broke".into()),
        ..idle(State::Dead)
    };
    let act = on_job(Fence::none(), Deed::Retry);
    let job = see(&dead, None, 9, &act).unwrap().job.unwrap();
    assert_eq!((job.failures, job.epoch, job.retried), (0, 2, 1));
    assert!(job.is_due(at(9)) && job.error.is_none());
    assert_eq!(
        word(&see(&job, None, 9, &on_job(mine(), Deed::Release))),
        "lost"
    );
}

#[test]
fn only_a_lease_that_ran_out_expires_and_progress_is_kept() {
    let live = held(State::Streaming);
    let last = Job {
        failures: 4,
        ..live.clone()
    };
    let epoch = |epoch| Fence {
        owner: None,
        epoch: Some(epoch),
        ..Fence::none()
    };
    for (job, seconds, fence, expected) in [
        (&live, 119, epoch(1), "job same"),
        (&live, 120, epoch(1), "job STREAMING"),
        (&live, 120, epoch(0), "job same"),
        (&live, 120, Fence::none(), "job STREAMING"),
        (&last, 120, epoch(1), "job DEAD"),
        (&idle(State::Streaming), 120, epoch(1), "job same"),
        (&idle(State::Indexed), 120, epoch(1), "job same"),
    ] {
        let act = on_job(fence, Deed::Expire);
        assert_eq!(word(&see(job, None, seconds, &act)), expected, "{act:?}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn beginning_an_operation_tells_what_to_do() {
    let live = held(State::Leased);
    // Somebody else took the job since.
    let taken = Job {
        epoch: 2,
        ..held(State::Leased)
    };
    let again = Fence::of("w", 2);
    let redone = Job {
        redone: 1,
        ..taken.clone()
    };
    let retried = Job {
        retried: 1,
        ..taken.clone()
    };
    let other_job = Op {
        job: hapax_core::job::JobId::new("other").unwrap(),
        ..op(OpState::Done)
    };
    let other_kind = Op {
        kind: "GET".to_owned(),
        ..op(OpState::Done)
    };
    let (probe, tx, keyed) = (Class::Probe, Class::Tx, Class::Keyed);
    for (job, fence, seen, class, token, expected) in [
        (&live, mine(), None, probe, "t", "execute running"),
        (
            &live,
            mine(),
            Some(op(OpState::Done)),
            probe,
            "u",
            "replay same",
        ),
        (
            &live,
            mine(),
            Some(op(OpState::Retryable)),
            probe,
            "u",
            "execute running",
        ),
        (
            &live,
            mine(),
            Some(op(OpState::Failed)),
            probe,
            "u",
            "failed same",
        ),
        (
            &live,
            mine(),
            Some(op(OpState::Waiting)),
            probe,
            "u",
            "waiting same",
        ),
        (
            &live,
            mine(),
            Some(op(OpState::InDoubt)),
            probe,
            "u",
            "in doubt same",
        ),
        (
            &live,
            mine(),
            Some(op(OpState::InDoubt)),
            tx,
            "u",
            "execute running",
        ),
        (
            &live,
            mine(),
            Some(op(OpState::Running)),
            probe,
            "t",
            "execute same",
        ),
        (
            &live,
            mine(),
            Some(op(OpState::Running)),
            probe,
            "u",
            "in progress same",
        ),
        (
            &live,
            mine(),
            Some(op(OpState::Running)),
            tx,
            "u",
            "in progress same",
        ),
        (
            &taken,
            again.clone(),
            Some(op(OpState::Running)),
            probe,
            "t",
            "in doubt in_doubt",
        ),
        (
            &taken,
            again.clone(),
            Some(op(OpState::Running)),
            Class::AtMostOnce,
            "u",
            "in doubt in_doubt",
        ),
        (
            &taken,
            again.clone(),
            Some(op(OpState::Running)),
            tx,
            "u",
            "execute running",
        ),
        (
            &taken,
            again.clone(),
            Some(op(OpState::Running)),
            keyed,
            "u",
            "execute running",
        ),
        (
            &taken,
            again.clone(),
            Some(op(OpState::Running)),
            Class::Replayable,
            "u",
            "execute running",
        ),
        (
            &taken,
            again.clone(),
            Some(op(OpState::Done)),
            probe,
            "u",
            "replay same",
        ),
        (
            &redone,
            again.clone(),
            Some(op(OpState::Done)),
            probe,
            "u",
            "execute running",
        ),
        (
            &redone,
            again.clone(),
            Some(op(OpState::Waiting)),
            probe,
            "u",
            "execute running",
        ),
        (
            &retried,
            again.clone(),
            Some(op(OpState::Failed)),
            probe,
            "u",
            "execute running",
        ),
        (
            &retried,
            again,
            Some(op(OpState::Done)),
            probe,
            "u",
            "replay same",
        ),
        (&live, mine(), Some(other_job), probe, "u", "key conflict"),
        (&live, mine(), Some(other_kind), probe, "u", "key conflict"),
    ] {
        let act = on_job(fence, begin(class, token));
        let answer = see(job, seen.as_ref(), 1, &act);
        assert_eq!(word(&answer), expected, "{act:?} on {seen:?}");
    }
}

#[test]
fn an_operation_without_a_live_lease_is_abandoned_after_a_while() {
    let free = idle(State::Leased);
    let act = on_job(Fence::none(), begin(Class::Probe, "u"));
    let after = ABANDONED_AFTER.as_secs();
    let running = op(OpState::Running);
    let soon = see(&free, Some(&running), after - 1, &act);
    assert_eq!(word(&soon), "in progress same");
    let late = see(&free, Some(&running), after, &act);
    assert_eq!(word(&late), "in doubt in_doubt");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn only_its_runner_ends_an_operation_and_only_once() {
    let live = held(State::Leased);
    let taken = Job {
        epoch: 2,
        ..held(State::Leased)
    };
    let final_error = Deed::FailOp {
        token: "t".into(),
        error: "gone".into(),
        retryable: false,
    };
    let other_error = Deed::FailOp {
        token: "u".into(),
        error: "gone".into(),
        retryable: true,
    };
    let passing = Deed::FailOp {
        token: "t".into(),
        error: "gone".into(),
        retryable: true,
    };
    let wait = |token: &str| Deed::Wait {
        token: token.into(),
        asks: "1".into(),
    };
    let head = Some(State::HeadDone);
    let (running, done) = (op(OpState::Running), op(OpState::Done));
    for (job, seen, deed, expected) in [
        (
            &live,
            &running,
            complete("t", "1", None),
            "op done, job same",
        ),
        (
            &live,
            &running,
            complete("t", "1", head),
            "op done, job HEAD_DONE",
        ),
        (
            &live,
            &running,
            complete("t", "1", Some(State::Indexed)),
            "denied",
        ),
        (&live, &running, complete("u", "1", None), "lost"),
        (&taken, &running, complete("t", "1", None), "lost"),
        (
            &live,
            &op(OpState::InDoubt),
            complete("t", "1", None),
            "op done, job same",
        ),
        (&live, &done, complete("t", "1", None), "op same, job same"),
        (&taken, &done, complete("t", "1", None), "lost"),
        (&live, &done, complete("t", "2", None), "key conflict"),
        (&live, &done, complete("u", "1", None), "lost"),
        (
            &live,
            &op(OpState::Retryable),
            complete("t", "1", None),
            "lost",
        ),
        (
            &live,
            &op(OpState::Failed),
            complete("t", "1", None),
            "lost",
        ),
        (
            &live,
            &op(OpState::Waiting),
            complete("t", "1", None),
            "lost",
        ),
        (&live, &running, passing.clone(), "op retryable, job same"),
        (&live, &running, final_error.clone(), "op failed, job same"),
        (&live, &running, other_error, "lost"),
        (&taken, &running, passing, "lost"),
        (
            &live,
            &op(OpState::Failed),
            final_error.clone(),
            "op same, job same",
        ),
        (&live, &done, final_error, "lost"),
        (&live, &running, wait("t"), "op waiting, job LEASED"),
        (&live, &running, wait("u"), "lost"),
        (&taken, &running, wait("t"), "lost"),
    ] {
        let act = on_op(deed);
        assert_eq!(
            word(&see(job, Some(seen), 1, &act)),
            expected,
            "{act:?} on {seen:?}"
        );
    }
}

#[test]
fn a_waiting_job_is_not_leased_until_somebody_answers() {
    let wait = on_op(Deed::Wait {
        token: "t".into(),
        asks: "{\"question\":1}".into(),
    });
    let seen = op(OpState::Running);
    let change = see(&held(State::Leased), Some(&seen), 1, &wait).unwrap();
    let (job, op) = (change.job.unwrap(), change.op.unwrap());
    assert!(job.lease.is_none() && !job.is_due(at(u64::from(u32::MAX))));
    let answered = Act {
        fence: Fence::none(),
        ..on_op(Deed::Resolve(Resolution::Result("42".into())))
    };
    let change = see(&job, Some(&op), 500, &answered).unwrap();
    assert!(change.job.unwrap().is_due(at(500)));
    assert_eq!(change.op.unwrap().result.as_deref(), Some("42"));
}

#[test]
fn only_what_is_in_doubt_or_waits_is_resolved() {
    let live = held(State::Leased);
    let taken = Job {
        epoch: 2,
        ..held(State::Leased)
    };
    let result = || Deed::Resolve(Resolution::Result("2".into()));
    for (job, state, deed, expected) in [
        (&live, OpState::InDoubt, result(), "op done, job same"),
        (
            &live,
            OpState::InDoubt,
            Deed::Resolve(Resolution::Retry),
            "op retryable, job same",
        ),
        (
            &live,
            OpState::InDoubt,
            Deed::Resolve(Resolution::Error("no".into())),
            "op failed, job same",
        ),
        (&live, OpState::Waiting, result(), "op done, job same"),
        (&live, OpState::Running, result(), "not open"),
        (&taken, OpState::Running, result(), "op done, job same"),
        (&live, OpState::Done, result(), "not open"),
        (&live, OpState::Retryable, result(), "not open"),
        (&live, OpState::Failed, result(), "not open"),
        (&live, OpState::Running, Deed::Doubt, "op same, job same"),
        (
            &taken,
            OpState::Running,
            Deed::Doubt,
            "op in_doubt, job same",
        ),
        (&taken, OpState::Done, Deed::Doubt, "op same, job same"),
    ] {
        let act = Act {
            fence: Fence::none(),
            ..on_op(deed)
        };
        let seen = op(state);
        assert_eq!(
            word(&see(job, Some(&seen), 1, &act)),
            expected,
            "{act:?} on {seen:?}"
        );
    }
    for fence in [Fence::of("w", 2), Fence::of("v", 1)] {
        let act = Act {
            fence,
            ..on_op(result())
        };
        let answer = see(&live, Some(&op(OpState::InDoubt)), 1, &act);
        assert_eq!(word(&answer), "lost");
    }
}

#[test]
fn what_is_too_large_is_refused_whole() {
    let large: Arc<str> = "x".repeat(Op::RESULT_BYTES_MAX + 1).into();
    let running = op(OpState::Running);
    let advance = Deed::Advance {
        to: State::HeadDone,
        allowed_from: None,
        result: Some(large.clone()),
    };
    let asks = large.clone();
    let token: Arc<str> = "t".into();
    let wait = Deed::Wait { token, asks };
    for act in [
        on_job(mine(), advance),
        on_op(complete("t", &large, None)),
        on_op(wait),
    ] {
        let answer = see(&held(State::Leased), Some(&running), 1, &act);
        assert_eq!(word(&answer), "too large");
    }
    let resolve = on_op(Deed::Resolve(Resolution::Result(large)));
    let answer = see(
        &held(State::Leased),
        Some(&op(OpState::InDoubt)),
        1,
        &resolve,
    );
    assert_eq!(word(&answer), "too large");
}

#[test]
fn what_is_not_there_is_not_found() {
    let now = at(1);
    let nothing = Knock {
        job: None,
        op: None,
        now,
    };
    for deed in [
        Deed::Release,
        Deed::Retry,
        Deed::Expire,
        begin(Class::Tx, "t"),
    ] {
        let answer = judge(nothing, &on_job(mine(), deed));
        assert_eq!(word(&answer), "not found");
    }
    for deed in [
        complete("t", "1", None),
        Deed::Doubt,
        Deed::Resolve(Resolution::Retry),
    ] {
        let answer = see(&held(State::Leased), None, 1, &on_op(deed));
        assert_eq!(word(&answer), "not found");
    }
}

#[test]
fn a_late_holder_renews_also_after_the_reconciler_and_pays_once() {
    let lapsed = held(State::Streaming);
    let expired = see(&lapsed, None, 200, &on_job(Fence::none(), Deed::Expire));
    let expired = expired.unwrap().job.expect("its lease ran out");
    assert_eq!((expired.failures, &expired.lease), (1, &None));

    let renewed = see(
        &expired,
        None,
        201,
        &on_job(mine(), Deed::Renew { ttl: TTL }),
    );
    let renewed = renewed.unwrap().job.expect("nobody else has it");
    assert!(renewed.is_held(at(202)));
    let failed = see(&expired, None, 201, &on_job(mine(), fail(true)));
    assert_eq!(failed.unwrap().job.unwrap().failures, 1, "counted once");

    // The refusals: another epoch, a job that was given back, and one that somebody took.
    let other = on_job(Fence::of("w", 0), Deed::Renew { ttl: TTL });
    assert_eq!(word(&see(&expired, None, 201, &other)), "lost");
    let released = see(&lapsed, None, 50, &on_job(mine(), Deed::Release));
    let released = released.unwrap().job.unwrap();
    let renew = on_job(mine(), Deed::Renew { ttl: TTL });
    assert_eq!(word(&see(&released, None, 51, &renew)), "lost");
    let Taken::Leased(taken) = take(&expired, "other", TTL, at(202)) else {
        panic!("it is due");
    };
    assert_eq!(word(&see(&taken, None, 203, &renew)), "lost");
}

#[test]
fn an_operation_of_a_held_job_is_ended_by_its_owner_and_epoch_together() {
    let (live, running) = (held(State::Leased), op(OpState::Running));
    let fence = |owner: Option<&str>, epoch| Fence {
        owner: owner.map(Into::into),
        epoch,
        ..Fence::none()
    };
    let passing = || Deed::FailOp {
        token: "t".into(),
        error: "gone".into(),
        retryable: true,
    };
    let wait = || Deed::Wait {
        token: "t".into(),
        asks: "1".into(),
    };
    for deed in [complete("t", "1", None), passing(), wait()] {
        for (fence, seconds, is_allowed) in [
            (mine(), 1, true),
            (fence(None, Some(1)), 1, false),
            (fence(Some("w"), None), 1, false),
            (fence(None, None), 1, false),
            (fence(Some("v"), Some(1)), 1, false),
            // Its lease ran out and nobody took it.
            (mine(), 500, true),
            (fence(None, Some(1)), 500, true),
            (fence(None, None), 500, true),
            (fence(Some("v"), None), 500, false),
            (fence(None, Some(0)), 500, false),
        ] {
            let act = Act {
                fence,
                ..on_op(deed.clone())
            };
            let answer = see(&live, Some(&running), seconds, &act);
            assert_eq!(answer.is_ok(), is_allowed, "{act:?} at {seconds}");
            assert!(is_allowed || word(&answer) == "lost", "{act:?}");
        }
    }
}

/// Everything that can be done, in this order.
fn every_deed() -> Vec<Act> {
    let fail_op = Deed::FailOp {
        token: "t".into(),
        error: "x".into(),
        retryable: false,
    };
    let wait = Deed::Wait {
        token: "t".into(),
        asks: "1".into(),
    };
    let place = Place::default();
    let of_job = [
        Deed::Retry,
        Deed::Renew { ttl: TTL },
        Deed::Release,
        to(State::HeadDone),
        fail(true),
        Deed::Redo { place },
        Deed::Expire,
        begin(Class::Tx, "t"),
    ];
    let resolutions = [
        Resolution::Retry,
        Resolution::Result("1".into()),
        Resolution::Error("x".into()),
    ];
    let of_op = [complete("t", "1", None), fail_op, wait, Deed::Doubt];
    let of_op = resolutions
        .map(Deed::Resolve)
        .into_iter()
        .chain(of_op)
        .map(on_op);
    let of_job = of_job.map(|deed| on_job(mine(), deed));
    of_job.into_iter().chain(of_op).collect()
}

#[test]
fn a_job_with_a_place_is_driven_by_the_program_alone() {
    let place = Place::new("there").unwrap();
    for state in State::ALL {
        for op_state in [OpState::Running, OpState::InDoubt, OpState::Waiting] {
            let anybodys = held(state);
            let own = Job {
                place: place.clone(),
                ..anybodys.clone()
            };
            let seen = op(op_state);
            for act in every_deed() {
                let by = |job: &Job, by| {
                    let fence = act.fence.clone().by(by);
                    let act = Act {
                        fence,
                        ..act.clone()
                    };
                    word(&see(job, Some(&seen), 1, &act))
                };
                let is_answer = op_state == OpState::Waiting;
                let is_for_people =
                    act.deed == Deed::Retry || matches!(act.deed, Deed::Resolve(_) if !is_answer);
                let told = "of the program";
                assert_eq!(by(&own, By::Caller), told, "{state} {act:?}");
                assert_ne!(by(&own, By::Program), told, "{state} {act:?}");
                assert_eq!(
                    by(&own, By::Owner) != told,
                    is_for_people,
                    "{state} {op_state:?} {act:?}"
                );
                // What was planned over the API is whoever's has it, whatever its kind.
                for who in [By::Caller, By::Owner] {
                    assert_eq!(by(&anybodys, who), by(&anybodys, By::Program), "{act:?}");
                }
            }
        }
    }
    let missing = on_op(complete("t", "1", None));
    let missing = Act {
        fence: Fence::none().by(By::Caller),
        ..missing
    };
    let knock = Knock {
        job: None,
        op: None,
        now: at(1),
    };
    assert_eq!(word(&judge(knock, &missing)), "not found");
}

#[test]
fn only_the_holder_or_a_person_ends_doubt() {
    let doubted = op(OpState::InDoubt);
    let resolve = |fence| Act {
        fence,
        ..on_op(Deed::Resolve(Resolution::Retry))
    };
    let (held, idle) = (held(State::Leased), idle(State::Leased));
    assert!(see(&held, Some(&doubted), 1, &resolve(mine())).is_ok());
    assert!(see(&idle, Some(&doubted), 1, &resolve(Fence::none())).is_ok());
    for (job, fence) in [
        (&held, Fence::of("forger", 1)),
        (&idle, Fence::of("forger", 1)),
        (&held, Fence::of("w", 0)),
    ] {
        assert_eq!(word(&see(job, Some(&doubted), 1, &resolve(fence))), "lost");
    }
}

#[test]
fn a_repeat_that_says_more_is_heard() {
    let (leased, done) = (held(State::Leased), op(OpState::Done));
    let again = on_op(complete("t", "1", Some(State::HeadDone)));
    let moved = see(&leased, Some(&done), 1, &again).unwrap();
    assert_eq!(moved.job.unwrap().state, State::HeadDone);
    assert_eq!(moved.op, None, "its result stays as it is");
    let written_otherwise = on_op(complete("t", " 1.0", None));
    assert!(see(&leased, Some(&done), 1, &written_otherwise).is_ok());

    let failed = Job {
        state: State::Failed,
        ..idle(State::Leased)
    };
    let given_up = see(&failed, None, 1, &on_job(mine(), fail(false))).unwrap();
    assert_eq!(given_up.job.unwrap().state, State::Dead);

    let with_result = Deed::Advance {
        to: State::HeadDone,
        allowed_from: None,
        result: Some("7".into()),
    };
    let there = held(State::HeadDone);
    let kept = see(&there, None, 1, &on_job(mine(), with_result)).unwrap();
    assert_eq!(kept.job.unwrap().result.as_deref(), Some("7"));
}

#[test]
fn a_receipt_never_rests_long() {
    let kind = JobKind::new("intent").unwrap();
    let planned = NewJob::new(kind, "shell", "k", "intent:r").unwrap();
    let planned = planned.max_attempts(1000).at(Tenant::DEFAULT, 1, at(0));
    let Taken::Leased(leased) = take(&planned, "w", TTL, at(0)) else {
        panic!("a planned job can be leased");
    };
    let tired = Job {
        failures: 50,
        ..leased
    };
    let failed = see(&tired, None, 1, &on_job(mine(), fail(true))).unwrap();
    assert!(failed.job.unwrap().available_at <= at(31));
}
