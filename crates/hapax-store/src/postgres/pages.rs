//! Pages of rows, newest first. No more rows are looked at than the scan allows.

use hapax_core::{Error, Key, Kind, RecordId, Scan, Space, Tenant, Time};
use uuid::Uuid;

use super::columns::{self, Param, get};
use super::reader::{Reader, SET_TENANT};
use crate::row::Row as Stored;

const SCAN: &str = include_str!("../../sql/postgres/scan.sql");
const SCAN_FLOOR: &str = include_str!("../../sql/postgres/scan_floor.sql");
const SCAN_SPACE: &str = include_str!("../../sql/postgres/scan_space.sql");
const SCAN_SPACE_FLOOR: &str = include_str!("../../sql/postgres/scan_space_floor.sql");
const SCAN_SUBJECT: &str = include_str!("../../sql/postgres/scan_subject.sql");
const SPACES: &str = include_str!("../../sql/postgres/spaces.sql");
const DOUBTS: &str = include_str!("../../sql/postgres/doubts.sql");

/// The rows of a page, and where the next one begins.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rows: Vec<Stored>,
    pub(super) next: Option<(Time, RecordId)>,
}

impl Reader {
    /// A page of one tenant's rows.
    pub(super) async fn scan(&self, scan: &Scan, now: Time) -> Result<Found, Error> {
        let tenant = scan.tenant.as_uuid();
        let (before, id) = match scan.after {
            Some((created_at, id)) => (columns::moment(created_at.as_ms()), id.as_uuid()),
            None => (columns::end_of_time(), Uuid::max()),
        };
        let space = scan.space.as_ref().map(Space::as_str);
        let (ask, looks_at, now) = (ask(scan), looks_at(scan), columns::moment(now.as_ms()));
        let prefix = scan.prefix.as_ref().map(Key::as_str);
        let beyond = scan.prefix.as_ref().map(Key::beyond);
        let subject = scan.subject.map(|subject| subject.as_bytes().to_vec());
        let mut params: Vec<Param<'_>> = vec![&tenant, &before, &id, &space, &scan.state, &ask];
        let sql = if let Some(subject) = &subject {
            params.push(subject);
            params.push(&now);
            SCAN_SUBJECT
        } else {
            params.push(&now);
            params.extend([&looks_at as Param<'_>, &prefix, &beyond]);
            if space.is_some() { SCAN_SPACE } else { SCAN }
        };
        let (rows, full) = self.page(scan, sql, &params).await?;
        let last = rows.last().filter(|_| full);
        let mut next = last.map(|row| (Time::from_ms(row.created_at), RecordId::from_uuid(row.id)));
        if !full && subject.is_none() {
            let skip = looks_at - 1;
            let mut params: Vec<Param<'_>> = vec![&tenant, &before, &id, &skip];
            let mut sql = SCAN_FLOOR;
            if space.is_some() {
                params.push(&space);
                sql = SCAN_SPACE_FLOOR;
            }
            let found = self
                .scoped("listing records", SET_TENANT, &tenant, sql, &params)
                .await?;
            let floor = |row| {
                let at = Time::from(get::<std::time::SystemTime>(row, 0)?);
                Ok::<_, Error>((at, RecordId::from_uuid(get(row, 1)?)))
            };
            next = found.first().map(floor).transpose()?;
        }
        Ok(Found { rows, next })
    }

    /// The spaces in which a tenant has rows, in order.
    pub(super) async fn spaces(&self, tenant: Tenant, limit: usize) -> Result<Vec<Space>, Error> {
        let (tenant, limit) = (tenant.as_uuid(), i64::try_from(limit).unwrap_or(i64::MAX));
        let params: [Param<'_>; 2] = [&tenant, &limit];
        let rows = self
            .scoped("listing spaces", SET_TENANT, &tenant, SPACES, &params)
            .await?;
        let damaged = |why| Error::new(Kind::Corrupt, "listing spaces").caused_by(why);
        rows.iter()
            .map(|row| Space::new(get::<&str>(row, 0)?).map_err(damaged))
            .collect()
    }

    /// How many of the newest rows are in doubt.
    pub(super) async fn doubts(
        &self,
        tenant: Tenant,
        looks_at: usize,
        now: Time,
    ) -> Result<u64, Error> {
        let (tenant, now) = (tenant.as_uuid(), columns::moment(now.as_ms()));
        let looks_at = i64::try_from(looks_at).unwrap_or(i64::MAX);
        let params: [Param<'_>; 3] = [&tenant, &looks_at, &now];
        let rows = self
            .scoped("counting doubts", SET_TENANT, &tenant, DOUBTS, &params)
            .await?;
        let count = rows.first().map(|row| get::<i64>(row, 0)).transpose()?;
        Ok(count.unwrap_or(0).unsigned_abs())
    }

    /// The rows of a page, and whether there are more than it holds.
    async fn page(
        &self,
        scan: &Scan,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<(Vec<Stored>, bool), Error> {
        let limit = scan.limit.clamp(1, Scan::LIMIT_MAX);
        let tenant = scan.tenant.as_uuid();
        let found = self
            .scoped("listing records", SET_TENANT, &tenant, sql, params)
            .await?;
        let rows = found.iter().take(limit).map(columns::stored);
        Ok((rows.collect::<Result<_, _>>()?, found.len() > limit))
    }
}

/// One more than asked tells whether there is a next page.
fn ask(scan: &Scan) -> i64 {
    let limit = scan.limit.clamp(1, Scan::LIMIT_MAX);
    i64::try_from(limit + 1).unwrap_or(i64::MAX)
}

fn looks_at(scan: &Scan) -> i64 {
    i64::try_from(scan.looks_at.max(1)).unwrap_or(i64::MAX)
}
