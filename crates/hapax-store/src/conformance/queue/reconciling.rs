//! What polls and the reconciler ask: who has something due, what ran out, and being told of new work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax_core::Tenant;
use hapax_core::job::{
    Act, Ask, Class, Deed, Fence, Job, JobKind, On, OpState, Place, Resolution, Stale, State,
};

use super::super::subject::tenant;
use super::subject::{QueueSubject, ask, ask_many, download, failure, kind, last_failure, of_kind};

async fn due(subject: &QueueSubject, kinds: Option<Vec<JobKind>>, place: &str) -> Vec<Tenant> {
    let place = Place::new(place).expect("a place");
    let due = subject.queue.due(kinds, place, 100).await;
    let mut due = due.expect("the queue answers");
    due.sort_unstable();
    due
}

async fn stale(subject: &QueueSubject, tenant: Option<Tenant>) -> Stale {
    let stale = subject.queue.stale(tenant, 100).await;
    stale.expect("the queue answers")
}

fn expire(job: &Job) -> Act {
    Act {
        on: On::Job(job.id.clone()),
        fence: Fence {
            owner: None,
            epoch: Some(job.epoch),
            ..Fence::none()
        },
        deed: Deed::Expire,
    }
}

/// Tenants that have something due are named once each, the others not.
pub async fn tenants_with_something_due_are_named(subject: &QueueSubject) {
    assert!(due(subject, None, "").await.is_empty());
    for number in [1, 2, 3, 4] {
        let jobs = vec![download("a"), of_kind("enrich", "b")];
        subject.plan_for(tenant(number), jobs).await;
    }
    subject.lease_for(tenant(2), ask_many("worker", 9)).await;
    let enrich = Ask {
        kinds: Some(vec![kind("enrich")]),
        ..ask("worker")
    };
    subject.lease_for(tenant(3), enrich).await;

    assert_eq!(
        due(subject, None, "").await,
        [tenant(1), tenant(3), tenant(4)]
    );
    let enrich = Some(vec![kind("other"), kind("enrich")]);
    assert_eq!(
        due(subject, enrich.clone(), "").await,
        [tenant(1), tenant(4)]
    );
    assert!(due(subject, Some(vec![kind("other")]), "").await.is_empty());
    assert!(due(subject, Some(Vec::new()), "").await.is_empty());
    assert!(due(subject, None, "host-1").await.is_empty());
    subject.run_out();
    assert_eq!(due(subject, enrich, "").await, [1, 2, 3, 4].map(tenant));
    let some = subject.queue.due(None, Place::default(), 2).await;
    assert_eq!(some.expect("the queue answers").len(), 2);
}

/// Nothing is due that rests, waits, is held or has ended.
pub async fn what_cannot_be_leased_is_not_due(subject: &QueueSubject) {
    let here = download("here").in_place(Place::new("host-1").expect("a place"));
    subject.plan(vec![here]).await;
    assert!(due(subject, None, "").await.is_empty());
    assert_eq!(due(subject, None, "host-1").await, [Tenant::DEFAULT]);

    let waits = subject.held("waits").await;
    subject.begun(&waits, "op", Class::Probe, "t").await;
    let wait = Deed::Wait {
        token: "t".into(),
        asks: "1".into(),
    };
    subject.end("op", wait).await.expect("it waits");
    let ended = subject.held("ended").await;
    subject
        .deed(&ended, last_failure("no"))
        .await
        .expect("it failed");
    let rests = subject.held("rests").await;
    let fail = Deed::Fail {
        error: None,
        retryable: true,
        after: Some(Duration::from_secs(30)),
    };
    subject.deed(&rests, fail).await.expect("it failed");
    subject.held("held").await;
    assert!(due(subject, None, "").await.is_empty());

    subject.advance(Duration::from_secs(31));
    assert_eq!(
        due(subject, None, "").await,
        [Tenant::DEFAULT],
        "its rest is over"
    );
}

