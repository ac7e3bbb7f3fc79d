//! Raw messages: parts, charsets, broken bytes and the limits of a message.

use hapax_core::entry::{Column, Fields};
use hapax_intake::email::{self, MessageFault};
use serde_json::json;

fn read(raw: impl AsRef<[u8]>) -> Fields {
    email::message(raw.as_ref(), "email-batch").unwrap()
}

fn fault(raw: impl AsRef<[u8]>) -> MessageFault {
    email::message(raw.as_ref(), "email-batch").unwrap_err()
}

fn captured(raw: impl AsRef<[u8]>) -> String {
    read(raw).text(Column::CaptureText).unwrap().to_owned()
}

#[test]
fn a_plain_text_is_preferred_and_attachments_are_listed() {
    let raw = "From: Ada <ada@example.org>\r\nSubject: Files\r\nContent-Type: multipart/mixed; boundary=\"out er\"\r\n\r\n\
        preamble\r\n--out er\r\nContent-Type: multipart/alternative; boundary=in\r\n\r\n\
        --in\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=C3=BC=\r\n=C3=9Fe\r\n\
        --in\r\nContent-Type: text/html\r\n\r\n<p>Greetings</p>\r\n--in--\r\n\
        --out er\r\nContent-Type: application/pdf; name=a.pdf\r\nContent-Disposition: attachment;\r\n filename*0*=utf-8''%C3%BCb;\r\n filename*1*=er.pdf\r\n\
        Content-Transfer-Encoding: base64\r\n\r\nAAAA\r\nAAAA\r\n--out er--\r\nepilogue";
    let entry = read(raw);
    assert_eq!(entry.text(Column::CaptureText), Some("Grüße"));
    let email = &entry.get(Column::Metadata)["email"];
    assert_eq!(
        email["attachments"],
        json!([{ "name": "über.pdf", "content_type": "application/pdf", "bytes": 6 }])
    );
    assert_eq!(entry.text(Column::Source), Some("email-batch"));
}

#[test]
fn html_becomes_text_and_a_stub_of_a_plain_text_gives_way_to_it() {
    assert_eq!(
        captured(
            "Content-Type: text/html\n\n<style>p{}</style><h1>News&nbsp;&amp; more</h1><p>One<br>two &#146;three&#8217;</p><ul><li>a</li><li>b</ul>"
        ),
        "News & more\n\nOne\ntwo ’three’\n\n* a\n* b"
    );
    let html = format!("<p>{}</p>", "Real news. ".repeat(100));
    let raw = format!(
        "Content-Type: multipart/alternative; boundary=b\n\n--b\n\nPlease view this in a browser.\n--b\nContent-Type: text/html\n\n{html}\n--b--\n"
    );
    assert!(captured(&raw).starts_with("Real news."));
    let raw = raw.replace("Please view this in a browser.", "A plain text that is long enough to be more than a hint, so that it is what people are meant to read here, and nothing else.");
    assert!(captured(raw).starts_with("A plain text"));
}

#[test]
fn an_html_body_is_not_lost_to_a_plain_footer() {
    let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\n\n<p>Body</p>\n--b\n\nfooter\n--b--\n";
    assert_eq!(captured(raw), "Body\n\nfooter");
}

#[test]
fn charsets_are_decoded_and_readable_text_beside_broken_bytes_stays() {
    let of = |charset: &str, body: &[u8]| {
        let head = format!("Content-Type: text/plain; charset={charset}\n\n");
        captured([head.as_bytes(), body].concat())
    };
    assert_eq!(of("koi8-r", b"\xf0\xd2\xc9\xd7\xc5\xd4"), "Привет");
    assert_eq!(of("\"ISO-8859-1\"", b"caf\xe9"), "café");
    assert_eq!(of("iso-2022-jp", b"\x1b$B%O%m!<\x1b(B"), "ハロー");
    assert_eq!(of("nobody-knows", "Привет".as_bytes()), "Привет");
    assert_eq!(of("us-ascii", b"caf\xe9 \x93quoted\x94"), "café “quoted”");
    assert_eq!(
        of("utf-8", "Привет \u{1f389}".as_bytes()),
        "Привет \u{1f389}"
    );
    let broken = [
        " Привет ".as_bytes(),
        b"\xff\xfe",
        " \u{1f389} end".as_bytes(),
    ]
    .concat();
    let text = of("utf-8", &broken);
    assert!(
        text.contains("Привет") && text.contains("\u{1f389} end"),
        "{text}"
    );
    let page =
        b"Content-Type: text/html\n\n<meta charset=\"koi8-r\"><p>\xf0\xd2\xc9\xd7\xc5\xd4</p>";
    assert_eq!(captured(page), "Привет");
    let text = of("iso-2022-kr", b"plain words\x1b$)C");
    assert!(text.contains("plain words"), "{text}");
}

