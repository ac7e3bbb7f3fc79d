//! Lists and counts: newest first, in pages without a gap.

use std::time::Duration;

use hapax_core::Tenant;
use hapax_core::job::{Class, Deed, JobPage, JobScan, NewJob, State, Tally};

use super::subject::{
    QueueSubject, ask_many, download, fence, kind, last_failure, names, of_kind, on_job, step,
};

async fn page(subject: &QueueSubject, scan: JobScan) -> JobPage {
    subject.queue.jobs(scan).await.expect("the queue answers")
}

fn all() -> JobScan {
    JobScan::of(Tenant::DEFAULT)
}

/// Pages hold every job once, newest first, whatever is planned meanwhile.
pub async fn jobs_page_newest_first_without_gap(subject: &QueueSubject) {
    for (number, kind) in ["b", "a", "c", "a", "b", "b", "c"].iter().enumerate() {
        subject.plan(vec![of_kind(kind, &number.to_string())]).await;
    }
    subject.lease(ask_many("worker", 2)).await;
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let scan = JobScan {
            before,
            limit: 3,
            ..all()
        };
        let page = page(subject, scan).await;
        assert!(page.jobs.len() <= 3);
        seen.extend(page.jobs);
        subject.planned(&format!("later {}", seen.len())).await;
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }

    assert_eq!(names(&seen), ["6", "5", "4", "3", "2", "1", "0"]);
    assert!(seen.windows(2).all(|pair| pair[0].seq > pair[1].seq));
}

/// A page that ends the list says so.
pub async fn the_last_page_names_no_next(subject: &QueueSubject) {
    assert_eq!(page(subject, all()).await, JobPage::default());
    for name in ["a", "b"] {
        subject.planned(name).await;
    }
    let exactly = JobScan { limit: 2, ..all() };
    let full = page(subject, exactly).await;
    assert_eq!((full.jobs.len(), full.next), (2, None));
}

