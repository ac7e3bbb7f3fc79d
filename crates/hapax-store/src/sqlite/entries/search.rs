//! Finding entries by their words and age, and putting their words into the index. The index gets nothing but words and
//! spaces, so no character of a text or a search means anything to it.

use hapax_core::Tenant;
use hapax_core::Time;
use hapax_core::entry::{Column, Row, Search, Sort};
use rusqlite::{Connection, Params, params};

use super::super::fault::Fault;
use super::rows::{find, tenant_bytes};
use super::statements::Statements;
use crate::entry::{page, spoken, words};

/// The columns whose words are looked for.
const SEARCHED: [Column; 3] = [Column::Title, Column::Author, Column::CleanText];

/// The entries that are looked for, in their order.
pub(super) fn search(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    search: &Search,
) -> Result<Vec<Row>, Fault> {
    let since = search.since.map_or(i64::MIN, Time::as_ms);
    let (tenant_bytes, limit) = (tenant_bytes(tenant), page(search.limit));
    let source = search.source.as_deref();
    let (before, number) = match search.before {
        Some((at, number)) => (at.as_ms(), number),
        None => (i64::MAX, i64::MAX),
    };
    // The numbers first: no text is sorted.
    let numbers = match &search.words {
        None => {
            let params = params![tenant_bytes, since, limit, before, number];
            match source {
                None => numbers(connection, &sql.newest, params)?,
                Some(source) => {
                    let params = params![tenant_bytes, since, limit, before, number, source];
                    numbers(connection, &sql.newest_source, params)?
                }
            }
        }
        Some(text) => {
            let words = words(text)?;
            if words.is_empty() {
                return Ok(Vec::new());
            }
            let words = quoted(&words);
            match search.sort {
                Sort::Best => {
                    let params = params![tenant_bytes, words, since, limit, source];
                    numbers(connection, &sql.words_best, params)?
                }
                Sort::Newest => {
                    let params = params![tenant_bytes, words, since, limit, source, number];
                    numbers(connection, &sql.words_newest, params)?
                }
            }
        }
    };
    let mut found = Vec::with_capacity(numbers.len());
    for number in numbers {
        found.extend(find(connection, sql, tenant, number)?);
    }
    Ok(found)
}

fn numbers(connection: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(sql)?;
    let numbers = statement.query_map(params, |row| row.get(0))?;
    numbers.collect()
}

/// The words as the full-text index takes them, each in quotes: all have to be there. No quote is left inside.
fn quoted(words: &[&str]) -> String {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("\"{}\"", spoken(word)))
        .collect();
    quoted.join(" ")
}

/// Puts the words of an entry into the index; of one that is there, over what it said `before`.
pub(super) fn index(
    connection: &Connection,
    sql: &Statements,
    row: &Row,
    before: Option<&Row>,
) -> Result<(), Fault> {
    if let Some(before) = before {
        let is_same = |column: &Column| before.fields.get(*column) == row.fields.get(*column);
        if SEARCHED.iter().all(is_same) {
            return Ok(());
        }
        connection
            .prepare_cached(&sql.words_drop)?
            .execute([row.entry_id])?;
    }
    let [title, author, text] = SEARCHED.map(|column| row.fields.text(column).map(spoken));
    connection.prepare_cached(&sql.words_put)?.execute(params![
        row.entry_id,
        title,
        author,
        text
    ])?;
    Ok(())
}
