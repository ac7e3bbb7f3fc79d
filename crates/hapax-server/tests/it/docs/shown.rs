//! Whether a command printed what its page shows. `…` stands for anything within a line; on a line of its own, for any
//! number of lines. A block of JSON may be broken and spaced as it reads best.

use super::page::Shown;

impl Shown {
    /// Whether this was printed.
    pub(crate) fn fits(&self, printed: &str) -> bool {
        match self {
            Shown::Text(text) => {
                let wanted: Vec<&str> = lines(text);
                let found: Vec<&str> = lines(printed);
                fits_lines(&wanted, &found)
            }
            Shown::Json(text) => fits_line(&dense(text), &dense(printed)),
        }
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

fn fits_lines(wanted: &[&str], found: &[&str]) -> bool {
    match wanted.split_first() {
        None => found.is_empty(),
        Some((&"…", rest)) => {
            (0..=found.len()).any(|skipped| fits_lines(rest, &found[skipped..]))
        }
        Some((line, rest)) => found
            .split_first()
            .is_some_and(|(first, others)| fits_line(line, first) && fits_lines(rest, others)),
    }
}

/// Whether the parts between the wildcards are there, in order, from the first to the last character.
fn fits_line(wanted: &str, found: &str) -> bool {
    let Some((head, tail)) = wanted.split_once('…') else {
        return wanted == found;
    };
    let Some(mut found) = found.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<&str> = tail.split('…').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = found.find(part) else {
            return false;
        };
        found = &found[at + part.len()..];
    }
    found.ends_with(last)
}

/// JSON without the white space outside of its strings.
fn dense(text: &str) -> String {
    let (mut kept, mut in_string, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        if in_string || !c.is_whitespace() {
            kept.push(c);
        }
        in_string ^= c == '"' && !escaped;
        escaped = in_string && c == '\\' && !escaped;
    }
    kept
}

#[test]
fn a_wildcard_stands_for_what_may_differ_and_for_nothing_else() {
    let text = |text: &str| Shown::Text(text.to_owned());
    assert!(text("a\nb\n").fits("a\nb"));
    assert!(text("id …, at …").fits("id 7, at noon"));
    assert!(text("a\n…\nz").fits("a\nb\nc\nz"));
    assert!(text("a\n…").fits("a"));
    assert!(!text("a").fits("a\nb"));
    assert!(!text("a\nb").fits("a"));
    assert!(!text("id …, at noon").fits("id 7, at night"));
    assert!(!text("a\n…\nz").fits("a\nb"));
    assert!(!text("ab…bc").fits("abc"));
}

#[test]
fn json_may_be_spaced_as_it_reads_best() {
    let json = |text: &str| Shown::Json(text.to_owned());
    assert!(json("{\"a\": [1,\n 2],\n \"b\": \"x y\"}").fits("{\"a\":[1,2],\"b\":\"x y\"}\n"));
    assert!(json("{\"id\": \"…\", \"b\": 2, …}").fits("{\"id\":\"7\",\"b\":2,\"c\":3}"));
    assert!(!json("{\"b\": \"x y\"}").fits("{\"b\":\"xy\"}"));
    assert!(!json("{\"b\": \"\\\" y\"}").fits("{\"b\":\"\\\"y\"}"));
    assert!(!json("{\"a\":1,…}").fits("{\"a\":2,\"b\":3}"));
}
