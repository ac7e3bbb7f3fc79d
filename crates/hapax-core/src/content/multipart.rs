//! The parts of a `multipart/form-data` body, so that two of them are the same whatever boundary stands between their
//! parts. It reads what clients write and gives up on anything else: then the bytes count.

use crate::fingerprint::Fingerprint;

/// The media type of forms with files.
pub(super) const MEDIA_TYPE: &str = "multipart/form-data";

/// A body with more parts than this is compared by its bytes.
const PARTS_MAX: usize = 1000;
/// So is one with more lines than this before the content of a part, or with longer ones.
const HEADERS_MAX: usize = 16;
const HEADER_BYTES_MAX: usize = 8 << 10;
/// The longest boundary.
const BOUNDARY_BYTES_MAX: usize = 70;

/// The boundary that the first line of a body says it has.
pub(super) fn boundary(body: &[u8]) -> Option<&[u8]> {
    let rest = body.strip_prefix(b"--")?;
    let length = rest
        .iter()
        .take(BOUNDARY_BYTES_MAX + 2)
        .position(|byte| *byte == b'\r')?;
    let line = &rest[..length];
    // A form without a part is its closing line.
    let boundary = line.strip_suffix(b"--").unwrap_or(line);
    (!boundary.is_empty() && boundary.len() <= BOUNDARY_BYTES_MAX).then_some(boundary)
}

/// The hash of the parts in their order: of each its headers, which hold name, file name and type, and its content.
pub(super) fn hash(body: &[u8]) -> Option<Fingerprint> {
    let boundary = boundary(body)?;
    let delimiter = [b"\r\n--", boundary].concat();
    // The first delimiter has no line before it.
    let mut rest = &body[delimiter.len() - 2..];
    let mut hashes = Vec::new();
    loop {
        if let Some(end) = rest.strip_prefix(b"--") {
            let ends = end.is_empty() || end == b"\r\n";
            return ends.then(|| together(&hashes));
        }
        let part = rest.strip_prefix(b"\r\n")?;
        if hashes.len() == PARTS_MAX {
            return None;
        }
        let at = find(part, &delimiter)?;
        hashes.push(part_hash(&part[..at])?);
        rest = &part[at + delimiter.len()..];
    }
}

fn together(hashes: &[Fingerprint]) -> Fingerprint {
    let parts: Vec<&[u8]> = [&b"hapax multipart"[..]]
        .into_iter()
        .chain(hashes.iter().map(|hash| &hash.as_bytes()[..]))
        .collect();
    Fingerprint::of_parts(&parts)
}

/// The hash of one part: its headers by name, whose order and spelling do not count, and its content.
fn part_hash(part: &[u8]) -> Option<Fingerprint> {
    let end = find(part, b"\r\n\r\n")?;
    let (head, content) = (part.get(..end)?, &part[end + 4..]);
    if head.len() > HEADER_BYTES_MAX {
        return None;
    }
    let mut headers = Vec::new();
    for line in std::str::from_utf8(head).ok()?.split("\r\n") {
        let (name, value) = line.split_once(':')?;
        let is_a_line = !name.is_empty() && !name.starts_with([' ', '\t']);
        if !is_a_line || headers.len() == HEADERS_MAX {
            return None;
        }
        headers.push((name.trim().to_ascii_lowercase(), value.trim()));
    }
    headers.sort_unstable();
    let mut parts: Vec<&[u8]> = vec![content];
    for (name, value) in &headers {
        parts.extend([name.as_bytes(), value.as_bytes()]);
    }
    Some(Fingerprint::of_parts(&parts))
}

/// Where `needle`, which begins with a carriage return, stands first.
fn find(within: &[u8], needle: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + within.get(from..)?.iter().position(|byte| *byte == b'\r')?;
        if within[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn form(boundary: &str, parts: &[(&str, &str)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (head, content) in parts {
            write!(body, "--{boundary}\r\n{head}\r\n\r\n{content}\r\n").unwrap();
        }
        write!(body, "--{boundary}--\r\n").unwrap();
        body
    }

    const NAME: &str = "Content-Disposition: form-data; name=\"note\"";
    const FILE: &str = "Content-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain";

    #[test]
    fn the_same_parts_are_the_same_form_whatever_the_boundary() {
        let parts = [(NAME, "hello\r\nworld"), (FILE, "--x\r\n\r\n"), (NAME, "")];
        let first = hash(&form("XyZ", &parts)).unwrap();
        assert_eq!(
            hash(&form("----WebKitFormBoundary7MA4YWxkTrZu0gW", &parts)),
            Some(first)
        );
        let mut unended = form("b", &parts);
        unended.truncate(unended.len() - 2);
        assert_eq!(hash(&unended), Some(first), "the last line may have no end");
        let spelled = FILE.to_ascii_lowercase();
        let mut lines: Vec<&str> = spelled.split("\r\n").collect();
        lines.reverse();
        let turned = lines.join("\r\n");
        let parts = [parts[0], (turned.as_str(), parts[1].1), parts[2]];
        assert_eq!(hash(&form("b", &parts)), Some(first));
    }

    #[test]
    fn another_name_file_type_content_or_order_is_another_form() {
        let of = |parts: &[(&str, &str)]| hash(&form("b", parts)).unwrap();
        let first = of(&[(NAME, "1"), (FILE, "2")]);
        for (what, replaced) in [
            ("name=\"file\"", "name=\"other\""),
            ("a.txt", "b.txt"),
            ("text/plain", "text/html"),
            ("; filename=\"a.txt\"", ""),
        ] {
            let file = FILE.replace(what, replaced);
            assert_ne!(of(&[(NAME, "1"), (&file, "2")]), first, "{what}");
        }
        assert_ne!(of(&[(NAME, "1"), (FILE, "3")]), first);
        assert_ne!(of(&[(FILE, "2"), (NAME, "1")]), first);
        assert_ne!(of(&[(NAME, "1")]), first);
        assert_ne!(of(&[(NAME, "1"), (FILE, "2"), (NAME, "")]), first);
        assert_ne!(
            of(&[(NAME, "12"), (FILE, "")]),
            of(&[(NAME, "1"), (FILE, "2")])
        );
    }

    #[test]
    fn what_is_no_whole_form_is_not_read() {
        let whole = form("b", &[(NAME, "1"), (FILE, "2")]);
        assert!(hash(&whole).is_some());
        assert!(hash(b"--b--\r\n").is_some(), "a form without a part");
        for cut in 0..whole.len() - 2 {
            assert_eq!(hash(&whole[..cut]), None, "{cut}");
        }
        for body in [
            &b""[..],
            b"--",
            b"----\r\n",
            b"preamble\r\n--b\r\nA: b\r\n\r\n1\r\n--b--\r\n",
            b"--b\r\nA: b\r\n\r\n1\r\n--b--\r\nepilogue",
            b"--b\r\nA: b\r\n\r\n1\r\n--bb\r\nA: b\r\n\r\n2\r\n--b--",
            b"--b\r\nno header\r\n\r\n1\r\n--b--",
            b"--b\r\nA: b\r\n folded: c\r\n\r\n1\r\n--b--",
            b"--b\r\nA: \xff\r\n\r\n1\r\n--b--",
            b"--b\nA: b\n\n1\n--b--\n",
        ] {
            assert_eq!(hash(body), None, "{:?}", String::from_utf8_lossy(body));
        }
        let many: Vec<(&str, &str)> = vec![(NAME, "1"); PARTS_MAX + 1];
        assert_eq!(hash(&form("b", &many)), None);
        assert!(hash(&form("b", &many[1..])).is_some());
    }
}
