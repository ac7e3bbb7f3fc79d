//! Answers that were paid for: kept under what was asked, the first one for good.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hapax_core::{Error, Fingerprint, Tenant};

use super::super::super::PgLedger;
use super::super::super::columns::{Param, get};
use super::super::super::jobs::link::Order;
use super::super::super::reader::SET_TENANT;
use super::batches::begin;
use super::rows::{hash, parts};
use crate::t1::taken_answers;

const FIND: &str = include_str!("../../../../sql/postgres/answer_find.sql");
const PUT: &str = include_str!("../../../../sql/postgres/answer_put.sql");

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
        let mut answers: HashMap<Fingerprint, Arc<str>> = HashMap::new();
        for row in &rows {
            answers.insert(hash(get(row, 0)?)?, get::<&str>(row, 1)?.into());
        }
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
            }
            link.finish(orders, true).await?;
            Ok(())
        })
    }
}
