//! The test mode: one row for each tenant, changed in one statement, read in the transaction that needs it.

use hapax_core::entry::{Schema, Target, TestMode};
use hapax_core::{Error, Kind, Tenant, Time};
use tokio_postgres::Row;

use super::super::PgLedger;
use super::super::columns::{Param, get};
use super::super::jobs::BEGIN;
use super::super::jobs::link::{Failure, Link, Order};
use super::super::reader::SET_TENANT;
use super::rows::time;
use crate::entry::{is_on, mode_key, mode_value};

const LOCK: &str = include_str!("../../../sql/postgres/entry_lock.sql");
const FIND: &str = include_str!("../../../sql/postgres/runtime_find.sql");
const PUT: &str = include_str!("../../../sql/postgres/runtime_put.sql");
const TOGGLE: &str = include_str!("../../../sql/postgres/runtime_toggle.sql");

/// Where the work of a transaction goes, and when it is.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) schema: Schema,
    pub(super) now: Time,
}

impl PgLedger {
    pub(super) async fn read_mode(&self, tenant: Tenant) -> Result<bool, Error> {
        let (to, key) = (tenant.as_uuid(), mode_key(tenant));
        let params: [Param<'_>; 2] = [&to, &key];
        let operation = "reading the test mode";
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, FIND, &params)
            .await?;
        is_on(get(only(&rows, operation)?, 0)?)
    }

    /// One statement changes it, so no two nodes can both start from the same mode.
    pub(super) async fn write_mode(&self, tenant: Tenant, mode: TestMode) -> Result<bool, Error> {
        let operation = "changing the test mode";
        let (to, key) = (tenant.as_uuid(), mode_key(tenant));
        trying!(self, operation, link, {
            let value = match mode {
                TestMode::Set(is_on) => mode_value(is_on),
                TestMode::Toggle => "",
            };
            let change = match mode {
                TestMode::Set(_) => Order::Query(PUT, vec![&to, &key, &value]),
                TestMode::Toggle => Order::Query(TOGGLE, vec![&to, &key]),
            };
            let orders = vec![
                Order::Command(BEGIN),
                Order::Query(SET_TENANT, vec![&to]),
                change,
            ];
            let answers = link.look(orders).await?;
            let rows = answers.last().map_or(&[][..], Vec::as_slice);
            let read = only(rows, operation).and_then(|row| is_on(get(row, 0)?));
            let is_on = match read {
                Ok(is_on) => is_on,
                Err(error) => return Err(link.give_up(error).await),
            };
            link.finish(Vec::new(), true).await?;
            Ok(is_on)
        })
    }

    /// Begins a transaction, takes these locks, and sees where its work goes and when it is.
    pub(super) async fn begin_at(
        &self,
        link: &mut Link,
        tenant: Tenant,
        target: Target,
        locks: &Vec<i64>,
    ) -> Result<At, Failure> {
        let to = tenant.as_uuid();
        let orders = vec![Order::Command(BEGIN), Order::Query(SET_TENANT, vec![&to])];
        self.locked_at(link, orders, tenant, target, locks).await
    }

    /// The same in a transaction that is begun.
    pub(super) async fn go_on_at(
        &self,
        link: &mut Link,
        tenant: Tenant,
        target: Target,
        locks: &Vec<i64>,
    ) -> Result<At, Failure> {
        self.locked_at(link, Vec::new(), tenant, target, locks)
            .await
    }

    /// The mode is read last, so it is that of the time after the locks.
    async fn locked_at<'a>(
        &self,
        link: &mut Link,
        mut orders: Vec<Order<'a>>,
        tenant: Tenant,
        target: Target,
        locks: &'a Vec<i64>,
    ) -> Result<At, Failure> {
        let (to, key) = (tenant.as_uuid(), mode_key(tenant));
        if !locks.is_empty() {
            orders.push(Order::Query(LOCK, vec![locks]));
        }
        let mut orders: Vec<Order<'_>> = orders;
        orders.push(Order::Query(FIND, vec![&to, &key]));
        let answers = link.look(orders).await?;
        let rows = answers.last().map_or(&[][..], Vec::as_slice);
        match self.at(rows, target) {
            Ok(at) => Ok(at),
            Err(error) => Err(link.give_up(error).await),
        }
    }

    fn at(&self, rows: &[Row], target: Target) -> Result<At, Error> {
        let row = only(rows, "reading the test mode")?;
        let schema = match target {
            Target::Pinned(schema) => schema,
            Target::Active => Schema::of_test_mode(is_on(get(row, 0)?)?),
        };
        let now = self.clock.shifted(time(row, 1)?);
        Ok(At { schema, now })
    }
}

/// The only row of an answer.
pub(super) fn only<'a>(rows: &'a [Row], operation: &'static str) -> Result<&'a Row, Error> {
    rows.first().ok_or_else(|| {
        Error::new(Kind::Corrupt, operation).because("the database answered nothing")
    })
}