#[test]
fn headers_are_decoded_and_unfolded() {
    let entry = read(
        "From: =?iso-8859-1?q?J=F6rg?=\n =?iso-8859-1?q?_M=FCller?= <J@Example.org>\n\
         Subject: =?utf-8?b?0J/R?=\n =?utf-8?b?gNC40LLQtdGC?= =?utf-8?q?_=F0=9F=8E?= =?utf-8?q?=89?= plain\n\
         To: Doe, John <john@example.org>, undisclosed: a@b.c, \"Last, First\" <x@y.z>;\nList-Id: News <n.example.org>\n\nx\n",
    );
    assert_eq!(entry.text(Column::Author), Some("Jörg Müller"));
    assert_eq!(entry.text(Column::Title), Some("Привет 🎉 plain"));
    let email = &entry.get(Column::Metadata)["email"];
    assert_eq!(
        email["to"],
        json!([
            { "name": "Doe, John", "address": "john@example.org" },
            { "name": null, "address": "a@b.c" },
            { "name": "Last, First", "address": "x@y.z" },
        ])
    );
    assert_eq!(email["list_id"], "News <n.example.org>");
    assert_eq!(email["from"]["address"], "J@Example.org");
}

#[test]
fn raw_bytes_in_a_header_are_read_in_the_charset_of_the_message() {
    let raw = b"Subject: \xf0\xd2\xc9\xd7\xc5\xd4\nContent-Type: text/plain; charset=koi8-r\n\n\xcd\xc9\xd2\n";
    let entry = read(raw);
    assert_eq!(entry.text(Column::Title), Some("Привет"));
    assert_eq!(entry.text(Column::CaptureText), Some("мир"));
}

#[test]
fn the_envelope_is_not_the_date_of_the_mail() {
    let entry =
        read("From x Thu Aug 22 12:36:23 2002\nFrom: news@example.org\nSubject: News\n\nHello\n");
    assert!(entry.get(Column::IdempotencyKeySecondary).is_null());
    assert!(entry.get(Column::Metadata)["email"]["date"].is_null());
}

#[test]
fn a_mail_without_text_is_a_fault() {
    assert_eq!(fault("").code(), "no_text");
    for body in [" \n", "\0", " \0 \n\0", "\u{feff}\n"] {
        let mail = format!("Subject: x\n\n{body}");
        assert_eq!(fault(&mail), MessageFault::NoText, "{body:?}");
    }
    assert_eq!(
        fault("Content-Type: image/png\nContent-Transfer-Encoding: base64\n\nAAAA\n"),
        MessageFault::NoText
    );
    assert_eq!(
        fault("Content-Type: text/html\n\n<img src=x>\n"),
        MessageFault::NoText
    );
}

#[test]
fn a_message_in_a_message_is_read_if_there_is_nothing_else() {
    let inner = "Subject: inner\n\nInner text\n";
    let raw = format!(
        "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\n{inner}\n--b--\n"
    );
    let entry = read(&raw);
    assert_eq!(entry.text(Column::CaptureText), Some("Inner text"));
    assert_eq!(
        entry.get(Column::Metadata)["email"]["attachments"][0]["name"],
        "inner"
    );
    let raw = raw.replacen("--b\n", "--b\n\nOuter text\n--b\n", 1);
    assert_eq!(captured(raw), "Outer text");
}

#[test]
fn broken_structure_still_gives_its_text() {
    assert_eq!(
        captured("Content-Type: multipart/mixed; boundary=none\n\nJust text\n"),
        "Just text"
    );
    assert_eq!(
        captured("Content-Type: multipart/mixed\n\nJust text\n"),
        "Just text"
    );
    assert_eq!(
        captured("Content-Type: multipart/mixed; boundary=b\n\n--b\n\nNo end"),
        "No end"
    );
    assert_eq!(captured("Content-Type: text\n\nOdd type\n"), "Odd type");
    assert_eq!(captured("no header at all\nSubject: x\n\nBody\n"), "Body");
    assert_eq!(
        captured("Content-Transfer-Encoding: base64\n\nSGVs\nbG8*=\n"),
        "Hello"
    );
    assert_eq!(
        captured("Content-Transfer-Encoding: quoted-printable\n\n50=% off =ZZ =C3=A9=\n"),
        "50=% off =ZZ é"
    );
}

fn nested(depth: usize) -> String {
    let level = |level| format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n");
    let levels: Vec<String> = (0..depth).map(level).collect();
    levels.concat() + "\nHello\n"
}

