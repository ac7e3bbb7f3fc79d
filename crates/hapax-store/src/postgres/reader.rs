//! Reads for one tenant at a time, and the sweeper's and tokens' statements, over pools of restricted sessions.

use std::time::Duration;

use deadpool_postgres::{
    Client, Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime,
    TimeoutType, Timeouts,
};
use hapax_core::{Error, Kind, RecordId, Sweep, Swept, Tenant, Time};
use tokio_postgres::Row;
use uuid::Uuid;

use super::columns::{self, Param};
use super::fault;
use super::pipeline::{Request, pipeline};
use super::session::{self, Refusal, Session, Taken};
use super::speech::{Ask, Speech};
use super::target::Target;
use crate::memory::before;
use crate::row::Row as Stored;

pub(super) const SET_TENANT: &str = include_str!("../../sql/postgres/set_tenant.sql");
const FIND: &str = include_str!("../../sql/postgres/find.sql");
const SWEEP: &str = include_str!("../../sql/postgres/sweep.sql");
const PROBE: &str = include_str!("../../sql/postgres/probe.sql");

pub(super) const READ: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY";
pub(super) const WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// A record is remembered no longer than this after its time.
const GRACE_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

pub(super) type Answer = Result<Vec<Row>, tokio_postgres::Error>;

/// The pools: sessions that serve requests, and sessions that clean up.
pub(super) struct Reader {
    pub(super) app: Pool,
    janitor: Pool,
    pub(super) limit: Duration,
    pub(super) speech: Speech,
}

impl Reader {
    pub(super) fn new(target: &Target, readers: usize, limit: Duration) -> Result<Self, Error> {
        Ok(Self {
            app: pool(target, Taken::App, readers.max(1))?,
            janitor: pool(target, Taken::Janitor, 2)?,
            limit,
            speech: target.speech.clone(),
        })
    }

    /// Makes a statement ready on a client of one of the pools.
    pub(super) async fn ask(
        &self,
        client: &Client,
        sql: &'static str,
        taken: Taken,
    ) -> Result<Ask, tokio_postgres::Error> {
        if self.speech.is_own() {
            return Ok(Ask::Prepared(client.prepare_cached(sql).await?));
        }
        self.speech.ask(client, sql, taken).await
    }

    /// Begins a transaction in this role.
    pub(super) fn begin<'a>(
        &self,
        client: &'a tokio_postgres::Client,
        begin: &'static str,
        taken: Taken,
    ) -> Request<'a, Answer> {
        let begin = self.speech.begin(begin, taken);
        Box::pin(async move { client.batch_execute(&begin).await.map(|()| Vec::new()) })
    }

    /// The row with this id, if it is this tenant's.
    pub(super) async fn find(&self, tenant: Tenant, id: RecordId) -> Result<Option<Stored>, Error> {
        let (tenant, id) = (tenant.as_uuid(), id.as_uuid());
        let rows = self
            .scoped(
                "finding the record",
                SET_TENANT,
                &tenant,
                FIND,
                &[&tenant, &id],
            )
            .await?;
        rows.first().map(columns::stored).transpose()
    }

    /// One step of cleaning up, for all tenants.
    pub(super) async fn sweep(&self, sweep: Sweep, now: Time) -> Result<Swept, Error> {
        let kept_from = before(now, sweep.audit_keep);
        let now = columns::moment(now.as_ms());
        let grace_ms = i64::try_from(sweep.grace.min(GRACE_MAX).as_millis()).unwrap_or(i64::MAX);
        let limit = i64::try_from(sweep.limit.min(Sweep::LIMIT_MAX)).unwrap_or(i64::MAX);
        let rows = self
            .as_janitor("sweeping", SWEEP, &[&now, &grace_ms, &limit])
            .await?;
        let Some(row) = rows.first() else {
            return Ok(Swept::default());
        };
        let count = |column| {
            columns::get::<i64>(row, column).map(|count| usize::try_from(count).unwrap_or(0))
        };
        Ok(Swept {
            expired: count(0)?,
            retired: count(1)?,
            forgotten: count(2)?,
            notes: self.remove_notes(kept_from, limit).await?,
        })
    }

    /// Whether the server takes writes now.
    pub(super) async fn check(&self) -> Result<(), Error> {
        let operation = "checking PostgreSQL";
        let rows = self.transaction(operation, WRITE, None, PROBE, &[]).await?;
        match rows
            .first()
            .map(|row| columns::get::<bool>(row, 0))
            .transpose()?
        {
            Some(true) => Ok(()),
            Some(false) | None => Err(Error::new(Kind::Unavailable, operation)
                .because("the server is read-only or in recovery")),
        }
    }

    /// What a session of each pool is.
    pub(super) async fn describe(&self) -> Result<Vec<Session>, Error> {
        let operation = "describing a session";
        let mut sessions = Vec::new();
        for (pool, taken) in [(&self.app, Taken::App), (&self.janitor, Taken::Janitor)] {
            let client = checkout(pool, operation).await?;
            sessions.push(
                session::look(&client, &self.speech, taken)
                    .await
                    .map_err(|error| fault::unwritten(operation, &error))?,
            );
        }
        Ok(sessions)
    }

    /// Runs one read for which one setting opens the view: of one tenant, or on one token.
    pub(super) async fn scoped(
        &self,
        operation: &'static str,
        set: &'static str,
        to: &Uuid,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.transaction(operation, READ, Some((set, to)), sql, params)
            .await
    }

    /// Runs one write for which one setting opens the view.
    pub(super) async fn scoped_write(
        &self,
        operation: &'static str,
        set: &'static str,
        to: &Uuid,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.transaction(operation, WRITE, Some((set, to)), sql, params)
            .await
    }

    /// Runs one statement as the janitor, in a transaction of its own.
    pub(super) async fn as_janitor(
        &self,
        operation: &'static str,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let client = checkout(&self.janitor, operation).await?;
        let run = async {
            let statement = self.ask(&client, sql, Taken::Janitor).await?;
            let pg: &tokio_postgres::Client = &client;
            if self.speech.is_own() {
                return statement.query(pg, params).await;
            }
            let requests: Vec<Request<'_, Answer>> = vec![
                self.begin(pg, WRITE, Taken::Janitor),
                Box::pin(async { statement.query(pg, params).await }),
                command(pg, "COMMIT"),
            ];
            let mut rows = Vec::new();
            for answer in pipeline(requests).await {
                let answer = answer?;
                if !answer.is_empty() {
                    rows = answer;
                }
            }
            Ok(rows)
        };
        let answer = tokio::time::timeout(self.limit, run).await;
        self.finished(operation, client, answer)
    }

    pub(super) fn close(&self) {
        self.app.close();
        self.janitor.close();
    }

    /// One flight: a dropped future leaves nothing open, since the commit was sent with the rest.
    pub(super) async fn transaction(
        &self,
        operation: &'static str,
        begin: &'static str,
        set: Option<(&'static str, &Uuid)>,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let client = checkout(&self.app, operation).await?;
        let run = async {
            let statement = self.ask(&client, sql, Taken::App).await?;
            let pg: &tokio_postgres::Client = &client;
            let mut requests: Vec<Request<'_, Answer>> = vec![self.begin(pg, begin, Taken::App)];
            if let Some((set, to)) = set {
                let set = self.ask(&client, set, Taken::App).await?;
                requests.push(Box::pin(async move { set.query(pg, &[to]).await }));
            }
            let wanted = requests.len();
            requests.push(Box::pin(async { statement.query(pg, params).await }));
            requests.push(command(pg, "COMMIT"));
            let mut rows = Vec::new();
            for (at, answer) in pipeline(requests).await.into_iter().enumerate() {
                let answer = answer?;
                if at == wanted {
                    rows = answer;
                }
            }
            Ok(rows)
        };
        let answer = tokio::time::timeout(self.limit, run).await;
        self.finished(operation, client, answer)
    }

    /// A session that did not answer in time is not used again.
    pub(super) fn finished<T>(
        &self,
        operation: &'static str,
        client: Client,
        answer: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, Error> {
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(fault::counted(fault::unwritten(operation, &error))),
            Err(_) => {
                drop(Client::take(client));
                Err(fault::counted(fault::timed_out(
                    operation,
                    Kind::Unavailable,
                    self.limit,
                )))
            }
        }
    }
}

