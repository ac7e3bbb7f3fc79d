//! Jobs by what waits in them and by the states they are not in, and the operations of many jobs at once.

use std::time::Duration;

use hapax_core::Tenant;
use hapax_core::job::{Begun, Class, Deed, JobScan, Op, Resolution, State};

use super::super::subject::tenant;
use super::subject::{QueueSubject, kind, last_failure, names, of_kind};

async fn listed(subject: &QueueSubject, scan: JobScan) -> Vec<String> {
    let page = subject.queue.jobs(scan).await.expect("the queue answers");
    names(&page.jobs).into_iter().map(str::to_owned).collect()
}

fn waiting(limit: usize, before: Option<i64>) -> JobScan {
    JobScan {
        waits_in: Some("HEAD".to_owned()),
        before,
        limit,
        ..JobScan::of(Tenant::DEFAULT)
    }
}

/// Jobs with an open question are listed newest first and in pages, each once, until it is answered.
pub async fn jobs_that_wait_are_listed_until_they_are_answered(subject: &QueueSubject) {
    for (name, of) in [("a", "ask"), ("b", "ask"), ("c", "other"), ("d", "ask")] {
        let held = subject.held_as(of_kind(of, name)).await;
        subject.begun(&held, name, Class::Probe, "t").await;
        let wait = Deed::Wait {
            token: "t".into(),
            asks: "1".into(),
        };
        if name != "b" {
            subject.end(name, wait).await.expect("it waits");
        }
    }

    assert_eq!(listed(subject, waiting(50, None)).await, ["d", "c", "a"]);
    let of_kind = JobScan {
        kind: Some(kind("ask")),
        ..waiting(50, None)
    };
    assert_eq!(listed(subject, of_kind).await, ["d", "a"]);
    let first = subject.queue.jobs(waiting(1, None)).await.expect("a page");
    assert_eq!(
        (names(&first.jobs), first.next.is_some()),
        (vec!["d"], true)
    );
    let rest = subject.queue.jobs(waiting(2, first.next)).await;
    let rest = rest.expect("a page");
    assert_eq!((names(&rest.jobs), rest.next), (vec!["c", "a"], None));

    let of_another_kind = JobScan {
        waits_in: Some("OTHER".to_owned()),
        ..waiting(50, None)
    };
    assert!(listed(subject, of_another_kind).await.is_empty());
    let of_another = JobScan {
        tenant: tenant(2),
        ..waiting(50, None)
    };
    assert!(listed(subject, of_another).await.is_empty());

    let answer = Deed::Resolve(Resolution::Result("2".into()));
    subject.end("c", answer).await.expect("it waited");
    assert_eq!(listed(subject, waiting(50, None)).await, ["d", "a"]);
}

/// Jobs with an operation in doubt are listed newest first and in pages, and their operations counted, until a person
/// resolves them.
pub async fn doubtful_operations_are_listed_and_counted_until_they_are_resolved(
    subject: &QueueSubject,
) {
    let doubtful = |limit, before| JobScan {
        in_doubt: true,
        before,
        limit,
        ..JobScan::of(Tenant::DEFAULT)
    };
    for (name, of) in [("a", "pay"), ("b", "pay"), ("c", "other")] {
        let held = subject.held_as(of_kind(of, name)).await;
        subject.begun(&held, name, Class::AtMostOnce, "t").await;
        if name != "b" {
            subject
                .deed(&held, Deed::Release)
                .await
                .expect("it is held");
            let held = subject.held_as(of_kind(of, name)).await;
            let again = subject.begin(&held, name, Class::AtMostOnce, "t").await;
            assert_eq!(again, Ok(Begun::InDoubt));
        }
    }
    let count = |of: Tenant, at_most| subject.queue.doubtful_ops(of, at_most);

    assert_eq!(listed(subject, doubtful(50, None)).await, ["c", "a"]);
    let of_kind = JobScan {
        kind: Some(kind("pay")),
        ..doubtful(50, None)
    };
    assert_eq!(listed(subject, of_kind).await, ["a"]);
    let first = subject.queue.jobs(doubtful(1, None)).await.expect("a page");
    assert_eq!(
        (names(&first.jobs), first.next.is_some()),
        (vec!["c"], true)
    );
    let rest = subject.queue.jobs(doubtful(1, first.next)).await;
    assert_eq!(names(&rest.expect("a page").jobs), ["a"]);
    let counted = count(Tenant::DEFAULT, 100).await.expect("a count");
    let stopped = count(Tenant::DEFAULT, 1).await.expect("a count");
    let of_another = count(tenant(2), 100).await.expect("a count");
    assert_eq!((counted, stopped, of_another), (2, 1, 0));
    let theirs = JobScan {
        tenant: tenant(2),
        ..doubtful(50, None)
    };
    assert!(listed(subject, theirs).await.is_empty());

    let answer = Deed::Resolve(Resolution::Result("2".into()));
    subject.end("c", answer).await.expect("it was in doubt");
    assert_eq!(listed(subject, doubtful(50, None)).await, ["a"]);
    assert_eq!(count(Tenant::DEFAULT, 100).await.expect("a count"), 1);
}

/// A list can leave states out.
pub async fn states_can_be_left_out(subject: &QueueSubject) {
    for name in ["a", "b"] {
        let held = subject.held(name).await;
        let failed = subject.deed(&held, last_failure("no")).await;
        assert_eq!(failed.expect("it fails").state, State::Dead);
    }
    subject.held("c").await;
    subject.planned("d").await;
    let without = |not_in: &'static [State]| JobScan {
        not_in,
        ..JobScan::of(Tenant::DEFAULT)
    };

    assert_eq!(
        listed(subject, without(&[])).await,
        ["d", "c", "b", "a"],
        "all"
    );
    assert_eq!(listed(subject, without(&[State::Dead])).await, ["d", "c"]);
    let neither = without(&[State::Dead, State::Leased]);
    assert_eq!(listed(subject, neither).await, ["d"]);
    let nothing = JobScan {
        state: Some(State::Dead),
        ..without(&[State::Dead])
    };
    assert!(listed(subject, nothing).await.is_empty());
}

/// The operations of several jobs come in the order asked, those of each oldest first, and only to their tenant.
pub async fn operations_of_many_jobs_are_read_at_once(subject: &QueueSubject) {
    let (one, none, two) = (
        subject.held("a").await,
        subject.held("b").await,
        subject.held("c").await,
    );
    for (job, name) in [(&one, "z"), (&two, "y"), (&one, "m"), (&one, "a")] {
        subject.begun(job, name, Class::Probe, "t").await;
        subject.advance(Duration::from_secs(1));
    }
    let asked = [&two, &none, &one].map(|job| (job.id.clone(), job.seq));
    let found = subject.queue.ops_of(Tenant::DEFAULT, asked.to_vec()).await;
    let keys = |ops: &Vec<Op>| -> Vec<String> { ops.iter().map(|op| op.key.to_string()).collect() };
    let keys: Vec<_> = found.expect("the queue answers").iter().map(keys).collect();
    assert_eq!(keys, [vec!["y"], vec![], vec!["z", "m", "a"]]);

    let theirs = subject.queue.ops_of(tenant(2), asked.to_vec()).await;
    let theirs = theirs.expect("the queue answers");
    assert!(theirs.len() == 3 && theirs.iter().all(Vec::is_empty));
}
