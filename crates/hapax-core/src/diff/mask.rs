//! A whole JSON body, or the query of a path, with its secrets masked, for people who inspect a record. It cuts nothing.

use super::show::{MASK, Masks, is_telling};
use crate::canonical::{Document, Node, Path, quoted};

/// The body as it was sent, with every value at or beneath `paths`, and every member with a telling
/// name, shown as `"***"`. `None` if it is not acceptable JSON: then nobody can say what to mask.
///
/// ```
/// use hapax_core::diff::masked;
///
/// let body = br#"{ "card":{"no":42}, "phone":[1,2], "n":1.0 }"#;
/// let shown = masked(body, &["phone[0]".parse()?]).unwrap();
/// assert_eq!(shown, r#"{"card":"***","phone":["***",2],"n":1.0}"#);
/// assert!(masked(b"card=42", &[]).is_none());
/// # Ok::<(), hapax_core::canonical::InvalidPath>(())
/// ```
#[must_use]
pub fn masked(body: &[u8], paths: &[Path]) -> Option<String> {
    let document = Document::parse_whole(body).ok()?;
    let mut text = String::with_capacity(body.len());
    write(
        &document,
        document.root_node(),
        &Masks::new(paths),
        &mut text,
    );
    Some(text)
}

/// Names that say so of their value in a query, where signed links and keys of services stand.
const TELLING_IN_A_QUERY: [&str; 3] = ["key", "sig", "signature"];

/// The path with every value of its query under a telling name shown as `***`. Names and order stay.
///
/// ```
/// use hapax_core::diff::masked_query;
///
/// assert_eq!(masked_query("/pay?way=card&access_token=s3cr3t&n=1"), "/pay?way=card&access_token=***&n=1");
/// assert_eq!(masked_query("/pay/s3cr3t?way=card"), "/pay/s3cr3t?way=card");
/// ```
#[must_use]
pub fn masked_query(path: &str) -> String {
    let Some((place, query)) = path.split_once('?') else {
        return path.to_owned();
    };
    let pairs: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_telling_in_a_query(name) => {
                format!("{name}={MASK}")
            }
            Some(_) | None => pair.to_owned(),
        })
        .collect();
    format!("{place}?{}", pairs.join("&"))
}

fn is_telling_in_a_query(name: &str) -> bool {
    let ends = |part: &&str| {
        let before = name.len().checked_sub(part.len());
        before.is_some_and(|at| {
            name.get(at..)
                .is_some_and(|end| end.eq_ignore_ascii_case(part))
                && !name[..at].ends_with(|last: char| last.is_ascii_alphanumeric())
        })
    };
    is_telling(name) || TELLING_IN_A_QUERY.iter().any(ends)
}

fn write(document: &Document<'_>, node: Node, masks: &Masks<'_>, text: &mut String) {
    match document.open(node) {
        _ if masks.hide() => text.push_str(&quoted(MASK)),
        b'{' => {
            text.push('{');
            for (place, (name, member)) in document.members(node).into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                text.push_str(&quoted(&name));
                text.push(':');
                write(document, member, &masks.member(&name), text);
            }
            text.push('}');
        }
        b'[' => {
            text.push('[');
            for (index, element) in document.elements(node).into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(document, element, &masks.element(index), text);
            }
            text.push(']');
        }
        _ => text.push_str(document.slice(node)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_query_are_masked_by_their_names_and_nothing_else_is() {
        for (path, shown) in [
            ("/a", "/a"),
            ("/a?", "/a?"),
            ("/a?token", "/a?token"),
            ("/a?token=", "/a?token="),
            ("/a?token=x=y&b=1", "/a?token=***&b=1"),
            ("/a?API-Key=x&Password=y", "/a?API-Key=***&Password=***"),
            (
                "/a?X-Amz-Signature=x&X-Amz-Credential=y",
                "/a?X-Amz-Signature=***&X-Amz-Credential=***",
            ),
            ("/a?sig=x&key=y&my.key=z", "/a?sig=***&key=***&my.key=***"),
            ("/a?monkey=x&design=y&ke=z", "/a?monkey=x&design=y&ke=z"),
            ("/a?\u{e4}key=x&t=?token=y", "/a?\u{e4}key=***&t=?token=y"),
        ] {
            assert_eq!(masked_query(path), shown);
        }
    }
}
