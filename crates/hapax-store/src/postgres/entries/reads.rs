//! Reading entries: one, those that are found, and what was replaced.

use hapax_core::entry::{Row, Search, Sort, Target};
use hapax_core::{Error, Tenant, Time};
use tokio_postgres::Row as Stored;

use super::super::PgLedger;
use super::super::columns::{Param, end_of_time, get, moment};
use super::super::jobs::link::Order;
use super::super::pack::aside;
use super::rows;
use super::statements::Statements;
use crate::entry::{of_state, page, words};

const SET_WORDS: &str = include_str!("../../../sql/postgres/entry_words_set.sql");

/// A word of this length is not indexed, so no entry is found by it.
const WORD_BYTES: usize = 2047;

/// Before every entry.
const BEGINNING: Time = Time::from_ms(i64::MIN);

/// How many of the newest entries are looked at for words, before the index of words is asked.
const WALKED_MAX: i64 = 2000;

impl PgLedger {
    pub(super) async fn find_entry(
        &self,
        tenant: Tenant,
        target: Target,
        entry_id: i64,
    ) -> Result<Option<Row>, Error> {
        let to = tenant.as_uuid();
        let found = self
            .seeing("finding the entry", tenant, target, |statements| {
                vec![Order::Query(&statements.find, vec![&to, &entry_id])]
            })
            .await?;
        let mut found = read_all(found, rows::rows).await?;
        Ok(found.pop())
    }

    pub(super) async fn look_for_entries(
        &self,
        tenant: Tenant,
        target: Target,
        search: Search,
    ) -> Result<Vec<Row>, Error> {
        let operation = "searching entries";
        let to = tenant.as_uuid();
        let since = moment(search.since.unwrap_or(BEGINNING).as_ms());
        let limit = page(search.limit);
        let source = search.source.as_deref();
        let (before, number) = match search.before {
            Some((at, number)) => (moment(at.as_ms()), number),
            None => (end_of_time(), i64::MAX),
        };
        let Some(text) = search.words.as_deref() else {
            let found = self
                .seeing(operation, tenant, target, |statements| {
                    let mut params: Vec<Param<'_>> = vec![&to, &since, &limit, &before, &number];
                    let Some(source) = &source else {
                        return vec![Order::Query(&statements.newest, params)];
                    };
                    params.push(source);
                    vec![Order::Query(&statements.newest_source, params)]
                })
                .await?;
            return read_all(found, rows::rows).await;
        };
        let words = words(text)?.join(" ");
        let mut parts = words.split(|letter: char| !letter.is_alphanumeric());
        if words.is_empty() || parts.any(|part| part.len() >= WORD_BYTES) {
            return Ok(Vec::new());
        }
        if search.sort == Sort::Newest {
            let found = self
                .seeing(operation, tenant, target, |statements| {
                    let mut params: Vec<Param<'_>> = vec![&to, &since, &limit, &before, &number];
                    params.extend([&source as Param<'_>, &WALKED_MAX, &words]);
                    vec![Order::Query(&statements.words_walk, params)]
                })
                .await?;
            if i64::try_from(found.len()) == Ok(limit) {
                return read_all(found, placed).await;
            }
        }
        let found = self
            .seeing(operation, tenant, target, |statements| {
                let set = Order::Query(SET_WORDS, vec![&words]);
                let look = match search.sort {
                    Sort::Best => Order::Query(
                        &statements.words_best,
                        vec![&to, &since, &limit, &words, &source],
                    ),
                    Sort::Newest => Order::Query(
                        &statements.words_newest,
                        vec![&to, &since, &limit, &before, &number, &source],
                    ),
                };
                vec![set, look]
            })
            .await?;
        read_all(found, placed).await
    }

    pub(super) async fn list_revisions(
        &self,
        tenant: Tenant,
        target: Target,
        entry_id: i64,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Row>, Error> {
        let to = tenant.as_uuid();
        let before = before.map_or(i64::MAX, i64::from);
        let limit = page(limit);
        let operation = "listing an entry's revisions";
        let found = self
            .seeing(operation, tenant, target, |statements| {
                vec![Order::Query(
                    &statements.revision_list,
                    vec![&to, &entry_id, &before, &limit],
                )]
            })
            .await?;
        read_all(found, |found| {
            let state = |row: &Stored| of_state(get(row, 0)?);
            found.iter().map(state).collect()
        })
        .await
    }

    /// Runs a read in one transaction with the look where to; the answer of its last order.
    async fn seeing<'a>(
        &self,
        operation: &'static str,
        tenant: Tenant,
        target: Target,
        orders: impl Fn(&'static Statements) -> Vec<Order<'a>> + Send + Sync,
    ) -> Result<Vec<Stored>, Error> {
        trying!(self, operation, link, {
            let at = self.begin_at(link, tenant, target, &Vec::new()).await?;
            let answers = link.look(orders(Statements::of(at.schema))).await?;
            link.finish(Vec::new(), false).await?;
            Ok(answers.into_iter().next_back().unwrap_or_default())
        })
    }
}

/// The rows in the order of their places.
fn placed(found: &[Stored]) -> Result<Vec<Row>, Error> {
    let placed = found
        .iter()
        .map(|row| Ok((rows::place(row)?, rows::row(row)?)));
    let mut placed: Vec<(i64, Row)> = placed.collect::<Result<_, Error>>()?;
    placed.sort_by_key(|(place, _)| *place);
    Ok(placed.into_iter().map(|(_, row)| row).collect())
}

/// Reads rows, away from the async threads if there is much in them.
async fn read_all<T: Send + 'static>(
    found: Vec<Stored>,
    read: fn(&[Stored]) -> Result<Vec<T>, Error>,
) -> Result<Vec<T>, Error> {
    let bytes = found.iter().map(Stored::raw_size_bytes).sum();
    aside(bytes, move || read(&found)).await?
}
