//! Whether the server's disk was full when we last wrote. A session that only reads cannot find that out.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hapax_core::{Error, Kind};

use super::fault;

/// How long a full disk is believed in. Then writes are let through again, and tell.
const BELIEVED: Duration = Duration::from_secs(10);

/// When a write last found the disk full, unless one has succeeded since.
#[derive(Debug, Default)]
pub(super) struct Full(Mutex<Option<Instant>>);

impl Full {
    /// Takes note of how a write ended.
    pub(super) fn learn<T>(&self, written: &Result<T, Error>) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match written {
            Ok(_) => *since = None,
            Err(error) if fault::is_full(error) => *since = Some(Instant::now()),
            Err(_) => {}
        }
    }

    /// # Errors
    /// [`Kind::Unavailable`] when the disk was full a moment ago.
    pub(super) fn check(&self) -> Result<(), Error> {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match since {
            Some(since) if since.elapsed() < BELIEVED => {
                let why = "the disk of the server was full at the last write; make room on it";
                Err(Error::new(Kind::Unavailable, "checking PostgreSQL").because(why))
            }
            Some(_) | None => Ok(()),
        }
    }
}
