//! What changes beside the rows of jobs when jobs change: the queue, what is looked at later, and the lists.
//! It runs no statement; the migration `job_queue` says what the tables hold.

use std::collections::BTreeMap;

use hapax_core::job::{Job, Place, State};
use hapax_core::{Tenant, Time};
use uuid::Uuid;

use super::super::columns::Param;
use super::link::Order;
use super::rows::standing;

const READY_PUT: &str = include_str!("../../../sql/postgres/job_ready_put.sql");
const READY_DROP: &str = include_str!("../../../sql/postgres/job_ready_drop.sql");
const READY_SHIFT: &str = include_str!("../../../sql/postgres/job_ready_shift.sql");
const LATER_PUT: &str = include_str!("../../../sql/postgres/job_later_put.sql");
const LATER_LESS: &str = include_str!("../../../sql/postgres/job_later_less.sql");
const LATER_DROP: &str = include_str!("../../../sql/postgres/job_later_drop.sql");
const LIST_MOVE: &str = include_str!("../../../sql/postgres/job_list_move.sql");

/// Where a job stood when it was locked.
#[derive(Clone)]
pub(super) struct Stood {
    /// It is in the queue.
    pub(super) is_ready: bool,
    pub(super) place: Place,
    pub(super) attempts: u32,
    pub(super) is_held: bool,
    pub(super) available_at: Time,
    /// The row of `job_later` that it belongs to.
    pub(super) later: Option<i64>,
    /// The state that it is listed under.
    pub(super) listed: State,
}

/// Rows of the queue, column by column.
#[derive(Default)]
struct Queued<'a> {
    place: Vec<&'a str>,
    kind: Vec<&'a str>,
    attempts: Vec<i64>,
    seq: Vec<i64>,
}

impl<'a> Queued<'a> {
    fn push(&mut self, job: &'a Job, place: &'a Place, attempts: u32) {
        self.place.push(place.as_str());
        self.kind.push(job.kind.as_str());
        self.attempts.push(i64::from(attempts));
        self.seq.push(job.seq);
    }

    fn order(&self, sql: &'static str, tenant: &'a Uuid) -> Order<'_> {
        let params: Vec<Param<'_>> =
            vec![tenant, &self.place, &self.kind, &self.attempts, &self.seq];
        Order::Query(sql, params)
    }
}

/// Jobs of a kind that are listed under another state than before.
struct Relisted<'a> {
    kind: &'a str,
    from: &'static str,
    to: &'static str,
    seq: Vec<i64>,
}

/// Rows of what is looked at later, column by column. The jobs of a row are those from its first to its last.
#[derive(Default)]
struct Laters<'a> {
    number: Vec<i64>,
    place: Vec<&'a str>,
    kind: Vec<&'a str>,
    at: Vec<Option<i64>>,
    held: Vec<bool>,
    first: Vec<i64>,
    last: Vec<i64>,
    jobs: Vec<i64>,
}

/// From the first to the last of a kind and number of attempts.
#[derive(Default)]
struct Head<'a> {
    kind: Vec<&'a str>,
    attempts: Vec<i64>,
    first: Vec<i64>,
    last: Vec<i64>,
}

/// What is looked at together: the place, the kind, when, and whether somebody holds it.
type Group<'a> = (&'a str, &'a str, Option<i64>, bool);

/// What changes beside the jobs.
pub(super) struct Moves<'a> {
    tenant: Uuid,
    gone: Queued<'a>,
    queued: Queued<'a>,
    laters: Laters<'a>,
    /// The rows of `job_later` that jobs belong to no more, and how many.
    left: Vec<i64>,
    left_count: Vec<i64>,
    relisted: Vec<Relisted<'a>>,
    head: Head<'a>,
    /// For each job in the order given, the row of `job_later` that it belongs to from now on.
    pub(super) later_of: Vec<Option<i64>>,
    /// And the state that it is listed under, if that is not its own.
    pub(super) listed_of: Vec<Option<&'static str>>,
}

impl<'a> Moves<'a> {
    /// From where the jobs stood to what they are now.
    pub(super) fn of(tenant: Tenant, jobs: &[(&'a Job, &'a Stood)], now: Time) -> Self {
        let mut moves = Self {
            tenant: tenant.as_uuid(),
            gone: Queued::default(),
            queued: Queued::default(),
            laters: Laters::default(),
            left: Vec::new(),
            left_count: Vec::new(),
            relisted: Vec::new(),
            head: Head::default(),
            later_of: Vec::with_capacity(jobs.len()),
            listed_of: Vec::with_capacity(jobs.len()),
        };
        let mut left: BTreeMap<i64, i64> = BTreeMap::new();
        let mut groups: BTreeMap<Group<'a>, Vec<usize>> = BTreeMap::new();
        for (nth, (job, stood)) in jobs.iter().enumerate() {
            let standing = standing(job, now);
            moves.queue(job, stood, standing == "ready");
            moves.list(job, stood);
            let is_resting = standing == "resting";
            let kept = stood.later.filter(|_| stays(job, stood, is_resting));
            moves.later_of.push(kept);
            if kept.is_none() {
                if let Some(number) = stood.later {
                    *left.entry(number).or_default() += 1;
                }
                if is_resting || job.lease.is_some() {
                    let at = is_resting.then_some(job.available_at.as_ms());
                    let group = (
                        job.place.as_str(),
                        job.kind.as_str(),
                        at,
                        job.lease.is_some(),
                    );
                    groups.entry(group).or_default().push(nth);
                }
            }
        }
        (moves.left, moves.left_count) = left.into_iter().unzip();
        for (group, nths) in groups {
            moves.look_later(group, &nths, jobs);
        }
        moves
    }

