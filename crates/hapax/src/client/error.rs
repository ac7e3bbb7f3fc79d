//! Why there is no answer to a request, and whether the same request may be sent again.

use std::error::Error as StdError;
use std::fmt;

use hapax_core::Key;
use http::StatusCode;

use super::{BoxError, Conflict, Refusal, verdict};

/// Why there is no answer. [`key`](Self::key) is the key of the last try. Where [`is_transient`](Self::is_transient) holds, send
/// the same request again later, with that key: the server then knows it for the same request.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use hapax::client::{Client, Error};
/// # // Nobody listens here.
/// # let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
/// # let url = format!("http://{free}/payments");
/// let error = Client::new()?.post(&url).attempts(1).send().await.unwrap_err();
/// assert!(matches!(error, Error::Unreachable { .. }));
/// assert!(error.is_transient(), "a later try may get through");
/// assert!(error.key().is_some(), "to be tried again with");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The request or the client cannot be made as asked. Nothing was sent.
    Malformed {
        /// What was being done.
        doing: &'static str,
        /// Why it cannot be.
        source: BoxError,
    },
    /// The key could not be stored. Nothing was sent under it.
    NotPersisted {
        /// The key that is not stored.
        key: Key,
        /// How many times the request was sent before, under another key.
        attempts: u32,
        /// What the hook answered.
        source: BoxError,
    },
    /// The server refuses, or still refused at the last try.
    Refused {
        /// The key.
        key: Key,
        /// How many times the request was sent.
        attempts: u32,
        /// Why, in the server's words.
        refusal: Box<Refusal>,
    },
    /// The key stands for another request. Nothing was done for this one.
    Conflict {
        /// The key.
        key: Key,
        /// How many times the request was sent.
        attempts: u32,
        /// How the two requests differ.
        conflict: Box<Conflict>,
    },
    /// It was begun and may have happened. Only a person can settle the key, or give it back.
    InDoubt {
        /// The key.
        key: Key,
        /// How many times the request was sent.
        attempts: u32,
        /// Why, in the server's words; `details["reason"]` says which way it went.
        refusal: Box<Refusal>,
    },
    /// The server wants the request sent elsewhere: to another origin, or in another form.
    Redirected {
        /// The key.
        key: Key,
        /// How many times the request was sent.
        attempts: u32,
        /// The status.
        status: StatusCode,
        /// Where to.
        location: Option<String>,
    },
    /// No connection, or it broke, or no answer in time, at the last try too. It may have happened.
    Unreachable {
        /// The key.
        key: Key,
        /// How many times the request was sent.
        attempts: u32,
        /// What broke.
        source: BoxError,
    },
    /// The deadline came before an answer, or comes before the next try may begin. It may have happened.
    DeadlineExceeded {
        /// The key.
        key: Key,
        /// How many times the request was sent.
        attempts: u32,
        /// How the last try ended, if there was one.
        last: Option<Box<Error>>,
    },
    /// The answer is larger than the limit, and was dropped. With a 2xx status it happened.
    TooLarge {
        /// The key.
        key: Key,
        /// How many times the request was sent.
        attempts: u32,
        /// The status.
        status: StatusCode,
        /// The limit.
        bytes_max: usize,
    },
    /// The answer came, and is not the JSON that the caller expects. It happened.
    Unreadable {
        /// The key.
        key: Key,
        /// How many times the request was sent.
        attempts: u32,
        /// Where it differs.
        source: serde_json::Error,
    },
}

impl Error {
    pub(super) fn malformed(doing: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Malformed {
            doing,
            source: source.into(),
        }
    }

