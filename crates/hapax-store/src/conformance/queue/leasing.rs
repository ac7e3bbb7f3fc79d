//! Leasing: to one worker at a time, in order, and again when a lease runs out.

use std::collections::HashSet;
use std::time::Duration;

use hapax_core::job::{Ask, Class, Deed, Job, Place, Resolution, State};
use hapax_core::{Kind, Tenant};

use super::subject::{
    QueueSubject, TTL, ask, ask_many, download, failure, fence, kind, last_failure, names, of_kind,
    on_job, step,
};

/// A lease names its holder and its end; the job's epoch and attempts rise.
pub async fn a_lease_gives_a_job_to_its_owner_for_a_while(subject: &QueueSubject) {
    let planned = subject.planned("a").await;
    let before = subject.now();

    let job = subject.taken("worker-1").await;

    let hold = job.lease.as_ref().expect("it is held");
    assert_eq!(&*hold.owner, "worker-1");
    let (first, last) = (before.plus(TTL), subject.now().plus(TTL));
    assert!(QueueSubject::is_within(hold.until, first, last));
    assert_eq!((job.state, job.epoch, job.attempts), (State::Leased, 1, 1));
    assert_eq!((&job.id, job.seq), (&planned.id, planned.seq));
    assert_eq!(subject.stored(&job).await, job);
}

/// Jobs that were tried less come first, then those planned earlier.
pub async fn jobs_are_leased_by_attempts_and_then_as_planned(subject: &QueueSubject) {
    for name in ["a", "b", "c"] {
        subject.planned(name).await;
    }
    let tried = subject.taken("worker").await;
    assert_eq!(tried.artifact_id, "a");
    subject
        .deed(&tried, Deed::Release)
        .await
        .expect("it is given back");

    let leased = subject.lease(ask_many("worker", 9)).await;

    assert_eq!(names(&leased), ["b", "c", "a"]);
}

/// A job that was never tried comes before any number of those that were.
pub async fn a_new_job_comes_before_many_that_were_tried(subject: &QueueSubject) {
    let jobs = (0..60).map(|number| download(&number.to_string()));
    subject.plan(jobs.collect()).await;
    let tried = subject.lease(ask_many("worker", 60)).await;
    let give_back = tried
        .iter()
        .map(|job| on_job(job, fence(job), Deed::Release));
    let released = subject.apply(give_back.collect()).await;
    assert!(released.iter().all(Result::is_ok));
    subject.planned("new").await;

    let leased = subject.lease(ask_many("worker", 2)).await;

    assert_eq!(names(&leased), ["new", "0"]);
}

/// Jobs of several kinds come in one order.
pub async fn jobs_of_several_kinds_are_leased_in_one_order(subject: &QueueSubject) {
    for (kind, name) in [("b", "1"), ("a", "2"), ("c", "3"), ("a", "4"), ("b", "5")] {
        subject.plan(vec![of_kind(kind, name)]).await;
    }

    let first = subject.lease(ask_many("worker", 3)).await;
    let kinds = Some(vec![kind("a"), kind("b"), kind("c")]);
    let rest = Ask {
        kinds,
        ..ask_many("worker", 3)
    };

    assert_eq!(names(&first), ["1", "2", "3"]);
    assert_eq!(names(&subject.lease(rest).await), ["4", "5"]);
}

/// A lease gives no more than was asked for.
pub async fn a_lease_gives_at_most_what_was_asked_for(subject: &QueueSubject) {
    for name in ["a", "b", "c"] {
        subject.planned(name).await;
    }

    assert!(subject.lease(ask_many("worker", 0)).await.is_empty());
    assert_eq!(
        names(&subject.lease(ask_many("worker", 2)).await),
        ["a", "b"]
    );
    assert_eq!(names(&subject.lease(ask_many("worker", 2)).await), ["c"]);
    assert!(subject.lease(ask_many("worker", 2)).await.is_empty());
}

/// A whole batch is leased in one call, and never more than a batch.
pub async fn a_batch_is_leased_in_one_call(subject: &QueueSubject) {
    let jobs = (0..Ask::LIMIT_MAX + 10).map(|number| download(&number.to_string()));
    subject.plan(jobs.collect()).await;

    let batch = subject.lease(ask_many("worker", usize::MAX)).await;
    let rest = subject.lease(ask_many("worker", usize::MAX)).await;

    assert_eq!((batch.len(), rest.len()), (Ask::LIMIT_MAX, 10));
    let ids: HashSet<_> = batch.iter().chain(&rest).map(|job| &job.id).collect();
    assert_eq!(ids.len(), Ask::LIMIT_MAX + 10);
}

