//! How many may watch at once, and how many of them for one tenant, so that no tenant takes all seats.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax_core::Tenant;

/// How many may watch at once.
pub(super) const SEATS: usize = 256;
/// How many of them one tenant may have.
const TENANT_SEATS: usize = 64;

/// The seats that are taken, by tenant.
#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<HashMap<Tenant, usize>>);

/// A seat that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    tenant: Tenant,
}

impl Seats {
    /// A seat, if there is one and the tenant may have one more.
    pub(super) fn take(self: &Arc<Self>, tenant: Tenant) -> Option<Seat> {
        let mut taken = self.locked();
        let all: usize = taken.values().sum();
        let own = taken.get(&tenant).copied().unwrap_or(0);
        if all >= SEATS || own >= TENANT_SEATS {
            return None;
        }
        taken.insert(tenant, own + 1);
        Some(Seat {
            seats: Arc::clone(self),
            tenant,
        })
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Tenant, usize>> {
        // Nothing panics while this is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.locked();
        if let Some(own) = taken.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_so_many_seats_and_leaves_the_rest_to_others() {
        let seats = Arc::new(Seats::default());
        let tenant = |number| Tenant::from_uuid(uuid::Uuid::from_u128(number));
        let mut taken: Vec<Seat> = (0..SEATS).map_while(|_| seats.take(tenant(1))).collect();
        assert_eq!(taken.len(), TENANT_SEATS);
        for number in 2.. {
            let own: Vec<Seat> = (0..SEATS)
                .map_while(|_| seats.take(tenant(number)))
                .collect();
            if own.is_empty() {
                break;
            }
            taken.extend(own);
        }
        assert_eq!(taken.len(), SEATS);
        taken.clear();
        assert!(seats.locked().is_empty());
    }
}
