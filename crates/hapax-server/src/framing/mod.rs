//! Where one HTTP/1 request ends and the next begins, seen before hyper sees it.
//!
//! Hyper drops a Content-Length that stands beside a Transfer-Encoding without telling. A proxy must refuse
//! such a request: the next server might count the other way. So every request head is looked at here, on
//! its way in, and one that can be read in two ways never gets further. Answers are not looked at. HTTP/2 has no
//! `Connection`: its library resets a stream that sends one.

mod chunks;
mod end_to_end;
mod head;
mod watched;

pub(crate) use end_to_end::EndToEnd;
pub(crate) use watched::{Watch, Watched};
