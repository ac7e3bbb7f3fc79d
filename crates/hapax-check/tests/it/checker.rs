//! Every rule of the checker finds its breach, and says nothing of a history that keeps it.

use hapax_check::{Act, Cause, History, KeyId, Rules, Told};

struct Told1 {
    history: History,
    key: KeyId,
}

/// A history of one key, told in short words.
impl Told1 {
    fn under(rules: Rules) -> Self {
        let mut history = History::new(rules);
        let key = history.key("t", "k");
        Self { history, key }
    }

    fn new() -> Self {
        Self::under(Rules::default())
    }

    fn tell(&mut self, act: Act, told: Told) {
        let op = self.history.invoke(1, self.key, act);
        self.history.ok(op, told);
    }

    fn grant(&mut self, fence: i64, cause: Cause) {
        let expires_at = Some(100);
        self.tell(
            Act::Claim { asked: 1 },
            Told::Granted {
                fence,
                cause,
                expires_at,
            },
        );
    }

    fn settle(&mut self, fence: i64, body: &str) {
        let body = body.as_bytes().to_vec();
        let told = Told::Recorded {
            body: body.clone(),
            expires_at: Some(100),
        };
        self.tell(Act::Settle { fence, body }, told);
    }

    fn replay(&mut self, body: &str) {
        self.tell(
            Act::Claim { asked: 1 },
            Told::Replay(body.as_bytes().to_vec()),
        );
    }

    #[track_caller]
    fn is_fine(&self) {
        assert_eq!(self.history.violations(), []);
    }

    #[track_caller]
    fn is_wrong(&self, words: &str) {
        let all: Vec<String> = self
            .history
            .violations()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(
            all.iter().any(|what| what.contains(words)),
            "{words:?} is not in {all:?}"
        );
    }
}

#[test]
fn a_life_with_one_effect_and_the_same_answer_for_all_is_fine() {
    let mut told = Told1::new();
    told.grant(1, Cause::New);
    told.history.effect(told.key, 1);
    told.settle(1, "a");
    told.replay("a");
    told.replay("a");
    told.is_fine();
    assert_eq!(told.history.told().count(), 1);
}

#[test]
fn a_second_effect_needs_a_take_over() {
    let mut told = Told1::new();
    told.grant(1, Cause::New);
    told.history.effect(told.key, 1);
    told.grant(2, Cause::Taken);
    told.history.effect(told.key, 2);
    told.is_fine();
    told.history.effect(told.key, 2);
    told.is_wrong("3 effects in one life, 2 allowed under retry");
}

#[test]
fn under_hold_nothing_is_taken_over() {
    let rules = Rules {
        holds: true,
        ..Rules::default()
    };
    let mut told = Told1::under(rules);
    told.grant(1, Cause::New);
    told.history.time(1000);
    told.tell(Act::Claim { asked: 1 }, Told::InDoubt);
    told.is_fine();
    told.grant(2, Cause::Taken);
    told.is_wrong("the policy holds it");
}

#[test]
fn under_hold_doubt_does_not_expire() {
    let rules = Rules {
        holds: true,
        ..Rules::default()
    };
    let mut told = Told1::under(rules);
    told.grant(1, Cause::New);
    told.history.time(1000);
    told.grant(2, Cause::New);
    told.is_wrong("granted again as new");
}

#[test]
fn two_outcomes_in_one_life_are_seen() {
    let mut told = Told1::new();
    told.grant(1, Cause::New);
    told.grant(2, Cause::Taken);
    told.settle(2, "b");
    told.is_fine();
    told.settle(1, "a");
    told.is_wrong("two outcomes in one life");
    told.is_wrong("fence 1 wrote after another lease was given");
}

#[test]
fn an_answer_of_another_tenant_is_named() {
    let mut told = Told1::new();
    told.grant(1, Cause::New);
    told.settle(1, "a");
    let other = told.history.key("other", "k");
    let claim = told.history.invoke(2, other, Act::Claim { asked: 1 });
    told.history.ok(claim, Told::Replay(b"a".to_vec()));
    told.is_wrong("which is of k of t");
}

#[test]
fn an_answer_that_nobody_gave_is_seen() {
    let mut told = Told1::new();
    told.grant(1, Cause::New);
    told.replay("z");
    told.is_wrong("nobody asked to record");
}

#[test]
fn what_was_told_is_not_taken_back() {
    for (told_then, words) in [
        (Told::Busy, "somebody acts, although"),
        (Told::InDoubt, "it is in doubt, although"),
    ] {
        let mut told = Told1::new();
        told.grant(1, Cause::New);
        told.settle(1, "a");
        told.tell(Act::Claim { asked: 1 }, told_then);
        told.is_wrong(words);
    }
}

#[test]
fn a_new_life_begins_after_the_end_of_the_last_and_not_before() {
    let mut told = Told1::new();
    told.grant(1, Cause::New);
    told.settle(1, "a");
    told.history.time(99);
    told.history.time(100);
    told.grant(2, Cause::New);
    told.settle(2, "b");
    told.replay("b");
    told.is_fine();
    told.replay("a");
    told.is_wrong("of a life that was over before it asked");
}

#[test]
fn a_deleted_key_begins_again_and_a_refused_delete_ends_nothing() {
    let mut told = Told1::new();
    told.grant(1, Cause::New);
    told.settle(1, "a");
    told.tell(Act::End, Told::Done);
    told.grant(2, Cause::New);
    told.is_fine();
    told.settle(2, "b");
    told.tell(Act::End, Told::Refused);
    told.grant(3, Cause::New);
    told.is_wrong("granted again as new");
}

#[test]
fn a_fence_never_falls() {
    let mut told = Told1::new();
    told.grant(5, Cause::New);
    told.tell(Act::Release { fence: 5 }, Told::Done);
    told.grant(5, Cause::New);
    told.is_wrong("fence 5 is not above");
}

#[test]
fn a_conflict_or_a_mark_needs_its_reason() {
    let mut told = Told1::new();
    told.grant(1, Cause::New);
    told.tell(Act::Claim { asked: 2 }, Told::Conflict);
    told.is_fine();
    told.tell(Act::Claim { asked: 1 }, Told::Erased);
    told.is_wrong("erased, although nobody asked");
    let mut told = Told1::new();
    told.tell(Act::Claim { asked: 1 }, Told::Conflict);
    told.is_wrong("all asked for the same");
}

#[test]
fn what_a_cut_off_client_did_may_be_told_to_others() {
    let mut told = Told1::new();
    told.grant(1, Cause::New);
    let body = b"a".to_vec();
    let settle = told
        .history
        .invoke(1, told.key, Act::Settle { fence: 1, body });
    told.history.unknown(settle);
    told.replay("a");
    told.is_fine();
    assert_eq!(told.history.counts().unknown, 1);
}
