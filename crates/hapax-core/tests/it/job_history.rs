//! Random histories of one job: several workers lease and act with right and wrong fences while time moves.

use std::time::Duration;

use hapax_core::job::{
    Act, Begun, Change, Class, Deed, Done, Fence, Job, Knock, NewJob, On, Op, OpKey, OpState,
    Place, Refusal, Resolution, State, Taken, judge, take,
};
use hapax_core::{Tenant, Time};
use proptest::prelude::*;

const MAX_ATTEMPTS: u32 = 3;

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// Time goes on.
    Later(u64),
    /// This worker leases, if the job is due.
    Lease { worker: usize, ttl_seconds: u64 },
    /// Somebody acts.
    Act {
        worker: usize,
        whose: Whose,
        deed: Word,
    },
}

/// With which fence.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// That of the worker's last lease.
    Own,
    /// None.
    Nobodys,
    /// One too low.
    Stale,
    /// One that is not given yet.
    Future,
}

/// What, before the tokens are known.
#[derive(Clone, Debug)]
enum Word {
    Renew,
    Release,
    Advance(State),
    Fail(bool),
    Retry,
    Redo,
    Expire,
    Begin(usize, Class),
    Complete(usize, u8, Option<State>),
    FailOp(usize, bool),
    Wait(usize),
    Resolve(usize, u8),
    Doubt(usize),
}

/// The job, its operations, and what the model knows beside them.
struct World {
    now: Time,
    job: Job,
    ops: [Option<Op>; 2],
    /// The epoch and the token of each worker's last lease.
    fences: [i64; 3],
    leases: u32,
    /// The last epoch up to which operations were planned anew.
    redone: i64,
}

impl World {
    fn new() -> Self {
        let now = Time::from_ms(1_700_000_000_000);
        let job = NewJob::download("w", "a", "https://example.org/")
            .unwrap()
            .max_attempts(MAX_ATTEMPTS)
            .at(Tenant::DEFAULT, 1, now);
        Self {
            now,
            job,
            ops: [None, None],
            fences: [-1; 3],
            leases: 0,
            redone: -1,
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Later(seconds) => self.now = self.now.plus(Duration::from_secs(*seconds)),
            Step::Lease {
                worker,
                ttl_seconds,
            } => self.lease(*worker, Duration::from_secs(*ttl_seconds))?,
            Step::Act {
                worker,
                whose,
                deed,
            } => self.act(*worker, *whose, deed)?,
        }
        prop_assert!(!(self.job.is_held(self.now) && self.job.state.is_terminal()));
        prop_assert!(!self.job.state.is_terminal() || self.job.lease.is_none());
        prop_assert!(self.job.failures <= MAX_ATTEMPTS);
        prop_assert_eq!(self.job.attempts, self.leases);
        Ok(())
    }

    fn lease(&mut self, worker: usize, ttl: Duration) -> Result<(), TestCaseError> {
        if !self.job.is_due(self.now) {
            return Ok(());
        }
        prop_assert!(!self.job.is_held(self.now), "what is held is not due");
        let before = self.job.clone();
        match take(&before, &name(worker), ttl, self.now) {
            Taken::Leased(next) => {
                prop_assert_eq!(next.epoch, before.epoch + 1);
                let fresh = matches!(before.state, State::Planned | State::Failed);
                let expected = if fresh { State::Leased } else { before.state };
                prop_assert_eq!(next.state, expected);
                self.leases += 1;
                self.fences[worker] = next.epoch;
                self.job = next;
            }
            Taken::Dead(next) => {
                prop_assert_eq!(next.state, State::Dead);
                prop_assert_eq!(next.epoch, before.epoch);
                prop_assert!(before.lease.is_some(), "only a lease that ran out");
                self.job = next;
            }
        }
        Ok(())
    }

