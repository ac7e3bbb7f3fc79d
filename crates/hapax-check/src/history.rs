//! What clients asked and were told, and what was done, held against the promises as it comes.
//!
//! Every rule is about what one key's clients saw, so any length can be checked, and a key costs what is under way:
//! - an effect happens once in a life, and once more for each take-over that the policy allows;
//! - everybody who is told an outcome in a life is told the same bytes, and somebody asked to record them there;
//! - once somebody was told, nobody acts under the key until that life is over;
//! - a holder that was followed by another writes nothing;
//! - nobody is told what was recorded under another key or tenant.

use std::collections::HashMap;

use crate::event::{Act, Body, Cause, Told, Violation};
use crate::life::{Granted, Lives};
use crate::linear::Span;

/// What may happen in the world that is watched.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the world"
)]
pub struct Rules {
    /// Nobody may take a lost lease over: the policy is `hold`.
    pub holds: bool,
    /// Fences are numbers that rise, and not only names.
    pub fences_rise: bool,
    /// What is cut off may still take effect later, as over a network.
    pub late: bool,
    /// The ledger's clock may be set back, so that a later lease may end before an earlier one.
    pub goes_back: bool,
    /// Spans are kept for [`crate::is_linear`].
    pub spans: bool,
    /// Every answer is printed, to see what led to a failure.
    pub prints: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            holds: false,
            fences_rise: true,
            late: true,
            goes_back: false,
            spans: true,
            prints: false,
        }
    }
}

/// A key of a history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyId(usize);

/// An act that was begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpId(u64);

/// How much was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Acts that were begun.
    pub invoked: u64,
    /// Acts that were answered.
    pub answered: u64,
    /// Acts that failed, so that nothing happened.
    pub failed: u64,
    /// Acts of which nobody knows what became.
    pub unknown: u64,
    /// Effects on the world.
    pub effects: u64,
    /// Leases that were taken over.
    pub takeovers: u64,
    /// Answers "in doubt".
    pub in_doubt: u64,
    /// Outcomes that were recorded.
    pub recorded: u64,
    /// Outcomes that were replayed.
    pub replayed: u64,
    /// Writes that were refused to a holder that was followed by another.
    pub refused: u64,
}

struct Pending {
    key: KeyId,
    client: u64,
    act: Act,
    invoked: u64,
    newest: i64,
    fence_max: Option<i64>,
}

struct KeyLog {
    tenant: String,
    key: String,
    holds: bool,
    lives: Lives,
    spans: Vec<Span>,
}

/// The history of a run.
pub struct History {
    rules: Rules,
    names: HashMap<(String, String), KeyId>,
    keys: Vec<KeyLog>,
    pending: HashMap<OpId, Pending>,
    moment: u64,
    latest: Option<i64>,
    violations: Vec<Violation>,
    counts: Counts,
}

impl History {
    /// An empty history under these rules.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            names: HashMap::new(),
            keys: Vec::new(),
            pending: HashMap::new(),
            moment: 0,
            latest: None,
            violations: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The key of this name.
    pub fn key(&mut self, tenant: &str, key: &str) -> KeyId {
        let holds = self.rules.holds;
        self.key_under(tenant, key, holds)
    }

    /// The key of this name, under a policy of its own.
    pub fn key_under(&mut self, tenant: &str, key: &str, holds: bool) -> KeyId {
        let name = (tenant.to_owned(), key.to_owned());
        *self.names.entry(name).or_insert_with_key(|(tenant, key)| {
            self.keys.push(KeyLog {
                tenant: tenant.clone(),
                key: key.clone(),
                holds,
                lives: Lives::new(),
                spans: Vec::new(),
            });
            KeyId(self.keys.len() - 1)
        })
    }

    /// The ledger's clock says this now. Needed only where records expire.
    pub fn time(&mut self, now: i64) {
        self.latest = self.latest.max(Some(now));
    }

    /// A client begins an act.
    pub fn invoke(&mut self, client: u64, key: KeyId, act: Act) -> OpId {
        self.counts.invoked += 1;
        self.moment += 1;
        let lives = &mut self.keys[key.0].lives;
        match &act {
            Act::Claim { asked } => {
                if !lives.asked.contains(asked) {
                    lives.asked.push(*asked);
                }
            }
            Act::Settle { fence, body } => {
                if let Some(life) = lives.of_fence(*fence) {
                    life.proposed.push((*fence, body.clone()));
                }
            }
            Act::Release { fence } => {
                if let Some(life) = lives.of_fence(*fence) {
                    life.enders += 1;
                }
            }
            Act::End | Act::Erase | Act::Rule { .. } => {
                lives.was_erased |= act == Act::Erase;
                if let Act::Rule { body } = &act {
                    lives.ruled.push(body.clone());
                }
                lives.ends_under_way += 1;
                if let Some(life) = lives.last() {
                    life.enders += 1;
                }
            }
            Act::Renew { .. } | Act::Doubt { .. } => {}
        }
        let newest = lives.newest();
        lives.open.push(newest);
        let op = OpId(self.moment);
        let fence_max = lives.fence_max;
        let pending = Pending {
            key,
            client,
            act,
            invoked: self.moment,
            newest,
            fence_max,
        };
        self.pending.insert(op, pending);
        op
    }