    /// Whether the same request, sent again later with the same key, may get an answer.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::DeadlineExceeded { .. } => true,
            Error::Refused { refusal, .. } => {
                let busy = refusal.code.as_deref() == Some("IDEMPOTENCY_IN_PROGRESS");
                busy || verdict::is_transient(refusal.status) && !refusal.replayed
            }
            Error::Malformed { .. }
            | Error::NotPersisted { .. }
            | Error::Conflict { .. }
            | Error::InDoubt { .. }
            | Error::Redirected { .. }
            | Error::TooLarge { .. }
            | Error::Unreadable { .. } => false,
        }
    }

    /// The key of the last try, if it came so far.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.sent().map(|(key, _)| key)
    }

    /// How many times the request was sent, under all its keys.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.sent().map_or(0, |(_, attempts)| attempts)
    }

    /// The last status the server answered, if it answered.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Error::Refused { refusal, .. } | Error::InDoubt { refusal, .. } => Some(refusal.status),
            Error::Conflict { conflict, .. } => Some(conflict.status),
            Error::Redirected { status, .. } | Error::TooLarge { status, .. } => Some(*status),
            Error::DeadlineExceeded { last, .. } => last.as_ref().and_then(|last| last.status()),
            Error::Malformed { .. }
            | Error::NotPersisted { .. }
            | Error::Unreachable { .. }
            | Error::Unreadable { .. } => None,
        }
    }

    /// What the server said last, if it refused.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Refused { refusal, .. } | Error::InDoubt { refusal, .. } => Some(refusal),
            Error::DeadlineExceeded { last, .. } => last.as_ref().and_then(|last| last.refusal()),
            Error::Malformed { .. }
            | Error::NotPersisted { .. }
            | Error::Conflict { .. }
            | Error::Redirected { .. }
            | Error::Unreachable { .. }
            | Error::TooLarge { .. }
            | Error::Unreadable { .. } => None,
        }
    }

    fn sent(&self) -> Option<(&Key, u32)> {
        match self {
            Error::Malformed { .. } => None,
            Error::NotPersisted { key, attempts, .. }
            | Error::Refused { key, attempts, .. }
            | Error::Conflict { key, attempts, .. }
            | Error::InDoubt { key, attempts, .. }
            | Error::Redirected { key, attempts, .. }
            | Error::Unreachable { key, attempts, .. }
            | Error::DeadlineExceeded { key, attempts, .. }
            | Error::TooLarge { key, attempts, .. }
            | Error::Unreadable { key, attempts, .. } => Some((key, *attempts)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Malformed { doing, source } => write!(f, "{doing}: {source}"),
            Error::NotPersisted { key, source, .. } => {
                write!(
                    f,
                    "storing the key {key}, under which nothing was sent: {source}"
                )
            }
            Error::Refused { refusal, .. } => write!(f, "the server answered {refusal}"),
            Error::Conflict { conflict, .. } => conflict.fmt(f),
            Error::InDoubt { refusal, .. } => {
                write!(f, "the server does not know whether it happened: {refusal}")
            }
            Error::Redirected {
                status, location, ..
            } => {
                let location = location.as_deref().unwrap_or("nowhere");
                write!(
                    f,
                    "the server answered {} and points to {location}; send it there yourself",
                    status.as_u16()
                )
            }
            Error::Unreachable {
                key,
                attempts,
                source,
            } => {
                let cause = root(source.as_ref());
                write!(
                    f,
                    "no answer after {attempts} tries: {cause}; retry with the key {key}"
                )
            }
            Error::DeadlineExceeded {
                key,
                attempts,
                last,
            } => {
                write!(
                    f,
                    "no answer by the deadline after {attempts} tries; retry with the key {key}"
                )?;
                last.as_ref()
                    .map_or(Ok(()), |last| write!(f, " (last: {last})"))
            }
            Error::TooLarge {
                status, bytes_max, ..
            } => {
                write!(
                    f,
                    "the answer, a {}, is larger than {bytes_max} bytes",
                    status.as_u16()
                )
            }
            Error::Unreadable { source, .. } => write!(f, "reading the answer as JSON: {source}"),
        }
    }
}

/// The first cause: "connection refused" says more than "error sending request".
fn root<'a>(mut error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Malformed { source, .. }
            | Error::NotPersisted { source, .. }
            | Error::Unreachable { source, .. } => Some(source.as_ref()),
            Error::DeadlineExceeded { last, .. } => last
                .as_deref()
                .map(|last| last as &(dyn StdError + 'static)),
            Error::Unreadable { source, .. } => Some(source),
            Error::Refused { .. }
            | Error::Conflict { .. }
            | Error::InDoubt { .. }
            | Error::Redirected { .. }
            | Error::TooLarge { .. } => None,
        }
    }
}
