//! How many jobs of each tenant run now, and how many more may. It leases nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax_core::Tenant;

/// The places of a worker, by tenant.
#[derive(Debug)]
pub(super) struct Seats {
    per_tenant: usize,
    taken: Arc<Mutex<HashMap<Tenant, usize>>>,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    tenant: Tenant,
    taken: Arc<Mutex<HashMap<Tenant, usize>>>,
}

impl Seats {
    /// Places of which a tenant has at most this many.
    pub(super) fn of(per_tenant: usize) -> Self {
        let taken = Arc::default();
        Self { per_tenant, taken }
    }

    /// How many more jobs of this tenant may run.
    pub(super) fn left(&self, tenant: Tenant) -> usize {
        let taken = locked(&self.taken).get(&tenant).copied();
        self.per_tenant.saturating_sub(taken.unwrap_or(0))
    }

    /// Takes a place for a job that is leased.
    pub(super) fn take(&self, tenant: Tenant) -> Seat {
        *locked(&self.taken).entry(tenant).or_default() += 1;
        let taken = Arc::clone(&self.taken);
        Seat { tenant, taken }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = locked(&self.taken);
        if let Some(count) = taken.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

fn locked(taken: &Mutex<HashMap<Tenant, usize>>) -> MutexGuard<'_, HashMap<Tenant, usize>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_job_ends_and_nothing_is_remembered_of_it() {
        let (ada, bob) = (Tenant::DEFAULT, Tenant::from_uuid(uuid::Uuid::from_u128(2)));
        let seats = Seats::of(2);
        let (first, second) = (seats.take(ada), seats.take(ada));
        assert_eq!((seats.left(ada), seats.left(bob)), (0, 2));
        // One that was leased all the same, as by a queue that gave more than was asked for.
        let third = seats.take(ada);
        assert_eq!(seats.left(ada), 0);
        drop((first, second));
        assert_eq!(seats.left(ada), 1);
        drop(third);
        assert!(locked(&seats.taken).is_empty());
    }
}
