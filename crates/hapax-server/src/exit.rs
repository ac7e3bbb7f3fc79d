//! How the program ends: 0 done, 1 failed or refused to start unsafely, 2 wrong use.
//! It prints nothing; `main` does.

mod hint;

use std::fmt;
use std::process::ExitCode;

/// Stands before the sentence that says what to do next.
const HINT: &str = "\nhint: ";

/// The program was told something it cannot follow: exit code 2.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    pub(crate) fn error(message: impl Into<String>) -> anyhow::Error {
        Self(message.into()).into()
    }

    /// The same, with what to do next.
    pub(crate) fn hinted(message: impl fmt::Display, hint: impl fmt::Display) -> anyhow::Error {
        Self::error(format!("{message}{HINT}{hint}"))
    }
}

/// It did not work, for a reason that has a way out: exit code 1.
pub(crate) fn hinted(message: impl fmt::Display, hint: impl fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("{message}{HINT}{hint}")
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

/// The error with its causes, and below it what to do next.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let (message, hint) = told(error);
    format!("{message}{HINT}{hint}")
}

/// The error with its causes, each said once, and what to do next.
pub(crate) fn told(error: &anyhow::Error) -> (String, String) {
    let (mut text, mut said) = (String::new(), None);
    for cause in error.chain().map(ToString::to_string) {
        let cause = match cause.split_once(HINT) {
            Some((cause, hint)) => {
                said.get_or_insert_with(|| hint.to_owned());
                cause
            }
            None => &cause,
        };
        add(&mut text, cause.trim_end());
    }
    if said.is_none()
        && is_usage(error)
        && let Some((message, advice)) = advised(&text)
    {
        return (message.to_owned(), advice.to_owned());
    }
    let hint = said.unwrap_or_else(|| hint::of(error, &text));
    (text, hint)
}

fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<Usage>)
}

/// A message whose last clause says what to do, in two.
pub(crate) fn advised(text: &str) -> Option<(&str, &str)> {
    let (message, advice) = text.rsplit_once("; ")?;
    // Inside quotes it is what somebody typed.
    let is_whole = |part: &str| part.matches('"').count().is_multiple_of(2);
    (is_whole(message) && is_whole(advice)).then_some((message, advice))
}

/// Adds a cause, without what the errors above it have said already.
fn add(text: &mut String, cause: &str) {
    if text.contains(cause) {
        return;
    }
    for part in cause.split(": ") {
        if text.is_empty() {
            text.push_str(part);
        } else if !is_said(text, part) {
            text.push_str(": ");
            text.push_str(part);
        }
    }
}

fn is_said(text: &str, part: &str) -> bool {
    // SQLite's number says what its words say, and the driver of PostgreSQL what we have said of it.
    part.starts_with("Error code ")
        || (part == "error connecting to server" && text.contains("connecting to"))
        || text.rsplit(": ").next() == Some(part)
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
            told(&error).0,
            "opening postgres://h/d: opening a session: no such role"
        );
        assert_eq!(
            format!("{:?}", code(&error)),
            format!("{:?}", ExitCode::FAILURE)
        );
        let refused = anyhow::anyhow!("error connecting: refused: refused").context("connecting");
        assert_eq!(told(&refused).0, "connecting: error connecting: refused");
        let down = anyhow::anyhow!("error connecting to server: Connection refused")
            .context("connecting to PostgreSQL");
        assert_eq!(
            told(&down).0,
            "connecting to PostgreSQL: Connection refused"
        );
        let usage = Usage::error("no").context("reading");
        assert_eq!(
            format!("{:?}", code(&usage)),
            format!("{:?}", ExitCode::from(2))
        );
    }

    #[test]
    fn the_last_clause_of_wrong_use_is_its_hint() {
        let of = |text: &str| describe(&Usage::error(text));
        assert_eq!(of("no upstream; name one"), "no upstream\nhint: name one");
        for whole in ["\"a; b\" is no level", "no"] {
            assert!(of(whole).starts_with(&format!("{whole}\nhint: ")));
        }
        let failed = anyhow::anyhow!("it broke; nobody knows why");
        assert!(describe(&failed).starts_with("it broke; nobody knows why\nhint: "));
    }

    #[test]
    fn a_hint_stands_at_the_end_on_a_line_of_its_own() {
        let error = Usage::hinted("no upstream", "name one").context("reading the flags");
        assert_eq!(
            describe(&error),
            "reading the flags: no upstream\nhint: name one"
        );
    }
}
