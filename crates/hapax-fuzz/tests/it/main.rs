//! Every target keeps its promises on the corpus and on some thousand changes of it, and can be seen to fail.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with the place it failed at"
)]

use std::collections::HashSet;

use hapax_check::Dice;
use hapax_fuzz::{TARGETS, corpus, mutate, target};

fn keeps_its_promises(name: &str) {
    let target = target(name).unwrap();
    let mut pool = corpus::of(name).unwrap();
    assert!(pool.len() > 1, "{name} has no corpus");
    let (mut dice, mut kinds) = (Dice::new(7), HashSet::new());
    for input in pool.clone() {
        kinds.insert((target.run)(&input));
    }
    assert!(
        kinds.len() > 1,
        "the corpus of {name} leads to one thing only"
    );
    for _ in 0..3000 {
        let (one, other) = (dice.index(pool.len()), dice.index(pool.len()));
        let input = mutate::mutated(&pool[one], &pool[other], &mut dice);
        if kinds.insert((target.run)(&input)) {
            pool.push(input);
        }
    }
}

macro_rules! each {
    ($($test:ident: $name:literal),* $(,)?) => {$(
        #[test]
        fn $test() {
            keeps_its_promises($name);
        }
    )*

        #[test]
        fn every_target_is_here() {
            let here = [$($name),*];
            assert!(TARGETS.iter().all(|target| here.contains(&target.name)));
        }
    };
}

each! {
    canonical_json_keeps_its_promises: "canonical",
    keys_keep_their_promises: "key",
    urls_keep_their_promises: "url",
    subjects_keep_their_promises: "subject",
    dates_keep_their_promises: "date",
    mailboxes_keep_their_promises: "mbox",
    messages_keep_their_promises: "mime",
    framing_keeps_its_promises: "framing",
    diffs_keep_their_promises: "diff",
    batch_lines_keep_their_promises: "batch_lines",
}

#[test]
fn one_seed_gives_one_row_of_changes() {
    let row = |seed| {
        let mut dice = Dice::new(seed);
        (0..50)
            .map(|_| mutate::mutated(b"abc", b"{\"d\":1}", &mut dice))
            .collect::<Vec<_>>()
    };
    assert_eq!(row(3), row(3));
    assert_ne!(row(3), row(4));
    assert!(row(3).iter().all(|input| input.len() <= mutate::BYTES_MAX));
}
