//! Real mailboxes and mails, which are not part of the project: what is found in them, in numbers.
//! Run with `HAPAX_CORPUS=<folder> cargo test -p hapax-intake --test it mail_corpus -- --ignored --nocapture`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hapax_core::entry::{Column, Fields};
use hapax_intake::email;
use hapax_intake::mbox::{Item, Reader, Variant};
use hapax_intake::text::tidy;

/// A newsletter that loses more than this to its signature and footer is counted and named.
const LOST_CHARS_MANY: usize = 300;

/// The mailboxes and how many messages they hold.
const MAILBOXES: [(&str, usize); 3] = [
    ("mbox/sa-easy-ham.mbox.gz", 3_900),
    ("mbox/sa-hard-ham.mbox", 250),
    ("mbox/james-rlug.mbox", 5),
];

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("HAPAX_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        println!(
            "HAPAX_CORPUS is not set: name the folder that holds mbox/ and eml/, and run again"
        );
    }
    folder
}

fn open(path: &Path) -> Box<dyn Read> {
    let file = File::open(path).unwrap();
    if path.extension().is_some_and(|found| found == "gz") {
        Box::new(flate2::read::GzDecoder::new(file))
    } else {
        Box::new(file)
    }
}

#[derive(Default)]
struct Tally {
    entries: usize,
    counts: BTreeMap<String, usize>,
    primary: BTreeSet<String>,
    secondary: BTreeSet<String>,
}

impl Tally {
    fn add(&mut self, read: Result<Fields, email::MessageFault>) {
        let mut count = |what: String| *self.counts.entry(what).or_default() += 1;
        let entry = match read {
            Ok(entry) => entry,
            Err(fault) => return count(format!("fault {}: {fault}", fault.code())),
        };
        self.entries += 1;
        let metadata = entry.get(Column::Metadata);
        let kind = entry.text(Column::ContentType).unwrap();
        count(format!("type {kind}"));
        count(format!("rule {}", metadata["classification"]["rule"]));
        match entry.text(Column::IdempotencyKeyPrimary) {
            Some(key) => drop(self.primary.insert(format!("{kind} {key}"))),
            None => count(format!("no primary key ({kind})")),
        }
        match entry.text(Column::IdempotencyKeySecondary) {
            Some(key) => drop(self.secondary.insert(key.to_owned())),
            None if kind == "newsletter" => count("no secondary key (newsletter)".to_owned()),
            None => {}
        }
        for (column, name) in [
            (Column::CaptureText, "text"),
            (Column::Title, "title"),
            (Column::Author, "author"),
        ] {
            if entry
                .text(column)
                .is_some_and(|text| text.contains('\u{fffd}'))
            {
                count(format!("U+FFFD in the {name}"));
            }
        }
        let (capture, clean) = (
            entry.text(Column::CaptureText).unwrap(),
            entry.text(Column::CleanText).unwrap(),
        );
        assert!(!clean.trim().is_empty());
        count(format!(
            "clean text {}0 % of the whole",
            10 * clean.len() / capture.len().max(1)
        ));
        let lost = tidy(capture).chars().count() - clean.chars().count();
        if kind == "newsletter" && lost > LOST_CHARS_MANY {
            println!("    loses {lost}: {:?}", entry.text(Column::Title));
            count(format!(
                "newsletter without more than {LOST_CHARS_MANY} characters of it"
            ));
        }
        if metadata["nul_removed"] == true {
            count("U+0000 removed".to_owned());
        }
    }

    fn print(&self, name: &str) {
        println!("{name}: {} entries", self.entries);
        println!(
            "  distinct primary keys {}, secondary {}",
            self.primary.len(),
            self.secondary.len()
        );
        for (what, count) in &self.counts {
            println!("  {count:6} {what}");
        }
    }
}

#[test]
#[ignore = "needs HAPAX_CORPUS, a folder of real mail"]
fn mail_corpus_mailboxes_are_read_whole() {
    let Some(folder) = corpus() else { return };
    for (name, expected) in MAILBOXES {
        let start = Instant::now();
        let mut reader = Reader::new(open(&folder.join(name)), Variant::Auto);
        let (mut tally, mut messages, mut end) = (Tally::default(), 0, 0);
        for item in reader.by_ref() {
            match item.unwrap() {
                Item::Message(message) => {
                    assert_eq!(message.offset, end);
                    end = message.end_offset;
                    messages += 1;
                    tally.add(email::message(&message.bytes, "email-batch"));
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        tally.print(name);
        println!(
            "  {} bytes, variant {}, {:?}",
            end,
            reader.variant(),
            start.elapsed()
        );
        assert_eq!(messages, expected, "{name}");
    }
}

#[test]
#[ignore = "needs HAPAX_CORPUS, a folder of real mail"]
fn mail_corpus_single_messages_are_read() {
    let Some(folder) = corpus() else { return };
    let mut files = Vec::new();
    let mut folders = vec![folder.join("eml")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|found| found == "eml") {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    let mut tally = Tally::default();
    for file in &files {
        let read = email::message(&fs::read(file).unwrap(), "email");
        if let Err(fault) = &read {
            println!("  {}: {fault}", file.file_name().unwrap().display());
        }
        tally.add(read);
    }
    tally.print(&format!("{} files", files.len()));
    assert!(files.len() > 100);
}
