//! The form that a file is uploaded in: two fields, written by hand because it is all that is needed of multipart.

use bytes::{BufMut, Bytes, BytesMut};
use hapax_core::Fingerprint;

const NAME_CHARS_MAX: usize = 100;

/// A form with `purpose=batch` and the file.
pub(super) struct Form {
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

impl Form {
    pub(super) fn new(file_name: &str, content: &[u8]) -> Self {
        // No content holds a hash of itself.
        let boundary = format!("hapax-{}", Fingerprint::of(content).hex());
        let name = plain(file_name);
        let head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
             --{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             content-type: application/jsonl\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        let mut body = BytesMut::with_capacity(head.len() + content.len() + tail.len());
        body.put(head.as_bytes());
        body.put(content);
        body.put(tail.as_bytes());
        Self {
            content_type: format!("multipart/form-data; boundary={boundary}"),
            body: body.freeze(),
        }
    }
}

/// A name that ends no header.
fn plain(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let name: String = name
        .chars()
        .take(NAME_CHARS_MAX)
        .map(|letter| if is_plain(letter) { letter } else { '_' })
        .collect();
    if name.is_empty() {
        "batch.jsonl".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_in_byte_for_byte_and_its_name_ends_no_header() {
        let form = Form::new("a\"\r\nx: y/../b.jsonl", b"{}\r\n--x\n");
        let text = String::from_utf8(form.body.to_vec()).unwrap();
        assert!(text.contains("filename=\"a___x__y_.._b.jsonl\"\r\n"));
        assert!(text.contains("\r\n\r\n{}\r\n--x\n\r\n--hapax-"));
        assert!(text.contains("name=\"purpose\"\r\n\r\nbatch\r\n"));
        assert!(
            form.content_type
                .starts_with("multipart/form-data; boundary=hapax-")
        );
        assert_eq!(plain(""), "batch.jsonl");
    }
}