/// Leases that ran out are listed with their epochs, and listing changes nothing.
pub async fn leases_that_ran_out_are_listed(subject: &QueueSubject) {
    let held = subject.held("a").await;
    assert_eq!(stale(subject, None).await, Stale::default());
    subject.run_out();
    subject.held("b").await;

    let listed = stale(subject, None).await;

    assert_eq!(listed.leases, [(held.tenant, held.id.clone(), held.epoch)]);
    assert_eq!(subject.stored(&held).await, held);
    assert_eq!(stale(subject, Some(held.tenant)).await, listed);
    assert_eq!(stale(subject, Some(tenant(9))).await, Stale::default());
}

/// Expiring a lease that ran out is one failed attempt; the job is due at once with its progress. Doing it
/// again does nothing.
pub async fn expiring_a_lease_counts_once(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let moved = subject.walk(&held, &[State::HeadDone]).await;
    subject.run_out();

    let answers = subject.apply(vec![expire(&moved), expire(&moved)]).await;

    assert!(answers.iter().all(Result::is_ok));
    let expired = subject.stored(&held).await;
    assert_eq!((expired.state, expired.failures), (State::HeadDone, 1));
    assert_eq!((&expired.lease, expired.epoch), (&None, 1));
    assert_eq!(stale(subject, None).await, Stale::default());
    assert!(subject.apply(vec![expire(&moved)]).await[0].is_ok());
    assert_eq!(subject.stored(&held).await, expired);
    let again = subject.taken("other").await;
    assert_eq!((again.state, again.failures), (State::HeadDone, 1));
}

/// A live lease, and one that was taken since it was listed, are left alone.
pub async fn a_live_lease_is_not_expired(subject: &QueueSubject) {
    let held = subject.held("a").await;
    assert!(subject.apply(vec![expire(&held)]).await[0].is_ok());
    assert_eq!(subject.stored(&held).await, held);
    subject.run_out();
    let taken = subject.taken("other").await;
    subject.run_out();

    assert!(subject.apply(vec![expire(&held)]).await[0].is_ok());

    assert_eq!(subject.stored(&taken).await, taken, "its epoch is another");
}

/// Expiring the last attempt gives the job up.
pub async fn expiring_the_last_attempt_gives_up(subject: &QueueSubject) {
    let held = subject.held_as(download("poison").max_attempts(1)).await;
    subject.run_out();

    assert!(subject.apply(vec![expire(&held)]).await[0].is_ok());

    let dead = subject.stored(&held).await;
    assert_eq!(
        (dead.state, dead.failures, dead.lease),
        (State::Dead, 1, None)
    );
}

/// Operations that nobody can be at are listed, and doubting them is done once.
pub async fn operations_without_a_runner_are_listed_and_doubted(subject: &QueueSubject) {
    let held = subject.held("a").await;
    for name in ["taken over", "done"].map(|name| name.replace(' ', "-")) {
        subject.begun(&held, &name, Class::AtMostOnce, "t").await;
    }
    let done = super::subject::complete("t", "1");
    subject.end("done", done).await.expect("it is done");
    assert!(stale(subject, None).await.ops.is_empty());
    subject.run_out();
    assert!(
        stale(subject, None).await.ops.is_empty(),
        "its runner may be late"
    );
    let job = subject.taken("other").await;
    subject.begun(&job, "live", Class::AtMostOnce, "t").await;

    let listed = stale(subject, Some(Tenant::DEFAULT)).await;
    let key = super::subject::key("taken-over");
    assert_eq!(listed.ops, [(Tenant::DEFAULT, key)]);
    assert_eq!(stale(subject, None).await.ops, listed.ops);
    assert_eq!(subject.op_state("taken-over").await, OpState::Running);
    assert!(stale(subject, Some(tenant(9))).await.ops.is_empty());
    for _ in 0..2 {
        let (op, _) = subject
            .end("taken-over", Deed::Doubt)
            .await
            .expect("it is there");
        assert_eq!(op.state, OpState::InDoubt);
        assert!(stale(subject, None).await.ops.is_empty());
    }
    let (live, _) = subject.end("live", Deed::Doubt).await.expect("it is there");
    assert_eq!(live.state, OpState::Running);
}

