//! What is asked now and by whom, and the answers that were paid for: kept under what was asked, the first one for good.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::Asked;
use hapax_core::{Error, Fingerprint, Tenant};

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::super::PgLedger;
use super::super::super::columns::{Param, get};
use super::super::super::jobs::link::Order;
use super::super::super::reader::SET_TENANT;
use super::batches::{begin, read};
use super::rows::{hash, parts};
use crate::t1::taken_answers;

const FIND: &str = include_str!("../../../../sql/postgres/answer_find.sql");
const PUT: &str = include_str!("../../../../sql/postgres/answer_put.sql");
const ASK: &str = include_str!("../../../../sql/postgres/question_ask.sql");
const END: &str = include_str!("../../../../sql/postgres/question_end.sql");
pub(super) const STOP: &str = include_str!("../../../../sql/postgres/question_stop.sql");

impl PgLedger {
    pub(super) async fn find_answers(
        &self,
        tenant: Tenant,
        keys: Vec<Fingerprint>,
    ) -> Result<Vec<Option<Arc<str>>>, Error> {
        let to = tenant.as_uuid();
        let asked: Vec<&[u8]> = keys.iter().map(|key| &key.as_bytes()[..]).collect();
        let params: [Param<'_>; 2] = [&to, &asked];
        let operation = "looking for paid answers";
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, FIND, &params)
            .await?;
        let answers = answers(&rows)?;
        Ok(keys.iter().map(|key| answers.get(key).cloned()).collect())
    }

    pub(super) async fn put_answers(
        &self,
        tenant: Tenant,
        answers: Vec<(Fingerprint, Arc<str>)>,
    ) -> Result<(), Error> {
        let (to, shift_ms) = (tenant.as_uuid(), self.shift_ms());
        let answers = taken_answers(answers);
        // In one order, and the first of each.
        let mut first: BTreeMap<&[u8], &str> = BTreeMap::new();
        for (key, raw) in &answers {
            first.entry(key.as_bytes()).or_insert(raw);
        }
        let parts = parts(first.into_iter().collect(), |(_, raw)| raw.len());
        let columns = parts.into_iter().map(|part| part.into_iter().unzip());
        let columns: Vec<(Vec<&[u8]>, Vec<&str>)> = columns.collect();
        trying!(self, "keeping paid answers", link, {
            begin(link, tenant).await?;
            let mut orders = Vec::new();
            for (keys, raws) in &columns {
                orders.push(Order::Query(PUT, vec![&to, &shift_ms, keys, raws]));
                orders.push(Order::Query(END, vec![&to, keys]));
            }
            link.finish(orders, true).await?;
            Ok(())
        })
    }

    pub(super) async fn put_questions(
        &self,
        tenant: Tenant,
        who: Uuid,
        lasting: Duration,
        keys: Vec<Fingerprint>,
    ) -> Result<Vec<Asked>, Error> {
        let (to, shift_ms) = (tenant.as_uuid(), self.shift_ms());
        let lasting_ms = i64::try_from(lasting.as_millis()).unwrap_or(i64::MAX / 4);
        // In one order, and each of them once.
        let sorted: BTreeSet<&[u8]> = keys.iter().map(|key| &key.as_bytes()[..]).collect();
        let sorted: Vec<&[u8]> = sorted.into_iter().collect();
        trying!(self, "asking what others may ask", link, {
            begin(link, tenant).await?;
            // Answers are looked for after that: whoever got one meanwhile has let go of what was asked.
            let orders = vec![
                Order::Query(ASK, vec![&to, &shift_ms, &who, &lasting_ms, &sorted]),
                Order::Query(FIND, vec![&to, &sorted]),
            ];
            let found = link.look(orders).await?;
            let ours = found.first().into_iter().flatten();
            let ours = ours.map(|row| hash(get(row, 0)?));
            let ours = ours.collect::<Result<HashSet<Fingerprint>, Error>>();
            let ours = read(link, ours).await?;
            let paid = answers(found.get(1).map_or(&[], Vec::as_slice));
            let paid = read(link, paid).await?;
            let over: Vec<&[u8]> = paid.keys().map(|key| &key.as_bytes()[..]).collect();
            let orders = vec![Order::Query(END, vec![&to, &over])];
            link.finish(orders, true).await?;
            let asked = keys.iter().map(|key| match paid.get(key) {
                Some(raw) => Asked::Paid(Arc::clone(raw)),
                None if ours.contains(key) => Asked::Ours,
                None => Asked::Theirs,
            });
            Ok(asked.collect())
        })
    }

    pub(super) async fn drop_questions(&self, tenant: Tenant, who: Uuid) -> Result<(), Error> {
        let to = tenant.as_uuid();
        trying!(self, "asking nothing any more", link, {
            begin(link, tenant).await?;
            link.finish(vec![Order::Query(STOP, vec![&to, &who])], true)
                .await?;
            Ok(())
        })
    }
}

/// The rows of `answer_find.sql`.
fn answers(rows: &[Row]) -> Result<HashMap<Fingerprint, Arc<str>>, Error> {
    let answer = |row: &Row| Ok((hash(get(row, 0)?)?, get::<&str>(row, 1)?.into()));
    rows.iter().map(answer).collect()
}
