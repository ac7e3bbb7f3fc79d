//! What is read of jobs: one, a page, how many, what is due and what is left over.

use std::collections::HashMap;

use hapax_core::job::judge::ABANDONED_AFTER;
use hapax_core::job::{
    Job, JobId, JobKind, JobPage, JobScan, Op, OpKey, Place, Stale, State, Tally,
};
use hapax_core::{Error, Tenant};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PgLedger;
use super::super::columns::{Param, get};
use super::super::pipeline::{Request, pipeline};
use super::super::reader::{self, checkout, command};
use super::super::session::Taken;
use super::rows::word;

const SET_TENANT: &str = super::SET_TENANT;
const FIND: &str = include_str!("../../../sql/postgres/job_find.sql");
const NAMED: &str = include_str!("../../../sql/postgres/job_named.sql");
const OPS_OF_JOB: &str = include_str!("../../../sql/postgres/op_of_job.sql");
const OPS_OF_JOBS: &str = include_str!("../../../sql/postgres/op_of_jobs.sql");
const OP: &str = include_str!("../../../sql/postgres/op_find.sql");
const LIST: &str = include_str!("../../../sql/postgres/job_list.sql");
const LIST_STATE: &str = include_str!("../../../sql/postgres/job_list_state.sql");
const LIST_WORK: &str = include_str!("../../../sql/postgres/job_list_work.sql");
const LIST_HELD: &str = include_str!("../../../sql/postgres/job_list_held.sql");
const LIST_WAITING: &str = include_str!("../../../sql/postgres/job_list_waiting.sql");
const LIST_DOUBT: &str = include_str!("../../../sql/postgres/job_list_doubt.sql");
const DOUBTFUL: &str = include_str!("../../../sql/postgres/op_doubtful.sql");
const TALLY: &str = include_str!("../../../sql/postgres/job_tally.sql");
const DUE: &str = include_str!("../../../sql/postgres/job_due.sql");
const DUE_ANY: &str = include_str!("../../../sql/postgres/job_due_any.sql");
const STALE: &str = include_str!("../../../sql/postgres/job_stale.sql");
const STALE_ALL: &str = include_str!("../../../sql/postgres/job_stale_all.sql");
const OP_STALE: &str = include_str!("../../../sql/postgres/op_stale.sql");
const OP_STALE_ALL: &str = include_str!("../../../sql/postgres/op_stale_all.sql");
/// One moment for both statements.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

