//! A download in steps, each of which can be run again: ask, resume, stream, finalize, index.
//!
//! What is fetched goes to a part that has one writer, then by its sha256 to its place, then under the names of
//! its work and artifact. A step that was cut off is continued from what is on disk. No byte range that arrived
//! is fetched again, unless the source changed or cannot say whether it did.
//!
//! Where to read on: [`mod@plan`] says which step follows which, [`stream`] is the step with all the traps, [`part`] says who may write where,
//! [`guard`] says which addresses are asked.

mod ask;
pub mod downloader;
pub mod error;
pub mod folder;
pub mod guard;
mod hash;
pub mod head;
mod headers;
mod hosts;
mod lane;
pub mod limits;
mod name;
pub mod part;
pub mod place;
pub mod plan;
mod pour;
mod pump;
mod rounds;
mod sink;
pub mod stream;
mod together;
mod weigh;

pub use downloader::{Downloader, Sources};
pub use error::{Code, Error};
pub use folder::Folder;
pub use guard::Guard;
pub use hash::ContentHash;
pub use head::Head;
pub use limits::Limits;
pub use place::Placed;
pub use plan::{Download, Downloaded};
pub use stream::{Progress, Streamed, Wanted};
