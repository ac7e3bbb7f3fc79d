//! How the server finds the end of a request: its very files, since a program has no library to link.

#[path = "../../hapax-server/src/framing/chunks.rs"]
#[allow(dead_code, reason = "the server uses all of it")]
mod chunks;
#[path = "../../hapax-server/src/framing/end_to_end.rs"]
#[allow(dead_code, reason = "the server uses all of it")]
mod end_to_end;
#[path = "../../hapax-server/src/framing/head.rs"]
#[allow(dead_code, reason = "the server uses all of it")]
mod head;

use crate::targets::kind;
use chunks::{Chunks, Progress};
use end_to_end::EndToEnd;

/// A head is judged alike however it comes, and a chunked body ends at the same place however it is cut.
pub(crate) fn run(bytes: &[u8]) -> u64 {
    let end = head::end(bytes, 0);
    let judged = end.map(|end| {
        assert!(end <= bytes.len());
        let guarded = EndToEnd::with(["x-tenant"]);
        let judged = head::judge(&bytes[..end], &guarded);
        // Whoever names more headers refuses no less.
        let plain = head::judge(&bytes[..end], &EndToEnd::default());
        assert!(plain.is_ok() || judged.is_err());
        format!("{judged:?}")
    });
    let (body, cut) = match bytes.split_first() {
        Some((first, rest)) => (rest, usize::from(*first) % (rest.len() + 1)),
        None => (bytes, 0),
    };
    let whole = Chunks::Start.advance(body);
    let mut chunks = Chunks::Start;
    let parts = match chunks.advance(&body[..cut]) {
        Progress::More => match chunks.advance(&body[cut..]) {
            Progress::Done(end) => Progress::Done(end + cut),
            other => other,
        },
        other => other,
    };
    assert_eq!(whole, parts, "cut at {cut}");
    if let Progress::Done(end) = whole {
        assert!(end <= body.len() && body[..end].ends_with(b"\r\n"));
    }
    kind((
        judged,
        format!("{chunks:?}").split('(').next().map(str::to_owned),
        matches!(whole, Progress::Done(_)),
    ))
}
