//! Which leases this process works under right now, so that a process that has to stop can give them up.
//! It keeps no lease alive; the heartbeat does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax_core::{Doubt, Epoch, Lease, OnLost, Owner, RecordId, Tenant};

use super::Engine;

/// The leases that work is done under.
#[derive(Debug, Default)]
pub(super) struct Running {
    leases: Mutex<HashMap<(Tenant, RecordId), (Epoch, Owner)>>,
}

/// Takes a lease out of the list when its work ends, however it ends.
pub(super) struct Entered {
    running: Arc<Running>,
    at: (Tenant, RecordId),
}

impl Running {
    pub(super) fn enter(self: &Arc<Self>, lease: &Lease) -> Entered {
        let at = (lease.record().scope.tenant, lease.id());
        self.lock().insert(at, (lease.epoch(), lease.owner()));
        Entered {
            running: self.clone(),
            at,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Tenant, RecordId), (Epoch, Owner)>> {
        // Every change under the lock is one call.
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.running.lock().remove(&self.at);
    }
}

impl Engine {
    /// Gives up every lease whose work has not ended, for a process that must stop now: the key is free again
    /// under [`OnLost::Retry`] and in doubt under [`OnLost::Hold`], at once rather than when its lease runs out.
    /// What still runs can no longer record anything. Returns how many were given up.
    pub async fn abandon(&self) -> usize {
        let leases: Vec<_> = self
            .running
            .lock()
            .iter()
            .map(|(at, hold)| (*at, *hold))
            .collect();
        let mut given_up = 0;
        for ((tenant, id), (epoch, owner)) in leases {
            let ended = match self.resume(tenant, id, epoch, owner).await {
                Ok(None) => continue,
                Ok(Some(lease)) => match lease.record().on_lost {
                    OnLost::Retry => self.release(lease).await,
                    OnLost::Hold => self.doubt(lease, Doubt::OutcomeUnknown).await,
                },
                Err(error) => Err(error),
            };
            match ended {
                Ok(ended) => given_up += usize::from(ended),
                Err(error) => {
                    tracing::warn!(%id, %error, "a lease was not given up; it runs out by itself");
                }
            }
        }
        given_up
    }
}
