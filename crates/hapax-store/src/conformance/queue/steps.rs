//! The graph of states, as a store keeps it: forward only, and narrowed but never widened by callers.

use hapax_core::job::{Deed, Op, Refusal, State};

use super::subject::{QueueSubject, of_kind, step};

const FETCHED: [State; 3] = [State::HeadDone, State::Streaming, State::Finalized];

/// A download may go through every step to its end, and each is stored.
pub async fn a_download_walks_every_step(subject: &QueueSubject) {
    let all = [
        State::HeadDone,
        State::ResumeOk,
        State::Streaming,
        State::Finalized,
    ];
    for end in [State::Indexed, State::Deduped] {
        let mut job = subject.held(end.as_str()).await;
        for to in all {
            job = subject.walk(&job, &[to]).await;
            assert_eq!(subject.stored(&job).await, job);
            assert!(job.is_held(subject.now()), "progress keeps the lease");
        }
        let ended = subject.walk(&job, &[end]).await;
        assert_eq!(subject.stored(&ended).await, ended);
        assert_eq!(ended.lease, None, "the end ends the lease");
    }
}

/// From every step a job may turn out to be a duplicate.
pub async fn a_duplicate_is_skipped_from_any_step(subject: &QueueSubject) {
    for count in 0..=FETCHED.len() {
        let held = subject.held(&count.to_string()).await;
        let moved = subject.walk(&held, &FETCHED[..count]).await;
        subject.walk(&moved, &[State::SkippedDuplicate]).await;
        let stored = subject.stored(&held).await;
        assert_eq!(
            (stored.state, stored.lease),
            (State::SkippedDuplicate, None)
        );
    }
}

/// A step back is refused with what would be allowed, and nothing is written.
pub async fn a_step_back_is_refused(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let job = subject.walk(&held, &FETCHED).await;

    for wants in [
        State::HeadDone,
        State::Streaming,
        State::Leased,
        State::Planned,
    ] {
        let refused = subject.deed(&job, step(wants)).await;
        let from = wants.leaders(&job.kind);
        let have = State::Finalized;
        assert_eq!(refused, Err(Refusal::Denied { have, wants, from }));
    }
    assert_eq!(subject.stored(&job).await, job);
}

/// A step over others is refused.
pub async fn a_leap_is_refused(subject: &QueueSubject) {
    let held = subject.held("a").await;

    for wants in [
        State::Streaming,
        State::Finalized,
        State::Indexed,
        State::Dead,
    ] {
        let refused = subject.deed(&held, step(wants)).await;
        let from = wants.leaders(&held.kind);
        let have = State::Leased;
        assert_eq!(refused, Err(Refusal::Denied { have, wants, from }));
    }
    assert_eq!(subject.stored(&held).await, held);
}

/// A caller's own list of states narrows the graph and never widens it.
pub async fn a_caller_narrows_the_graph_and_never_widens_it(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let only_from = |to, from: &[State]| Deed::Advance {
        to,
        allowed_from: Some(from.to_vec()),
        result: None,
    };

    let narrowed = subject
        .deed(&held, only_from(State::HeadDone, &[State::Planned]))
        .await;
    assert!(
        matches!(narrowed, Err(Refusal::Denied { .. })),
        "{narrowed:?}"
    );
    let widened = subject
        .deed(&held, only_from(State::Indexed, &[State::Leased]))
        .await;
    assert!(
        matches!(widened, Err(Refusal::Denied { .. })),
        "{widened:?}"
    );
    assert_eq!(subject.stored(&held).await, held);
    let both = [State::Planned, State::Leased];
    let allowed = subject.deed(&held, only_from(State::HeadDone, &both)).await;
    assert_eq!(allowed.map(|job| job.state), Ok(State::HeadDone));
}

/// A step that was made already changes nothing, its time included.
pub async fn the_same_step_again_changes_nothing(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let job = subject.walk(&held, &[State::HeadDone]).await;
    subject.advance(std::time::Duration::from_secs(5));

    let again = subject.deed(&job, step(State::HeadDone)).await;

    assert_eq!(again, Ok(job.clone()));
    assert_eq!(subject.stored(&job).await, job);
}

/// What came of the job is kept with it.
pub async fn a_result_is_kept_with_the_job(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let job = subject.walk(&held, &FETCHED).await;
    let result = r#"{"sha256": "ab\u0000", "größe":1}"#;
    let last = Deed::Advance {
        to: State::Indexed,
        allowed_from: None,
        result: Some(result.into()),
    };

    let ended = subject.deed(&job, last).await.expect("it is a step");

    assert_eq!(ended.result.as_deref(), Some(result));
    assert_eq!(subject.stored(&job).await, ended);
}

/// A result that is too large is refused, and the job stays where it is.
pub async fn a_job_with_too_large_a_result_stays(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let result = format!("\"{}\"", "x".repeat(Op::RESULT_BYTES_MAX - 1));
    let bytes = result.len();
    let too_large = Deed::Advance {
        to: State::HeadDone,
        allowed_from: None,
        result: Some(result.into()),
    };

    let refused = subject.deed(&held, too_large).await;

    assert_eq!(refused, Err(Refusal::TooLarge { bytes }));
    assert_eq!(subject.stored(&held).await, held);
}

/// Kinds other than downloads have nothing to fetch.
pub async fn other_kinds_need_not_fetch(subject: &QueueSubject) {
    let held = subject.held_as(of_kind("enrich", "a")).await;

    let ended = subject
        .walk(&held, &[State::Finalized, State::Indexed])
        .await;

    assert_eq!(subject.stored(&held).await, ended);
}

/// A job at its end moves no more.
pub async fn a_finished_job_moves_no_more(subject: &QueueSubject) {
    let held = subject.held("a").await;
    let ended = subject.walk(&held, &[State::SkippedDuplicate]).await;

    for wants in [
        State::Leased,
        State::HeadDone,
        State::Indexed,
        State::Failed,
    ] {
        let refused = subject.deed(&ended, step(wants)).await;
        assert!(
            matches!(refused, Err(Refusal::Denied { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(subject.stored(&ended).await, ended);
}
