//! How the program ends: 0 done, 1 failed or refused to start unsafely, 2 wrong use.
//! It prints nothing; `main` does.

use std::fmt;
use std::process::ExitCode;

/// The program was told something it cannot follow: exit code 2.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    pub(crate) fn error(message: impl Into<String>) -> anyhow::Error {
        Self(message.into()).into()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Starting would break a promise: it does not, and says which.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn error(code: &'static str, message: impl Into<String>) -> anyhow::Error {
        Self {
            code,
            message: message.into(),
        }
        .into()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Refused {}

/// The command has said on its own why it failed: exit code 1, and no further words.
#[derive(Debug)]
pub(crate) struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the command did not succeed")
    }
}

impl std::error::Error for Failed {}

/// Whether the reader of our output has gone, as `| head` does. That is no failure of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error
        .downcast_ref::<std::io::Error>()
        .map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}

/// The error and its causes on one line. A cause that the error has said already is not said again.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether everything worth saying has been said.
pub(crate) fn is_quiet(error: &anyhow::Error) -> bool {
    is_broken_pipe(error) || error.is::<Failed>()
}

/// The exit code that this error stands for.
pub(crate) fn code(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if error.is::<Usage>() {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once_and_the_kind_decides_the_code() {
        let cause = hapax_core::Error::new(hapax_core::Kind::Unsafe, "opening a session")
            .because("no such role");
        let error = anyhow::Error::from(cause).context("opening postgres://h/d");
        assert_eq!(
            describe(&error),
            "opening postgres://h/d: opening a session: no such role"
        );
        assert_eq!(
            format!("{:?}", code(&error)),
            format!("{:?}", ExitCode::FAILURE)
        );
        let usage = Usage::error("no").context("reading");
        assert_eq!(
            format!("{:?}", code(&usage)),
            format!("{:?}", ExitCode::from(2))
        );
    }
}
