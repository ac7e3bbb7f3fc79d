//! What an operator's word gets, as a table, and what it leaves behind.

use std::time::Duration;

use hapax_core::{
    Claim, Doubt, Fingerprint, Key, OnLost, Outcome, Owner, Policy, Principal, Record, Ruling,
    Scope, State, Subject, Tenant, Time, Verdict, Version, decide, overrule,
};

const TTL: Duration = Duration::from_secs(600);

fn at(seconds: u64) -> Time {
    Time::from_ms(1_700_000_000_000).plus(Duration::from_secs(seconds))
}

fn claim(on_lost: OnLost) -> Claim {
    let scope = Scope::new(Tenant::DEFAULT, "POST:test").unwrap();
    let policy = Policy {
        ttl: TTL,
        lease: Duration::from_secs(30),
        wait: Duration::ZERO,
        on_lost,
    };
    let owner = Owner::from_u128(1);
    let mut claim = Claim::new(
        scope,
        Key::new("k").unwrap(),
        Fingerprint::of(b"asked"),
        owner,
    )
    .with_policy(policy)
    .about(Subject::of(b"alice"));
    claim.principal = Some(Principal::of(b"alice"));
    std::sync::Arc::make_mut(&mut claim.request)
        .path
        .push_str("/alice");
    claim
}

fn held(on_lost: OnLost) -> Record {
    Record::granted(&claim(on_lost), Version::seeded(at(0)), at(0))
}

fn word(ruling: &Ruling<'_>) -> &'static str {
    match ruling {
        Ruling::Stands(_) => "stands",
        Ruling::Held(_) => "held",
        Ruling::Settled(..) => "settled",
        Ruling::Erased => "erased",
        Ruling::Absent => "absent",
    }
}

#[test]
fn an_operator_ends_doubt_and_pushes_nobody_aside() {
    let (retry, hold) = (held(OnLost::Retry), held(OnLost::Hold));
    let settled = retry.settled(Outcome::text(200, "ok"), at(1));
    let unkept = retry.settled(Outcome::not_kept(200), at(1));
    let unknown = hold.doubted(Doubt::OutcomeUnknown);
    let unknown_retry = retry.doubted(Doubt::OutcomeUnknown);
    let swept = Record {
        state: State::Expired,
        ..settled.clone()
    };
    let table: [(&str, Option<Record>, u64, &str); 18] = [
        ("nothing", None, 0, "absent"),
        ("held, live", Some(retry.clone()), 29, "held"),
        ("held, lost", Some(retry.clone()), 30, "stands"),
        ("held, over", Some(retry.clone()), 600, "absent"),
        ("held under hold, live", Some(hold.clone()), 29, "held"),
        ("held under hold, lost", Some(hold.clone()), 30, "stands"),
        ("under hold, long after", Some(hold), 60_000, "stands"),
        (
            "unknown, its holder alive",
            Some(unknown.clone()),
            1,
            "stands",
        ),
        (
            "unknown, long after",
            Some(unknown.clone()),
            60_000,
            "stands",
        ),
        (
            "unknown under retry",
            Some(unknown_retry.clone()),
            1,
            "stands",
        ),
        (
            "unknown under retry, over",
            Some(unknown_retry),
            600,
            "absent",
        ),
        ("settled", Some(settled.clone()), 10, "settled"),
        ("settled, over", Some(settled.clone()), 600, "absent"),
        ("answer too large", Some(unkept), 10, "stands"),
        ("given back", Some(retry.freed(at(1))), 10, "absent"),
        ("swept", Some(swept), 10, "absent"),
        ("erased", Some(settled.erased(at(2))), 10, "erased"),
        ("erased, over", Some(settled.erased(at(2))), 600, "absent"),
    ];
    for (state, record, seconds, expected) in table {
        assert_eq!(
            word(&overrule(record.as_ref(), at(seconds))),
            expected,
            "{state}"
        );
    }
}

#[test]
fn what_an_operator_settles_after_its_time_is_replayed_and_not_run_again() {
    let late = held(OnLost::Hold).doubted(Doubt::OutcomeUnknown);
    let ruled = late.ruled(Outcome::text(201, "it did"), at(60_000));
    let mut retry = claim(OnLost::Hold);
    retry.owner = Owner::from_u128(2);
    for seconds in [60_000, 60_599] {
        let verdict = decide(Some(&ruled), &retry, at(seconds));
        assert!(matches!(verdict, Verdict::Replay(_)), "{verdict:?}");
    }
    let early = late.ruled(Outcome::text(201, "it did"), at(40));
    assert_eq!(early.expires_at, late.expires_at, "its own time stays");
}

#[test]
fn an_erased_record_keeps_its_key_and_its_time_and_nothing_else() {
    let held = held(OnLost::Retry);
    let settled = held.settled(Outcome::text(200, "alice's"), at(1));
    let erased = settled.erased(at(2));
    let expected = Record {
        version: settled.version.next(),
        state: State::Erased,
        request: std::sync::Arc::default(),
        fingerprint: Fingerprint::from_bytes([0; 32]),
        principal: None,
        subject: None,
        ..settled
    };
    assert_eq!(erased, expected);
    assert!(erased.hold().is_none(), "nobody can settle it any more");
}
