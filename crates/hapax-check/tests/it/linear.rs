//! The search for one order finds it where there is one, and says so where there is none.

use hapax_check::{Act, Cause, Linear, Span, Told, is_linear};

fn span(act: Act, from: u64, to: u64, told: Told) -> Span {
    Span {
        client: 1,
        act,
        invoked: from,
        returned: Some(to),
        told: Some(told),
    }
}

fn claim(from: u64, to: u64, told: Told) -> Span {
    span(Act::Claim { asked: 1 }, from, to, told)
}

fn granted(fence: i64, cause: Cause) -> Told {
    Told::Granted {
        fence,
        cause,
        expires_at: None,
    }
}

fn settle(fence: i64, from: u64, to: u64) -> Span {
    let body = vec![1];
    let told = Told::Recorded {
        body: body.clone(),
        expires_at: None,
    };
    span(Act::Settle { fence, body }, from, to, told)
}

fn cut_off(mut span: Span) -> Span {
    span.returned = None;
    span.told = None;
    span
}

#[test]
fn acts_that_overlap_may_have_happened_in_either_order() {
    let spans = [
        claim(1, 4, Told::Busy),
        claim(2, 3, granted(1, Cause::New)),
        settle(1, 5, 8),
        claim(6, 7, Told::Replay(vec![1])),
    ];
    assert_eq!(is_linear(&spans, 1000), Linear::Yes);
}

#[test]
fn an_answer_before_its_cause_has_no_order() {
    let spans = [
        claim(1, 2, granted(1, Cause::New)),
        claim(3, 4, Told::Replay(vec![1])),
        settle(1, 5, 6),
    ];
    assert_eq!(is_linear(&spans, 1000), Linear::No);
}

#[test]
fn two_grants_as_new_have_no_order() {
    let spans = [
        claim(1, 10, granted(1, Cause::New)),
        claim(2, 9, granted(2, Cause::New)),
    ];
    assert_eq!(is_linear(&spans, 1000), Linear::No);
}

#[test]
fn a_lost_holder_does_not_settle_after_a_take_over() {
    let grant = claim(1, 2, granted(1, Cause::New));
    let taken = claim(3, 4, granted(2, Cause::Taken));
    let spans = [grant.clone(), taken.clone(), settle(1, 5, 6)];
    assert_eq!(is_linear(&spans, 1000), Linear::No);
    let spans = [grant, taken, settle(2, 5, 6)];
    assert_eq!(is_linear(&spans, 1000), Linear::Yes);
}

#[test]
fn a_cut_off_act_may_have_happened_later_or_never() {
    let grant = claim(1, 2, granted(1, Cause::New));
    let unknown = cut_off(settle(1, 3, 0));
    let spans = [
        grant.clone(),
        unknown.clone(),
        claim(10, 11, Told::Busy),
        claim(12, 13, Told::Replay(vec![1])),
    ];
    assert_eq!(is_linear(&spans, 1000), Linear::Yes);
    let spans = [grant.clone(), unknown.clone(), claim(10, 11, Told::Busy)];
    assert_eq!(is_linear(&spans, 1000), Linear::Yes);
    // But not happened and then not.
    let spans = [
        grant,
        unknown,
        claim(10, 11, Told::Replay(vec![1])),
        claim(12, 13, Told::Busy),
    ];
    assert_eq!(is_linear(&spans, 1000), Linear::No);
}

#[test]
fn a_history_that_is_too_long_is_said_to_be() {
    let spans: Vec<Span> = (0..200)
        .map(|n| claim(2 * n, 2 * n + 1, Told::Busy))
        .collect();
    assert_eq!(is_linear(&spans, 1000), Linear::TooLarge);
    let all_at_once: Vec<Span> = (0..16).map(|n| claim(n, 1000, Told::Busy)).collect();
    assert_eq!(is_linear(&all_at_once, 1), Linear::No);
    let granted = claim(0, 1000, granted(1, Cause::New));
    let many = [vec![granted], all_at_once].concat();
    assert_eq!(is_linear(&many, 3), Linear::TooLarge);
    assert_eq!(is_linear(&many, 100_000), Linear::Yes);
}
