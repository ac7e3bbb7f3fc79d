//! A plan as the text of a Mermaid flowchart, with its nodes coloured by how their operations stand.

use std::fmt::Write;

use hapax_core::job::{Op, OpState};

use super::{Plan, Way};

const ALL: [OpState; 6] = [
    OpState::Running,
    OpState::Done,
    OpState::Retryable,
    OpState::Failed,
    OpState::InDoubt,
    OpState::Waiting,
];

const fn colour(state: OpState) -> &'static str {
    match state {
        OpState::Running => "#cfe2ff",
        OpState::Done => "#d1e7dd",
        OpState::Retryable => "#fff3cd",
        OpState::Failed => "#f8d7da",
        OpState::InDoubt => "#ffd8b1",
        OpState::Waiting => "#e2d9f3",
    }
}

impl<S> Plan<S> {
    /// The plan as a Mermaid flowchart: branches are dotted, fan-outs and joins are thick.
    #[must_use]
    pub fn mermaid(&self) -> String {
        self.mermaid_of(&[])
    }

    /// The same, with each node coloured by how its last operation of `ops` stands.
    #[must_use]
    pub fn mermaid_of(&self, ops: &[Op]) -> String {
        let graph = &self.graph;
        let mut text = String::from("flowchart TD\n  start([start])\n");
        for (index, node) in graph.nodes.iter().enumerate() {
            let label = node.name().replace('&', "#amp;").replace('"', "#quot;");
            let _ = writeln!(text, "  n{index}[\"{label}\"]");
        }
        text.push_str("  finish([end])\n");
        let _ = writeln!(text, "  start --> n{}", graph.start);
        for (from, way) in graph.ways.iter().enumerate() {
            let arrow = match way {
                Way::End | Way::Edge(_) => "-->",
                Way::Branch(..) => "-.->",
                Way::Fan(_) | Way::Join(_) => "==>",
            };
            let (next, ends) = way.next();
            for to in next {
                let _ = writeln!(text, "  n{from} {arrow} n{to}");
            }
            if ends {
                let _ = writeln!(text, "  n{from} {arrow} finish");
            }
        }
        self.colour(&mut text, ops);
        text
    }

    fn colour(&self, text: &mut String, ops: &[Op]) {
        let stands = |name: &str| {
            let of_node = ops.iter().filter(|op| op.kind == name);
            of_node.max_by_key(|op| op.started_at).map(|op| op.state)
        };
        for state in ALL {
            let nodes = self.graph.nodes.iter().enumerate();
            let of_state: Vec<String> = nodes
                .filter(|(_, node)| stands(node.name()) == Some(state))
                .map(|(index, _)| format!("n{index}"))
                .collect();
            if !of_state.is_empty() {
                let (class, of_state) = (state.as_str(), of_state.join(","));
                let _ = writeln!(text, "  classDef {class} fill:{}", colour(state));
                let _ = writeln!(text, "  class {of_state} {class}");
            }
        }
    }
}