/// A listed job is the stored one, payload and all.
pub async fn a_listed_job_is_whole(subject: &QueueSubject) {
    let asked = download("a").with_payload(r#"{"p": "\u0000"}"#);
    subject.plan(vec![asked.expect("a payload")]).await;
    let held = subject.taken("worker").await;

    assert_eq!(page(subject, all()).await.jobs, [held]);
}

/// A list can be narrowed to a state, a kind, a work, or several of them.
pub async fn jobs_are_filtered(subject: &QueueSubject) {
    let of_work = |work: &str, name: &str| {
        let url = format!("https://example.org/{name}");
        NewJob::download(work, name, &url).expect("a job")
    };
    subject
        .plan(vec![
            of_work("w-2", "a"),
            of_work("w-2", "b"),
            of_kind("enrich", "c"),
            of_kind("enrich", "d"),
            download("e"),
        ])
        .await;
    let leased = subject.lease(ask_many("worker", 3)).await;
    assert_eq!(names(&leased), ["a", "b", "c"]);
    let listed = |state, kind, work: Option<&str>| {
        let work_id = work.map(str::to_owned);
        page(
            subject,
            JobScan {
                state,
                kind,
                work_id,
                ..all()
            },
        )
    };
    let enrich = || Some(kind("enrich"));

    assert_eq!(
        names(&listed(Some(State::Leased), None, None).await.jobs),
        ["c", "b", "a"]
    );
    assert_eq!(names(&listed(None, enrich(), None).await.jobs), ["d", "c"]);
    assert_eq!(
        names(&listed(None, None, Some("w-2")).await.jobs),
        ["b", "a"]
    );
    assert_eq!(
        names(&listed(Some(State::Planned), enrich(), None).await.jobs),
        ["d"]
    );
    let work = Some("w-1");
    assert_eq!(
        names(&listed(Some(State::Planned), None, work).await.jobs),
        ["e", "d"]
    );
    assert_eq!(
        names(&listed(Some(State::Leased), enrich(), work).await.jobs),
        ["c"]
    );
    assert!(listed(Some(State::Dead), None, None).await.jobs.is_empty());
    assert!(
        listed(None, Some(kind("nothing")), None)
            .await
            .jobs
            .is_empty()
    );
}

/// Filtered pages have no gap either.
pub async fn filtered_pages_have_no_gap(subject: &QueueSubject) {
    for number in 0..10 {
        let kind = if number % 2 == 0 { "even" } else { "odd" };
        subject.plan(vec![of_kind(kind, &number.to_string())]).await;
    }
    for narrow in [
        JobScan {
            kind: Some(kind("even")),
            ..all()
        },
        JobScan {
            kind: Some(kind("even")),
            work_id: Some("w-1".to_owned()),
            ..all()
        },
    ] {
        let (mut seen, mut before) = (Vec::new(), None);
        while seen.len() < 9 {
            let scan = JobScan {
                before,
                limit: 2,
                ..narrow.clone()
            };
            let page = page(subject, scan).await;
            seen.extend(page.jobs);
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(names(&seen), ["8", "6", "4", "2", "0"]);
    }
}

/// What somebody holds now can be listed alone: not what was given back or ran out.
pub async fn held_jobs_are_listed(subject: &QueueSubject) {
    let ran_out = subject.held("ran out").await;
    subject.run_out();
    let planned = vec![download("held"), download("released"), download("planned")];
    subject.plan(planned).await;
    let leased = subject.lease(ask_many("worker", 2)).await;
    subject
        .deed(&leased[1], Deed::Release)
        .await
        .expect("it is given back");
    let scan = JobScan {
        held: true,
        ..all()
    };

    let held = page(subject, scan.clone()).await.jobs;

    assert_eq!(names(&held), ["held"]);
    assert!(!subject.stored(&ran_out).await.is_held(subject.now()));
    let state = Some(State::HeadDone);
    assert!(
        page(subject, JobScan { state, ..scan })
            .await
            .jobs
            .is_empty()
    );
}

/// A page is never larger than it may be.
pub async fn a_page_is_bounded(subject: &QueueSubject) {
    let jobs = (0..JobScan::LIMIT_MAX + 5).map(|number| download(&number.to_string()));
    subject.plan(jobs.collect()).await;
    let scan = JobScan {
        limit: usize::MAX,
        ..all()
    };

    let first = page(subject, scan.clone()).await;
    assert_eq!(first.jobs.len(), JobScan::LIMIT_MAX);
    let before = first.next;
    assert!(before.is_some());
    let rest = page(subject, JobScan { before, ..scan }).await;
    assert_eq!((rest.jobs.len(), rest.next), (5, None));
}

/// Jobs are counted by kind and state, and how many of them somebody holds.
pub async fn a_tally_counts_by_kind_and_state(subject: &QueueSubject) {
    assert!(
        subject
            .queue
            .tally(Tenant::DEFAULT, u64::MAX)
            .await
            .expect("the queue answers")
            .is_empty()
    );
    subject.held("ran out").await;
    subject.run_out();
    subject
        .plan(vec![
            download("a"),
            download("b"),
            of_kind("enrich", "c"),
            download("d"),
        ])
        .await;
    let leased = subject.lease(ask_many("worker", 3)).await;
    assert_eq!(names(&leased), ["a", "b", "c"]);
    let dead = on_job(&leased[1], fence(&leased[1]), last_failure("no"));
    let moved = on_job(&leased[0], fence(&leased[0]), step(State::HeadDone));
    assert!(
        subject
            .apply(vec![dead, moved])
            .await
            .iter()
            .all(Result::is_ok)
    );

    let mut tally = subject
        .queue
        .tally(Tenant::DEFAULT, u64::MAX)
        .await
        .expect("the queue answers");
    tally.sort_by_key(|one| (one.kind.clone(), one.state));

    let one = |kind: &str, state, held| Tally {
        kind: self::kind(kind),
        state,
        count: 1,
        held,
    };
    assert_eq!(
        tally,
        [
            one("download", State::Planned, 0),
            one("download", State::Leased, 0),
            one("download", State::HeadDone, 1),
            one("download", State::Dead, 0),
            one("enrich", State::Leased, 1),
        ]
    );
}

/// A count ends where it is told to.
pub async fn a_tally_counts_no_further_than_asked(subject: &QueueSubject) {
    let jobs = (0..5).map(|number| download(&number.to_string()));
    subject
        .plan(jobs.chain([of_kind("enrich", "e")]).collect())
        .await;
    let counts = async |at_most: u64| {
        let tally = subject.queue.tally(Tenant::DEFAULT, at_most).await;
        let tally = tally.expect("the queue answers");
        tally.iter().map(|one| one.count).collect::<Vec<u64>>()
    };
    assert_eq!(counts(3).await, [3, 1]);
    assert_eq!(counts(5).await, [5, 1]);
    let leased = subject.lease(ask_many("worker", 6)).await;
    assert_eq!(leased.len(), 6);
    let tally = subject.queue.tally(Tenant::DEFAULT, 2).await;
    let held = tally.expect("the queue answers");
    assert!(held.iter().all(|one| one.held <= 2), "{held:?}");
}

/// Lists by kind, by state and by both go on page by page, whatever else there is.
pub async fn jobs_of_rare_kinds_and_states_page_without_gap(subject: &QueueSubject) {
    for number in 0..7 {
        let name = number.to_string();
        let kind = ["download", "enrich", "zip"][number % 3];
        subject.plan(vec![of_kind(kind, &name)]).await;
    }
    let listed = async |scan: JobScan| {
        let (mut seqs, mut scan) = (Vec::new(), scan);
        loop {
            let page = page(subject, scan.clone()).await;
            seqs.extend(page.jobs.iter().map(|job| (job.kind.to_string(), job.seq)));
            match page.next {
                Some(next) => scan.before = Some(next),
                None => return seqs,
            }
        }
    };
    let by = |kind: Option<&str>, state: Option<State>, limit: usize| JobScan {
        kind: kind.map(self::kind),
        state,
        limit,
        ..all()
    };
    let everything = listed(by(None, None, 2)).await;
    assert_eq!(everything.len(), 7);
    assert!(everything.is_sorted_by(|one, next| one.1 > next.1));
    for limit in [1, 2, 50] {
        assert_eq!(
            listed(by(None, Some(State::Planned), limit)).await,
            everything
        );
        for kind in ["download", "enrich", "zip"] {
            let expected: Vec<_> = everything
                .iter()
                .filter(|(of, _)| of == kind)
                .cloned()
                .collect();
            assert_eq!(listed(by(Some(kind), None, limit)).await, expected);
            let both = by(Some(kind), Some(State::Planned), limit);
            assert_eq!(listed(both).await, expected);
        }
        assert!(listed(by(None, Some(State::Dead), limit)).await.is_empty());
        assert!(listed(by(Some("other"), None, limit)).await.is_empty());
    }
}

/// A job is shown with its operations, oldest first.
pub async fn a_job_is_shown_with_its_operations_oldest_first(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let other = subject.held("b").await;
    for name in ["z", "m", "a"] {
        subject.begun(&held, name, Class::Probe, "t").await;
        subject.advance(Duration::from_secs(1));
    }
    subject.begun(&other, "elsewhere", Class::Probe, "t").await;

    let (job, ops) = subject.shown(&held).await;

    assert_eq!(job, held);
    let keys: Vec<_> = ops.iter().map(|op| op.key.as_str()).collect();
    assert_eq!(keys, ["z", "m", "a"]);
}