/// A worker gets the kinds it knows, and nothing if it knows none.
pub async fn only_the_kinds_asked_for_are_leased(subject: &QueueSubject) {
    subject
        .plan(vec![
            of_kind("other", "a"),
            of_kind("enrich", "b"),
            of_kind("index", "c"),
        ])
        .await;
    let of = |kinds: &[&str]| Ask {
        kinds: Some(kinds.iter().map(|name| kind(name)).collect()),
        ..ask_many("worker", 9)
    };

    assert!(subject.lease(of(&["download"])).await.is_empty());
    assert!(subject.lease(of(&[])).await.is_empty());
    assert_eq!(
        names(&subject.lease(of(&["index", "enrich", "index"])).await),
        ["b", "c"]
    );
    assert_eq!(names(&subject.lease(ask_many("worker", 9)).await), ["a"]);
}

/// Over the limit of kinds is said as such.
pub async fn over_the_limit_of_kinds_is_refused(subject: &QueueSubject) {
    let kinds = (0..=Ask::KINDS_MAX).map(|number| kind(&format!("k{number}")));
    let too_many = Ask {
        kinds: Some(kinds.collect()),
        ..ask("worker")
    };

    let refused = subject.queue.lease(Tenant::DEFAULT, too_many).await;

    assert_eq!(refused.expect_err("it is refused").kind(), Kind::Limit);
}

/// A worker gets the jobs of its place only.
pub async fn only_the_place_asked_for_is_leased(subject: &QueueSubject) {
    let place = |name: &str| Place::new(name).expect("a place");
    let here = download("here").in_place(place("host-1/data"));
    subject.plan(vec![here, download("anywhere")]).await;
    let within = |name: &str| Ask {
        place: place(name),
        ..ask_many("worker", 9)
    };

    assert!(subject.lease(within("host-2/data")).await.is_empty());
    assert_eq!(
        names(&subject.lease(ask_many("worker", 9)).await),
        ["anywhere"]
    );
    assert_eq!(names(&subject.lease(within("host-1/data")).await), ["here"]);
}

/// While a lease lives nobody else gets the job, its holder's name included.
pub async fn nobody_gets_a_job_that_is_held(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.advance(TTL * 9 / 10);

    assert_eq!(subject.next("other").await, None);
    assert_eq!(subject.next("worker").await, None);
    assert_eq!(subject.stored(&held).await, held);
}

/// Workers who come at once get different jobs.
pub async fn sixty_four_concurrent_leasers_get_disjoint_jobs(subject: &QueueSubject) {
    let jobs = (0..200).map(|number| download(&number.to_string()));
    subject.plan(jobs.collect()).await;
    let leasers = (0..64).map(|number| {
        let queue = subject.queue.clone();
        let ask = ask_many(&format!("worker-{number}"), 5);
        tokio::spawn(async move { queue.lease(Tenant::DEFAULT, ask).await })
    });
    let mut leased = Vec::new();
    for leaser in leasers.collect::<Vec<_>>() {
        let jobs = leaser.await.expect("no panic").expect("the queue answers");
        assert!(jobs.len() <= 5);
        leased.extend(jobs);
    }
    leased.extend(subject.lease(ask_many("last", 500)).await);

    let ids: HashSet<_> = leased.iter().map(|job| &job.id).collect();
    assert_eq!((leased.len(), ids.len()), (200, 200));
    assert!(leased.iter().all(|job| job.epoch == 1));
}

/// A job whose holder died is leased again by itself, with the progress it had.
pub async fn an_expired_job_is_leased_again_with_its_progress(subject: &QueueSubject) {
    let progress: [&[State]; 3] = [
        &[],
        &[State::HeadDone],
        &[State::HeadDone, State::Streaming],
    ];
    for (number, states) in progress.into_iter().enumerate() {
        let held = subject.held(&number.to_string()).await;
        let moved = subject.walk(&held, states).await;
        subject.run_out();

        let again = subject.taken("other").await;

        assert_eq!((again.id.clone(), again.state), (moved.id, moved.state));
        assert_eq!((again.epoch, again.attempts, again.failures), (2, 2, 1));
        let owner = again.lease.as_ref().map(|hold| &*hold.owner);
        assert_eq!(owner, Some("other"));
        assert_eq!(subject.stored(&again).await, again);
        subject
            .deed(&again, last_failure("enough"))
            .await
            .expect("it is given up");
    }
}

/// A job at its end is never leased again.
pub async fn a_finished_job_is_never_leased(subject: &QueueSubject) {
    let streamed = [State::HeadDone, State::Streaming, State::Finalized];
    for end in [State::Indexed, State::Deduped] {
        let held = subject.held(end.as_str()).await;
        let last = subject.walk(&held, &streamed).await;
        subject.walk(&last, &[end]).await;
    }
    let skipped = subject.held("skipped").await;
    subject.walk(&skipped, &[State::SkippedDuplicate]).await;
    let dead = subject.held("dead").await;
    subject
        .deed(&dead, last_failure("no such file"))
        .await
        .expect("it is given up");
    subject.advance(Duration::from_secs(7 * 86_400));

    assert_eq!(subject.next("worker").await, None);
}