impl PgLedger {
    pub(super) async fn find_named(
        &self,
        tenant: Tenant,
        names: Vec<JobId>,
    ) -> Result<Vec<JobId>, Error> {
        if names.is_empty() {
            return Ok(names);
        }
        let mut names: Vec<JobId> = names.into_iter().map(JobId::normal).collect();
        let texts: Vec<&str> = names.iter().map(JobId::as_str).collect();
        let (first, last): (Vec<_>, Vec<_>) = names.iter().map(|name| name.range().unzip()).unzip();
        let to = tenant.as_uuid();
        let params: [Param<'_>; 4] = [&to, &texts, &first, &last];
        let rows = self
            .reader
            .scoped("finding jobs by name", SET_TENANT, &to, NAMED, &params)
            .await?;
        let mut found = HashMap::new();
        for row in &rows {
            let (nth, id, key): (i64, &str, &str) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            let nth = usize::try_from(nth - 1).unwrap_or(usize::MAX);
            let id = word(JobId::new(id))?;
            let is_it = |name: &JobId| key == name.as_str() || id.goes_by(name);
            if names.get(nth).is_some_and(is_it) {
                found.insert(nth, id);
            }
        }
        for (nth, id) in found {
            names[nth] = id;
        }
        Ok(names)
    }

    pub(super) async fn find_job(
        &self,
        tenant: Tenant,
        id: JobId,
    ) -> Result<Option<(Job, Vec<Op>)>, Error> {
        let operation = "finding the job";
        let (to, id) = (tenant.as_uuid(), id.as_str());
        let client = checkout(&self.reader.app, operation).await?;
        let run = async {
            let set = self.reader.ask(&client, SET_TENANT, Taken::App).await?;
            let find = self.reader.ask(&client, FIND, Taken::App).await?;
            let ops = self.reader.ask(&client, OPS_OF_JOB, Taken::App).await?;
            let pg: &tokio_postgres::Client = &client;
            let params: [Param<'_>; 2] = [&to, &id];
            let requests: Vec<Request<'_, reader::Answer>> = vec![
                self.reader.begin(pg, READ, Taken::App),
                Box::pin(async { set.query(pg, &params[..1]).await }),
                Box::pin(async { find.query(pg, &params).await }),
                Box::pin(async { ops.query(pg, &params).await }),
                command(pg, "COMMIT"),
            ];
            pipeline(requests)
                .await
                .into_iter()
                .collect::<Result<Vec<_>, _>>()
        };
        let answer = tokio::time::timeout(self.reader.limit, run).await;
        let answers = self.reader.finished(operation, client, answer)?;
        let (mut jobs, ops) = match &answers[..] {
            [_, _, jobs, ops, _] => self.opened(tenant, jobs, ops).await?,
            _ => return Ok(None),
        };
        Ok(jobs.pop().map(|job| (job, ops)))
    }

    pub(super) async fn find_op(&self, tenant: Tenant, key: OpKey) -> Result<Option<Op>, Error> {
        let (to, keys) = (tenant.as_uuid(), vec![key.as_str()]);
        let rows = self
            .reader
            .scoped("finding the operation", SET_TENANT, &to, OP, &[&to, &keys])
            .await?;
        Ok(self.opened(tenant, &[], &rows).await?.1.pop())
    }

    pub(super) async fn find_ops_of(
        &self,
        tenant: Tenant,
        jobs: Vec<(JobId, i64)>,
    ) -> Result<Vec<Vec<Op>>, Error> {
        let jobs = &jobs[..jobs.len().min(JobScan::LIMIT_MAX)];
        let ids: Vec<&str> = jobs.iter().map(|(id, _)| id.as_str()).collect();
        let (to, operation) = (tenant.as_uuid(), "finding the operations of jobs");
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, OPS_OF_JOBS, &[&to, &ids])
            .await?;
        let mut by_job: HashMap<JobId, Vec<Op>> = HashMap::new();
        for op in self.opened(tenant, &[], &rows).await?.1 {
            by_job.entry(op.job.clone()).or_default().push(op);
        }
        let ops = jobs.iter().map(|(id, _)| by_job.remove(id));
        Ok(ops.map(Option::unwrap_or_default).collect())
    }

