//! Putting a plan together, and refusing one that could not work: every refusal names the node.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use hapax_core::job::Op;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::node::{Erased, Node};
use super::{Choose, END, Graph, Plan, Way};

/// Why a plan is not built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsound {
    node: String,
    problem: String,
}

impl Unsound {
    fn new(node: &str, problem: impl Into<String>) -> Self {
        Self {
            node: node.to_owned(),
            problem: problem.into(),
        }
    }

    /// The node it is about.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {:?} {}", self.node, self.problem)
    }
}

impl std::error::Error for Unsound {}

/// A plan that is being put together. Nodes keep the order in which they are added.
#[must_use = "a draft does nothing until it is built"]
pub struct Draft<S> {
    name: String,
    nodes: Vec<Arc<dyn Erased<S>>>,
    ways: Vec<(String, Named<S>)>,
    start: Option<String>,
}

/// A way by names.
enum Named<S> {
    Edge(String),
    Branch(Vec<String>, Choose<S>),
    Fan(Vec<String>),
    Join(String),
}

impl<S> fmt::Debug for Draft<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<S: Clone + Send + Sync + 'static> Draft<S> {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            nodes: Vec::new(),
            ways: Vec::new(),
            start: None,
        }
    }

    /// Adds a node. The first one is the start unless [`Draft::start`] says otherwise.
    pub fn node<T>(mut self, node: Node<S, T>) -> Self
    where
        T: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.nodes.push(Arc::new(node));
        self
    }

    /// After `from` comes `to`, which may be [`END`].
    pub fn edge(mut self, from: &str, to: &str) -> Self {
        self.ways
            .push((from.to_owned(), Named::Edge(to.to_owned())));
        self
    }

    /// After `from` comes the one of `to` that `choose` names. One of them may be [`END`].
    pub fn branch<const N: usize>(
        mut self,
        from: &str,
        to: [&str; N],
        choose: impl Fn(&S) -> &'static str + Send + Sync + 'static,
    ) -> Self {
        let way = Named::Branch(owned(to), Arc::new(choose));
        self.ways.push((from.to_owned(), way));
        self
    }

    /// After `from` come all of `to`, at the same time.
    pub fn fan_out<const N: usize>(mut self, from: &str, to: [&str; N]) -> Self {
        self.ways.push((from.to_owned(), Named::Fan(owned(to))));
        self
    }

    /// After those of `from` that the plan came to comes `to`, once all of them have ended.
    pub fn join<const N: usize>(mut self, from: [&str; N], to: &str) -> Self {
        for from in from {
            self.ways
                .push((from.to_owned(), Named::Join(to.to_owned())));
        }
        self
    }

    /// The node that the plan begins with.
    pub fn start(mut self, node: &str) -> Self {
        self.start = Some(node.to_owned());
        self
    }

    /// The plan, if it can work.
    ///
    /// # Errors
    /// [`Unsound`] names the node that is unknown, twice there, never come to, in a loop without a branch, without a
    /// way to the end, or reached by two arms of a fan-out without a join.
    pub fn build(self) -> Result<Plan<S>, Unsound> {
        let indices = self.indices()?;
        let start = match &self.start {
            Some(start) => find(&indices, start)?,
            None => 0,
        };
        let mut ways: Vec<Way<S>> = self.nodes.iter().map(|_| Way::End).collect();
        let mut has_way = HashSet::new();
        for (from, way) in self.ways {
            let index = find(&indices, &from)?;
            if !has_way.insert(index) {
                return Err(Unsound::new(&from, "has two ways on; branch or fan out"));
            }
            ways[index] = resolve(&indices, &from, way)?;
        }
        let reach = reach(&ways);
        let graph = Graph {
            name: self.name,
            nodes: self.nodes,
            ways,
            start,
            reach,
        };
        graph.check()?;
        Ok(Plan {
            graph: Arc::new(graph),
        })
    }

    fn indices(&self) -> Result<HashMap<String, usize>, Unsound> {
        let mut indices = HashMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let name = node.name();
            Op::check_kind(name)
                .map_err(|invalid| Unsound::new(name, format!("has a name that {invalid}")))?;
            if &**name == END {
                return Err(Unsound::new(name, "has the name of the end"));
            }
            if indices.insert(name.to_string(), index).is_some() {
                return Err(Unsound::new(name, "is there twice"));
            }
        }
        if indices.is_empty() {
            return Err(Unsound::new(
                &self.name,
                "is needed: a plan has at least one",
            ));
        }
        Ok(indices)
    }
}

fn owned<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

fn find(indices: &HashMap<String, usize>, name: &str) -> Result<usize, Unsound> {
    let found = indices.get(name).copied();
    found.ok_or_else(|| Unsound::new(name, "is unknown"))
}