    fn queue(&mut self, job: &'a Job, stood: &'a Stood, is_ready: bool) {
        let is_moved = stood.place != job.place || stood.attempts != job.attempts;
        if stood.is_ready && (!is_ready || is_moved) {
            self.gone.push(job, &stood.place, stood.attempts);
        }
        if is_ready && (!stood.is_ready || is_moved) {
            self.queued.push(job, &job.place, job.attempts);
        }
    }

    /// A lease alone leaves the job where it is listed: most jobs are ended before anybody looks.
    fn list(&mut self, job: &'a Job, stood: &Stood) {
        let may_stay = job.state == State::Leased && job.lease.is_some();
        let is_listed = stood.listed == job.state;
        if !is_listed && !may_stay {
            let (kind, from, to) = (job.kind.as_str(), stood.listed.as_str(), job.state.as_str());
            let mut known = self.relisted.iter_mut();
            match known.find(|list| (list.kind, list.from, list.to) == (kind, from, to)) {
                Some(list) => list.seq.push(job.seq),
                None => self.relisted.push(Relisted {
                    kind,
                    from,
                    to,
                    seq: vec![job.seq],
                }),
            }
        }
        let other = (!is_listed && may_stay).then_some(stood.listed.as_str());
        self.listed_of.push(other);
    }

    fn look_later(
        &mut self,
        (place, kind, at, held): Group<'a>,
        nths: &[usize],
        jobs: &[(&'a Job, &'a Stood)],
    ) {
        let (number, laters) = (random(), &mut self.laters);
        // The database counts from one.
        let first = position(laters.jobs.len()) + 1;
        for &nth in nths {
            laters.jobs.push(jobs[nth].0.seq);
            self.later_of[nth] = Some(number);
        }
        laters.number.push(number);
        laters.place.push(place);
        laters.kind.push(kind);
        laters.at.push(at);
        laters.held.push(held);
        laters.first.push(first);
        laters.last.push(position(laters.jobs.len()));
    }

    /// The statements that write it.
    pub(super) fn orders<'b>(&'b self, orders: &mut Vec<Order<'b>>) {
        if !self.gone.seq.is_empty() {
            orders.push(self.gone.order(READY_DROP, &self.tenant));
        }
        self.other_orders(orders);
    }

    /// The statements that write it, where everything that leaves the queue was at its head in this place.
    pub(super) fn orders_of_head<'b>(
        &'b mut self,
        place: &'b &'b str,
        orders: &mut Vec<Order<'b>>,
    ) {
        self.head = self.gone.head();
        let this: &'b Self = self;
        if !this.gone.seq.is_empty() {
            let (head, seq) = (&this.head, &this.gone.seq);
            let params: Vec<Param<'_>> = vec![
                &this.tenant,
                place,
                &head.kind,
                &head.attempts,
                &head.first,
                &head.last,
                seq,
            ];
            orders.push(Order::Query(READY_SHIFT, params));
        }
        this.other_orders(orders);
    }

    fn other_orders<'b>(&'b self, orders: &mut Vec<Order<'b>>) {
        let (tenant, laters) = (&self.tenant, &self.laters);
        if !self.queued.seq.is_empty() {
            orders.push(self.queued.order(READY_PUT, tenant));
        }
        if !laters.number.is_empty() {
            let params: Vec<Param<'_>> = vec![
                tenant,
                &laters.number,
                &laters.place,
                &laters.kind,
                &laters.at,
                &laters.held,
                &laters.first,
                &laters.last,
                &laters.jobs,
            ];
            orders.push(Order::Query(LATER_PUT, params));
        }
        if !self.left.is_empty() {
            let less: Vec<Param<'_>> = vec![tenant, &self.left, &self.left_count];
            orders.push(Order::Query(LATER_LESS, less));
            orders.push(Order::Query(LATER_DROP, vec![tenant, &self.left]));
        }
        for list in &self.relisted {
            let params: Vec<Param<'_>> = vec![tenant, &list.kind, &list.from, &list.to, &list.seq];
            orders.push(Order::Query(LIST_MOVE, params));
        }
    }
}

impl<'a> Queued<'a> {
    /// From where to where the jobs of each kind and number of attempts are.
    fn head(&self) -> Head<'a> {
        let mut ranges: BTreeMap<(&'a str, i64), (i64, i64)> = BTreeMap::new();
        for ((kind, attempts), seq) in self.kind.iter().zip(&self.attempts).zip(&self.seq) {
            let range = ranges.entry((kind, *attempts)).or_insert((*seq, *seq));
            *range = (range.0.min(*seq), range.1.max(*seq));
        }
        let mut head = Head::default();
        for ((kind, attempts), (first, last)) in ranges {
            head.kind.push(kind);
            head.attempts.push(attempts);
            head.first.push(first);
            head.last.push(last);
        }
        head
    }
}

/// Whether the row of `job_later` that the job belongs to is still right: it is not looked at too late.
fn stays(job: &Job, stood: &Stood, is_resting: bool) -> bool {
    is_resting
        && !stood.is_ready
        && stood.is_held == job.lease.is_some()
        && stood.place == job.place
        && stood.available_at <= job.available_at
}

fn position(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A number that nobody else has: below zero, where the database's own are above.
fn random() -> i64 {
    let bits = Uuid::new_v4().as_u64_pair().1;
    i64::from_be_bytes((bits | 1 << 63).to_be_bytes())
}
