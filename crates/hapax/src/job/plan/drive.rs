//! Runs a plan and ends its job accordingly.

use std::time::Duration;

use hapax_core::job::State;

use super::event::{Event, Events};
use super::{Ended, Plan, PlanError};
use crate::job::held::{Held, HeldError};

/// How long a job rests that only a person can help: with an operation in doubt that has no probe, or one that waits.
const REST: Duration = Duration::from_secs(3600);

/// Runs a plan under a lease and ends the job as the plan ended.
///
/// | The plan | The job |
/// |---|---|
/// | came to its end | is where its nodes moved it. If that is no end, it goes by FINALIZED to INDEXED where its kind allows that, and is DEAD otherwise |
/// | failed, and another attempt can help | is FAILED and rests, at least as long as the fault asks |
/// | failed for good | is DEAD |
/// | is interrupted | is parked until somebody resolves the operation |
/// | is in doubt | is FAILED with `in doubt: resolve op …` as its error. It rests for an hour, or for the usual rest if the node has a probe. Once the operation is resolved, a retry of the job goes on at once |
/// | lost its lease | is somebody else's, and nothing is written |
/// | could not ask the queue | is given back if that works, else its lease runs out |
///
/// # Errors
/// The plan's own, once the job is ended; [`PlanError::Store`] or [`PlanError::Lost`] when it could not be.
pub async fn drive<S: Clone + Send + Sync + 'static>(
    held: Held,
    plan: &Plan<S>,
    state: S,
    events: &Events,
) -> Result<Ended<S>, PlanError> {
    let ran = plan.run(&held, state, events).await;
    let after = match &ran {
        Ok(_) => {
            let ended = finish(&held).await;
            tell_end(&held, events, &ended);
            return match ended {
                Ok(()) => ran,
                Err(HeldError::Lost) => Err(PlanError::Lost),
                Err(HeldError::Store(error)) => Err(PlanError::Store(error)),
                Err(HeldError::Refused(refusal)) => Err(PlanError::Failed {
                    node: super::END.to_owned(),
                    error: refusal.to_string(),
                    retryable: false,
                    after: None,
                }),
            };
        }
        Err(PlanError::Lost) => return ran,
        Err(PlanError::Interrupted { .. }) if held.has_ended() => return ran,
        Err(PlanError::Store(error)) if error.is_transient() => {
            let ended = held.clone().release().await.map(drop);
            tell_end(&held, events, &ended);
            return ran;
        }
        Err(
            PlanError::InDoubt {
                has_probe: false, ..
            }
            | PlanError::Interrupted { .. },
        ) => Some(REST),
        Err(PlanError::InDoubt { .. } | PlanError::Store(_)) => None,
        Err(PlanError::Failed { after, .. }) => *after,
    };
    if let Err(error) = &ran {
        let is_fatal = matches!(
            error,
            PlanError::Failed {
                retryable: false,
                ..
            }
        );
        let why = error.to_string();
        let failed = held.clone().fail(&why, !is_fatal, after).await;
        let ended = failed.map(drop);
        tell_end(&held, events, &ended);
    }
    ran
}

/// Brings a job whose plan is at its end to one of its own ends.
async fn finish(held: &Held) -> Result<(), HeldError> {
    if held.has_ended() {
        return Ok(());
    }
    for to in [State::Finalized, State::Indexed] {
        held.catch_up(Some(to), None).await?;
    }
    if held.has_ended() {
        return Ok(());
    }
    let error = format!("the plan ended and left the job {}", held.state());
    held.clone().fail(&error, false, None).await.map(drop)
}

fn tell_end(held: &Held, events: &Events, ended: &Result<(), HeldError>) {
    match ended {
        Ok(()) => events.tell(|| Event::Ended {
            job: held.job().id.clone(),
            state: held.state(),
        }),
        Err(error) => {
            tracing::warn!(job = %held.job().id, %error, "the end of a job was not recorded; its lease runs out");
        }
    }
}
