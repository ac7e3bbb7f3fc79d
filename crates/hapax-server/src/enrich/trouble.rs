//! Why the provider gave no answer: the error of an operation, small JSON that a door and a batch can show.

use std::time::Duration;

use hapax::job::Fault;
use hapax_core::job::Job;
use hapax_effects::enrich::LlmError;
use serde::{Deserialize, Serialize};

/// How often a provider that says no for good is asked before it is believed: a minute or two.
const REFUSALS_MAX: u32 = 5;
/// The same for a key that is refused: hours. It is not the batch that is wrong, and somebody may set it right.
const KEYS_REFUSED_MAX: u32 = 500;

/// The word for what is asked elsewhere.
const UNDER_WAY: &str = "under_way";

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Trouble {
    /// The word for it.
    pub(crate) word: String,
    /// The status that whoever waits is answered with.
    pub(crate) status: u16,
    /// Whether asking again can help.
    pub(crate) is_transient: bool,
    /// Whether it is our key that is refused.
    #[serde(default)]
    pub(crate) is_unauthorized: bool,
    pub(crate) retry_after_ms: Option<u64>,
    /// How often in a row it was refused, this time included.
    #[serde(default)]
    pub(crate) refusals: u32,
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn of(error: &LlmError) -> Self {
        let after = error.retry_after().map(|after| after.as_millis());
        Self {
            word: error.as_str().to_owned(),
            status: error.http_status(),
            is_transient: error.is_transient(),
            is_unauthorized: error.is_unauthorized(),
            retry_after_ms: after.and_then(|ms| u64::try_from(ms).ok()),
            refusals: u32::from(!error.is_transient()),
            message: error.to_string(),
        }
    }

    /// A batch asks the same.
    pub(crate) fn under_way() -> Self {
        Self {
            word: UNDER_WAY.to_owned(),
            status: 503,
            is_transient: true,
            is_unauthorized: false,
            retry_after_ms: None,
            refusals: 0,
            message: "a batch asks the same".to_owned(),
        }
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.word == UNDER_WAY
    }

    /// Reads the error of a job or of an operation. What is not ours is a failure in its own words.
    pub(crate) fn read(error: &str) -> Self {
        let json = error.find('{').map_or("", |start| &error[start..]);
        serde_json::from_str(json).unwrap_or_else(|_| Self {
            word: "failed".to_owned(),
            status: 503,
            is_transient: true,
            is_unauthorized: false,
            retry_after_ms: None,
            refusals: 0,
            message: error.to_owned(),
        })
    }

    /// The error of an operation.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| self.message.clone())
    }

    /// What a log may hold of it: a provider's own words can repeat the text that it was asked about.
    pub(super) fn logged(&self) -> String {
        match self.word.as_str() {
            "failed" => self.message.clone(),
            word => format!("{word}, answered as {}", self.status),
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }

    /// The failed run of a step that somebody waits for: the next request tries again, whatever it was.
    pub(super) fn fault(&self) -> Fault {
        let fault = Fault::retryable(self.text());
        match self.retry_after() {
            Some(after) => fault.after(after),
            None => fault,
        }
    }

    /// The failed run of a step of a batch's job. A refusal is believed when it has been said often enough, one time after
    /// the other: an outage in between begins anew.
    pub(super) fn fault_of(&self, job: &Job) -> Fault {
        let counted = self.after(job);
        if counted.is_over_after(counted.refusals) {
            Fault::fatal(counted.text())
        } else {
            counted.fault()
        }
    }

    /// Whether this refusal is one of many in a row.
    pub(super) fn is_believed(&self, job: &Job) -> bool {
        let counted = self.after(job);
        counted.is_over_after(counted.refusals)
    }

    /// The same, counted together with what the job met before.
    fn after(&self, job: &Job) -> Self {
        let before = job.error.as_deref().map(Self::read);
        let before = before.filter(|before| !before.is_transient);
        let refusals = before.map_or(0, |before| before.refusals);
        Self {
            refusals: if self.is_transient {
                0
            } else {
                refusals.saturating_add(1)
            },
            ..self.clone()
        }
    }

    /// Whether it is believed after so many refusals in a row.
    pub(super) const fn is_over_after(&self, refusals: u32) -> bool {
        let most = if self.is_unauthorized {
            KEYS_REFUSED_MAX
        } else {
            REFUSALS_MAX
        };
        !self.is_transient && refusals >= most
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::job::{JobKind, NewJob};

    use super::*;

    #[test]
    fn an_error_survives_being_the_text_of_a_job_and_anything_else_is_told_as_it_is() {
        let limited = LlmError::RateLimited {
            retry_after: Some(Duration::from_secs(7)),
            code: None,
            message: "slow down".to_owned(),
        };
        let trouble = Trouble::of(&limited);
        let read = Trouble::read(&format!("LLM: {}", trouble.text()));
        assert_eq!(read, trouble);
        assert_eq!(
            (read.status, read.retry_after()),
            (429, Some(Duration::from_secs(7)))
        );
        let other = Trouble::read("LLM: the run panicked");
        assert_eq!(
            (other.status, other.message.as_str()),
            (503, "LLM: the run panicked")
        );
    }

    #[test]
    fn a_refusal_is_believed_after_five_in_a_row_and_an_outage_begins_anew() {
        let refused = Trouble::of(&LlmError::Refused {
            status: 404,
            code: None,
            message: "no such batch".to_owned(),
        });
        let away = Trouble::of(&LlmError::Unreachable {
            why: "connection refused".to_owned(),
        });
        let mut job = NewJob::new(
            JobKind::new("enrich").expect("a kind"),
            "w",
            "a",
            "https://example.org/",
        )
        .expect("a job")
        .at(hapax_core::Tenant::DEFAULT, 1, hapax_core::Time::from_ms(0));
        let mut met = |troubles: &[&Trouble]| {
            job.error = None;
            for trouble in troubles {
                job.failures += 1;
                job.error = Some(trouble.fault_of(&job).error.into());
            }
            refused.is_believed(&job)
        };
        let no = &refused;
        assert!(met(&[no, no, no, no]));
        assert!(!met(&[no, no, no]));
        assert!(!met(&[&away, &away, &away, &away, &away]));
        assert!(!met(&[no, no, no, no, &away, no]));
    }
}
