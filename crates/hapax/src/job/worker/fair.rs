//! Whose turn it is: who was served longest ago comes first. It leases nothing.

use std::collections::HashMap;

use hapax_core::Tenant;

/// When each tenant was last served, of those that have something due.
#[derive(Debug, Default)]
pub(super) struct Turns {
    served: HashMap<Tenant, u64>,
    turn: u64,
    hungry: Vec<Tenant>,
}

impl Turns {
    /// The tenants in the order of their turns, with an equal share of `free` each, at least one, until it is used up.
    pub(super) fn shares(&mut self, due: Vec<Tenant>, free: usize) -> Vec<(Tenant, usize)> {
        // Who has nothing due any more has no turn to remember.
        let kept: HashMap<Tenant, u64> = due
            .iter()
            .map(|tenant| (*tenant, self.served.get(tenant).copied().unwrap_or(0)))
            .collect();
        self.served = kept;
        self.hungry.clear();
        let mut order = due;
        order.sort_by_key(|tenant| (self.served[tenant], *tenant));
        order.dedup();
        let share = (free / order.len().max(1)).max(1);
        order.truncate(free);
        order.into_iter().map(|tenant| (tenant, share)).collect()
    }

    /// Remembers that `tenant` was served, and whether it got all it could.
    pub(super) fn served(&mut self, tenant: Tenant, may_have_more: bool) {
        self.turn += 1;
        self.served.insert(tenant, self.turn);
        self.hungry.retain(|hungry| *hungry != tenant);
        if may_have_more {
            self.hungry.push(tenant);
        }
    }

    /// The tenants that may have more, at most `most`.
    pub(super) fn hungry(&self, most: usize) -> Vec<Tenant> {
        self.hungry.iter().copied().take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(n: u128) -> Tenant {
        Tenant::from_uuid(uuid::Uuid::from_u128(n))
    }

    #[test]
    fn a_tenant_with_much_work_does_not_starve_the_others() {
        let mut turns = Turns::default();
        let due: Vec<Tenant> = (0..5).map(tenant).collect();
        let mut served = HashMap::new();
        for _ in 0..50 {
            for (tenant, share) in turns.shares(due.clone(), 2) {
                *served.entry(tenant).or_insert(0) += share;
                turns.served(tenant, true);
            }
        }
        assert_eq!(served.into_values().collect::<Vec<usize>>(), [20; 5]);
    }

    #[test]
    fn free_slots_are_shared_and_the_rest_goes_to_those_who_have_more() {
        let mut turns = Turns::default();
        let shares = turns.shares(vec![tenant(2), tenant(1), tenant(1)], 8);
        assert_eq!(shares, [(tenant(1), 4), (tenant(2), 4)]);
        turns.served(tenant(1), false);
        turns.served(tenant(2), true);
        assert_eq!(turns.hungry(8), [tenant(2)]);
        assert_eq!(turns.shares(vec![tenant(3)], 1), [(tenant(3), 1)]);
        assert!(turns.hungry(8).is_empty(), "a new look starts anew");
    }
}
