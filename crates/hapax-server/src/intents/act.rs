//! What a person may do to a receipt: answer its question, and run it again on purpose. It applies nothing; what it
//! returns is for the queue.

use hapax_core::Time;
use hapax_core::job::{Act, Deed, Fence, Job, On, Op, OpState, Resolution};
use hapax_intake::intent::{Answer, Misfit, Policy};
use serde_json::json;

use super::inbox::Inbox;
use super::stored::Stored;

/// Why an answer is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoAnswer {
    /// The receipt does not wait for an answer under this id, or no longer.
    NotOpen,
    /// It does not answer the question.
    Misfit(Misfit),
}

/// The act that gives `answer` to the question `clarification_id` of a receipt, after which it goes on by itself.
/// The queue refuses it if somebody else answered first, or the receipt was run again since.
///
/// # Errors
/// [`NoAnswer`] when there is no such open question, or the answer does not fit.
pub(crate) fn answer(
    job: &Job,
    ops: &[Op],
    clarification_id: &str,
    answer: &Answer,
    (policy, now): (&Policy, Time),
) -> Result<Act, NoAnswer> {
    let inbox = Inbox::of(job).map_err(|_| NoAnswer::NotOpen)?;
    let stored = Stored::new(job, ops);
    let last = stored.rounds().0.pop().ok_or(NoAnswer::NotOpen)?;
    let open = last.asked.filter(|op| op.state == OpState::Waiting);
    let open = open.filter(|op| op.key.as_str() == clarification_id);
    let open = open.ok_or(NoAnswer::NotOpen)?;
    stored
        .packet(&inbox, policy)
        .answered(&last.question, answer, policy, now)
        .map_err(NoAnswer::Misfit)?;
    Ok(Act {
        on: On::Op(open.key.clone()),
        fence: Fence {
            owner: None,
            epoch: Some(job.epoch),
            ..Fence::none()
        },
        deed: Deed::Resolve(Resolution::Result(json!(answer).to_string().into())),
    })
}

/// The act that runs a receipt again from its beginning, with other keys at the gateway. Its questions are asked
/// again. The queue refuses it while somebody holds the receipt.
pub(crate) fn replay(job: &Job) -> Act {
    Act {
        on: On::Job(job.id.clone()),
        fence: Fence::none(),
        deed: Deed::Redo {
            place: job.place.clone(),
        },
    }
}
