//! A form with a file, as far as uploads need it.

/// One field of a form.
pub(super) struct Part<'a> {
    pub(super) name: String,
    pub(super) file_name: Option<String>,
    pub(super) content: &'a [u8],
}

/// The fields of a form, or nothing if it is none.
pub(super) fn parts<'a>(content_type: &str, body: &'a [u8]) -> Option<Vec<Part<'a>>> {
    let (_, boundary) = content_type.split_once("boundary=")?;
    let boundary = boundary.split(';').next()?.trim().trim_matches('"');
    let mark = format!("\r\n--{boundary}");
    let mut rest = body.strip_prefix(format!("--{boundary}").as_bytes())?;
    let mut parts = Vec::new();
    loop {
        rest = match rest.strip_prefix(b"\r\n") {
            Some(rest) => rest,
            None => return rest.starts_with(b"--").then_some(parts),
        };
        let head_end = find(rest, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&rest[..head_end]).into_owned();
        let content = &rest[head_end + 4..];
        let end = find(content, mark.as_bytes())?;
        parts.push(Part {
            name: quoted(&head, " name=")?,
            file_name: quoted(&head, "filename="),
            content: &content[..end],
        });
        rest = &content[end + mark.len()..];
    }
}

fn quoted(head: &str, name: &str) -> Option<String> {
    let (_, value) = head.split_once(name)?;
    let (value, _) = value.strip_prefix('"')?.split_once('"')?;
    Some(value.to_owned())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(wanted.len())?;
    (0..=last).find(|at| bytes[*at..].starts_with(wanted))
}
