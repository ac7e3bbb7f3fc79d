//! Paths into a JSON document, as written in route configs and shown in diffs. A path only
//! matches; it does not fetch values.

use std::fmt;
use std::str::FromStr;

/// A path such as `items`, `customer.tags`, `lines.*.options`, `items[2]` or `["a.b"].c`.
///
/// `*` (or `[*]`) stands for any member or array element, a number also for the array element
/// of that index, and the empty path for the document itself. Names with dots, brackets or
/// quotes go into `["…"]`, as JSON strings.
///
/// ```
/// use hapax_core::canonical::Path;
///
/// let path: Path = r#"customer["a.b"].tags[*]"#.parse()?;
/// assert_eq!(path.to_string(), r#"customer["a.b"].tags.*"#);
/// assert!("customer..tags".parse::<Path>().is_err());
/// # Ok::<(), hapax_core::canonical::InvalidPath>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Path {
    steps: Vec<Step>,
}

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Any,
    Name(String),
}

impl Step {
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Name(own) => own == name,
        }
    }

    pub(crate) fn matches_index(&self, index: usize) -> bool {
        match self {
            Self::Any => true,
            Self::Name(own) => *own == index.to_string(),
        }
    }
}

impl Path {
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// The text is not a path; the offset says where it stops being one.
///
/// ```
/// let refusal = "a[1".parse::<hapax_core::canonical::Path>().unwrap_err();
/// assert_eq!(refusal.to_string(), "not a path from byte 1 on");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPath {
    /// The byte offset in the path.
    pub offset: usize,
}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a path from byte {} on", self.offset)
    }
}

impl std::error::Error for InvalidPath {}

impl FromStr for Path {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        let mut steps = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let invalid = InvalidPath { offset: at };
            let (step, end) = if text[at..].starts_with('[') {
                bracket(&text[at..])
                    .map(|(step, length)| (step, at + length))
                    .ok_or(invalid)?
            } else {
                let start = at + usize::from(at > 0);
                if at > 0 && !text[at..].starts_with('.') {
                    return Err(invalid);
                }
                let rest = &text[start..];
                let length = rest.find(['.', '[']).unwrap_or(rest.len());
                let name = &rest[..length];
                if name.is_empty() || name.contains([']', '"', '\'']) {
                    return Err(invalid);
                }
                (step(name), start + length)
            };
            steps.push(step);
            at = end;
        }
        Ok(Self { steps })
    }
}

fn step(name: &str) -> Step {
    if name == "*" {
        Step::Any
    } else {
        Step::Name(name.to_owned())
    }
}

/// Reads `[*]`, `[12]` or `["name"]` and returns its length.
fn bracket(text: &str) -> Option<(Step, usize)> {
    if text.starts_with("[\"") {
        let end = super::scan::string_end(text.as_bytes(), 2);
        let name = serde_json::from_str(text.get(1..end)?).ok()?;
        return text[end..]
            .starts_with(']')
            .then_some((Step::Name(name), end + 1));
    }
    let close = text.find(']')?;
    let inside = &text[1..close];
    let known = inside == "*" || (!inside.is_empty() && inside.bytes().all(|b| b.is_ascii_digit()));
    known.then(|| (step(inside), close + 1))
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.steps.iter().enumerate() {
            let dot = if place == 0 { "" } else { "." };
            match step {
                Step::Any => write!(f, "{dot}*")?,
                Step::Name(name) if is_plain(name) => write!(f, "{dot}{name}")?,
                Step::Name(name) => write!(f, "[{}]", quoted(name))?,
            }
        }
        Ok(())
    }
}

/// What is left to match of several paths below some value. An empty route ends at the value.
pub(crate) type Routes<'s> = Vec<&'s [Step]>;

/// The routes that go on through a step, without that step.
pub(crate) fn descend<'s>(routes: &Routes<'s>, matches: impl Fn(&Step) -> bool) -> Routes<'s> {
    let parts = routes.iter().filter_map(|route| route.split_first());
    parts
        .filter(|(step, _)| matches(step))
        .map(|(_, rest)| rest)
        .collect()
}

/// Whether a name can stand in a path without quotes.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name != "*"
        && !name.contains(|c: char| {
            matches!(c, '.' | '[' | ']' | '"' | '\'' | ':') || c.is_control() || c.is_whitespace()
        })
}

/// The name as a JSON string.
pub(crate) fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}
