//! Why a step of a download ended without a result, and whether another try can help.

use std::fmt;
use std::time::Duration;

/// What went wrong, in a word that programs can compare.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Code {
    /// The URL is none that is fetched: no http or https, or with a name and password.
    BadUrl,
    /// The host is, or leads to, an address that is not asked.
    SsrfBlocked,
    /// A redirect that is not followed.
    RedirectRefused,
    /// The server answered with a status that is no content.
    HttpStatus,
    /// The connection failed, or broke too often without bringing anything.
    Network,
    /// It took too long.
    TimedOut,
    /// It is larger than the limit.
    TooLarge,
    /// What a compressed body holds is larger than the limits.
    DecompressedTooLarge,
    /// The body is encoded in a way that is not known.
    UnsupportedEncoding,
    /// The content is not the one that was expected.
    HashMismatch,
    /// The length is not the one that was expected.
    SizeMismatch,
    /// Somebody else writes the part.
    PartBusy,
    /// The folder could not be read or written.
    Disk,
    /// What the job asks for is not readable.
    BadPayload,
}

impl Code {
    /// The word used in the text of a fault and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::BadUrl => "bad_url",
            Code::SsrfBlocked => "ssrf_blocked",
            Code::RedirectRefused => "redirect_refused",
            Code::HttpStatus => "http_status",
            Code::Network => "network",
            Code::TimedOut => "timed_out",
            Code::TooLarge => "too_large",
            Code::DecompressedTooLarge => "decompressed_too_large",
            Code::UnsupportedEncoding => "unsupported_encoding",
            Code::HashMismatch => "hash_mismatch",
            Code::SizeMismatch => "size_mismatch",
            Code::PartBusy => "part_busy",
            Code::Disk => "disk",
            Code::BadPayload => "bad_payload",
        }
    }
}

/// Why a step ended without a result.
///
/// ```
/// use hapax_effects::download::{Code, Error};
///
/// let gone = Error::fatal(Code::HttpStatus, "the server answered 410 Gone");
/// assert!(!gone.is_retryable());
/// assert_eq!(gone.to_string(), "http_status: the server answered 410 Gone");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    code: Code,
    text: String,
    retryable: bool,
    after: Option<Duration>,
}

impl Error {
    /// Another try cannot help.
    pub fn fatal(code: Code, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            retryable: false,
            after: None,
        }
    }

    /// Another try can help.
    pub fn retryable(code: Code, text: impl Into<String>) -> Self {
        Self {
            retryable: true,
            ..Self::fatal(code, text)
        }
    }

    /// The folder could not be used while doing `what`. Another try can help.
    #[must_use]
    pub fn disk(what: &str, source: &std::io::Error) -> Self {
        Self::retryable(Code::Disk, format!("{what}: {source}"))
    }

    /// The same, with the time before which another try is not welcome.
    #[must_use]
    pub fn after(mut self, after: Option<Duration>) -> Self {
        self.after = after;
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Whether another try can help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// How long to wait before another try, if the source said so.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.after
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.text)
    }
}

impl std::error::Error for Error {}
