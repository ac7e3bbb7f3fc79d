//! Random mail: mailboxes are split as they were joined, and no bytes panic or get lost.

use hapax_core::entry::Column;
use hapax_intake::mbox::{Item, Reader, Variant};
use hapax_intake::{date, email, subject};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::mailbox::messages;

const FROM: &str = "From a@example.org Thu Aug 22 12:36:23 2002";

/// Lines of a message, those that look like separators or are escaped among them.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(FROM.to_owned()),
        Just(format!(">{FROM}")),
        Just("From the start".to_owned()),
        Just(">>From the start".to_owned()),
        Just("> quoted".to_owned()),
        "[a-z :>-]{0,12}",
    ]
}

fn mail() -> impl Strategy<Value = Vec<String>> {
    vec(line(), 0..8)
}

/// A message as a file of the variant holds it. Its lines are the body's; a header goes before.
fn joined(mails: &[Vec<String>], variant: Variant, end: &str) -> (String, Vec<String>) {
    let (mut file, mut originals) = (String::new(), Vec::new());
    for lines in mails {
        let body: String = lines.iter().flat_map(|line| [line, end]).collect();
        let escape = |line: &String| {
            let bare = line.trim_start_matches('>');
            let escapes = match variant {
                Variant::Mboxrd | Variant::Auto => bare.starts_with("From "),
                Variant::Mboxo | Variant::Mboxcl => line.starts_with("From "),
                Variant::Mboxcl2 => false,
            };
            format!("{}{line}{end}", if escapes { ">" } else { "" })
        };
        let escaped: String = lines.iter().map(escape).collect();
        let header = match variant {
            Variant::Mboxcl | Variant::Mboxcl2 => {
                format!("Content-Length: {}{end}{end}", escaped.len())
            }
            Variant::Mboxrd | Variant::Mboxo | Variant::Auto => format!("Subject: x{end}{end}"),
        };
        file.extend([FROM, end, &header, &escaped, end]);
        originals.push(format!("{header}{body}"));
    }
    (file, originals)
}

fn end_of(item: &Item) -> (u64, u64) {
    match item {
        Item::Message(message) => (message.offset, message.end_offset),
        Item::Oversized {
            offset, end_offset, ..
        }
        | Item::Stray { offset, end_offset } => (*offset, *end_offset),
    }
}