    fn act(&mut self, worker: usize, whose: Whose, word: &Word) -> Result<(), TestCaseError> {
        let (act, number) = self.says(worker, whose, word);
        let before = self.job.clone();
        let seen = number.and_then(|number| self.ops[number].clone());
        let knock = Knock {
            job: Some(&before),
            op: seen.as_ref(),
            now: self.now,
        };
        let change = match judge(knock, &act) {
            Ok(change) => change,
            Err(Refusal::NotFound) => {
                prop_assert!(number.is_some() && seen.is_none());
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        self.was_allowed(&act, seen.as_ref(), &change)?;
        if let Deed::Redo { .. } = act.deed {
            self.redone = before.epoch;
        }
        if let Some(next) = change.job {
            prop_assert!(next.epoch >= before.epoch, "the epoch never falls");
            self.job = next;
        }
        if let Some(next) = change.op {
            self.ops[number.unwrap()] = Some(next);
        }
        Ok(())
    }

    /// Whether what `judge` allowed is allowed, by rules that are stated another way than there.
    fn was_allowed(
        &self,
        act: &Act,
        op: Option<&Op>,
        change: &Change,
    ) -> Result<(), TestCaseError> {
        let before = &self.job;
        let changes = change.job.is_some() || change.op.is_some();
        let is_for_person = matches!(act.deed, Deed::Retry | Deed::Resolve(_) | Deed::Doubt);
        if let (Some(epoch), On::Job(_), false) = (act.fence.epoch, &act.on, is_for_person) {
            let is_current = epoch == before.epoch;
            prop_assert!(is_current || !changes, "another fence changes nothing");
        }
        if let Deed::Complete { token, .. } | Deed::FailOp { token, .. } | Deed::Wait { token, .. } =
            &act.deed
            && changes
        {
            let op = op.unwrap();
            prop_assert_eq!(&*op.token, &**token);
            prop_assert_eq!(op.epoch, before.epoch);
        }
        if act.fence.epoch.is_none() && before.is_held(self.now) && change.job.is_some() {
            prop_assert!(
                matches!(act.on, On::Op(_)) || matches!(act.deed, Deed::Retry),
                "nobody acts on what somebody holds"
            );
        }
        if let Some(next) = &change.job
            && next.state != before.state
        {
            let to_start = matches!(act.deed, Deed::Retry | Deed::Redo { .. });
            prop_assert!(!before.state.is_terminal() || to_start, "an end is an end");
            let along = before.state.followers(&before.kind).contains(&next.state);
            let given_up = next.state == State::Dead
                && (before
                    .state
                    .followers(&before.kind)
                    .contains(&State::Failed)
                    || before.state == State::Failed
                    || matches!(act.deed, Deed::Expire));
            prop_assert!(
                along || given_up || (to_start && next.state == State::Planned),
                "{} to {}",
                before.state,
                next.state
            );
        }
        if let (Some(op), Some(next)) = (op, &change.op)
            && op.state == OpState::Done
        {
            prop_assert!(op.epoch <= self.redone, "a result is recorded once");
            prop_assert_eq!(next.state, OpState::Running);
        }
        if let Done::Begun(Begun::Replay(result), _) = &change.done {
            prop_assert_eq!(op.unwrap().result.as_ref(), Some(result));
        }
        Ok(())
    }

    /// The act, and the number of the operation that it names.
    #[expect(clippy::too_many_lines, reason = "one arm for each deed")]
    fn says(&self, worker: usize, whose: Whose, word: &Word) -> (Act, Option<usize>) {
        let owner = Some(name(worker).into());
        let fence = match whose {
            Whose::Own => Fence {
                owner,
                epoch: Some(self.fences[worker]),
                ..Fence::none()
            },
            Whose::Nobodys => Fence::none(),
            Whose::Stale => Fence {
                owner,
                epoch: Some(self.job.epoch - 1),
                ..Fence::none()
            },
            Whose::Future => Fence {
                owner,
                epoch: Some(self.job.epoch + 1),
                ..Fence::none()
            },
        };
        // Each lease has a token of its own, as each runner has.
        let token = format!("t{}", self.fences[worker]).into();
        let error = "broke".into();
        let (number, deed) = match word.clone() {
            Word::Renew => {
                let ttl = Duration::from_secs(60);
                (None, Deed::Renew { ttl })
            }
            Word::Release => (None, Deed::Release),
            Word::Advance(to) => {
                let (allowed_from, result) = (None, None);
                let deed = Deed::Advance {
                    to,
                    allowed_from,
                    result,
                };
                (None, deed)
            }
            Word::Fail(retryable) => {
                let (error, after) = (Some(error), None);
                let deed = Deed::Fail {
                    error,
                    retryable,
                    after,
                };
                (None, deed)
            }
            Word::Retry => (None, Deed::Retry),
            Word::Redo => {
                let place = Place::default();
                (None, Deed::Redo { place })
            }
            Word::Expire => (None, Deed::Expire),
            Word::Begin(number, class) => {
                let deed = Deed::Begin {
                    key: key(number),
                    kind: "HEAD".into(),
                    class,
                    token,
                };
                let on = On::Job(self.job.id.clone());
                return (Act { on, fence, deed }, Some(number));
            }
            Word::Complete(number, result, advance_to) => {
                let result = result.to_string().into();
                let deed = Deed::Complete {
                    token,
                    result,
                    advance_to,
                };
                (Some(number), deed)
            }
            Word::FailOp(number, retryable) => {
                let deed = Deed::FailOp {
                    token,
                    error,
                    retryable,
                };
                (Some(number), deed)
            }
            Word::Wait(number) => {
                let asks = "1".into();
                (Some(number), Deed::Wait { token, asks })
            }
            Word::Resolve(number, how) => {
                let how = match how {
                    0 => Resolution::Retry,
                    1 => Resolution::Error(error),
                    _ => Resolution::Result(how.to_string().into()),
                };
                (Some(number), Deed::Resolve(how))
            }
            Word::Doubt(number) => (Some(number), Deed::Doubt),
        };
        let on = match number {
            Some(number) => On::Op(key(number)),
            None => On::Job(self.job.id.clone()),
        };
        (Act { on, fence, deed }, number)
    }
}

fn name(worker: usize) -> String {
    format!("worker-{worker}")
}

fn key(number: usize) -> OpKey {
    OpKey::new(&format!("op-{number}")).unwrap()
}

fn word() -> impl Strategy<Value = Word> {
    let state = || prop::sample::select(State::ALL.to_vec());
    let class = prop::sample::select(vec![
        Class::Tx,
        Class::Keyed,
        Class::Probe,
        Class::Replayable,
        Class::AtMostOnce,
    ]);
    let op = || 0..2usize;
    prop_oneof![
        1 => Just(Word::Renew),
        1 => Just(Word::Release),
        6 => state().prop_map(Word::Advance),
        2 => any::<bool>().prop_map(Word::Fail),
        1 => Just(Word::Retry),
        1 => Just(Word::Redo),
        1 => Just(Word::Expire),
        4 => (op(), class).prop_map(|(op, class)| Word::Begin(op, class)),
        4 => (op(), 2..4u8, prop::option::of(state()))
            .prop_map(|(op, result, to)| Word::Complete(op, result, to)),
        1 => (op(), any::<bool>()).prop_map(|(op, retryable)| Word::FailOp(op, retryable)),
        1 => op().prop_map(Word::Wait),
        2 => (op(), 0..4u8).prop_map(|(op, how)| Word::Resolve(op, how)),
        1 => op().prop_map(Word::Doubt),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let whose = prop_oneof![
        8 => Just(Whose::Own),
        2 => Just(Whose::Nobodys),
        1 => Just(Whose::Stale),
        1 => Just(Whose::Future),
    ];
    prop_oneof![
        2 => prop_oneof![0..5u64, 50..130u64, 600..700u64].prop_map(Step::Later),
        3 => (0..3usize, 1..120u64)
            .prop_map(|(worker, ttl_seconds)| Step::Lease { worker, ttl_seconds }),
        8 => (0..3usize, whose, word())
            .prop_map(|(worker, whose, deed)| Step::Act { worker, whose, deed }),
    ]
}

proptest! {
    #[test]
    fn no_history_breaks_the_rule(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step)?;
        }
    }
}