    /// The act was answered with this.
    pub fn ok(&mut self, op: OpId, told: Told) {
        self.counts.answered += 1;
        let Some(pending) = self.close(op) else {
            return;
        };
        self.span(&pending, Some(&told));
        match told {
            Told::Granted {
                fence,
                cause,
                expires_at,
            } => self.granted(&pending, fence, cause, expires_at),
            Told::Replay(body) => {
                self.counts.replayed += 1;
                self.answered(&pending, &body, None);
            }
            Told::Recorded { body, expires_at } => {
                self.counts.recorded += 1;
                self.recorded(&pending, &body, expires_at);
            }
            Told::Busy => self.still_acting(&pending, "somebody acts"),
            Told::InDoubt => {
                self.counts.in_doubt += 1;
                self.still_acting(&pending, "it is in doubt");
                if !self.keys[pending.key.0].holds {
                    self.breach(
                        pending.key,
                        "in doubt, although its policy runs lost work again".to_owned(),
                    );
                }
            }
            Told::Conflict => {
                if self.keys[pending.key.0].lives.asked.len() < 2 {
                    self.breach(
                        pending.key,
                        "a conflict, although all asked for the same".to_owned(),
                    );
                }
            }
            Told::Erased => {
                if !self.keys[pending.key.0].lives.was_erased {
                    self.breach(
                        pending.key,
                        "erased, although nobody asked for it".to_owned(),
                    );
                }
            }
            Told::Done => self.done(&pending),
            Told::Refused => {
                self.counts.refused += 1;
                self.not_ended(&pending);
            }
        }
    }

    /// The act certainly changed nothing.
    pub fn fail(&mut self, op: OpId) {
        self.counts.failed += 1;
        if let Some(pending) = self.close(op) {
            self.not_ended(&pending);
        }
    }

    /// Nobody knows what became of the act.
    pub fn unknown(&mut self, op: OpId) {
        self.counts.unknown += 1;
        let Some(pending) = self.close(op) else {
            return;
        };
        self.span(&pending, None);
        if matches!(pending.act, Act::Claim { .. }) {
            self.keys[pending.key.0].lives.unseen_leases += 1;
        }
        if matches!(pending.act, Act::End | Act::Erase | Act::Rule { .. }) {
            let late = self.rules.late;
            let lives = &mut self.keys[pending.key.0].lives;
            lives.ended_at = Some(self.moment);
            if late {
                // It may still end a life that is not begun yet.
                lives.ends_under_way += 1;
            }
            if let Some(life) = lives.last() {
                life.enders += 1;
            }
        }
    }

    /// The effect was done under this fence, as its sink wrote down.
    pub fn effect(&mut self, key: KeyId, fence: i64) {
        self.counts.effects += 1;
        self.moment += 1;
        let holds = self.keys[key.0].holds;
        let Some(life) = self.keys[key.0].lives.of_fence(fence) else {
            return self.breach(
                key,
                format!("an effect under fence {fence}, which nobody was given"),
            );
        };
        for grant in &mut life.grants {
            grant.effects += u32::from(grant.fence == fence);
        }
        let (effects, allowed) = (life.effects(), 1 + life.takeovers);
        if effects > allowed {
            let policy = if holds { "hold" } else { "retry" };
            self.breach(
                key,
                format!("{effects} effects in one life, {allowed} allowed under {policy}"),
            );
        }
    }

    /// What is broken.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// How much was checked.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many keys there are.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Every key with the outcome that somebody was told in its last life, if that life cannot be over.
    pub fn told(&self) -> impl Iterator<Item = (KeyId, &str, &str, &Body)> {
        self.keys.iter().enumerate().filter_map(|(at, log)| {
            let life = log.lives.all.back()?;
            let place = log.lives.all.len().checked_sub(1);
            let may_be_over = self.may_be_over(KeyId(at), place, i64::MAX);
            let body = life.fixed.as_ref().filter(|_| !may_be_over)?;
            Some((KeyId(at), log.tenant.as_str(), log.key.as_str(), body))
        })
    }

