//! Batches of acts: answered in order, each for itself, two on one job in order.

use hapax_core::job::queue::ACTS_MAX;
use hapax_core::job::{Begun, Class, Deed, Done, Job, OpState, Refusal, State};
use hapax_core::{Kind, Tenant};

use super::subject::{
    QueueSubject, TTL, ask_many, beginning, complete_to, download, fence, on_job, on_op, step,
};

async fn several(subject: &QueueSubject, count: usize) -> Vec<Job> {
    let jobs = (0..count).map(|number| download(&number.to_string()));
    subject.plan(jobs.collect()).await;
    let leased = subject.lease(ask_many("worker", count)).await;
    assert_eq!(leased.len(), count);
    leased
}

fn state(answer: &Result<Done, Refusal>) -> Option<State> {
    match answer {
        Ok(Done::Job(job) | Done::Op(_, job)) => Some(job.state),
        Ok(Done::Begun(..)) | Err(_) => None,
    }
}

/// Answers come in the order of the acts.
pub async fn acts_are_answered_in_order(subject: &QueueSubject) {
    let jobs = several(subject, 50).await;
    let backwards: Vec<_> = jobs.iter().rev().collect();
    let acts = backwards
        .iter()
        .map(|job| on_job(job, fence(job), step(State::HeadDone)));

    let answers = subject.apply(acts.collect()).await;

    for (job, answer) in backwards.iter().zip(&answers) {
        let Ok(Done::Job(moved)) = answer else {
            panic!("it is a step, got {answer:?}")
        };
        assert_eq!((&moved.id, moved.state), (&job.id, State::HeadDone));
    }
}

/// An act that is refused leaves the others alone.
pub async fn acts_of_a_batch_are_independent(subject: &QueueSubject) {
    let jobs = several(subject, 3).await;
    let wanted = [State::HeadDone, State::Indexed, State::HeadDone];
    let acts = jobs
        .iter()
        .zip(wanted)
        .map(|(job, to)| on_job(job, fence(job), step(to)));

    let answers = subject.apply(acts.collect()).await;

    let states: Vec<_> = answers.iter().map(state).collect();
    assert_eq!(states, [Some(State::HeadDone), None, Some(State::HeadDone)]);
    assert_eq!(subject.stored(&jobs[1]).await, jobs[1]);
    assert_eq!(subject.stored(&jobs[2]).await.state, State::HeadDone);
}

/// Two acts on the same job happen in the order asked.
pub async fn two_acts_on_one_job_happen_in_order(subject: &QueueSubject) {
    let job = &several(subject, 1).await[0];
    let deeds = [
        step(State::HeadDone),
        step(State::Streaming),
        step(State::HeadDone),
        Deed::Renew { ttl: TTL },
        step(State::Finalized),
    ];
    let acts = deeds.map(|deed| on_job(job, fence(job), deed));

    let answers = subject.apply(acts.into()).await;

    let states: Vec<_> = answers.iter().map(state).collect();
    let streaming = Some(State::Streaming);
    assert_eq!(
        states,
        [
            Some(State::HeadDone),
            streaming,
            None,
            streaming,
            Some(State::Finalized)
        ]
    );
    assert_eq!(subject.stored(job).await.state, State::Finalized);
}

/// An operation may be begun and ended in one batch, and the next begun.
pub async fn an_operation_fits_one_batch(subject: &QueueSubject) {
    let job = &several(subject, 1).await[0];
    let acts = vec![
        on_job(job, fence(job), beginning("op-1", Class::Tx, "t")),
        on_op("op-1", fence(job), complete_to("t", "[1]", State::HeadDone)),
        on_job(job, fence(job), beginning("op-1", Class::Tx, "t2")),
        on_job(job, fence(job), beginning("op-2", Class::Tx, "t")),
    ];

    let answers = subject.apply(acts).await;

    let begun = |answer: &Result<Done, Refusal>| match answer {
        Ok(Done::Begun(begun, _)) => Some(begun.clone()),
        Ok(Done::Job(_) | Done::Op(..)) | Err(_) => None,
    };
    assert_eq!(begun(&answers[0]), Some(Begun::Execute("t".into())));
    assert_eq!(state(&answers[1]), Some(State::HeadDone));
    assert_eq!(begun(&answers[2]), Some(Begun::Replay("[1]".into())));
    assert_eq!(begun(&answers[3]), Some(Begun::Execute("t".into())));
    assert_eq!(subject.shown(job).await.1.len(), 2);
}

/// The record of an operation, the state that the next one wants and its beginning are one batch. Sent again, because its
/// answer got lost, it is answered alike and changes nothing.
pub async fn a_record_and_the_next_beginning_may_be_sent_twice(subject: &QueueSubject) {
    let job = &several(subject, 1).await[0];
    let begin = on_job(job, fence(job), beginning("op-1", Class::Replayable, "t"));
    subject.apply(vec![begin]).await;
    let acts = vec![
        on_op("op-1", fence(job), complete_to("t", "[1]", State::HeadDone)),
        on_job(job, fence(job), step(State::Streaming)),
        on_job(job, fence(job), beginning("op-2", Class::Probe, "t2")),
    ];

    for _ in 0..2 {
        let answers = subject.apply(acts.clone()).await;
        assert!(matches!(&answers[0], Ok(Done::Op(op, _)) if op.state == OpState::Done));
        assert_eq!(state(&answers[1]), Some(State::Streaming));
        assert!(
            matches!(&answers[2], Ok(Done::Begun(Begun::Execute(token), op)) if **token == *"t2" && op.tries == 1)
        );
    }

    let (stored, ops) = subject.shown(job).await;
    assert_eq!((stored.state, ops.len()), (State::Streaming, 2));
}

/// A full batch is done in one call; over the limit is said as such, and nothing is done.
pub async fn over_the_limit_of_acts_is_refused(subject: &QueueSubject) {
    let job = &several(subject, 1).await[0];
    let acts: Vec<_> = (0..=ACTS_MAX)
        .map(|number| {
            on_job(
                job,
                fence(job),
                beginning(&format!("op-{number}"), Class::Tx, "t"),
            )
        })
        .collect();

    let refused = subject.queue.apply(Tenant::DEFAULT, acts.clone()).await;
    assert_eq!(refused.expect_err("it is refused").kind(), Kind::Limit);
    assert!(subject.shown(job).await.1.is_empty());

    let done = subject.apply(acts[..ACTS_MAX].to_vec()).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(subject.shown(job).await.1.len(), ACTS_MAX);
}

/// No acts, no answers.
pub async fn an_empty_batch_of_acts_answers_nothing(subject: &QueueSubject) {
    assert!(subject.apply(Vec::new()).await.is_empty());
}

/// Workers who act on one job at once each see what the others did: every step is made once.
pub async fn concurrent_acts_on_one_job_make_each_step_once(subject: &QueueSubject) {
    let job = several(subject, 1).await.remove(0);
    let tasks = (0..16).map(|number| {
        let queue = subject.queue.clone();
        let deed = beginning(&format!("op-{number}"), Class::Tx, "t");
        let begin = on_job(&job, fence(&job), deed);
        let complete = complete_to("t", "1", State::HeadDone);
        let acts = vec![begin, on_op(&format!("op-{number}"), fence(&job), complete)];
        tokio::spawn(async move { queue.apply(Tenant::DEFAULT, acts).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        let answers = task.await.expect("no panic").expect("the queue answers");
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }

    let (stored, ops) = subject.shown(&job).await;
    assert_eq!((stored.state, ops.len()), (State::HeadDone, 16));
}