pub(super) fn command<'a>(
    client: &'a tokio_postgres::Client,
    command: &'static str,
) -> Request<'a, Answer> {
    Box::pin(async move { client.batch_execute(command).await.map(|()| Vec::new()) })
}

fn pool(target: &Target, taken: Taken, size: usize) -> Result<Pool, Error> {
    // Only whether it is closed is looked at: the role and settings of the session stay.
    let config = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = Manager::from_config(target.config.clone(), target.tls.clone(), config);
    let limit = Some(target.connect_timeout);
    let speech = target.speech.clone();
    let take = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
        let speech = speech.clone();
        Box::pin(async move {
            match session::take(client, &speech, taken).await {
                Ok(_) => Ok(()),
                Err(Refusal::Server(error)) => Err(HookError::Backend(error)),
                Err(Refusal::Unsafe(error)) => Err(HookError::message(error.to_string())),
            }
        })
    });
    Pool::builder(manager)
        .max_size(size)
        .timeouts(Timeouts {
            wait: limit,
            create: limit,
            recycle: limit,
        })
        .runtime(Runtime::Tokio1)
        .post_create(take)
        .build()
        .map_err(|error| {
            Error::new(Kind::Unavailable, "opening the pool").because(error.to_string())
        })
}

pub(super) async fn checkout(pool: &Pool, operation: &'static str) -> Result<Client, Error> {
    let down = |why: &str| Error::new(Kind::Unavailable, operation).because(why);
    // The pool's own time-outs do not cover taking the role.
    let limit = pool.timeouts().create.unwrap_or(Duration::from_secs(5)) * 2;
    let error = match tokio::time::timeout(limit, pool.get()).await {
        Ok(Ok(client)) => return Ok(client),
        Ok(Err(error)) => error,
        Err(_) => return Err(fault::counted(down("the server does not answer"))),
    };
    Err(fault::counted(match error {
        PoolError::Timeout(TimeoutType::Wait) => down("no connection became free in time"),
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
            down("the server does not answer")
        }
        PoolError::Backend(error) => down(&fault::text(&error)),
        PoolError::PostCreateHook(HookError::Backend(error)) => fault::unwritten(operation, &error),
        PoolError::PostCreateHook(HookError::Message(why)) => {
            Error::new(Kind::Unsafe, operation).because(why)
        }
        PoolError::Closed => down("the ledger is closed"),
        PoolError::NoRuntimeSpecified => down("there is no runtime"),
    }))
}
