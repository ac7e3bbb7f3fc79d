//! What a start prints: where it listens, and something to paste.

use std::path::Path;

use crate::first_token::Credential;

/// The line that programs wait for, then what a person can try and what it prints.
pub(crate) fn greeting(url: &str, credential: &Credential) -> String {
    let (note, bearer) = match credential {
        Credential::NotNeeded => ("WITHOUT TOKENS: everybody on this machine is the owner\n\n".to_owned(), None),
        Credential::Configured => (String::new(), Some("$HAPAX_TOKEN".to_owned())),
        Credential::Kept(path) => (String::new(), Some(format!("$(cat {})", quoted(path)))),
        Credential::Made { text, path } => (
            format!("owner token, shown only now and kept in {}:\n  {text}\n\n", path.display()),
            Some(format!("$(cat {})", quoted(path))),
        ),
        Credential::Unknown => (
            "no token is known here; make one:\n  hapax token create --tenant default --role owner\n\n".to_owned(),
            Some("$TOKEN".to_owned()),
        ),
    };
    let header = bearer.map_or(String::new(), |bearer| {
        format!(" \\\n       -H \"Authorization: Bearer {bearer}\"")
    });
    format!(
        "listening on {url}\n\n{note}try it, twice:\n  \
         curl -i {url}/v1/echo{header} \\\n       \
         -H 'Idempotency-Key: first-call' -H 'Content-Type: application/json' -d '{{\"hello\":\"world\"}}'\n\
         it prints {{\"echo\":{{\"hello\":\"world\"}},\"id\":\"…\",\"at\":\"…\"}}; the second time with the same id and\n\
         the header idempotency-replayed: true, because it did not run again\n\n\
         the dashboard: {url}/\n"
    )
}

/// The path as one word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_odd_characters_is_still_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/a/b-1.c")), "/a/b-1.c");
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
