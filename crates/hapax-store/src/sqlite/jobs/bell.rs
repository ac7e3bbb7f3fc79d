//! Who is told that there may be something to lease. It knows nothing of jobs.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use hapax_core::job::Ready;

/// Everyone who wants to be told, in this process.
#[derive(Default)]
pub(in super::super) struct Bell(RwLock<Vec<Ready>>);

impl Bell {
    /// Has `ready` called from now on.
    pub(super) fn add(&self, ready: Ready) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.push(ready);
    }

    /// Tells everyone.
    pub(super) fn ring(&self) {
        for ready in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            ready();
        }
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").finish_non_exhaustive()
    }
}
