//! Who is told that there may be something to lease: at once in this process, through the listener on other nodes.

use std::sync::{Arc, PoisonError, RwLock};

use hapax_core::job::Ready;

/// Those who want to be told.
#[derive(Clone, Default)]
pub(in super::super) struct Bell(Arc<RwLock<Vec<Ready>>>);

impl Bell {
    pub(super) fn add(&self, ready: Ready) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.push(ready);
    }

    /// Tells everybody.
    pub(in super::super) fn ring(&self) {
        let all = self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for ready in &all {
            ready();
        }
    }
}
