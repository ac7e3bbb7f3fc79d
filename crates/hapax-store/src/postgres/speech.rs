//! How statements reach the server.
//!
//! Over a session of our own they are prepared once, and the role stays. A pooler in transaction mode lends a
//! session for one transaction at a time, so nothing may stay on it: every transaction takes the role and the
//! settings for itself, and a statement carries the types of its parameters instead of a name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row, Statement};

use super::columns::Param;
use super::pipeline::{Request, pipeline};
use super::session::Taken;

const BORROWED: &str = include_str!("../../sql/postgres/borrowed.sql");
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY";
/// One message, so both are on one session.
const FORGET: &str = "ROLLBACK; DEALLOCATE ALL";

/// Whose the sessions are.
#[derive(Clone, Debug)]
pub(super) enum Speech {
    /// Ours, from connecting to closing.
    Own,
    /// A pooler's, for one transaction at a time. The types of what was asked before are known.
    Borrowed(Arc<Types>),
}

/// The types of each statement's parameters.
#[derive(Debug, Default)]
pub(super) struct Types(Mutex<HashMap<&'static str, Arc<[Type]>>>);

/// A statement that can be asked.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// The server knows it by a name.
    Prepared(Statement),
    /// It is sent whole.
    Typed(&'static str, Arc<[Type]>),
}

impl Ask {
    /// Asks it. It is sent when the future is first polled.
    pub(super) async fn query(
        &self,
        client: &Client,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Prepared(statement) => client.query(statement, params).await,
            Self::Typed(sql, types) => {
                debug_assert_eq!(params.len(), types.len(), "{sql}");
                let params: Vec<(Param<'_>, Type)> =
                    params.iter().copied().zip(types.iter().cloned()).collect();
                client.query_typed(sql, &params).await
            }
        }
    }
}

impl Speech {
    /// Nobody else is on the session.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Own)
    }

    /// The command that begins a transaction in this role.
    pub(super) fn begin(&self, begin: &'static str, taken: Taken) -> Cow<'static, str> {
        match self {
            Self::Own => Cow::Borrowed(begin),
            Self::Borrowed(_) => {
                Cow::Owned(format!("{begin};\n{BORROWED}{}", taken.local_command()))
            }
        }
    }

    /// A transaction that writes nothing, for what has to be seen in this role.
    pub(super) fn begin_look(&self, taken: Taken) -> Cow<'static, str> {
        self.begin(BEGIN, taken)
    }

    /// Makes the statement ready outside of a transaction.
    pub(super) async fn ask(
        &self,
        client: &Client,
        sql: &'static str,
        taken: Taken,
    ) -> Result<Ask, Error> {
        let Self::Borrowed(types) = self else {
            return Ok(Ask::Prepared(client.prepare(sql).await?));
        };
        if let Some(known) = types.get(sql) {
            return Ok(Ask::Typed(sql, known));
        }
        let begin = self.begin_look(taken);
        let learn: Vec<Request<'_, Result<Option<Statement>, Error>>> = vec![
            Box::pin(async { client.batch_execute(&begin).await.map(|()| None) }),
            Box::pin(async { client.prepare(sql).await.map(Some) }),
            // The name goes with the transaction: the next one may be on another session.
            Box::pin(async { client.batch_execute(FORGET).await.map(|()| None) }),
        ];
        // One flight: a dropped future leaves nothing open.
        let mut learned = None;
        for answer in pipeline(learn).await {
            learned = answer?.or(learned);
        }
        let learned: Arc<[Type]> =
            learned.map_or_else(|| [].into(), |statement| statement.params().into());
        types.put(sql, learned.clone());
        Ok(Ask::Typed(sql, learned))
    }

    /// Makes the statement ready within a transaction that has begun.
    pub(super) async fn ask_within(
        &self,
        client: &Client,
        sql: &'static str,
    ) -> Result<Ask, Error> {
        let Self::Borrowed(types) = self else {
            return Ok(Ask::Prepared(client.prepare(sql).await?));
        };
        if let Some(known) = types.get(sql) {
            return Ok(Ask::Typed(sql, known));
        }
        // Dropping it sends its end before whatever is sent next, so the name is gone when the transaction is.
        let learned: Arc<[Type]> = client.prepare(sql).await?.params().into();
        types.put(sql, learned.clone());
        Ok(Ask::Typed(sql, learned))
    }
}

impl Types {
    fn get(&self, sql: &'static str) -> Option<Arc<[Type]>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(sql).cloned()
    }

    /// There are as many as there are files of SQL.
    fn put(&self, sql: &'static str, types: Arc<[Type]>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(sql, types);
    }
}
