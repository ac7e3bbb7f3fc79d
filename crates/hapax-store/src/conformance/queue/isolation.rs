//! Tenants: nothing of one is seen, leased or changed by another.

use hapax_core::Tenant;
use hapax_core::job::{Class, Deed, Done, JobScan, OpState, Refusal, Resolution, State};

use super::super::subject::tenant;
use super::subject::{
    QueueSubject, ask_many, beginning, complete, download, fence, key, on_job, on_op, step,
};

/// Another tenant's job answers like one that does not exist.
pub async fn another_tenants_job_is_not_found(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let other = tenant(2);

    let found = subject.queue.job(other, held.id.clone()).await;
    assert_eq!(found.expect("the queue answers"), None);
    for deed in [
        Deed::Release,
        step(State::HeadDone),
        Deed::Retry,
        beginning("op", Class::Tx, "t"),
    ] {
        let answers = subject
            .apply_for(other, vec![on_job(&held, fence(&held), deed)])
            .await;
        assert_eq!(answers, [Err(Refusal::NotFound)]);
    }
    assert_eq!(subject.stored(&held).await, held);
}

/// Another tenant's operation answers like one that does not exist.
pub async fn another_tenants_operation_is_not_found(subject: &QueueSubject) {
    let held = subject.held("a").await;
    subject.begun(&held, "op", Class::Probe, "t").await;
    let stored = subject.op("op").await;
    let other = tenant(2);

    let found = subject.queue.op(other, key("op")).await;
    assert_eq!(found.expect("the queue answers"), None);
    for deed in [
        complete("t", "1"),
        Deed::Resolve(Resolution::Retry),
        Deed::Doubt,
    ] {
        let answers = subject
            .apply_for(other, vec![on_op("op", fence(&held), deed)])
            .await;
        assert_eq!(answers, [Err(Refusal::NotFound)]);
    }
    assert_eq!(subject.op("op").await, stored);
}

/// The same key in two tenants is two jobs, and each tenant leases its own.
pub async fn the_same_key_of_two_tenants_is_two_jobs(subject: &QueueSubject) {
    let mine = subject.planned("a").await;
    let theirs = subject
        .plan_for(tenant(2), vec![download("a")])
        .await
        .remove(0);
    assert!(theirs.planned);
    assert_eq!((&theirs.job.id, theirs.job.tenant), (&mine.id, tenant(2)));

    let leased = subject.lease(ask_many("worker", 9)).await;
    assert_eq!(leased.len(), 1);
    assert_eq!(leased[0].tenant, Tenant::DEFAULT);
    assert!(!subject.stored(&theirs.job).await.is_held(subject.now()));
    let leased = subject.lease_for(tenant(2), ask_many("worker", 9)).await;
    assert_eq!(leased.len(), 1);
    assert_eq!(leased[0].tenant, tenant(2));
}

/// The same key of an operation in two tenants is two operations.
pub async fn the_same_operation_of_two_tenants_is_two_operations(subject: &QueueSubject) {
    let mine = subject.held("a").await;
    subject.begun(&mine, "op", Class::Probe, "t").await;
    subject.plan_for(tenant(2), vec![download("b")]).await;
    let theirs = subject
        .lease_for(tenant(2), ask_many("worker", 1))
        .await
        .remove(0);
    let begin = on_job(&theirs, fence(&theirs), beginning("op", Class::Tx, "t2"));

    let acts = vec![begin, on_op("op", fence(&theirs), complete("t2", "[2]"))];
    let answers = subject.apply_for(tenant(2), acts).await;

    assert!(
        matches!(&answers[1], Ok(Done::Op(op, _)) if op.job == theirs.id),
        "{answers:?}"
    );
    assert_eq!(subject.op_state("op").await, OpState::Running);
    let found = subject.queue.op(tenant(2), key("op")).await;
    let found = found.expect("the queue answers").expect("it is there");
    assert_eq!((found.state, found.tenant), (OpState::Done, tenant(2)));
}

/// Lists and counts are a tenant's own.
pub async fn lists_and_counts_are_a_tenants_own(subject: &QueueSubject) {
    let mine = subject.planned("a").await;
    let jobs = vec![download("b"), download("c")];
    subject.plan_for(tenant(2), jobs).await;

    let page = subject.queue.jobs(JobScan::of(Tenant::DEFAULT)).await;
    assert_eq!(page.expect("the queue answers").jobs, [mine]);
    let counted = |tenant| async move {
        let tally = subject
            .queue
            .tally(tenant, u64::MAX)
            .await
            .expect("the queue answers");
        tally.iter().map(|one| one.count).sum::<u64>()
    };
    assert_eq!(counted(Tenant::DEFAULT).await, 1);
    assert_eq!(counted(tenant(2)).await, 2);
    assert_eq!(counted(tenant(3)).await, 0);
}
