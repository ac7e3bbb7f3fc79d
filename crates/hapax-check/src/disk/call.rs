//! Reads what `strace -f -y -xx` wrote: each call with the lines at which it began and ended. It interprets nothing.

use std::collections::HashMap;

/// What a call asked for. Paths are those of the open file, or as the program named them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A file was opened, with these flags as strace writes them.
    Open {
        /// Which.
        path: String,
        /// Such as `O_RDWR|O_CREAT`.
        flags: String,
    },
    /// Bytes at a place of a file; at its end so far, if the place is `None`.
    Write {
        /// The number and the path of the open file.
        file: (u32, String),
        /// Where.
        at: Option<u64>,
        /// What.
        bytes: Vec<u8>,
    },
    /// A file got this length.
    Truncate {
        /// Which.
        path: String,
        /// How long it is now.
        length: u64,
    },
    /// What was written to a file, or which names are in a folder, is on the disk.
    Sync {
        /// Which.
        path: String,
    },
    /// A name was taken away.
    Unlink {
        /// Which.
        path: String,
    },
    /// A file got another name.
    Rename {
        /// Its old one.
        from: String,
        /// Its new one.
        to: String,
    },
    /// A folder was made.
    Mkdir {
        /// Which.
        path: String,
    },
    /// Another call.
    Other {
        /// Its name.
        name: String,
        /// What it was given.
        rest: String,
    },
}

/// One call of one thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The line at which it was made.
    pub began: usize,
    /// The line at which it came back; `None` if it never did.
    pub ended: Option<usize>,
    /// What it answered; `None` if it never did.
    pub answer: Option<i64>,
    /// What it asked for.
    pub what: What,
}

/// The calls in this text, in the order in which they began.
///
/// # Errors
/// The number and the text of a line that is not understood.
pub fn read_calls(text: &[u8]) -> Result<Vec<Call>, String> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open: HashMap<&str, usize> = HashMap::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = std::str::from_utf8(line).map_err(|why| format!("line {number}: {why}"))?;
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") || rest.is_empty() {
            continue;
        }
        let odd = || {
            let start: String = line.chars().take(200).collect();
            format!("line {number} is not understood: {start}")
        };
        if rest.starts_with("<... ") {
            if let Some(at) = open.remove(thread) {
                calls[at].ended = Some(number);
                calls[at].answer = answer(rest);
            }
            continue;
        }
        let (name, given) = rest.split_once('(').ok_or_else(odd)?;
        let (given, is_open) = match given.strip_suffix(" <unfinished ...>") {
            Some(given) => (given, true),
            None => (given, false),
        };
        if is_open {
            open.insert(thread, calls.len());
        }
        calls.push(Call {
            began: number,
            ended: (!is_open).then_some(number),
            answer: if is_open { None } else { answer(rest) },
            what: what(name, given).ok_or_else(odd)?,
        });
    }
    Ok(calls)
}

/// The number after the last ` = `.
fn answer(rest: &str) -> Option<i64> {
    let (_, answer) = rest.rsplit_once(" = ")?;
    let end = answer
        .find(|sign: char| !sign.is_ascii_digit() && sign != '-')
        .unwrap_or(answer.len());
    answer[..end].parse().ok()
}

fn what(name: &str, given: &str) -> Option<What> {
    let what = match name {
        "openat" => {
            let (path, rest) = quoted(given)?;
            let flags = rest
                .trim_start_matches(", ")
                .split([',', ')', ' '])
                .next()?;
            What::Open {
                path: text(path)?,
                flags: flags.to_owned(),
            }
        }
        "pwrite64" => {
            let (bytes, rest) = quoted(given)?;
            let at = rest.trim_start_matches(", ").split([',', ')', ' ']);
            let at = at.filter(|word| !word.is_empty()).nth(1)?;
            What::Write {
                file: file(given)?,
                at: Some(at.parse().ok()?),
                bytes: unhex(bytes)?,
            }
        }
        "write" | "sendto" => What::Write {
            file: file(given)?,
            at: None,
            bytes: unhex(quoted(given)?.0)?,
        },
        "writev" => {
            let (mut bytes, mut rest) = (Vec::new(), given);
            while let Some((_, after)) = rest.split_once("iov_base=") {
                let (piece, after) = quoted(after)?;
                bytes.extend(unhex(piece)?);
                rest = after;
            }
            What::Write {
                file: file(given)?,
                at: None,
                bytes,
            }
        }
        "ftruncate" => {
            let length = given.rsplit_once(">, ")?.1;
            let length = length.split([')', ' ']).next()?;
            What::Truncate {
                path: file(given)?.1,
                length: length.parse().ok()?,
            }
        }
        "fdatasync" | "fsync" => What::Sync {
            path: file(given)?.1,
        },
        "unlink" | "unlinkat" => What::Unlink {
            path: text(quoted(given)?.0)?,
        },
        "rename" | "renameat" | "renameat2" => {
            let (from, rest) = quoted(given)?;
            What::Rename {
                from: text(from)?,
                to: text(quoted(rest)?.0)?,
            }
        }
        "mkdir" | "mkdirat" => What::Mkdir {
            path: text(quoted(given)?.0)?,
        },
        other => What::Other {
            name: other.to_owned(),
            rest: given.to_owned(),
        },
    };
    Some(what)
}

