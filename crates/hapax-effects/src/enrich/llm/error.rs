//! Why there is no answer. It says whether another try can help, and whether what was asked can have happened.

use std::fmt;
use std::time::Duration;

/// Why a call brought no answer. The key is in none of its texts.
///
/// ```
/// use hapax_effects::enrich::LlmError;
///
/// let cut = LlmError::TimedOut { sent: true, why: "the connection broke".to_owned() };
/// assert!(cut.is_transient() && cut.may_have_happened());
/// assert_eq!((cut.as_str(), cut.http_status()), ("timed_out", 503));
///
/// let wrong = LlmError::Refused { status: 404, code: None, message: "no such file".to_owned() };
/// assert!(!wrong.is_transient() && !wrong.may_have_happened());
/// assert_eq!(wrong.to_string(), "the provider answered 404: no such file");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LlmError {
    /// There is no provider, or none that can be called as it is configured.
    NotConfigured {
        /// The setting.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// There was no connection: nothing was sent.
    Unreachable {
        /// What went wrong.
        why: String,
    },
    /// There is no whole answer.
    TimedOut {
        /// Whether the request was sent, or may have been.
        sent: bool,
        /// What went wrong: too slow, or broken off.
        why: String,
    },
    /// The provider answered with a status that is no 2xx. A redirect is one of them: none is followed.
    Refused {
        /// The status.
        status: u16,
        /// The provider's word for it.
        code: Option<String>,
        /// The provider's sentence for it, cut.
        message: String,
    },
    /// The provider answered 429.
    RateLimited {
        /// How long it wants to be left alone, if it said so; at most an hour.
        retry_after: Option<Duration>,
        /// The provider's word for it.
        code: Option<String>,
        /// The provider's sentence for it, cut.
        message: String,
    },
    /// The provider answered with a 2xx, and with something that this API does not answer.
    BadAnswer {
        /// What is wrong with it.
        why: String,
    },
    /// What is to be sent or was answered is over a limit.
    TooLarge {
        /// What is.
        what: &'static str,
        /// Whether it is the answer, so that the request was sent.
        sent: bool,
        /// The limit.
        bytes_max: usize,
    },
}

impl LlmError {
    /// The word used in metrics and logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotConfigured { .. } => "not_configured",
            Self::Unreachable { .. } => "unreachable",
            Self::TimedOut { .. } => "timed_out",
            Self::Refused { .. } => "refused",
            Self::RateLimited { .. } => "rate_limited",
            Self::BadAnswer { .. } => "bad_answer",
            Self::TooLarge { .. } => "too_large",
        }
    }

    /// Whether the same call can succeed later. A bad answer counts: what stands in front of a provider answers so
    /// while it is away. The client itself does not repeat it.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::RateLimited { .. }
            | Self::BadAnswer { .. } => true,
            Self::Refused { status, .. } => is_transient_status(*status),
            Self::NotConfigured { .. } | Self::TooLarge { .. } => false,
        }
    }

    /// Whether what was asked for can have happened although there is no answer. Before a batch is created again,
    /// the batches have to be listed then.
    #[must_use]
    pub const fn may_have_happened(&self) -> bool {
        match self {
            Self::TimedOut { sent, .. } | Self::TooLarge { sent, .. } => *sent,
            Self::BadAnswer { .. } => true,
            // What stands between us and the provider gives up before the provider does.
            Self::Refused { status, .. } => *status == 408 || *status >= 500,
            Self::NotConfigured { .. } | Self::Unreachable { .. } | Self::RateLimited { .. } => {
                false
            }
        }
    }

    /// How long the provider wants to be left alone.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the key was refused. LiteLLM without a database answers 400 to a wrong one.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        match self {
            Self::Refused {
                status,
                code,
                message,
            } => {
                let lacks_database = code.as_deref() == Some("no_db_connection")
                    || message.contains("No connected db.");
                matches!(status, 401 | 403) || (*status == 400 && lacks_database)
            }
            _ => false,
        }
    }

    /// The status that a caller who waits is answered with: 429 as it came, 503 while there is no provider, 502 for
    /// anything that it answered.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        match self {
            Self::RateLimited { .. } => 429,
            Self::NotConfigured { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Refused { status: 503, .. } => 503,
            Self::Refused { .. } | Self::BadAnswer { .. } | Self::TooLarge { .. } => 502,
        }
    }
}

/// Whether a status says that the same request can succeed later.
pub(in crate::enrich) const fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

impl fmt::Display for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConfigured { what, why } => write!(f, "{what} {why}"),
            Self::Unreachable { why } => write!(f, "the provider cannot be reached: {why}"),
            Self::TimedOut { why, .. } => write!(f, "there is no whole answer: {why}"),
            Self::Refused {
                status, message, ..
            } if self.is_unauthorized() => write!(f, "{message} ({status})"),
            Self::Refused {
                status, message, ..
            } => write!(f, "the provider answered {status}: {message}"),
            Self::RateLimited {
                retry_after: Some(after),
                message,
                ..
            } => write!(
                f,
                "the provider wants to be left alone for {} s: {message}",
                after.as_secs()
            ),
            Self::RateLimited { message, .. } => {
                write!(f, "the provider wants to be left alone: {message}")
            }
            Self::BadAnswer { why } => write!(f, "the provider's answer cannot be read: {why}"),
            Self::TooLarge {
                what, bytes_max, ..
            } => {
                write!(f, "{what} is larger than {bytes_max} bytes")
            }
        }
    }
}

impl std::error::Error for LlmError {}
