//! One life of a key: from a grant as new until its time is over or a person ends it.
//! What is kept of it is what later answers must agree with.

use std::collections::VecDeque;

use crate::event::Body;

/// A lease that a client was told of.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) fence: i64,
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
    pub(crate) effects: u32,
    /// Until when the record answers, as the last write under this lease says.
    pub(crate) expires_at: Option<i64>,
}

/// What is known of one life.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    /// Where it stands among the key's lives: its first fence where fences rise, else a count.
    pub(crate) start: i64,
    pub(crate) grants: Vec<Granted>,
    pub(crate) takeovers: u32,
    /// Outcomes that somebody asked to record, and under which fence.
    pub(crate) proposed: Vec<(i64, Body)>,
    /// The outcome that somebody was told.
    pub(crate) fixed: Option<Body>,
    /// When somebody was first told it.
    pub(crate) told_at: Option<u64>,
    pub(crate) recorded: u32,
    /// How many acts may have ended it.
    pub(crate) enders: u32,
}

impl Life {
    fn new(start: i64) -> Self {
        Self {
            start,
            grants: Vec::new(),
            takeovers: 0,
            proposed: Vec::new(),
            fixed: None,
            told_at: None,
            recorded: 0,
            enders: 0,
        }
    }

    pub(crate) fn has(&self, body: &[u8]) -> bool {
        self.proposed.iter().any(|(_, proposed)| proposed == body)
    }

    /// Takes what happened from `fence` on out of this life, into one that begins there: its first grant was told of
    /// later than those that followed it.
    fn split_off(&mut self, fence: i64) -> Self {
        let mut next = Self::new(fence);
        let is_later = |other: i64| other > fence;
        next.grants = self
            .grants
            .extract_if(.., |grant| is_later(grant.fence))
            .collect();
        next.proposed = self
            .proposed
            .extract_if(.., |(other, _)| is_later(*other))
            .collect();
        next.takeovers = u32::try_from(next.grants.len()).unwrap_or(u32::MAX);
        self.takeovers = self.takeovers.saturating_sub(next.takeovers);
        if !next.grants.is_empty() {
            // Which of the two somebody ended is not known.
            next.enders = self.enders;
        }
        if self.fixed.as_ref().is_some_and(|fixed| next.has(fixed)) {
            next.fixed = self.fixed.take();
            next.told_at = self.told_at.take();
            next.recorded = std::mem::take(&mut self.recorded);
        }
        next
    }

    pub(crate) fn effects(&self) -> u32 {
        self.grants.iter().map(|grant| grant.effects).sum()
    }

    /// Whether what was told was recorded under an earlier lease than this: then this one is of another life.
    pub(crate) fn is_settled_below(&self, fence: i64) -> bool {
        let is_told = |body: &Body| self.fixed.as_ref() == Some(body);
        let mut below = self.proposed.iter();
        below.any(|(under, body)| *under < fence && is_told(body))
    }

    pub(crate) fn is_told_before(&self, moment: u64) -> bool {
        self.told_at.is_some_and(|told| told < moment)
    }

    /// Until when it answers, by the newest lease below `fence`: a take-over counts anew.
    pub(crate) fn expires_at(&self, fence: i64) -> Option<i64> {
        let below = self.grants.iter().filter(|grant| grant.fence < fence);
        below.max_by_key(|grant| grant.fence)?.expires_at
    }

    /// What was recorded under this lease may answer for longer than the lease said.
    pub(crate) fn lasts(&mut self, fence: i64, expires_at: Option<i64>) {
        let mut grants = self.grants.iter_mut();
        if let Some(grant) = grants.find(|grant| grant.fence == fence) {
            grant.expires_at = expires_at.or(grant.expires_at);
        }
    }
}

/// What is known of a key.
#[derive(Clone, Debug)]
pub(crate) struct Lives {
    pub(crate) all: VecDeque<Life>,
    opened: i64,
    /// The highest fence that anybody was told.
    pub(crate) fence_max: Option<i64>,
    /// Acts under way that may end whatever life there is.
    pub(crate) ends_under_way: u32,
    /// Claims of which nobody knows whether they were granted.
    pub(crate) unseen_leases: u32,
    /// When the last act that may have ended a life was over.
    pub(crate) ended_at: Option<u64>,
    pub(crate) was_erased: bool,
    /// Outcomes that a person asked to record.
    pub(crate) ruled: Vec<Body>,
    /// The requests that were ever made under the key.
    pub(crate) asked: Vec<u64>,
    /// For each act under way, where the newest life stood when it began.
    pub(crate) open: Vec<i64>,
}

/// Lives that are kept although nobody asks for them any more.
const KEPT: usize = 4;

impl Lives {
    pub(crate) fn new() -> Self {
        Self {
            all: VecDeque::new(),
            opened: 0,
            fence_max: None,
            ends_under_way: 0,
            unseen_leases: 0,
            ended_at: None,
            was_erased: false,
            ruled: Vec::new(),
            asked: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Where the newest life stands; before all others if there is none.
    pub(crate) fn newest(&self) -> i64 {
        self.all.back().map_or(i64::MIN, |life| life.start)
    }

    /// The place of the life that `fence` follows: the newest, unless fences rise and a later one was told of before.
    pub(crate) fn before(&self, fence: i64, fences_rise: bool) -> Option<usize> {
        if fences_rise {
            self.all.iter().rposition(|life| life.start < fence)
        } else {
            self.all.len().checked_sub(1)
        }
    }

    /// Opens a life that begins with `fence`.
    pub(crate) fn open_life(&mut self, fence: i64, fences_rise: bool) -> &mut Life {
        self.opened += 1;
        let start = if fences_rise { fence } else { self.opened };
        let place = self.before(fence, fences_rise).map_or(0, |place| place + 1);
        let life = match place.checked_sub(1) {
            Some(last) if fences_rise => self.all[last].split_off(start),
            Some(_) | None => Life::new(start),
        };
        self.all.insert(place, life);
        let oldest_open = self.open.iter().copied().min().unwrap_or(i64::MAX);
        let mut place = place;
        while self.all.len() > KEPT && place > 0 && self.all[0].start < oldest_open {
            self.all.pop_front();
            place -= 1;
        }
        &mut self.all[place]
    }

    pub(crate) fn last(&mut self) -> Option<&mut Life> {
        self.all.back_mut()
    }

    /// The life in which this fence was granted.
    pub(crate) fn of_fence(&mut self, fence: i64) -> Option<&mut Life> {
        let mut lives = self.all.iter_mut().rev();
        lives.find(|life| life.grants.iter().any(|grant| grant.fence == fence))
    }

    /// The life in which somebody asked to record this.
    pub(crate) fn of_body(&mut self, body: &[u8]) -> Option<&mut Life> {
        let mut lives = self.all.iter_mut().rev();
        lives.find(|life| life.has(body))
    }

    /// Whether anybody asked to record this.
    pub(crate) fn knows(&self, body: &[u8]) -> bool {
        self.all.iter().any(|life| life.has(body))
    }

    /// Whether a client was given another lease after this one, before `moment`.
    pub(crate) fn is_superseded(&self, fence: i64, moment: u64) -> bool {
        let grants = || self.all.iter().flat_map(|life| &life.grants);
        let Some(own) = grants().find(|grant| grant.fence == fence) else {
            return false;
        };
        grants().any(|other| {
            other.fence != fence && other.invoked > own.returned && other.returned < moment
        })
    }
}
