//! File names for ids that strangers choose: two different ids never share a name, and no name leads elsewhere.

use std::fmt::Write;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The longest encoded name that is kept whole.
const WHOLE_BYTES_MAX: usize = 160;
/// How much of a longer one is kept to be recognised by.
const HEAD_BYTES: usize = 80;

/// The file name of `id`. `[A-Za-z0-9._-]` stay as they are, but for a dot at the start; every other byte becomes
/// `%XX`. A name that gets too long is cut and ends in `%h` and the sha256 of the id. No escape is `%h` or `%t`.
pub(super) fn file_name(id: &str) -> String {
    let mut name = String::with_capacity(id.len());
    for (at, byte) in id.bytes().enumerate() {
        let kept = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if kept || byte == b'.' && at > 0 {
            name.push(char::from(byte));
        } else {
            let _infallible = write!(name, "%{byte:02X}");
        }
    }
    if name.is_empty() {
        return "%h".to_owned();
    }
    if name.len() <= WHOLE_BYTES_MAX {
        return name;
    }
    let cut = (HEAD_BYTES - 2..=HEAD_BYTES)
        .rev()
        .find(|end| !name[..*end].ends_with('%') && !name[..end - 1].ends_with('%'))
        .unwrap_or(HEAD_BYTES - 2);
    let digest = Sha256::digest(id.as_bytes());
    format!("{}%h{}", &name[..cut], HEXLOWER.encode(&digest))
}

/// The name of a file that is on its way to becoming `name` in the same folder. No id has it.
pub(super) fn temporary(name: &str, epoch: i64) -> String {
    let digest = Sha256::digest(name.as_bytes());
    format!("%t{}.{epoch}", &HEXLOWER.encode(&digest)[..32])
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn plain_ids_are_their_own_names() {
        for id in ["w-123", "arxiv_2024.00001v1", "A.b-C_9", "a.", "a.."] {
            assert_eq!(file_name(id), id);
        }
    }

    #[test]
    fn names_lead_nowhere_else() {
        for (id, name) in [
            (".", "%2E"),
            ("..", "%2E."),
            (".staging", "%2Estaging"),
            ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
            ("a/b", "a%2Fb"),
            ("a%2Fb", "a%252Fb"),
            ("C:\\x", "C%3A%5Cx"),
            ("é", "%C3%A9"),
            (" ", "%20"),
            ("", "%h"),
        ] {
            assert_eq!(file_name(id), name);
        }
    }

    #[test]
    fn different_ids_have_different_names_of_bounded_length() {
        let mut ids: Vec<String> = Vec::new();
        let alphabet = ["a", ".", "/", "%", "2", "F", "h", "t", "é", "~", " "];
        for first in alphabet {
            for second in alphabet {
                for third in alphabet {
                    ids.push(format!("{first}{second}{third}"));
                }
                for length in [52, 53, 54, 79, 80, 81, 159, 160, 161, 400, 512] {
                    ids.push(format!("{}{second}", first.repeat(length)));
                }
            }
        }
        ids.sort();
        ids.dedup();
        let mut names = HashMap::new();
        for id in ids {
            let name = file_name(&id);
            assert!(
                name.len() <= WHOLE_BYTES_MAX && !name.contains('/'),
                "{name}"
            );
            assert!(
                name != "." && name != ".." && !name.starts_with("%t"),
                "{name}"
            );
            if let Some(other) = names.insert(name.clone(), id.clone()) {
                panic!("{id:?} and {other:?} share {name}");
            }
        }
    }

    #[test]
    fn a_cut_never_halves_an_escape() {
        let name = file_name(&"é".repeat(200));
        let (head, hash) = name.split_once("%h").expect("it was cut");
        assert_eq!(head.len() % 3, 0, "{head}");
        assert_eq!(hash.len(), 64);
    }
}
