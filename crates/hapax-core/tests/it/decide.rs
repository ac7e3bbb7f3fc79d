//! The rule as a table, and against a small model over random histories.

use std::time::Duration;

use hapax_core::{
    Cause, Claim, Doubt, Fingerprint, Key, OnLost, Outcome, Owner, Policy, Principal, Record,
    Scope, State, Tenant, Time, Verdict, Version, decide,
};
use proptest::prelude::*;

const TTL: Duration = Duration::from_secs(600);
const LEASE: Duration = Duration::from_secs(30);

fn claim(owner: u128, asked: &[u8], on_lost: OnLost) -> Claim {
    let scope = Scope::new(Tenant::DEFAULT, "POST:test").unwrap();
    let policy = Policy {
        ttl: TTL,
        lease: LEASE,
        wait: Duration::ZERO,
        on_lost,
    };
    Claim::new(
        scope,
        Key::new("k").unwrap(),
        Fingerprint::of(asked),
        Owner::from_u128(owner),
    )
    .with_policy(policy)
}

fn at(seconds: u64) -> Time {
    Time::from_ms(1_700_000_000_000).plus(Duration::from_secs(seconds))
}

fn held(on_lost: OnLost) -> Record {
    let claim = claim(1, b"asked", on_lost);
    match decide(None, &claim, at(0)) {
        Verdict::Grant(grant) => grant.next,
        other => panic!("a fresh key is granted, got {other:?}"),
    }
}

