//! How a mailbox file keeps a line `From ` of a text apart from the line that begins a message.

use std::fmt;

use crate::text::lines;

/// The kinds of mailbox files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Variant {
    /// Found out for each message: if it ends where its Content-Length says, it is `mboxcl2` if it holds a line that
    /// would have begun a message, else `mboxcl`; if not, it is `mboxrd`. `mboxo` cannot be told from `mboxrd`.
    #[default]
    Auto,
    /// `From ` at the start of a line, also behind any number of `>`, was given one `>` more.
    Mboxrd,
    /// `From ` at the start of a line was given a `>`.
    Mboxo,
    /// As `mboxo`, and a Content-Length says where the message ends.
    Mboxcl,
    /// A Content-Length says where the message ends; nothing was changed.
    Mboxcl2,
}

impl Variant {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mboxrd => "mboxrd",
            Self::Mboxo => "mboxo",
            Self::Mboxcl => "mboxcl",
            Self::Mboxcl2 => "mboxcl2",
        }
    }

    /// Whether a Content-Length can say where a message ends.
    pub(super) const fn has_length(self) -> bool {
        matches!(self, Self::Auto | Self::Mboxcl | Self::Mboxcl2)
    }

    /// The message as it was before it was put into such a file.
    pub(super) fn restored(self, raw: &[u8]) -> Vec<u8> {
        let quotes_max = match self {
            Self::Mboxcl2 => return raw.to_vec(),
            Self::Mboxo | Self::Mboxcl => 1,
            Self::Mboxrd | Self::Auto => usize::MAX,
        };
        // Few messages have such a line.
        if memchr::memmem::find(raw, b">From ").is_none() {
            return raw.to_vec();
        }
        let mut bytes = Vec::with_capacity(raw.len());
        for line in lines(raw) {
            let quotes = line.iter().take_while(|byte| **byte == b'>').count();
            let is_quoted =
                (1..=quotes_max).contains(&quotes) && line[quotes..].starts_with(b"From ");
            bytes.extend_from_slice(&line[usize::from(is_quoted)..]);
        }
        bytes
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the body begins and how long it is by the Content-Length among the headers. The headers end within `raw`.
pub(super) fn content_length(raw: &[u8]) -> Option<(usize, usize)> {
    const NAME: &[u8] = b"content-length:";
    let (mut at, mut length) = (0, None);
    for line in lines(raw) {
        at += line.len();
        if super::blank(line) {
            return Some((at, length?));
        }
        let named = line
            .get(..NAME.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(NAME));
        if named && length.is_none() {
            let value = str::from_utf8(&line[NAME.len()..]).ok()?.trim();
            let digits = value.bytes().all(|byte| byte.is_ascii_digit());
            length = Some(value.parse().ok().filter(|_| digits)?);
        }
    }
    None
}
