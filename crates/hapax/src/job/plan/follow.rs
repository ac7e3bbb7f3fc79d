//! What follows a node, foreseen before its result is recorded, so that both are one transaction. Where more than one
//! node may follow, nothing is foreseen.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::node::Next;
use super::{Course, Graph, VISITS_MAX, Way};
use crate::job::effect::Effect;

impl<S: Clone + Send + Sync + 'static> Course<'_, S> {
    /// What follows `node` by its result, if one node alone does.
    pub(super) fn next(&self, node: usize) -> Option<Next<S>> {
        if !self.waiting.is_empty()
            || !matches!(self.graph.ways[node], Way::Edge(_) | Way::Branch(..))
        {
            return None;
        }
        let (graph, visits, seen) = (self.graph.clone(), self.visits.clone(), self.state.clone());
        Some(Box::new(move |apply| {
            let foresee = || {
                let mut state = S::clone(&seen);
                apply(&mut state);
                graph.follower(node, &visits, &state)
            };
            // Whatever panics here does so again when the plan comes to it, once the result is recorded.
            catch_unwind(AssertUnwindSafe(foresee)).ok().flatten()
        }))
    }
}

impl<S> Graph<S> {
    fn follower(&self, node: usize, visits: &[u32], state: &S) -> Option<Effect> {
        let to = match &self.ways[node] {
            Way::Edge(to) => *to,
            Way::Branch(to, choose) => {
                let chosen = choose(state);
                let mut ways = to.iter().copied().flatten();
                ways.find(|to| **self.nodes[*to].name() == *chosen)?
            }
            Way::End | Way::Fan(_) | Way::Join(_) => return None,
        };
        let (next, number) = (&self.nodes[to], visits[to] + 1);
        // What is begun and not come to, because its forerunner is refused, must not be left in doubt.
        let may_wait = next.class().runs_again() || next.has_probe();
        (may_wait && number <= VISITS_MAX).then(|| next.effect(state, number))
    }
}
