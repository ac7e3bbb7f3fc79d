//! The forms in which mail programs send a text: plain or in HTML, alone or beside other things, encoded in some way.

use std::fmt::Write as _;

use hapax_bench::chance::Chance;

use crate::words::Words;

/// How long a line of an encoded text may be.
const LINE_BYTES: usize = 76;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What somebody wrote: lines, quoted or not.
#[derive(Clone, Default)]
pub(crate) struct Writing {
    lines: Vec<String>,
}

impl Writing {
    pub(crate) fn paragraph(&mut self, text: &str) {
        let mut line = String::new();
        for word in text.split(' ') {
            if line.len() + word.len() > 70 {
                self.lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.lines.push(line);
        self.end_paragraph();
    }

    pub(crate) fn attribute(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    pub(crate) fn quote(&mut self, line: &str) {
        self.lines.push(format!("> {line}"));
    }

    pub(crate) fn end_paragraph(&mut self) {
        self.lines.push(String::new());
    }

    pub(crate) fn sign(&mut self, signature: &str) {
        self.lines.push("-- ".to_owned());
        self.lines.extend(signature.lines().map(str::to_owned));
    }

    pub(crate) fn plain(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    fn html(&self) -> String {
        let mut html = String::from(
            "<html><head><style>p { margin: 0 0 1em } .x { color: #333 }</style></head><body>\n<table width=\"600\"><tr><td>\n",
        );
        for paragraph in self.lines.split(String::is_empty) {
            let _ = write!(html, "<p class=\"x\" style=\"font-family: sans-serif\">");
            for line in paragraph {
                let line = line
                    .replace('&', "&amp;")
                    .replace('<', "&lt;")
                    .replace('>', "&gt;");
                html.push_str(&line);
                html.push_str("<br>\n");
            }
            html.push_str("</p>\n");
        }
        html.push_str("<a href=\"https://news.example.org/unsubscribe?u=7\">unsubscribe</a></td></tr></table></body></html>\n");
        html
    }
}

/// How a text becomes lines of a mail.
#[derive(Clone, Copy)]
enum Coding {
    Bare,
    Quoted,
    Base64,
}

/// In which characters.
#[derive(Clone, Copy)]
enum Charset {
    Utf8,
    Latin1,
}

/// A body with the headers that speak of it.
pub(crate) struct Body {
    charset: Charset,
    content: Vec<u8>,
}

impl Body {
    /// The text in one of the forms. A newsletter is HTML more often than an answer is.
    pub(crate) fn of(
        chance: &mut Chance,
        words: &mut Words,
        text: &Writing,
        is_answer: bool,
    ) -> Self {
        let charset = if chance.percent(70) {
            Charset::Utf8
        } else {
            Charset::Latin1
        };
        let coding = match chance.below(10) {
            0..4 => Coding::Bare,
            4..8 => Coding::Quoted,
            _ => Coding::Base64,
        };
        let boundary = format!("=_part_{:016x}", chance.next());
        let plain = part("text/plain", &text.plain(), charset, coding);
        let form = if is_answer {
            chance.below(60)
        } else {
            20 + chance.below(80)
        };
        let mut content = b"MIME-Version: 1.0\n".to_vec();
        match form {
            0..50 => content.extend(plain),
            50..75 => {
                let rich = part("text/html", &text.html(), charset, Coding::Quoted);
                content.extend(multipart("alternative", &boundary, &[plain, rich]));
            }
            75..85 => content.extend(part("text/html", &text.html(), charset, coding)),
            _ => {
                let name = words.word(chance).to_owned();
                let mut bytes = vec![0; 8_000 + chance.below(60_000)];
                chance.fill(&mut bytes);
                let mut file = format!(
                    "Content-Type: application/pdf; name=\"{name}.pdf\"\nContent-Disposition: attachment; filename=\"{name}.pdf\"\nContent-Transfer-Encoding: base64\n\n"
                )
                .into_bytes();
                base64(&mut file, &bytes);
                content.extend(multipart("mixed", &boundary, &[plain, file]));
            }
        }
        Self { charset, content }
    }

    /// A header's text, as an encoded word if it has to be one.
    pub(crate) fn header(&self, text: &str) -> String {
        if text.is_ascii() {
            return text.to_owned();
        }
        let (name, bytes) = match self.charset {
            Charset::Utf8 => ("utf-8", text.as_bytes().to_vec()),
            Charset::Latin1 => ("iso-8859-1", latin1(text)),
        };
        let mut words = String::new();
        for (at, piece) in bytes.chunks(36).enumerate() {
            let mut encoded = Vec::new();
            base64(&mut encoded, piece);
            let encoded = String::from_utf8_lossy(encoded.trim_ascii_end()).into_owned();
            let _ = write!(
                words,
                "{}=?{name}?B?{encoded}?=",
                if at > 0 { "\n " } else { "" }
            );
        }
        words
    }

    /// Writes it behind the headers, with `From ` at the start of a line quoted as mailboxes do.
    pub(crate) fn write(&self, message: &mut Vec<u8>) {
        for line in self.content.split_inclusive(|byte| *byte == b'\n') {
            let bare = line
                .iter()
                .position(|byte| *byte != b'>')
                .unwrap_or(line.len());
            if line[bare..].starts_with(b"From ") {
                message.push(b'>');
            }
            message.extend_from_slice(line);
        }
    }
}

fn part(kind: &str, text: &str, charset: Charset, coding: Coding) -> Vec<u8> {
    let (name, bytes) = match charset {
        Charset::Utf8 => ("utf-8", text.as_bytes().to_vec()),
        Charset::Latin1 => ("iso-8859-1", latin1(text)),
    };
    let coded = match coding {
        Coding::Bare => "8bit",
        Coding::Quoted => "quoted-printable",
        Coding::Base64 => "base64",
    };
    let mut part =
        format!("Content-Type: {kind}; charset=\"{name}\"\nContent-Transfer-Encoding: {coded}\n\n")
            .into_bytes();
    match coding {
        Coding::Bare => part.extend(bytes),
        Coding::Quoted => quoted_printable(&mut part, &bytes),
        Coding::Base64 => base64(&mut part, &bytes),
    }
    part
}

fn multipart(kind: &str, boundary: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = format!("Content-Type: multipart/{kind}; boundary=\"{boundary}\"\n\nThis is a message in several parts.\n").into_bytes();
    for part in parts {
        whole.extend(format!("\n--{boundary}\n").into_bytes());
        whole.extend(part);
    }
    whole.extend(format!("\n--{boundary}--\n").into_bytes());
    whole
}

/// The characters that Latin-1 has; a question mark for each other.
fn latin1(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?'))
        .collect()
}

fn quoted_printable(out: &mut Vec<u8>, bytes: &[u8]) {
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let mut length = 0;
        for (at, byte) in text.iter().enumerate() {
            let is_last = at + 1 == text.len();
            let is_bare =
                (b'!'..=b'~').contains(byte) && *byte != b'=' || *byte == b' ' && !is_last;
            let needed = if is_bare { 1 } else { 3 };
            if length + needed >= LINE_BYTES {
                out.extend_from_slice(b"=\n");
                length = 0;
            }
            if is_bare {
                out.push(*byte);
            } else {
                out.extend_from_slice(format!("={byte:02X}").as_bytes());
            }
            length += needed;
        }
        out.push(b'\n');
    }
}

fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES / 4 * 3) {
        for group in line.chunks(3) {
            let [first, second, third] =
                [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or(0)));
            let bits = first << 16 | second << 8 | third;
            for at in 0..4 {
                let index = (bits >> (18 - 6 * at) & 63) as usize;
                out.push(if at <= group.len() {
                    BASE64[index]
                } else {
                    b'='
                });
            }
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded_as_mail_programs_do() {
        let mut out = Vec::new();
        base64(&mut out, b"light w");
        quoted_printable(&mut out, "caf\u{e9} = tea \n".as_bytes());
        assert_eq!(
            String::from_utf8_lossy(&out),
            "bGlnaHQgdw==\ncaf=C3=A9 =3D tea=20\n"
        );
    }

    #[test]
    fn a_line_that_begins_like_a_message_is_quoted() {
        let content = b"\nFrom here\n>From there\nfrom us\n".to_vec();
        let body = Body {
            charset: Charset::Utf8,
            content,
        };
        let mut out = Vec::new();
        body.write(&mut out);
        assert_eq!(out, b"\n>From here\n>>From there\nfrom us\n");
    }
}
