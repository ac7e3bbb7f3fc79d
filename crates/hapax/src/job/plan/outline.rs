//! What a plan looks like from outside: its nodes and the ways between them, without what they do.

use std::sync::Arc;

use hapax_core::job::Class;

use super::Plan;

/// A plan as a picture of it needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outline {
    /// The plan's name.
    pub name: String,
    /// The nodes in the order in which they were added. A node's name is the kind of its operations.
    pub nodes: Vec<(Arc<str>, Class)>,
    /// From which node it may go on to which. The end has no node.
    pub edges: Vec<(Arc<str>, Arc<str>)>,
}

impl<S> Plan<S> {
    /// The plan's nodes and the ways between them.
    ///
    /// ```
    /// use hapax::job::{Class, Fault, Node, Plan, Step};
    /// use std::sync::Arc;
    ///
    /// let node = |name| Node::new(name, Class::Replayable, |_: Step, _: Arc<()>| async { Ok::<(), Fault>(()) });
    /// let plan = Plan::named("two").node(node("A")).node(node("B")).edge("A", "B").build()?;
    /// let outline = plan.outline();
    /// assert_eq!(outline.nodes[1], ("B".into(), Class::Replayable));
    /// assert_eq!(outline.edges, [("A".into(), "B".into())]);
    /// # Ok::<(), hapax::job::Unsound>(())
    /// ```
    #[must_use]
    pub fn outline(&self) -> Outline {
        let graph = &self.graph;
        let nodes = graph.nodes.iter();
        let ways = graph.ways.iter().enumerate();
        let edges = ways.flat_map(|(from, way)| {
            let (next, _) = way.next();
            next.into_iter().map(move |to| (from, to))
        });
        let name = |node: usize| Arc::clone(graph.nodes[node].name());
        Outline {
            name: graph.name.clone(),
            nodes: nodes
                .map(|node| (Arc::clone(node.name()), node.class()))
                .collect(),
            edges: edges.map(|(from, to)| (name(from), name(to))).collect(),
        }
    }
}