fn resolve<S>(
    indices: &HashMap<String, usize>,
    from: &str,
    way: Named<S>,
) -> Result<Way<S>, Unsound> {
    let all = |names: &[String]| -> Result<Vec<usize>, Unsound> {
        if names.is_empty() {
            return Err(Unsound::new(from, "leads to a list of nothing"));
        }
        names.iter().map(|name| find(indices, name)).collect()
    };
    Ok(match way {
        Named::Edge(to) if to == END => Way::End,
        Named::Edge(to) => Way::Edge(find(indices, &to)?),
        Named::Join(to) => Way::Join(find(indices, &to)?),
        Named::Fan(to) => Way::Fan(all(&to)?),
        Named::Branch(to, choose) => {
            if to.is_empty() {
                return Err(Unsound::new(from, "leads to a list of nothing"));
            }
            let ways = to.iter().map(|name| match name.as_str() {
                END => Ok(None),
                name => find(indices, name).map(Some),
            });
            Way::Branch(ways.collect::<Result<_, _>>()?, choose)
        }
    })
}

/// Which nodes can be come to from which, by one step or more.
fn reach<S>(ways: &[Way<S>]) -> Vec<Vec<bool>> {
    (0..ways.len())
        .map(|from| spread(ways, &ways[from].next().0, |_| true))
        .collect()
}

/// The nodes that can be come to from `from`, itself included, over nodes that `may` be entered.
fn spread<S>(ways: &[Way<S>], from: &[usize], may: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut seen = vec![false; ways.len()];
    let mut open: Vec<usize> = from.to_vec();
    while let Some(node) = open.pop() {
        if may(node) && !std::mem::replace(&mut seen[node], true) {
            open.extend(ways[node].next().0);
        }
    }
    seen
}

impl<S> Graph<S> {
    fn check(&self) -> Result<(), Unsound> {
        self.check_ways()?;
        for node in 0..self.nodes.len() {
            self.check_loop(node)?;
            self.check_fan(node)?;
        }
        Ok(())
    }

    fn unsound(&self, node: usize, problem: impl Into<String>) -> Unsound {
        Unsound::new(self.nodes[node].name(), problem)
    }

    /// Every node is come to, and from every node the end is.
    fn check_ways(&self) -> Result<(), Unsound> {
        let from_start = spread(&self.ways, &[self.start], |_| true);
        let ends: Vec<bool> = self.ways.iter().map(|way| way.next().1).collect();
        for (node, is_reached) in from_start.into_iter().enumerate() {
            if !is_reached {
                return Err(self.unsound(node, "is never come to"));
            }
            let comes_to_end = |to: usize| self.reach[node][to] && ends[to];
            if !ends[node] && !(0..self.nodes.len()).any(comes_to_end) {
                return Err(self.unsound(node, "has no way to the end"));
            }
        }
        Ok(())
    }

    /// A loop needs a branch that can leave it.
    fn check_loop(&self, node: usize) -> Result<(), Unsound> {
        let mut open = vec![node];
        let mut seen = HashSet::new();
        while let Some(at) = open.pop() {
            if matches!(self.ways[at], Way::Branch(..)) {
                continue;
            }
            for to in self.ways[at].next().0 {
                if to == node {
                    return Err(self.unsound(node, "is in a loop without a branch"));
                }
                if seen.insert(to) {
                    open.push(to);
                }
            }
        }
        Ok(())
    }

    /// Two arms of a fan-out meet in a join only, or the node where they meet would run twice.
    fn check_fan(&self, node: usize) -> Result<(), Unsound> {
        let Way::Fan(arms) = &self.ways[node] else {
            return Ok(());
        };
        for (at, arm) in arms.iter().enumerate() {
            for other in &arms[at + 1..] {
                if let Some(met) = self.meet_unjoined(*arm, *other) {
                    let from = self.nodes[node].name();
                    let problem =
                        format!("is reached by two arms of the fan-out of {from:?} without a join");
                    return Err(self.unsound(met, problem));
                }
            }
        }
        Ok(())
    }

    /// A node that two arms come to before a join made one of them.
    fn meet_unjoined(&self, one: usize, other: usize) -> Option<usize> {
        let comes = |arm: usize, to: usize| arm == to || self.reach[arm][to];
        let is_shared = |to: usize| self.is_join(to) && comes(one, to) && comes(other, to);
        let before = |arm: usize| spread(&self.ways, &[arm], |to| !is_shared(to));
        let arms = [before(one), before(other)];
        let passes_by = |from: usize| match &self.ways[from] {
            Way::Join(_) => None,
            way => way.next().0.into_iter().find(|to| is_shared(*to)),
        };
        if let Some(arm) = [one, other].into_iter().find(|arm| is_shared(*arm)) {
            return Some(arm);
        }
        (0..self.nodes.len())
            .find(|to| arms[0][*to] && arms[1][*to])
            .or_else(|| {
                let in_arms = (0..self.nodes.len()).filter(|from| arms[0][*from] || arms[1][*from]);
                in_arms.into_iter().find_map(passes_by)
            })
    }

    fn is_join(&self, node: usize) -> bool {
        self.ways
            .iter()
            .any(|way| matches!(way, Way::Join(to) if *to == node))
    }
}
