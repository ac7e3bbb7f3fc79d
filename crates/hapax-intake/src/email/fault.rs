//! Why a message cannot be kept. The same message fails again, so a retry does not help.

use super::body::TEXT_BYTES_MAX;
use super::mime::{DEPTH_MAX, HEADERS_BYTES_MAX, MESSAGE_BYTES_MAX, PARTS_MAX};

/// What is wrong with a message. It quotes none of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageFault {
    /// It is too long.
    #[error("the message has more than {MESSAGE_BYTES_MAX} bytes")]
    Bytes,
    /// Its headers, or those of a part, are too long.
    #[error("the message has headers of more than {HEADERS_BYTES_MAX} bytes")]
    Headers,
    /// It has too many parts.
    #[error("the message has more than {PARTS_MAX} parts")]
    Parts,
    /// Its parts lie too deep in each other.
    #[error("the message has parts nested deeper than {DEPTH_MAX}")]
    Depth,
    /// Its text is too long.
    #[error("the message has a text of more than {TEXT_BYTES_MAX} bytes")]
    Text,
    /// There is no text in it.
    #[error("the message has no text")]
    NoText,
}

impl MessageFault {
    /// The code of the fault: `mime_limit` or `no_text`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Bytes | Self::Headers | Self::Parts | Self::Depth | Self::Text => "mime_limit",
            Self::NoText => "no_text",
        }
    }
}