/// A verdict in short, so that the table below reads as one.
fn word(verdict: &Verdict<'_>) -> &'static str {
    match verdict {
        Verdict::Grant(grant) => match grant.cause {
            Cause::Fresh => "grant fresh",
            Cause::Expired => "grant expired",
            Cause::Lost => "grant lost",
            Cause::Mine => "grant mine",
        },
        Verdict::Replay(_) => "replay",
        Verdict::Busy(_) => "busy",
        Verdict::Conflict(_) => "conflict",
        Verdict::Lost(Doubt::RunnerDied) => "lost: runner died",
        Verdict::Lost(Doubt::OutcomeUnknown) => "lost: outcome unknown",
        Verdict::Lost(Doubt::ResponseNotStored(_)) => "lost: response not stored",
        Verdict::Erased => "erased",
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "it is a table")]
fn every_state_answers_every_claim_as_the_table_says() {
    let retry = held(OnLost::Retry);
    let hold = held(OnLost::Hold);
    let settled = retry.settled(Outcome::text(200, "ok"), at(1));
    let unkept = retry.settled(Outcome::not_kept(200), at(1));
    let freed = retry.freed(at(1));
    let expired = Record {
        state: State::Expired,
        ..settled.clone()
    };
    let unknown_retry = retry.doubted(Doubt::OutcomeUnknown);
    let unknown_hold = hold.doubted(Doubt::OutcomeUnknown);
    let erased = settled.erased(at(2));
    let erased_held = held(OnLost::Hold).erased(at(2));
    let erased_late = unknown_hold.erased(at(60_000));

    // state, seconds, the same request, another request
    let table: [(&str, &Record, u64, &str, &str); 26] = [
        ("held, live", &retry, 10, "busy", "conflict"),
        (
            "held, to the end of its lease",
            &retry,
            29,
            "busy",
            "conflict",
        ),
        ("held, lost", &retry, 30, "grant lost", "conflict"),
        (
            "held, lost and over",
            &retry,
            600,
            "grant expired",
            "grant expired",
        ),
        ("held under hold, live", &hold, 10, "busy", "conflict"),
        (
            "held under hold, lost",
            &hold,
            30,
            "lost: runner died",
            "conflict",
        ),
        (
            "held under hold, long after",
            &hold,
            60_000,
            "lost: runner died",
            "conflict",
        ),
        ("settled", &settled, 10, "replay", "conflict"),
        (
            "settled, to the end of its time",
            &settled,
            599,
            "replay",
            "conflict",
        ),
        (
            "settled, over",
            &settled,
            600,
            "grant expired",
            "grant expired",
        ),
        (
            "settled, answer too large",
            &unkept,
            10,
            "lost: response not stored",
            "conflict",
        ),
        (
            "settled, answer too large, over",
            &unkept,
            600,
            "grant expired",
            "grant expired",
        ),
        ("given back", &freed, 10, "grant fresh", "grant fresh"),
        (
            "given back, over",
            &freed,
            600,
            "grant fresh",
            "grant fresh",
        ),
        ("swept", &expired, 10, "grant expired", "grant expired"),
        (
            "swept, over",
            &expired,
            600,
            "grant expired",
            "grant expired",
        ),
        ("unknown", &unknown_retry, 10, "grant lost", "conflict"),
        (
            "unknown, over",
            &unknown_retry,
            600,
            "grant expired",
            "grant expired",
        ),
        (
            "unknown under hold",
            &unknown_hold,
            10,
            "lost: outcome unknown",
            "conflict",
        ),
        (
            "unknown under hold, long after",
            &unknown_hold,
            60_000,
            "lost: outcome unknown",
            "conflict",
        ),
        ("erased", &erased, 10, "erased", "erased"),
        ("erased, to the end", &erased, 599, "erased", "erased"),
        (
            "erased, over",
            &erased,
            600,
            "grant expired",
            "grant expired",
        ),
        ("erased while held", &erased_held, 31, "erased", "erased"),
        (
            "erased in doubt, long after its time",
            &erased_late,
            60_599,
            "erased",
            "erased",
        ),
        (
            "erased in doubt, over",
            &erased_late,
            60_600,
            "grant expired",
            "grant expired",
        ),
    ];
    for (state, record, seconds, same, other) in table {
        // The claimant's own policy says the opposite: the record's policy rules.
        let policy = if record.on_lost == OnLost::Hold {
            OnLost::Retry
        } else {
            OnLost::Hold
        };
        assert_eq!(
            word(&decide(
                Some(record),
                &claim(2, b"asked", policy),
                at(seconds)
            )),
            same,
            "{state}"
        );
        assert_eq!(
            word(&decide(
                Some(record),
                &claim(2, b"other", policy),
                at(seconds)
            )),
            other,
            "{state}, other"
        );
    }
}

#[test]
fn an_attempt_recognises_its_own_hold_even_when_its_lease_is_lost() {
    for on_lost in [OnLost::Retry, OnLost::Hold] {
        let record = held(on_lost);
        for seconds in [1, 31, 700] {
            let verdict = decide(Some(&record), &claim(1, b"asked", on_lost), at(seconds));
            let Verdict::Grant(grant) = verdict else {
                panic!("it is mine, got {verdict:?}")
            };
            assert_eq!(grant.cause, Cause::Mine);
            assert_eq!(
                grant.next.hold().unwrap().epoch,
                record.hold().unwrap().epoch,
                "the same lease"
            );
            assert!(grant.next.version > record.version, "confirmed by a write");
        }
    }
}

#[test]
fn a_replay_is_only_for_the_principal_who_asked() {
    let alice = Claim {
        principal: Some(Principal::of(b"alice")),
        ..claim(1, b"asked", OnLost::Retry)
    };
    let Verdict::Grant(grant) = decide(None, &alice, at(0)) else {
        panic!("fresh")
    };
    let settled = grant.next.settled(Outcome::text(200, "alice's"), at(1));
    for (principal, expected) in [
        (Some("alice"), "replay"),
        (Some("bob"), "conflict"),
        (None, "conflict"),
    ] {
        let principal = principal.map(|name| Principal::of(name.as_bytes()));
        let asked = Claim {
            principal,
            ..claim(2, b"asked", OnLost::Retry)
        };
        assert_eq!(word(&decide(Some(&settled), &asked, at(2))), expected);
    }
}

/// Nobody knows yet whether the first caller's credential is any good: if it is refused, the key is free.
#[test]
fn while_somebody_else_acts_under_a_key_it_is_busy_and_no_conflict() {
    let bob = |asked: &[u8]| Claim {
        principal: Some(Principal::of(b"bob")),
        ..claim(2, asked, OnLost::Retry)
    };
    for on_lost in [OnLost::Retry, OnLost::Hold] {
        let record = held(on_lost);
        for asked in [&b"asked"[..], b"other"] {
            let told = |seconds| word(&decide(Some(&record), &bob(asked), at(seconds)));
            assert_eq!((told(0), told(29)), ("busy", "busy"));
            // Whoever held it may have done something: that is not for others to repeat.
            assert_eq!((told(30), told(31)), ("conflict", "conflict"));
            let freed = record.freed(at(1));
            assert_eq!(
                word(&decide(Some(&freed), &bob(asked), at(2))),
                "grant fresh"
            );
        }
    }
}

#[test]
fn a_version_is_never_below_the_clock_it_was_seeded_from() {
    let record = held(OnLost::Retry);
    assert_eq!(record.version, Version::seeded(at(0)));
    let Verdict::Grant(grant) = decide(Some(&record), &claim(2, b"asked", OnLost::Retry), at(40))
    else {
        panic!("lost")
    };
    assert_eq!(
        grant.next.version,
        Version::seeded(at(40)),
        "a new grant starts from the clock"
    );
    // Even if the clock went back, the version does not.
    let swept = Record {
        state: State::Expired,
        ..grant.next.clone()
    };
    let Verdict::Grant(again) = decide(Some(&swept), &claim(3, b"asked", OnLost::Retry), at(1))
    else {
        panic!("swept")
    };
    assert!(again.next.version > grant.next.version);
}

/// One thing that happens to a key in the model.
#[derive(Clone, Debug)]
enum Step {
    Claim { asked: u8 },
    Settle { holder: usize },
    Release { holder: usize },
    Renew { holder: usize },
    Erase,
    Pass { seconds: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u8..2).prop_map(|asked| Step::Claim { asked }),
        3 => (0usize..6).prop_map(|holder| Step::Settle { holder }),
        1 => (0usize..6).prop_map(|holder| Step::Release { holder }),
        1 => (0usize..6).prop_map(|holder| Step::Renew { holder }),
        1 => Just(Step::Erase),
        2 => (1u64..400).prop_map(|seconds| Step::Pass { seconds }),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Whatever happens in whatever order: one holder at a time, one outcome per life, no stale write,
    /// and under `hold` never a second run without a release.
    #[test]
    fn random_histories_keep_one_holder_and_one_outcome_per_life(history in steps(), on_hold in any::<bool>()) {
        let on_lost = if on_hold { OnLost::Hold } else { OnLost::Retry };
        let mut stored: Option<Record> = None;
        let mut seconds = 0;
        let mut leases: Vec<Record> = Vec::new();
        let mut runs_since_release = 0;
        for (owner, step) in history.into_iter().enumerate() {
            let now = at(seconds);
            match step {
                Step::Pass { seconds: more } => seconds += more,
                Step::Erase => stored = stored.map(|record| match record.state {
                    State::Free | State::Expired => record,
                    _ => record.erased(now),
                }),
                Step::Claim { asked } => {
                    let claim = claim(owner as u128 + 10, &[asked], on_lost);
                    let verdict = decide(stored.as_ref(), &claim, now);
                    match verdict {
                        Verdict::Grant(grant) => {
                            if let Some(seen) = &stored {
                                prop_assert!(grant.next.version > seen.version);
                                let live = matches!(&seen.state, State::Held(hold) if hold.until > now);
                                prop_assert!(!live, "a live lease is never taken over");
                                let done = matches!(seen.state, State::Settled { .. } | State::Erased);
                                let answers = done && seen.expires_at > now;
                                prop_assert!(!answers, "a settled or erased key is never run again in its life");
                                if !matches!(seen.state, State::Held(_)) { runs_since_release = 0; }
                            }
                            runs_since_release += 1;
                            prop_assert!(!on_hold || runs_since_release == 1, "under hold nothing runs twice");
                            leases.push(grant.next.clone());
                            stored = Some(grant.next);
                        }
                        Verdict::Replay(outcome) => {
                            prop_assert_eq!(outcome.status, 200 + u16::from(asked), "the outcome of this request");
                        }
                        Verdict::Conflict(record) => prop_assert!(record.fingerprint != claim.fingerprint),
                        Verdict::Busy(until) => prop_assert!(until > now),
                        Verdict::Lost(_) => prop_assert!(on_hold),
                        Verdict::Erased => {
                            prop_assert!(stored.as_ref().is_some_and(|seen| seen.state == State::Erased));
                        }
                    }
                }
                Step::Settle { holder } | Step::Release { holder } | Step::Renew { holder } => {
                    let Some(lease) = leases.get(holder) else { continue };
                    // The store's compare-and-set, in one line.
                    let current = stored.as_ref().is_some_and(|record| record.version == lease.version);
                    let next = match step {
                        Step::Settle { .. } => {
                            let status = if lease.fingerprint == Fingerprint::of(&[0]) { 200 } else { 201 };
                            lease.settled(Outcome::text(status, "ok"), now)
                        }
                        Step::Release { .. } => lease.freed(now),
                        Step::Renew { .. } | Step::Claim { .. } | Step::Erase | Step::Pass { .. } => lease.renewed(now),
                    };
                    if current {
                        if matches!(step, Step::Renew { .. }) { leases[holder] = next.clone(); }
                        stored = Some(next);
                    }
                }
            }
        }
    }
}