#[test]
fn limits_are_faults_of_one_code() {
    assert!(email::message(nested(email::DEPTH_MAX).as_bytes(), "x").is_ok());
    assert_eq!(fault(nested(email::DEPTH_MAX + 1)), MessageFault::Depth);
    assert_eq!(fault(nested(10_000)), MessageFault::Depth);
    assert_eq!(
        fault("Content-Type: message/rfc822\n\n".repeat(100_000)),
        MessageFault::Depth
    );
    let parts = |count: usize| {
        format!(
            "Content-Type: multipart/mixed; boundary=b\n\n{}",
            "--b\n\nx\n".repeat(count)
        )
    };
    assert!(email::message(parts(email::PARTS_MAX - 1).as_bytes(), "x").is_ok());
    assert_eq!(fault(parts(email::PARTS_MAX)), MessageFault::Parts);
    assert_eq!(fault(parts(100_000)), MessageFault::Parts);
    assert_eq!(
        fault(format!("Subject: {}\n\nx", "a".repeat(300_000))),
        MessageFault::Headers
    );
    assert_eq!(fault("X: y\n".repeat(100_000)), MessageFault::Headers);
    assert_eq!(
        fault(format!("Subject: x\n\n{}", "a ".repeat(5_000_000))),
        MessageFault::Text
    );
    let base64 = format!(
        "Content-Transfer-Encoding: base64\n\n{}",
        "QUFB".repeat(3_000_000)
    );
    assert_eq!(fault(base64).code(), "mime_limit");
    assert_eq!(
        fault(vec![b'a'; email::MESSAGE_BYTES_MAX + 1]),
        MessageFault::Bytes
    );
}

#[test]
fn a_large_attachment_is_no_fault() {
    let raw = format!(
        "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nHello\n--b\nContent-Type: application/zip\nContent-Transfer-Encoding: base64\n\n{}\n--b--\n",
        "QUFB".repeat(3_000_000)
    );
    let entry = read(raw);
    assert_eq!(
        entry.get(Column::Metadata)["email"]["attachments"][0]["bytes"],
        9_000_000
    );
}

/// Texts that take for ever, or the stack, if any step of reading is not linear.
#[test]
fn hostile_texts_are_read_in_time_with_their_length() {
    let unit = |unit: &str| unit.repeat(300_000 / unit.len());
    for unit in [
        unit(">"),
        unit("> "),
        unit("> a\n"),
        unit(">\n"),
        unit("From: a\n"),
        unit("On 1 2 3 wrote:\n"),
        unit("-- \n"),
        unit("---------- Forwarded message ---------\n"),
        unit("-----Original Message-----\n"),
        unit("\n"),
        unit("_"),
        unit("wrote:"),
        unit("a wrote: "),
        unit("<a@b>:\n"),
        unit("From: a\nSent: b\nTo: c\n"),
        unit("Sent from my x\n"),
    ] {
        assert!(email::message(format!("Subject: x\n\nown\n{unit}").as_bytes(), "x").is_ok());
        let _ = email::normalize(json!({ "raw_text": unit, "from": unit, "subject": unit }));
    }
    for unit in [
        unit("<"),
        unit("<div>"),
        unit("<a href=\""),
        unit("<a =\">"),
        unit("<!--"),
        unit("</"),
        unit("<style>"),
        unit("&"),
        unit("&a"),
        unit("&#x41;"),
        unit("<blockquote class=quote>a"),
        unit("<b a=1>x<p>"),
        unit("<script"),
        unit("<table><tr><td>"),
        unit("<pre>\n"),
        unit("<title></tit"),
    ] {
        let _ = email::message(format!("Content-Type: text/html\n\n{unit}").as_bytes(), "x");
        let _ = email::normalize(
            json!({ "raw_text": format!("<p>{unit}</p>"), "from": "a@b.c", "subject": "x" }),
        );
    }
    for unit in [
        unit("=?"),
        unit("=?utf-8?q?"),
        unit("=?utf-8?q?a?= "),
        unit("=?utf-8?b?QQ?="),
        unit("=?a?q? "),
        unit("re: "),
        unit("["),
        unit("[]"),
        unit("[a"),
        unit("("),
        unit(")"),
        unit("\""),
        unit("<"),
        unit(","),
        unit("a,"),
        unit("@:"),
        unit("a:"),
        unit("\\"),
        unit("a@b "),
        unit("<a@b>,"),
        unit("\u{1f389}"),
        unit("İ"),
    ] {
        let entry = email::normalize(json!({
            "raw_text": "x", "from": unit, "subject": unit, "source": { "message_id": unit, "date": unit },
            "headers": { "References": unit, "In-Reply-To": unit, "To": unit, "List-Id": unit },
        }));
        assert!(entry.is_ok());
        let short: String = unit.chars().take(60_000).collect();
        let raw = format!(
            "From: {short}\nTo: {short}\nContent-Disposition: {short}\nSubject: {short}\nContent-Type: {short}\n\nx"
        );
        let _ = email::message(raw.as_bytes(), "x");
    }
}

#[test]
fn a_megabyte_of_subject_makes_a_short_title_and_a_whole_key() {
    let title = |tail: &str| {
        let subject = "a".repeat(1_000_000) + tail;
        let entry = email::normalize(json!({
            "raw_text": "x", "from": "a@b.c", "subject": subject, "source": { "date": "2026-02-17" },
        }));
        let entry = entry.unwrap();
        assert_eq!(entry.text(Column::Title).unwrap().chars().count(), 2_001);
        entry
            .text(Column::IdempotencyKeySecondary)
            .unwrap()
            .to_owned()
    };
    assert_ne!(title("b"), title("c"));
}