/// The number and the path of the open file that is named first.
fn file(given: &str) -> Option<(u32, String)> {
    let (number, rest) = given.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    Some((number.parse().ok()?, text(path)?))
}

/// What stands between the next quotes, and what comes after them. In hexadecimal no quote is escaped.
fn quoted(given: &str) -> Option<(&str, &str)> {
    let (_, rest) = given.split_once('"')?;
    rest.split_once('"')
}

fn text(hex: &str) -> Option<String> {
    String::from_utf8(unhex(hex)?).ok()
}

/// The bytes of `\x2f\x74`. A note of strace such as `(deleted)` may follow a path.
fn unhex(hex: &str) -> Option<Vec<u8>> {
    let (digits, note) = match hex.find('(') {
        Some(at) => hex.split_at(at),
        None => (hex, ""),
    };
    let nibble = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(digits.len() / 4);
    for four in digits.as_bytes().chunks(4) {
        let [b'\\', b'x', high, low] = four else {
            return None;
        };
        bytes.push(u8::try_from(nibble(*high)? * 16 + nibble(*low)?).ok()?);
    }
    bytes.extend(note.bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_two_threads_are_put_together_again() {
        let text =
            br#"7  openat(AT_FDCWD<\x2f>, "\x61\x62", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3<\x61\x62>
7  pwrite64(3<\x61\x62>, "\x01\x02", 2, 4096 <unfinished ...>
8  fdatasync(4<\x63>) = 0
7  <... pwrite64 resumed>)           = 2
8  writev(9<\x73>, [{iov_base="\x41", iov_len=1}, {iov_base="\x42", iov_len=1}], 2) = 2
8  ftruncate(3<\x61\x62>, 24) = 0
7  unlink("\x61\x62") = -1 ENOENT (\x4e)
7  renameat2(AT_FDCWD<\x2f>, "\x61", AT_FDCWD<\x2f>, "\x62", RENAME_NOREPLACE) = 0
7  fdatasync(3<\x61\x62> <unfinished ...>
8  +++ killed by SIGKILL +++
"#;
        let calls = read_calls(text).unwrap();
        let ab = (3, "ab".to_owned());
        let expected = [
            (
                Some(0),
                Some(3),
                What::Open {
                    path: "ab".to_owned(),
                    flags: "O_RDWR|O_CREAT|O_CLOEXEC".to_owned(),
                },
            ),
            (
                Some(3),
                Some(2),
                What::Write {
                    file: ab.clone(),
                    at: Some(4096),
                    bytes: vec![1, 2],
                },
            ),
            (
                Some(2),
                Some(0),
                What::Sync {
                    path: "c".to_owned(),
                },
            ),
            (
                Some(4),
                Some(2),
                What::Write {
                    file: (9, "s".to_owned()),
                    at: None,
                    bytes: b"AB".to_vec(),
                },
            ),
            (
                Some(5),
                Some(0),
                What::Truncate {
                    path: ab.1.clone(),
                    length: 24,
                },
            ),
            (Some(6), Some(-1), What::Unlink { path: ab.1.clone() }),
            (
                Some(7),
                Some(0),
                What::Rename {
                    from: "a".to_owned(),
                    to: "b".to_owned(),
                },
            ),
            (None, None, What::Sync { path: ab.1 }),
        ];
        assert_eq!(calls.len(), expected.len());
        for (call, (ended, answer, what)) in calls.into_iter().zip(expected) {
            assert_eq!((call.ended, call.answer, call.what), (ended, answer, what));
        }
        assert!(read_calls(b"7  nonsense").is_err());
    }
}
