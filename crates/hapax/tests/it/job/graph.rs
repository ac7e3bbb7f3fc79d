//! What may be built as a plan, and how it is drawn.

use std::sync::Arc;

use hapax::job::{Class, Draft, END, Fault, Node, OpState, Plan, Step};

use super::Bench;

fn node(name: &str) -> Node<(), ()> {
    Node::new(name, Class::Replayable, |_: Step, _: Arc<()>| async {
        Ok::<(), Fault>(())
    })
}

fn draft(names: &[&str]) -> Draft<()> {
    let empty = Plan::named("test");
    names
        .iter()
        .fold(empty, |draft, name| draft.node(node(name)))
}

#[test]
fn a_plan_that_could_not_work_is_refused_and_the_node_is_named() {
    let ab = || draft(&["A", "B"]);
    let abcd = || draft(&["A", "B", "C", "D"]);
    let cases: [(Draft<()>, &str, &str); 14] = [
        (draft(&[]), "test", "at least one"),
        (ab().edge("A", "X"), "X", "unknown"),
        (ab().edge("A", "B").start("X"), "X", "unknown"),
        (draft(&["A", "A"]), "A", "twice"),
        (draft(&["A", END]), END, "name of the end"),
        (draft(&["a b"]), "a b", "name that"),
        (ab(), "B", "never come to"),
        (ab().edge("A", "B").edge("A", END), "A", "two ways"),
        (ab().edge("A", "B").edge("B", "A"), "A", "no way to the end"),
        (
            draft(&["A", "B", "C"])
                .edge("A", "B")
                .fan_out("B", ["A", "C"]),
            "A",
            "loop without a branch",
        ),
        (
            ab().edge("A", "B").branch("B", ["A"], |()| "A"),
            "A",
            "no way to the end",
        ),
        (
            abcd()
                .fan_out("A", ["B", "C"])
                .edge("B", "D")
                .edge("C", "D"),
            "D",
            "without a join",
        ),
        (
            draft(&["A", "B", "C"])
                .edge("A", END)
                .join(["B", "C"], "A")
                .edge("A", "B"),
            "A",
            "two ways",
        ),
        (ab().branch("A", [], |()| "B"), "A", "list of nothing"),
    ];
    for (draft, node, problem) in cases {
        let unsound = draft.build().expect_err(problem);
        assert_eq!(unsound.node(), node, "{unsound}");
        assert!(unsound.to_string().contains(problem), "{unsound}");
    }
}

#[test]
fn arms_of_a_fan_out_that_meet_anywhere_but_in_their_join_are_refused() {
    let five = || draft(&["A", "B", "C", "D", "E"]).fan_out("A", ["B", "C", "E"]);
    let three = || draft(&["A", "B", "C", "D"]).fan_out("A", ["B", "C"]);
    let cases = [
        // D is joined by B and C, but E goes past the join.
        (five().join(["B", "C"], "D").edge("E", "D"), "D"),
        (three().join(["B"], "D").edge("C", "D"), "D"),
        // C goes back to before the fan-out while B is still on its way.
        (three().branch("C", ["A", "D"], |()| "D"), "B"),
        (
            draft(&["A", "B", "D"])
                .fan_out("A", ["B", "D"])
                .join(["B"], "D"),
            "D",
        ),
    ];
    for (draft, node) in cases {
        let unsound = draft.build().expect_err(node);
        assert_eq!(unsound.node(), node, "{unsound}");
        assert!(unsound.to_string().contains("without a join"), "{unsound}");
    }
}

#[test]
fn joins_of_joins_and_loops_around_a_whole_fan_out_are_allowed() {
    let nested = draft(&["A", "B", "C", "D", "E", "F"])
        .fan_out("A", ["B", "C", "E"])
        .join(["B", "C"], "D")
        .join(["D", "E"], "F");
    nested.build().unwrap();
    let around = draft(&["A", "B", "B2", "C", "D"])
        .fan_out("A", ["B", "C"])
        .edge("B", "B2")
        .join(["B2", "C"], "D")
        .branch("D", ["A", END], |()| END);
    around.build().unwrap();
}

#[tokio::test]
async fn a_plan_is_drawn_with_its_nodes_coloured_by_how_they_stand() {
    let plan = draft(&["A", "B", "C", "D", "E"])
        .fan_out("A", ["B", "C"])
        .join(["B", "C"], "D")
        .branch("D", ["E", END], |()| END)
        .build()
        .unwrap();
    let drawn = plan.mermaid();
    let expected = "flowchart TD
  start([start])
  n0[\"A\"]
  n1[\"B\"]
  n2[\"C\"]
  n3[\"D\"]
  n4[\"E\"]
  finish([end])
  start --> n0
  n0 ==> n1
  n0 ==> n2
  n1 ==> n3
  n2 ==> n3
  n3 -.-> n4
  n3 -.-> finish
  n4 --> finish
";
    assert_eq!(drawn, expected);

    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    plan.run(&held, (), &hapax::job::Events::none())
        .await
        .unwrap();
    let (_, mut ops) = bench.stored().await;
    assert_eq!(ops.len(), 4);
    ops[1].state = OpState::InDoubt;
    let drawn = plan.mermaid_of(&ops);
    assert!(drawn.starts_with(expected), "{drawn}");
    assert!(
        drawn.contains("classDef done fill:#d1e7dd\n  class n0,n2,n3 done\n"),
        "{drawn}"
    );
    assert!(drawn.contains("class n1 in_doubt\n"), "{drawn}");
}