    /// The spans of every key, for the search for one order that explains them.
    pub fn spans(&self) -> impl Iterator<Item = (&str, &[Span])> {
        self.keys
            .iter()
            .map(|log| (log.key.as_str(), log.spans.as_slice()))
    }

    fn close(&mut self, op: OpId) -> Option<Pending> {
        self.moment += 1;
        let pending = self.pending.remove(&op)?;
        let lives = &mut self.keys[pending.key.0].lives;
        if let Some(at) = lives.open.iter().position(|open| *open == pending.newest) {
            lives.open.swap_remove(at);
        }
        if matches!(pending.act, Act::End | Act::Erase | Act::Rule { .. }) {
            lives.ends_under_way -= 1;
        }
        Some(pending)
    }

    fn span(&mut self, pending: &Pending, told: Option<&Told>) {
        if self.rules.prints {
            let (log, latest) = (&self.keys[pending.key.0], self.latest);
            println!(
                "{}..{} at {latest:?}, {} of {}: client {}, {:?} -> {told:?}",
                pending.invoked, self.moment, log.key, log.tenant, pending.client, pending.act
            );
        }
        if self.rules.spans {
            self.keys[pending.key.0].spans.push(Span {
                client: pending.client,
                act: pending.act.clone(),
                invoked: pending.invoked,
                returned: told.is_some().then_some(self.moment),
                told: told.cloned(),
            });
        }
    }

    fn granted(&mut self, pending: &Pending, fence: i64, cause: Cause, expires_at: Option<i64>) {
        let (key, returned, invoked) = (pending.key, self.moment, pending.invoked);
        if self.rules.fences_rise
            && pending.fence_max.is_some_and(|max| max >= fence)
            && cause != Cause::Mine
        {
            self.breach(
                key,
                format!(
                    "fence {fence} is not above {:?}, which was given before",
                    pending.fence_max
                ),
            );
        }
        let rise = self.rules.fences_rise;
        let (holds, lives) = (self.keys[key.0].holds, &mut self.keys[key.0].lives);
        lives.fence_max = lives.fence_max.max(Some(fence));
        if cause == Cause::Mine && lives.of_fence(fence).is_some() {
            return;
        }
        let place = lives.before(fence, rise);
        let may_be_over = self.may_be_over(key, place, fence);
        let lives = &mut self.keys[key.0].lives;
        let unsettled = place.is_some_and(|place| {
            let life = &lives.all[place];
            !(life.is_told_before(invoked) || rise && life.is_settled_below(fence))
        });
        let joins = match cause {
            Cause::New => false,
            Cause::Taken => unsettled,
            Cause::Mine => unsettled && !may_be_over,
        };
        let grant = Granted {
            fence,
            invoked,
            returned,
            effects: 0,
            expires_at,
        };
        let mut wrong = None;
        if let Some(place) = place.filter(|_| joins) {
            if holds {
                wrong = Some("a lost lease was taken over, although the policy holds it");
            }
            let life = &mut lives.all[place];
            life.takeovers += 1;
            life.grants.push(grant);
            self.counts.takeovers += 1;
        } else {
            if !may_be_over {
                wrong = Some("granted again as new in the same life");
            }
            // It may have been ended already, before its holder learned of it.
            let may_be_ended = lives.ended_at.is_some_and(|ended| ended > invoked);
            let life = lives.open_life(fence, rise);
            life.enders += u32::from(may_be_ended);
            life.grants.push(grant);
        }
        if let Some(wrong) = wrong {
            self.breach(key, format!("{wrong} (fence {fence})"));
        }
    }

    /// Somebody was told an outcome.
    fn answered(&mut self, pending: &Pending, body: &Body, expires_at: Option<i64>) {
        let (moment, key) = (self.moment, pending.key);
        let shown = String::from_utf8_lossy(body).into_owned();
        // A person's word may fall into any life; the search for an order looks at it more closely.
        if self.keys[key.0].lives.ruled.contains(body) {
            return;
        }
        let Some(life) = self.keys[key.0].lives.of_body(body) else {
            let mut others = self.keys.iter();
            let whose = others
                .find(|log| log.lives.knows(body))
                .map(|log| format!("{} of {}", log.key, log.tenant));
            let what = match whose {
                Some(whose) => format!("was told {shown:?}, which is of {whose}"),
                None => format!("was told {shown:?}, which nobody asked to record"),
            };
            return self.breach(key, what);
        };
        if let Act::Settle { fence, .. } = pending.act {
            life.lasts(fence, expires_at);
        }
        life.told_at = life.told_at.or(Some(moment));
        let start = life.start;
        let fixed = life.fixed.get_or_insert_with(|| body.clone());
        if fixed != body {
            let what = format!(
                "two outcomes in one life: {:?} and {shown:?}",
                String::from_utf8_lossy(fixed)
            );
            return self.breach(key, what);
        }
        if start < pending.newest {
            self.breach(
                key,
                format!("was told {shown:?}, of a life that was over before it asked"),
            );
        }
    }

