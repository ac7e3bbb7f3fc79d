//! Mailboxes that look like those of people: lists with threads, newsletters in two forms, letters with attachments, in
//! several charsets and encodings, and lines that begin with `From `.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use hapax_bench::chance::Chance;

use crate::body::{Body, Writing};
use crate::words::Words;

/// How many threads can be answered at a time.
const THREADS: usize = 200;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A message that was sent, as far as answers to it need it.
#[derive(Clone)]
struct Sent {
    subject: String,
    ids: Vec<String>,
    text: String,
}

/// Writes a mailbox of about `bytes` and says how many messages it has.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(path: &Path, bytes: u64) -> Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut maker = Maker {
        chance: Chance::new(2026),
        words: Words::new(),
        threads: Vec::new(),
        count: 0,
    };
    let mut written = 0;
    while written < bytes {
        let message = maker.message();
        out.write_all(&message)?;
        written += message.len() as u64;
    }
    out.into_inner()?.sync_all()?;
    Ok(maker.count)
}

struct Maker {
    chance: Chance,
    words: Words,
    threads: Vec<Sent>,
    count: u64,
}

impl Maker {
    /// The next message with its `From ` line and the blank line behind it.
    fn message(&mut self) -> Vec<u8> {
        self.count += 1;
        let sender = format!(
            "{}.{}",
            self.words.word(&mut self.chance),
            self.chance.below(400)
        );
        let address = format!("{sender}@example.org");
        let date = self.date();
        let id = format!("<{}.{:x}@mail.example.org>", self.count, self.chance.next());
        let answered = (!self.threads.is_empty() && self.chance.percent(55))
            .then(|| self.chance.pick(&self.threads).clone());
        let subject = match &answered {
            Some(sent) => format!("Re: {}", sent.subject),
            None => self.words.line(&mut self.chance, 3, 9),
        };
        let text = self.text(answered.as_ref(), &date);
        let body = Body::of(&mut self.chance, &mut self.words, &text, answered.is_some());

        let mut message = format!("From {address} {}\n", envelope(&date)).into_bytes();
        self.transport(&mut message, &date);
        header(&mut message, "From", &format!("\"{sender}\" <{address}>"));
        header(&mut message, "To", "Readers <readers@lists.example.org>");
        header(&mut message, "Subject", &body.header(&subject));
        header(&mut message, "Date", &date.rfc());
        header(&mut message, "Message-ID", &id);
        if let Some(sent) = &answered {
            header(
                &mut message,
                "In-Reply-To",
                sent.ids.last().map_or("", String::as_str),
            );
            header(&mut message, "References", &sent.ids.join("\n "));
        }
        if self.chance.percent(60) {
            header(
                &mut message,
                "List-Id",
                "Readers <readers.lists.example.org>",
            );
        }
        body.write(&mut message);
        message.push(b'\n');
        self.remember(answered, subject, id, &text);
        message
    }

    /// What the writer says: an answer quotes what it answers, some lines of it begin with `From `.
    fn text(&mut self, answered: Option<&Sent>, date: &Date) -> Writing {
        let mut writing = Writing::default();
        if let Some(sent) = answered {
            writing.attribute(&format!("On {}, somebody wrote:", date.rfc()));
            for line in sent.text.lines().take(12) {
                writing.quote(line);
            }
            writing.end_paragraph();
        }
        for _ in 0..=self.chance.below(6) {
            let words = 20 + self.chance.below(110);
            writing.paragraph(&self.words.line(&mut self.chance, words, words + 1));
            if self.chance.percent(3) {
                writing.paragraph("From here on it is only a matter of time.");
            }
        }
        if self.chance.percent(40) {
            let page = self.words.word(&mut self.chance);
            writing.paragraph(&format!("https://www.example.org/{page}/{}", self.count));
        }
        if self.chance.percent(50) {
            writing.sign("Yours,\nA. Writer\ntel +49 30 1234567");
        }
        writing
    }

    /// What mail servers write above a message.
    fn transport(&mut self, message: &mut Vec<u8>, date: &Date) {
        header(message, "Return-Path", "<bounce@lists.example.org>");
        for hop in 0..2 + self.chance.below(3) {
            let said = format!(
                "from mx{hop}.example.org (mx{hop}.example.org [192.0.2.{}])\n\tby mail.example.net (Postfix) with ESMTPS id {:X}\n\tfor <readers@example.net>; {}",
                self.chance.below(250),
                self.chance.next(),
                date.rfc()
            );
            header(message, "Received", &said);
        }
        if self.chance.percent(70) {
            let mut signature =
                "v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=mail;".to_owned();
            for _ in 0..5 {
                signature.push_str("\n\tb=");
                for _ in 0..3 {
                    signature.push_str(&base16(self.chance.next()));
                }
            }
            header(message, "DKIM-Signature", &signature);
        }
    }

    fn remember(&mut self, answered: Option<Sent>, subject: String, id: String, text: &Writing) {
        let mut sent = answered.unwrap_or(Sent {
            subject,
            ids: Vec::new(),
            text: String::new(),
        });
        sent.ids.push(id);
        if sent.ids.len() > 8 {
            sent.ids.remove(0);
        }
        sent.text = text.plain();
        if self.threads.len() < THREADS {
            self.threads.push(sent);
        } else {
            let at = self.chance.below(THREADS);
            self.threads[at] = sent;
        }
    }

    fn date(&mut self) -> Date {
        // A mail every seven minutes from the year 2019 on, whatever the weekday really was.
        let minutes = usize::try_from(self.count)
            .unwrap_or(usize::MAX)
            .saturating_mul(7);
        let days = minutes / 1440;
        Date {
            weekday: DAYS[days % 7],
            day: days % 28 + 1,
            month: MONTHS[days / 28 % 12],
            year: 2019 + days / 336 % 7,
            clock: format!(
                "{:02}:{:02}:{:02}",
                minutes / 60 % 24,
                minutes % 60,
                self.chance.below(60)
            ),
        }
    }
}

struct Date {
    weekday: &'static str,
    day: usize,
    month: &'static str,
    year: usize,
    clock: String,
}

impl Date {
    fn rfc(&self) -> String {
        let Self {
            weekday,
            day,
            month,
            year,
            clock,
        } = self;
        format!("{weekday}, {day:02} {month} {year} {clock} +0100")
    }
}

/// The date as a mailbox file has it.
fn envelope(date: &Date) -> String {
    let Date {
        weekday,
        day,
        month,
        year,
        clock,
    } = date;
    format!("{weekday} {month} {day:>2} {clock} {year}")
}

fn header(message: &mut Vec<u8>, name: &str, said: &str) {
    message.extend_from_slice(name.as_bytes());
    message.extend_from_slice(b": ");
    message.extend_from_slice(said.as_bytes());
    message.push(b'\n');
}

fn base16(number: u64) -> String {
    format!("{number:016x}")
}