    pub(super) async fn list_jobs(&self, scan: JobScan) -> Result<JobPage, Error> {
        let limit = scan.limit.clamp(1, JobScan::LIMIT_MAX);
        let is_by_kind = scan.state.is_some() || scan.kind.is_some() || !scan.not_in.is_empty();
        let sql = match &scan.work_id {
            _ if scan.waits_in.is_some() => LIST_WAITING,
            _ if scan.in_doubt => LIST_DOUBT,
            _ if scan.held => LIST_HELD,
            Some(_) => LIST_WORK,
            None if is_by_kind => LIST_STATE,
            None => LIST,
        };
        let (to, shift_ms) = (scan.tenant.as_uuid(), self.shift_ms());
        let before = scan.before.unwrap_or(i64::MAX);
        let kind = scan.kind.as_ref().map(JobKind::as_str);
        let state = scan.state.map(State::as_str);
        // One more than asked tells whether there is a next page.
        let ask = i64::try_from(limit + 1).unwrap_or(i64::MAX);
        let states: Vec<&str> = scan.states().into_iter().map(State::as_str).collect();
        let params: Vec<Param<'_>> = if sql == LIST_STATE {
            vec![&to, &before, &kind, &states, &ask]
        } else if sql == LIST_WAITING {
            vec![&to, &before, &scan.waits_in, &kind, &ask]
        } else if sql == LIST_DOUBT {
            vec![&to, &before, &kind, &ask]
        } else {
            vec![
                &to,
                &before,
                &kind,
                &state,
                &scan.work_id,
                &scan.held,
                &ask,
                &shift_ms,
            ]
        };
        let rows = self
            .reader
            .scoped("listing jobs", SET_TENANT, &to, sql, &params)
            .await?;
        let more = rows.len() > limit;
        let shown = &rows[..rows.len().min(limit)];
        let (jobs, _) = self.opened(scan.tenant, shown, &[]).await?;
        let next = jobs.last().filter(|_| more).map(|job| job.seq);
        Ok(JobPage { jobs, next })
    }

    pub(super) async fn count_doubtful_ops(
        &self,
        tenant: Tenant,
        at_most: u64,
    ) -> Result<u64, Error> {
        let to = tenant.as_uuid();
        let most = i64::try_from(at_most).unwrap_or(i64::MAX);
        let params: [Param<'_>; 2] = [&to, &most];
        let rows = self
            .reader
            .scoped("counting operations", SET_TENANT, &to, DOUBTFUL, &params)
            .await?;
        let count = rows.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    pub(super) async fn tally_jobs(
        &self,
        tenant: Tenant,
        at_most: u64,
    ) -> Result<Vec<Tally>, Error> {
        let (to, shift_ms) = (tenant.as_uuid(), self.shift_ms());
        let most = i64::try_from(at_most).unwrap_or(i64::MAX);
        let states = State::ALL.map(State::as_str).to_vec();
        let params: [Param<'_>; 4] = [&to, &shift_ms, &most, &states];
        let rows = self
            .reader
            .scoped("counting jobs", SET_TENANT, &to, TALLY, &params)
            .await?;
        let count = |row: &Row, column| {
            get::<i64>(row, column).map(|count| u64::try_from(count).unwrap_or(0))
        };
        let tally = |row: &Row| {
            Ok(Tally {
                kind: word(JobKind::new(get(row, 0)?))?,
                state: word(get::<&str>(row, 1)?.parse())?,
                count: count(row, 2)?,
                held: count(row, 3)?,
            })
        };
        let mut all: Vec<Tally> = rows.iter().map(tally).collect::<Result<_, Error>>()?;
        all.sort_by(|one, other| (&one.kind, one.state).cmp(&(&other.kind, other.state)));
        Ok(all)
    }

    /// Begins at a random tenant, so that none is always left out where the limit is small.
    pub(super) async fn due_tenants(
        &self,
        kinds: Option<Vec<JobKind>>,
        place: Place,
        limit: usize,
    ) -> Result<Vec<Tenant>, Error> {
        let (somewhere, shift_ms) = (Uuid::new_v4(), self.shift_ms());
        let kinds: Option<Vec<&str>> = kinds
            .as_ref()
            .map(|kinds| kinds.iter().map(JobKind::as_str).collect());
        let place = place.as_str();
        let mut tenants = Vec::new();
        for (from, to) in [(somewhere, Uuid::max()), (Uuid::nil(), somewhere)] {
            if tenants.len() >= limit {
                break;
            }
            let left = i64::try_from(limit - tenants.len()).unwrap_or(i64::MAX);
            let operation = "looking for work";
            let rows = if let Some(kinds) = &kinds {
                let params: [Param<'_>; 6] = [kinds, &place, &from, &to, &left, &shift_ms];
                self.reader.as_janitor(operation, DUE, &params).await?
            } else {
                let params: [Param<'_>; 5] = [&place, &from, &to, &left, &shift_ms];
                self.reader.as_janitor(operation, DUE_ANY, &params).await?
            };
            for row in &rows {
                tenants.push(Tenant::from_uuid(get(row, 0)?));
            }
        }
        Ok(tenants)
    }

    pub(super) async fn stale_work(
        &self,
        tenant: Option<Tenant>,
        limit: usize,
    ) -> Result<Stale, Error> {
        let operation = "looking for what was left behind";
        let (limit, shift_ms) = (i64::try_from(limit).unwrap_or(i64::MAX), self.shift_ms());
        let after_ms = i64::try_from(ABANDONED_AFTER.as_millis()).unwrap_or(i64::MAX);
        let (leases, ops) = if let Some(tenant) = tenant {
            let to = tenant.as_uuid();
            let params: [Param<'_>; 4] = [&to, &shift_ms, &limit, &after_ms];
            let scoped = |sql, params| self.reader.scoped(operation, SET_TENANT, &to, sql, params);
            (
                scoped(STALE, &params[..3]).await?,
                scoped(OP_STALE, &params).await?,
            )
        } else {
            let params: [Param<'_>; 3] = [&shift_ms, &limit, &after_ms];
            let all = |sql, params| self.reader.as_janitor(operation, sql, params);
            (
                all(STALE_ALL, &params[..2]).await?,
                all(OP_STALE_ALL, &params).await?,
            )
        };
        let of = |row: &Row| get(row, 0).map(Tenant::from_uuid);
        let lease = |row: &Row| Ok((of(row)?, word(JobId::new(get(row, 1)?))?, get(row, 2)?));
        let op = |row: &Row| Ok((of(row)?, word(OpKey::new(get(row, 1)?))?));
        Ok(Stale {
            leases: leases.iter().map(lease).collect::<Result<_, Error>>()?,
            ops: ops.iter().map(op).collect::<Result<_, Error>>()?,
        })
    }
}
