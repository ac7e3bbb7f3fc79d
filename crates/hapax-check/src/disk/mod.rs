//! What a disk may hold after the power is lost: the calls of a program as strace wrote them down, and the folders that
//! could be found afterwards. It knows no database: it believes a sync, and nothing else.

mod call;
mod model;

pub use call::{Call, What, read_calls};
pub use model::{Disk, Image};