    fn recorded(&mut self, pending: &Pending, body: &Body, expires_at: Option<i64>) {
        self.answered(pending, body, expires_at);
        if matches!(pending.act, Act::Rule { .. }) {
            return self.done(pending);
        }
        let lives = &mut self.keys[pending.key.0].lives;
        let twice = lives.of_body(body).is_some_and(|life| {
            life.recorded += 1;
            life.recorded > 1
        });
        if twice {
            self.breach(pending.key, "recorded twice in one life".to_owned());
        }
        self.not_stale(pending);
    }

    /// A write under a lease was taken: no other lease may have followed it.
    fn not_stale(&mut self, pending: &Pending) {
        let fence = match pending.act {
            Act::Renew { fence }
            | Act::Settle { fence, .. }
            | Act::Release { fence }
            | Act::Doubt { fence } => fence,
            Act::Claim { .. } | Act::End | Act::Rule { .. } | Act::Erase => return,
        };
        let lives = &self.keys[pending.key.0].lives;
        if lives.is_superseded(fence, pending.invoked) {
            self.breach(
                pending.key,
                format!("fence {fence} wrote after another lease was given"),
            );
        }
    }

    fn still_acting(&mut self, pending: &Pending, what: &str) {
        let place = self.keys[pending.key.0].lives.all.len().checked_sub(1);
        let may_be_over = self.may_be_over(pending.key, place, i64::MAX);
        let life = self.keys[pending.key.0].lives.last();
        let settled = life.is_some_and(|life| life.is_told_before(pending.invoked));
        if settled && !may_be_over {
            self.breach(
                pending.key,
                format!("{what}, although its outcome was told before"),
            );
        }
    }

    fn done(&mut self, pending: &Pending) {
        self.not_stale(pending);
        if matches!(pending.act, Act::End | Act::Erase | Act::Rule { .. }) {
            let lives = &mut self.keys[pending.key.0].lives;
            lives.ended_at = Some(self.moment);
            if let Some(life) = lives.last() {
                life.enders += 1;
            }
        }
    }

    /// An act that could have ended a life did not.
    fn not_ended(&mut self, pending: &Pending) {
        let lives = &mut self.keys[pending.key.0].lives;
        match pending.act {
            Act::Release { fence } => {
                if let Some(life) = lives.of_fence(fence) {
                    life.enders -= 1;
                }
            }
            Act::End | Act::Erase | Act::Rule { .. } => {
                let mut lives = lives.all.iter_mut();
                if let Some(life) = lives.find(|life| life.start == pending.newest) {
                    life.enders -= 1;
                }
            }
            Act::Claim { .. } | Act::Renew { .. } | Act::Settle { .. } | Act::Doubt { .. } => {}
        }
    }

    /// Whether the life at this place, as it was before `fence`, may be over by now. Where there is none, nothing is in
    /// the way.
    fn may_be_over(&self, key: KeyId, place: Option<usize>, fence: i64) -> bool {
        let log = &self.keys[key.0];
        let Some(life) = place.map(|place| &log.lives.all[place]) else {
            return true;
        };
        // Names have no order: there the newest lease counts.
        let below = if self.rules.fences_rise {
            fence
        } else {
            i64::MAX
        };
        let is_late = life
            .expires_at(below)
            .zip(self.latest)
            .is_some_and(|(end, now)| end <= now);
        // A take-over that nobody was told of, or not yet, may have shortened it.
        let is_unseen = log.lives.unseen_leases > 0 || !log.lives.open.is_empty();
        let is_late = is_late || self.rules.goes_back && is_unseen;
        // Under `hold` doubt does not expire; only what somebody asked to record does.
        let may_expire = is_late && (!log.holds || !life.proposed.is_empty());
        life.enders > 0 || log.lives.ends_under_way > 0 || may_expire
    }

    fn breach(&mut self, key: KeyId, what: String) {
        let log = &self.keys[key.0];
        self.violations.push(Violation {
            tenant: log.tenant.clone(),
            key: log.key.clone(),
            what,
        });
    }
}