/// An operation whose lease ran out, or was given back, is listed after ten minutes.
pub async fn an_abandoned_operation_is_listed_after_a_while(subject: &QueueSubject) {
    let ran_out = subject.held("a").await;
    subject.begun(&ran_out, "ran-out", Class::Probe, "t").await;
    let released = subject.held("b").await;
    subject
        .begun(&released, "released", Class::Probe, "t")
        .await;
    subject
        .deed(&released, Deed::Release)
        .await
        .expect("it is given back");
    subject.advance(Duration::from_secs(590));
    assert!(stale(subject, None).await.ops.is_empty());
    subject.advance(Duration::from_secs(11));

    let mut ops = stale(subject, None).await.ops;
    ops.sort_unstable();

    let keys: Vec<_> = ops.iter().map(|(_, key)| key.as_str()).collect();
    assert_eq!(keys, ["ran-out", "released"]);
}

/// An operation whose job is held is never listed, however long it takes.
pub async fn a_long_operation_under_a_lease_is_not_listed(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Probe, "t").await;
    let ttl = Duration::from_secs(7200);
    let renewed = subject.deed(&held, Deed::Renew { ttl }).await;
    assert!(renewed.is_ok());
    subject.advance(Duration::from_secs(3600));

    for tenant in [None, Some(Tenant::DEFAULT)] {
        assert_eq!(stale(subject, tenant).await, Stale::default());
    }
    let (op, _) = subject.end("op", Deed::Doubt).await.expect("it is there");
    assert_eq!(op.state, OpState::Running);
}

/// A list for the reconciler is bounded.
pub async fn what_is_stale_is_listed_in_bounds(subject: &QueueSubject) {
    let jobs = (0..5).map(|number| download(&number.to_string()));
    subject.plan(jobs.collect()).await;
    for job in subject.lease(ask_many("worker", 5)).await {
        subject
            .begun(&job, &job.artifact_id, Class::Probe, "t")
            .await;
    }
    subject.advance(Duration::from_secs(700));

    let listed = subject
        .queue
        .stale(None, 3)
        .await
        .expect("the queue answers");

    assert_eq!((listed.leases.len(), listed.ops.len()), (3, 3));
}

/// Whoever wants to know is told when there may be something to lease: after a plan, a release, a retry and a
/// resolution.
pub async fn new_work_is_told(subject: &QueueSubject) {
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    subject.queue.on_ready(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    // A store may listen elsewhere and take a moment to begin.
    let mut planned = 0;
    while told.load(Ordering::Relaxed) == 0 {
        assert!(planned < 100, "a plan is told");
        subject.planned(&format!("first {planned}")).await;
        planned += 1;
        wait().await;
    }
    let hears = |what: &'static str, before: usize| {
        let told = told.clone();
        async move {
            for _ in 0..200 {
                if told.load(Ordering::Relaxed) > before {
                    return;
                }
                wait().await;
            }
            panic!("a {what} is told");
        }
    };
    let quiet = || async {
        let mut before = told.load(Ordering::Relaxed);
        loop {
            wait().await;
            let now = told.load(Ordering::Relaxed);
            if now == before {
                return now;
            }
            before = now;
        }
    };

    let before = quiet().await;
    let jobs = subject.lease(ask_many("worker", planned)).await;
    let held = jobs.first().expect("one was planned");
    subject
        .deed(held, Deed::Release)
        .await
        .expect("it is given back");
    hears("release", before).await;

    let held = subject.taken("worker").await;
    let failed = subject.deed(&held, failure("no")).await.expect("it failed");
    let before = quiet().await;
    subject
        .deed(&failed, Deed::Retry)
        .await
        .expect("it is retried");
    hears("retry", before).await;

    let held = subject.taken("worker").await;
    subject.begun(&held, "op", Class::Probe, "t").await;
    let wait_for = Deed::Wait {
        token: "t".into(),
        asks: "1".into(),
    };
    subject.end("op", wait_for).await.expect("it waits");
    let before = quiet().await;
    let granted = Deed::Resolve(Resolution::Result("1".into()));
    subject.end("op", granted).await.expect("it waited");
    hears("resolution", before).await;
}

async fn wait() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
