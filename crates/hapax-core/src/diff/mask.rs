//! A whole JSON body with its secrets masked, for people who inspect a record. It cuts nothing.

use super::show::{MASK, Masks};
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
