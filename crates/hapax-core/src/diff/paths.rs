//! Where two bodies differ, without any value: for places that may keep the shape of a difference and not its content.

use super::{Change, Options, diff};

/// How many bytes of a path are kept.
const PATH_BYTES_MAX: usize = 200;

/// What happened to the value at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only the second body has it.
    Added,
    /// Only the first body has it.
    Removed,
    /// Both have it, and it differs.
    Changed,
}

impl Kind {
    /// The word used in storage and in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Added => "added",
            Kind::Removed => "removed",
            Kind::Changed => "changed",
        }
    }
}

/// The paths at which two bodies differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths {
    /// Path and kind, as many as `changes_max` allows; a path has at most 200 bytes.
    pub listed: Vec<(String, Kind)>,
    /// So many further ones are not listed.
    pub more: usize,
}

/// The paths at which `new` differs from `old`, in the order of [`diff`]. No value of either body is in it; names of
/// members are.
///
/// ```
/// use hapax_core::diff::{Kind, Options, paths};
///
/// let found = paths(br#"{"a":1,"pin":7}"#, br#"{"a":2,"b":3}"#, &Options::default());
/// let expected = [("a", Kind::Changed), ("pin", Kind::Removed), ("b", Kind::Added)];
/// assert_eq!(found.listed, expected.map(|(path, kind)| (path.to_owned(), kind)));
/// let none = Options { changes_max: 0, ..Options::default() };
/// assert_eq!(paths(br#"{"a":1}"#, br#"{"a":2}"#, &none).more, 1, "counted, and not listed");
/// ```
#[must_use]
pub fn paths(old: &[u8], new: &[u8], options: &Options) -> Paths {
    let most = options.changes_max;
    let options = Options {
        values: true,
        // One more than is listed: where the list of changes is full, its last line only counts.
        changes_max: most.saturating_add(1),
        value_chars_max: PATH_BYTES_MAX,
        ..options.clone()
    };
    let mut found = Paths::default();
    for change in diff(old, new, &options) {
        match change {
            Change::More(count) => found.more += count,
            Change::Value { .. } | Change::Path(_) if found.listed.len() == most => found.more += 1,
            Change::Value { path, old, new } => {
                let kind = match (old, new) {
                    (None, _) => Kind::Added,
                    (_, None) => Kind::Removed,
                    (Some(_), Some(_)) => Kind::Changed,
                };
                found.listed.push((cut(path), kind));
            }
            Change::Path(path) => found.listed.push((cut(path), Kind::Changed)),
        }
    }
    found
}

fn cut(mut path: String) -> String {
    if path.len() > PATH_BYTES_MAX {
        let mut end = PATH_BYTES_MAX - '…'.len_utf8();
        while !path.is_char_boundary(end) {
            end -= 1;
        }
        path.truncate(end);
        path.push('…');
    }
    path
}
