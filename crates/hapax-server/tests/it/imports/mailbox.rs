//! Mailboxes of our own making.

use std::fmt::Write as _;
use std::io::Write as _;

/// How lines `From ` of a text are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Mboxrd,
    Mboxo,
    Mboxcl,
}

/// A message without its `From ` line.
#[derive(Clone, Debug)]
pub(super) struct Mail {
    headers: String,
    body: String,
}

impl Mail {
    /// A newsletter with an id of its own.
    pub(super) fn news(number: usize) -> Self {
        let headers = format!(
            "From: News <news@example.org>\nSubject: Issue {number}\nMessage-ID: <news-{number}@example.org>\n\
             Date: Thu, 22 Aug 2002 12:{:02}:23 +0000\n",
            number % 60
        );
        let body =
            format!("What is new in issue {number}:\nwords and more words of issue {number}.\n");
        Self { headers, body }
    }

    /// The `number`th mail of the conversation about `topic`.
    pub(super) fn reply(topic: &str, number: usize) -> Self {
        let headers = format!(
            "From: Ada <ada@example.org>\nSubject: Re: {topic}\nMessage-ID: <{topic}-{number}@example.org>\n\
             In-Reply-To: <{topic}@example.org>\nDate: Thu, 22 Aug 2002 12:36:23 +0000\n"
        );
        let body = format!("Answer {number} about {topic}.\n");
        Self { headers, body }
    }

    /// A mail without a text.
    pub(super) fn empty() -> Self {
        let headers =
            "From: nobody@example.org\nSubject: nothing\nMessage-ID: <none@example.org>\n"
                .to_owned();
        let body = String::new();
        Self { headers, body }
    }

    /// A reply whose subject is nothing but a tag: it has no key.
    pub(super) fn keyless() -> Self {
        let headers =
            "From: Ada <ada@example.org>\nSubject: Re: [list]\nMessage-ID: <keyless@example.org>\n\
                       In-Reply-To: <x@example.org>\nDate: Thu, 22 Aug 2002 12:36:23 +0000\n"
                .to_owned();
        let body = "Who knows what about.\n".to_owned();
        Self { headers, body }
    }

    /// The same with this text.
    pub(super) fn saying(self, body: &str) -> Self {
        let body = body.to_owned();
        Self { body, ..self }
    }

    fn write(&self, form: Form, into: &mut String) {
        into.push_str("From news@example.org Thu Aug 22 12:36:23 2002\n");
        into.push_str(&self.headers);
        let body = match form {
            Form::Mboxrd => quoted(&self.body, |line| {
                line.trim_start_matches('>').starts_with("From ")
            }),
            Form::Mboxo | Form::Mboxcl => quoted(&self.body, |line| line.starts_with("From ")),
        };
        if form == Form::Mboxcl {
            writeln!(into, "Content-Length: {}", body.len()).unwrap();
        }
        writeln!(into, "\n{body}").unwrap();
    }
}

fn quoted(body: &str, is_quoted: impl Fn(&str) -> bool) -> String {
    let quote = |line| if is_quoted(line) { ">" } else { "" };
    body.split_inclusive('\n')
        .flat_map(|line| [quote(line), line])
        .collect()
}

/// A mailbox of these mails.
pub(super) fn mailbox(form: Form, mails: &[Mail]) -> String {
    let mut all = String::new();
    for mail in mails {
        mail.write(form, &mut all);
    }
    all
}

/// A mailbox with something of everything: newsletters, some of them twice, conversations, and mails without a text or a
/// key.
pub(super) fn varied(count: usize) -> Vec<Mail> {
    (0..count)
        .map(|number| match number % 20 {
            3 => Mail::empty(),
            7 => Mail::keyless(),
            11 => Mail::news(number - 11),
            12..=15 => Mail::reply(&format!("topic-{}", number % 200), number),
            _ => Mail::news(number),
        })
        .collect()
}

/// The same, compressed by the system's gzip.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut child = std::process::Command::new("gzip")
        .arg("-c")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    assert!(output.status.success());
    output.stdout
}