/// A failed job comes back after its rest, as one that was just taken.
pub async fn a_failed_job_is_leased_after_its_rest_only(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let fail = Deed::Fail {
        error: None,
        retryable: true,
        after: Some(Duration::from_secs(30)),
    };
    let failed = subject.deed(&held, fail).await.expect("it failed");
    assert_eq!(failed.state, State::Failed);

    assert_eq!(subject.next("worker").await, None);
    subject.advance(Duration::from_secs(31));
    let again = subject.taken("worker").await;

    assert_eq!(
        (again.state, again.epoch, again.attempts, again.failures),
        (State::Leased, 2, 2, 1)
    );
}

/// A job that kills its workers is given up after its attempts, and says so.
pub async fn a_job_whose_leases_run_out_is_given_up(subject: &QueueSubject) {
    let held = subject.held_as(download("poison").max_attempts(2)).await;
    subject.run_out();
    assert_eq!(subject.taken("worker").await.failures, 1);
    subject.run_out();

    assert_eq!(subject.next("worker").await, None);

    let dead = subject.stored(&held).await;
    assert_eq!((dead.state, dead.failures), (State::Dead, 2));
    assert_eq!((dead.lease, dead.epoch), (None, 2));
    assert!(dead.error.is_some_and(|error| error.contains("ran out")));
}

/// Jobs that are given up on the way do not use up what was asked for.
pub async fn giving_up_some_jobs_does_not_hide_the_next(subject: &QueueSubject) {
    let poison = (0..7).map(|number| download(&format!("poison-{number}")).max_attempts(1));
    subject
        .plan(poison.chain([download("good")]).collect())
        .await;
    assert_eq!(subject.lease(ask_many("worker", 9)).await.len(), 8);
    subject.run_out();

    assert_eq!(subject.taken("worker").await.artifact_id, "good");
}

/// A job that is given back is due at once, keeps its progress and has not failed.
pub async fn a_released_job_is_leased_at_once_and_has_not_failed(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let moved = subject.walk(&held, &[State::HeadDone]).await;

    let released = subject
        .deed(&moved, Deed::Release)
        .await
        .expect("it is given back");
    assert_eq!((&released.lease, released.epoch), (&None, 1));
    assert_eq!(subject.stored(&held).await, released);
    let again = subject.taken("other").await;

    assert_eq!((again.state, again.epoch), (State::HeadDone, 2));
    assert_eq!((again.attempts, again.failures), (2, 0));
}

/// A job that waits for somebody is not leased, however long it takes, until that is resolved.
pub async fn a_job_that_waits_is_leased_when_it_is_resolved(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "asks", Class::AtMostOnce, "t").await;
    let wait = Deed::Wait {
        token: "t".into(),
        asks: r#"{"allow":"payment"}"#.into(),
    };
    let (_, parked) = subject.end("asks", wait).await.expect("it waits");
    assert_eq!(parked.lease, None);
    subject.advance(Duration::from_secs(30 * 86_400));
    assert_eq!(subject.next("worker").await, None);

    let granted = Deed::Resolve(Resolution::Result("true".into()));
    subject.end("asks", granted).await.expect("it is resolved");

    assert_eq!(subject.taken("worker").await.id, held.id);
}

/// A lease is as long as it was asked for, within what is allowed.
pub async fn a_lease_is_never_too_short_or_too_long(subject: &QueueSubject) {
    for (ttl, bound) in [
        (Duration::ZERO, Job::LEASES.0),
        (Duration::MAX, Job::LEASES.1),
    ] {
        subject.planned(&format!("{ttl:?}")).await;
        let ask = Ask {
            ttl,
            ..ask("worker")
        };
        let job = subject.lease(ask).await.remove(0);
        let until = job.lease.as_ref().expect("it is held").until;
        assert_eq!(until, job.updated_at.plus(bound), "counted from the lease");
        let done = subject.deed(&job, last_failure("enough")).await;
        done.expect("it is given up");
    }
}

/// A job that rests does not come before its time because another is due.
pub async fn what_rests_is_passed_over(subject: &QueueSubject) {
    for name in ["a", "b", "c"] {
        let held = subject.held(name).await;
        let failed = subject.deed(&held, failure("later")).await;
        failed.expect("it failed");
    }
    subject.planned("d").await;

    let leased = subject.lease(ask_many("worker", 1)).await;
    assert_eq!(names(&leased), ["d"]);
    subject.advance(Duration::from_secs(2));
    let leased = subject.lease(ask_many("worker", 9)).await;
    assert_eq!(names(&leased), ["a", "b", "c"]);
    let moved = subject.deed(&leased[0], step(State::HeadDone)).await;
    assert_eq!(moved.map(|job| job.state), Ok(State::HeadDone));
}