proptest! {
    #[test]
    fn a_mailbox_is_split_as_it_was_joined(mails in vec(mail(), 0..6), crlf in any::<bool>()) {
        let end = if crlf { "\r\n" } else { "\n" };
        for variant in [Variant::Mboxrd, Variant::Mboxcl2] {
            let (file, originals) = joined(&mails, variant, end);
            let found = messages(file.as_bytes(), variant);
            let found: Vec<String> = found.into_iter().map(|one| String::from_utf8(one.bytes).unwrap()).collect();
            prop_assert_eq!(found, originals, "{}", variant);
        }
        // These two lose what was a `>From ` of its own: it cannot be told from one that was escaped.
        for variant in [Variant::Mboxo, Variant::Mboxcl] {
            let (file, originals) = joined(&mails, variant, end);
            let found = messages(file.as_bytes(), variant);
            let found: Vec<String> = found.into_iter().map(|one| String::from_utf8(one.bytes).unwrap()).collect();
            let lossy = |text: &String| text.replace(&format!("{end}>From "), &format!("{end}From "));
            prop_assert_eq!(found, originals.iter().map(lossy).collect::<Vec<_>>(), "{}", variant);
        }
    }

    #[test]
    fn every_byte_belongs_to_an_item_and_reading_on_gives_the_same(
        pieces in vec(prop_oneof![
            mail().prop_map(|lines| lines.join("\n")),
            Just(format!("\n\n{FROM}\n")),
            Just("Content-Length: 12\n\n".to_owned()),
            "\\PC{0,20}",
        ], 0..12),
        bytes_max in 1_usize..400,
    ) {
        let file = pieces.concat();
        let read = |from: &[u8], variant, index, offset| -> Vec<Item> {
            Reader::resume(from, variant, index, offset).with_bytes_max(bytes_max).map(Result::unwrap).collect()
        };
        for variant in [Variant::Auto, Variant::Mboxrd, Variant::Mboxo, Variant::Mboxcl, Variant::Mboxcl2] {
            let whole = read(file.as_bytes(), variant, 0, 0);
            let (mut end, mut index) = (0, 0);
            for (nth, item) in whole.iter().enumerate() {
                let (offset, next) = end_of(item);
                prop_assert_eq!(offset, end);
                prop_assert!(next > offset);
                end = next;
                index += u64::from(!matches!(item, Item::Stray { .. }));
                let rest = &file.as_bytes()[usize::try_from(end).unwrap()..];
                prop_assert_eq!(&read(rest, variant, index, end)[..], &whole[nth + 1..]);
            }
            prop_assert_eq!(end, file.len() as u64);
        }
    }

    #[test]
    fn no_bytes_of_a_mailbox_panic(bytes in vec(any::<u8>(), 0..300)) {
        let end = Reader::new(&bytes[..], Variant::Auto).map(|item| end_of(&item.unwrap()).1).last();
        prop_assert_eq!(end.unwrap_or(0), bytes.len() as u64);
    }

    #[test]
    fn no_bytes_of_a_message_panic(
        head in "(Content-Type: (text/html|text/plain|multipart/mixed|message/rfc822)(; (charset=(utf-7|utf-16|gbk|koi8-r|x)|boundary=b))?\n)?(Content-Transfer-Encoding: (base64|quoted-printable)\n)?(Subject|From|To|References): ",
        bytes in vec(any::<u8>(), 0..300),
        body in vec(prop_oneof![any::<u8>().prop_map(|byte| vec![byte]), Just(b"\n--b\n".to_vec()), Just(b"\n\n".to_vec()), Just(b"<a \"".to_vec()), Just(b"=?".to_vec())], 0..60),
    ) {
        let raw = [head.as_bytes(), &bytes, b"\n\n", &body.concat()].concat();
        if let Ok(entry) = email::message(&raw, "x") {
            prop_assert!(!entry.text(Column::CleanText).unwrap().is_empty());
        }
    }

    #[test]
    fn no_text_of_a_mail_panics_and_its_clean_text_is_never_empty(
        lines in vec(prop_oneof![
            line(), "\\PC{0,20}", Just("On 1 Jan 2026 Bob wrote:".to_owned()), Just("-----Original Message-----".to_owned()),
            Just("From: a".to_owned()), Just("Sent: b".to_owned()), Just("To: c".to_owned()), Just("Subject: d".to_owned()),
            Just("---------- Forwarded message ----------".to_owned()), Just("-- ".to_owned()), Just("> > x".to_owned()),
            Just("____________".to_owned()), Just("<div>".to_owned()), Just("</p>&amp;".to_owned()),
        ], 1..20),
        from in "\\PC{1,40}", subject in "\\PC{0,40}", date in "\\PC{0,30}",
    ) {
        let input = json!({ "raw_text": lines.join("\n"), "from": from, "subject": subject, "source": { "date": date } });
        if let Ok(entry) = email::normalize(input.clone()) {
            prop_assert!(!entry.text(Column::CleanText).unwrap().is_empty());
            prop_assert_eq!(email::normalize(input).unwrap(), entry);
        }
    }

    #[test]
    fn a_base_is_its_own_base(text in "(re:|Fwd:|FW: |\\[a\\]|\\[|\\]| |Re|İ|K|\\PC){0,12}") {
        let base = subject::base(&text);
        prop_assert_eq!(subject::base(&base), base.clone());
        prop_assert_eq!(subject::base(&format!("Re: [list] {text}")), base.clone());
        prop_assert!(!base.contains("  ") && base == base.trim());
    }

    #[test]
    fn a_moment_has_the_same_day_in_both_spellings(seconds in 0_i64..4_000_000_000, offset in -12_i32..13) {
        let offset = jiff::tz::Offset::from_seconds(offset * 3_600).unwrap();
        let moment = jiff::Timestamp::from_second(seconds).unwrap();
        let zoned = moment.to_zoned(jiff::tz::TimeZone::fixed(offset));
        let day = date::day_bucket(&moment.to_string());
        prop_assert!(day.is_some());
        prop_assert_eq!(&date::day_bucket(&zoned.strftime("%a, %d %b %Y %H:%M:%S %z").to_string()), &day);
        prop_assert_eq!(&date::day_bucket(&zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()), &day);
    }

    #[test]
    fn no_date_panics(text in "\\PC{0,30}", near in "([A-Z][a-z]{2}, )?[0-9]{1,3} (Feb|Jun|X) [0-9]{2,5} [0-9]{1,2}:[0-9:]{0,6} ([+-][0-9]{3,5}|[A-Z]{1,4}|\\(x)") {
        for text in [text, near] {
            let _ = date::day_bucket(&text);
        }
    }
}
