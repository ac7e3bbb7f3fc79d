//! Planning: once per key, in order, whole.

use std::time::Duration;

use hapax_core::job::queue::PLANS_MAX;
use hapax_core::job::{Job, JobId, JobScan, NewJob, Place, State};
use hapax_core::{Kind, Tenant};

use super::subject::{QueueSubject, ask_many, download, kind, names, of_kind};

/// A new job is stored as it was asked for, due at once, and its id is its key.
pub async fn a_new_job_is_planned_and_stored_whole(subject: &QueueSubject) {
    let asked = of_kind("enrich", "a").in_place(Place::new("host/ö").expect("a place"));
    let asked = asked.max_attempts(7).backoff(Duration::from_millis(250));
    let asked = asked.with_payload(r#"{"n":1}"#);
    let asked = asked.expect("a payload");
    let before = subject.now();

    let planned = subject.plan(vec![asked.clone()]).await.remove(0);

    assert!(planned.planned);
    let job = &planned.job;
    assert!(QueueSubject::is_within(
        job.created_at,
        before,
        subject.now()
    ));
    let whole = asked.clone().at(Tenant::DEFAULT, job.seq, job.created_at);
    assert_eq!(*job, whole);
    assert_eq!(job.id.as_str(), asked.key());
    assert_eq!(subject.stored(job).await, whole);
}

/// A job is found by its id, its key and the UUID that is shown for it; every other name stays as it is.
pub async fn a_job_goes_by_its_id_its_key_and_its_uuid(subject: &QueueSubject) {
    let plain = subject.planned("a").await;
    let own = name("11111111-2222-8333-8444-555555555555");
    let named = of_kind("enrich", "a").with_id(own.clone());
    let named = subject.plan(vec![named]).await.remove(0).job;
    let uuid = plain.id.to_string();
    assert_eq!(uuid.len(), 36, "{uuid}");
    let almost = format!("{}0", &uuid[..35]);
    let almost = name(&if almost == uuid {
        format!("{}1", &uuid[..35])
    } else {
        almost
    });
    let asked = vec![
        plain.id.clone(),
        name(&uuid),
        name(&uuid.to_uppercase()),
        name(&named.key),
        own.clone(),
        almost.clone(),
        name("nothing"),
    ];

    let found = subject.queue.named(Tenant::DEFAULT, asked.clone()).await;

    let id = &plain.id;
    let expected = [id, id, id, &own, &own, &almost, &name("nothing")].map(Clone::clone);
    assert_eq!(found.expect("the queue answers"), expected);
    let stranger = Tenant::from_uuid(uuid::Uuid::from_u128(7));
    let found = subject.queue.named(stranger, asked[..1].to_vec()).await;
    assert_eq!(
        found.expect("the queue answers"),
        asked[..1],
        "it stays, and is nobody's"
    );
    let found = subject.queue.named(stranger, vec![name(&uuid)]).await;
    assert_eq!(found.expect("the queue answers"), [name(&uuid)]);
    let none = subject.queue.named(Tenant::DEFAULT, Vec::new()).await;
    assert_eq!(none.expect("the queue answers"), []);
}

fn name(text: &str) -> JobId {
    JobId::new(text).expect("it has the form of an id")
}

/// The same key again is the same job, however often it is planned.
pub async fn planning_again_gives_the_same_job(subject: &QueueSubject) {
    let first = subject.planned("a").await;

    let again = subject.plan(vec![download("a")]).await.remove(0);

    assert!(!again.planned);
    assert_eq!(again.job, first);
}

/// What is stored stays as it was first planned.
pub async fn planning_again_changes_nothing(subject: &QueueSubject) {
    let first = download("a").with_payload("[1]").expect("a payload");
    let first = subject.plan(vec![first]).await.remove(0).job;
    let other = download("a").with_payload("[2]").expect("a payload");
    let other = other.in_place(Place::new("elsewhere").expect("a place"));

    let again = subject.plan(vec![other]).await.remove(0);

    assert!(!again.planned);
    assert_eq!(again.job, first);
    assert_eq!(subject.stored(&first).await, first);
}

/// The same key twice in one call is planned once, and both are told of it.
pub async fn the_same_key_twice_in_a_batch_is_planned_once(subject: &QueueSubject) {
    let planned = subject
        .plan(vec![download("a"), download("b"), download("a")])
        .await;

    let is_new: Vec<bool> = planned.iter().map(|one| one.planned).collect();
    assert_eq!(is_new, [true, true, false]);
    assert_eq!(planned[0].job, planned[2].job);
    assert_ne!(planned[0].job.id, planned[1].job.id);
}

/// The same artifact can be, say, downloaded and enriched: those are two jobs.
pub async fn kinds_of_the_same_artifact_are_two_jobs(subject: &QueueSubject) {
    let planned = subject
        .plan(vec![download("a"), of_kind("enrich", "a")])
        .await;

    assert!(planned.iter().all(|one| one.planned));
    assert_ne!(planned[0].job.key, planned[1].job.key);
    assert_eq!(subject.lease(ask_many("worker", 5)).await.len(), 2);
}

/// A payload is kept as text: spaces, escapes, number forms and order are those of the planner.
pub async fn a_payload_comes_back_byte_for_byte(subject: &QueueSubject) {
    let large = format!("\"{}\"", "ü".repeat(Job::PAYLOAD_BYTES_MAX / 2 - 1));
    let payloads = [
        r#"{"b": 1, "a":1e2 }"#,
        r#"{"nul":"\u0000","clef":"\ud834\udd1e","slash":"\/"}"#,
        "{\"städte\":[\"Zürich\",\"東京\",\"\u{1f30d}\"]}",
        "null",
        &large,
    ];
    for (number, payload) in payloads.into_iter().enumerate() {
        let asked = download(&number.to_string()).with_payload(payload);
        let asked = asked.expect("a payload");
        let planned = subject.plan(vec![asked]).await.remove(0).job;
        assert_eq!(planned.payload.as_deref(), Some(payload));
        let stored = subject.stored(&planned).await;
        assert_eq!(stored.payload.as_deref(), Some(payload));
    }
    let leased = subject.lease(ask_many("worker", 9)).await;
    let leased: Vec<_> = leased.iter().map(|job| job.payload.as_deref()).collect();
    assert_eq!(leased, payloads.map(Some));
}

/// A full batch is planned in one call, answered and later leased in its order.
pub async fn a_thousand_jobs_are_planned_in_one_call(subject: &QueueSubject) {
    let wanted: Vec<String> = (0..PLANS_MAX).map(|number| format!("a{number}")).collect();
    let jobs: Vec<NewJob> = wanted.iter().map(|name| download(name)).collect();

    let planned = subject.plan(jobs.clone()).await;

    assert!(planned.iter().all(|one| one.planned));
    let jobs_planned: Vec<Job> = planned.iter().map(|one| one.job.clone()).collect();
    assert_eq!(names(&jobs_planned), wanted);
    assert!(
        jobs_planned
            .windows(2)
            .all(|pair| pair[0].seq < pair[1].seq)
    );
    let again = subject.plan(jobs).await;
    assert!(again.iter().all(|one| !one.planned));
    let leased = subject.lease(ask_many("worker", 20)).await;
    assert_eq!(names(&leased), wanted[..20]);
}

/// Over the limit is said as such, and nothing is planned.
pub async fn over_the_limit_of_plans_is_refused(subject: &QueueSubject) {
    let jobs = (0..=PLANS_MAX).map(|number| download(&number.to_string()));

    let refused = subject.queue.plan(Tenant::DEFAULT, jobs.collect()).await;

    assert_eq!(refused.expect_err("it is refused").kind(), Kind::Limit);
    let page = subject.queue.jobs(JobScan::of(Tenant::DEFAULT)).await;
    assert!(page.expect("the queue answers").jobs.is_empty());
}

/// Planning nothing is no error.
pub async fn planning_nothing_answers_nothing(subject: &QueueSubject) {
    assert!(subject.plan(Vec::new()).await.is_empty());
}

/// Whoever plans a job that is under way is told how far it has come.
pub async fn planning_a_job_under_way_tells_how_far_it_is(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let moved = subject.walk(&held, &[State::HeadDone]).await;

    let again = subject.plan(vec![download("a")]).await.remove(0);

    assert_eq!((again.planned, again.job), (false, moved));
}

/// Every word may be as long as it is allowed to be.
pub async fn the_longest_words_fit(subject: &QueueSubject) {
    let id = "ö".repeat(NewJob::ID_BYTES_MAX / 2);
    let url = format!(
        "https://example.org/{}",
        "x".repeat(NewJob::URL_BYTES_MAX - 20)
    );
    let longest = "k".repeat(64);
    let asked = NewJob::new(kind(&longest), &id, &id, &url).expect("it fits");
    let place = Place::new(&"p".repeat(Place::BYTES_MAX)).expect("it fits");
    let asked = asked.in_place(place.clone());

    let job = subject.plan(vec![asked]).await.remove(0).job;

    assert_eq!(subject.stored(&job).await, job);
    assert_eq!((job.work_id, job.canonical_url), (id, url));
    assert_eq!((job.kind.as_str(), job.place), (longest.as_str(), place));
}

/// Of planners who come at once one plans the job, and all get it.
pub async fn concurrent_planners_plan_a_job_once(subject: &QueueSubject) {
    let planners = (0..16).map(|_| {
        let queue = subject.queue.clone();
        tokio::spawn(async move {
            let jobs = (0..20).map(|number| download(&number.to_string()));
            queue.plan(Tenant::DEFAULT, jobs.collect()).await
        })
    });
    let (mut new, mut seen) = (0, Vec::new());
    for planner in planners.collect::<Vec<_>>() {
        let planned = planner.await.expect("no panic").expect("the queue answers");
        new += planned.iter().filter(|one| one.planned).count();
        seen.push(planned.into_iter().map(|one| one.job).collect::<Vec<_>>());
    }

    assert_eq!(new, 20);
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
}
