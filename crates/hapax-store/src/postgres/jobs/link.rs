//! One connection of the queue, its prepared statements, and the small pool of them. Snapshots use it too.
//! It is not the ledger's: a transaction of jobs looks before it writes, and waits for a busy job.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hapax_core::{Error, Kind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Row};

use super::super::columns::Param;
use super::super::fault::{self, Class};
use super::super::link::drive;
use super::super::pipeline::{Request, pipeline};
use super::super::reader;
use super::super::session::{self, Taken};
use super::super::speech::{Ask, Speech};
use super::super::target::Target;

/// How often a transaction is tried that met somebody else's. Each wait for a lock is half a second at most.
const TRIES: u32 = 10;

/// One thing to ask of the server.
pub(in super::super) enum Order<'a> {
    /// Begin, commit, roll back.
    Command(&'static str),
    /// A statement with its parameters.
    Query(&'static str, Vec<Param<'a>>),
}

/// Which of the orders failed, and how.
pub(in super::super) struct Fault {
    at: usize,
    error: tokio_postgres::Error,
}

/// Why a transaction came to nothing.
pub(in super::super) enum Failure {
    /// Nothing was written, somebody was in the way; the connection is fine.
    Again(Error),
    /// Nothing was written, and it would be the same again; the connection is fine.
    Refused(Error),
    /// The connection is not to be used again. The error says whether something may have been written.
    Lost(Error),
}

/// A connection of the queue. Dropping it closes the socket at once, and the server takes back what was open.
pub(in super::super) struct Link {
    client: Client,
    warned: Arc<AtomicBool>,
    driver: JoinHandle<()>,
    statements: HashMap<&'static str, Ask>,
    speech: Speech,
    operation: &'static str,
    limit: Duration,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Link {
    async fn open(target: &Target, limit: Duration) -> Result<Self, Error> {
        let (client, wire) = target.connect().await?;
        let warned = Arc::new(AtomicBool::new(false));
        let driver = tokio::spawn(drive(wire, warned.clone()));
        // Made before the role is taken, so that it ends the driver if that fails.
        let link = Self {
            client,
            warned,
            driver,
            statements: HashMap::new(),
            speech: target.speech.clone(),
            operation: "opening a session",
            limit,
        };
        let wait = target.connect_timeout;
        match tokio::time::timeout(wait, session::take(&link.client, &link.speech, Taken::App))
            .await
        {
            Ok(taken) => drop(taken?),
            Err(_) => return Err(fault::timed_out(link.operation, Kind::Unavailable, wait)),
        }
        Ok(link)
    }

    /// The orders up to the writing, in one flight. The answers are in the order asked.
    pub(in super::super) async fn look(
        &mut self,
        orders: Vec<Order<'_>>,
    ) -> Result<Vec<Vec<Row>>, Failure> {
        let limit = self.limit;
        match tokio::time::timeout(limit, self.fly(orders)).await {
            Ok(Ok(answers)) => Ok(answers),
            Ok(Err(fault)) => Err(self.abandon(&fault.error).await),
            Err(_) => Err(Failure::Lost(fault::timed_out(
                self.operation,
                Kind::Unavailable,
                limit,
            ))),
        }
    }

    /// The last orders and the commit, in one flight. Nothing is in doubt if nothing is written.
    pub(in super::super) async fn finish(
        &mut self,
        mut orders: Vec<Order<'_>>,
        writes: bool,
    ) -> Result<(), Failure> {
        let commit = orders.len();
        let (operation, limit) = (self.operation, self.limit);
        if self.client.is_closed() {
            let lost = Error::new(Kind::Unavailable, operation).because("the connection was lost");
            return Err(Failure::Lost(lost));
        }
        let kind = if writes {
            Kind::OutcomeUnknown
        } else {
            Kind::Unavailable
        };
        orders.push(Order::Command("COMMIT"));
        match tokio::time::timeout(limit, self.fly(orders)).await {
            Err(_) => Err(Failure::Lost(fault::timed_out(operation, kind, limit))),
            // The server refused a write, so the commit that follows it took everything back.
            Ok(Err(Fault { at, error })) if at < commit && error.as_db_error().is_some() => {
                Err(self.abandon(&error).await)
            }
            Ok(Err(Fault { error, .. })) => Err(Failure::Lost(
                Error::new(kind, operation).because(fault::text(&error)),
            )),
            Ok(Ok(_)) if writes && self.warned.load(Ordering::SeqCst) => {
                let why = "the server warned, so the write may not have reached its standby";
                Err(Failure::Lost(Error::new(kind, operation).because(why)))
            }
            Ok(Ok(_)) => Ok(()),
        }
    }

    /// Takes the transaction back for a reason of our own.
    pub(in super::super) async fn give_up(&mut self, error: Error) -> Failure {
        if self.roll_back().await {
            Failure::Refused(error)
        } else {
            Failure::Lost(error)
        }
    }

    async fn abandon(&mut self, error: &tokio_postgres::Error) -> Failure {
        if self.roll_back().await {
            return self.unwritten(error);
        }
        let lost = Error::new(Kind::Unavailable, self.operation);
        Failure::Lost(lost.because(fault::text(error)))
    }

    async fn roll_back(&mut self) -> bool {
        let back = self.client.batch_execute("ROLLBACK");
        !self.client.is_closed()
            && matches!(tokio::time::timeout(self.limit, back).await, Ok(Ok(())))
    }

    fn unwritten(&self, error: &tokio_postgres::Error) -> Failure {
        let answer = fault::unwritten(self.operation, error);
        let is_taken = error.code() == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION);
        match fault::class(error) {
            Class::Contention | Class::Locked => Failure::Again(answer),
            // Somebody began the same operation at this moment: the next look sees it.
            Class::Refused if is_taken => {
                let busy = Error::new(Kind::Unavailable, self.operation);
                Failure::Again(busy.because(fault::text(error)))
            }
            Class::Refused => Failure::Refused(answer),
            Class::Forbidden | Class::Down => Failure::Lost(answer),
        }
    }

    async fn fly(&mut self, orders: Vec<Order<'_>>) -> Result<Vec<Vec<Row>>, Fault> {
        let begins = matches!(orders.first(), Some(Order::Command(command)) if is_begin(command));
        let mut prepared = Vec::with_capacity(orders.len());
        for (at, order) in orders.iter().enumerate() {
            prepared.push(match order {
                Order::Command(_) => None,
                Order::Query(sql, _) => {
                    let statement = self.statement(sql, begins).await;
                    Some(statement.map_err(|error| Fault { at, error })?)
                }
            });
        }
        let (client, speech) = (&self.client, &self.speech);
        let requests = orders.iter().zip(&prepared);
        let requests = requests.map(|(order, statement)| -> Request<'_, reader::Answer> {
            match (order, statement) {
                (Order::Query(_, params), Some(statement)) => {
                    Box::pin(statement.query(client, params))
                }
                (Order::Command(begin), _) if is_begin(begin) => {
                    let begin = speech.begin(begin, Taken::App);
                    Box::pin(async move { client.batch_execute(&begin).await.map(|()| Vec::new()) })
                }
                (Order::Query(command, _) | Order::Command(command), _) => {
                    Box::pin(
                        async move { client.batch_execute(command).await.map(|()| Vec::new()) },
                    )
                }
            }
        });
        let answers = pipeline(requests.collect()).await.into_iter().enumerate();
        answers
            .map(|(at, answer)| answer.map_err(|error| Fault { at, error }))
            .collect()
    }

    /// The statement, made ready before the transaction begins or within it.
    async fn statement(
        &mut self,
        sql: &'static str,
        begins: bool,
    ) -> Result<Ask, tokio_postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = if begins {
            self.speech.ask(&self.client, sql, Taken::App).await?
        } else {
            self.speech.ask_within(&self.client, sql).await?
        };
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }
}

fn is_begin(command: &str) -> bool {
    command.starts_with("BEGIN")
}

/// The connections of the queue: opened when they are needed, kept, and never used by two at once.
pub(in super::super) struct Pool {
    target: Target,
    commit_timeout: Duration,
    free: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Link>>>,
}

/// A connection that is this caller's alone. Dropped, it is closed; only one that is in order goes back.
pub(in super::super) struct Lent {
    pub(in super::super) link: Link,
    idle: Arc<Mutex<Vec<Link>>>,
    _permit: OwnedSemaphorePermit,
}

impl Lent {
    /// Gives the connection back for others to use.
    pub(in super::super) fn back(self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.link);
    }
}

impl Pool {
    pub(in super::super) fn new(target: Target, links: usize, commit_timeout: Duration) -> Self {
        Self {
            target,
            commit_timeout,
            free: Arc::new(Semaphore::new(links.max(1))),
            idle: Arc::default(),
        }
    }

    pub(in super::super) async fn lend(&self, operation: &'static str) -> Result<Lent, Error> {
        self.lend_within(operation, self.target.connect_timeout)
            .await
    }

    /// Waits as long as a commit may take: where many write the same, it is the others' turn first.
    pub(in super::super) async fn lend_in_turn(
        &self,
        operation: &'static str,
    ) -> Result<Lent, Error> {
        self.lend_within(operation, self.commit_timeout).await
    }

    async fn lend_within(&self, operation: &'static str, wait: Duration) -> Result<Lent, Error> {
        let down = |why: &str| Error::new(Kind::Unavailable, operation).because(why);
        let free = self.free.clone().acquire_owned();
        let permit = match tokio::time::timeout(wait, free).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(down("the ledger is closed")),
            Err(_) => return Err(fault::counted(down("no connection became free in time"))),
        };
        let mut link = match self.idle() {
            Some(link) => link,
            None => Link::open(&self.target, self.commit_timeout)
                .await
                .map_err(fault::counted)?,
        };
        link.operation = operation;
        link.warned.store(false, Ordering::SeqCst);
        Ok(Lent {
            link,
            idle: self.idle.clone(),
            _permit: permit,
        })
    }

    fn idle(&self) -> Option<Link> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|link| !link.client.is_closed());
        idle.pop()
    }

    pub(in super::super) fn close(&self) {
        self.free.close();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.clear();
    }
}

/// How often a transaction was tried.
#[derive(Default)]
pub(in super::super) struct Tries(u32);

impl Tries {
    /// Waits a moment if another try may help.
    ///
    /// # Errors
    /// The error of the last try, if it does not.
    pub(in super::super) async fn after(
        &mut self,
        failure: Failure,
        lent: Lent,
    ) -> Result<(), Error> {
        self.0 += 1;
        match failure {
            Failure::Again(error) if self.0 < TRIES => {
                lent.back();
                tracing::debug!(tries = self.0, "a transaction is tried again: {error}");
                tokio::time::sleep(pause(self.0)).await;
                Ok(())
            }
            Failure::Again(error) | Failure::Refused(error) => {
                lent.back();
                Err(fault::counted(error))
            }
            Failure::Lost(error) => Err(fault::counted(error)),
        }
    }
}

/// Longer with every try, and different for those who met each other.
fn pause(tries: u32) -> Duration {
    let spread = u64::from(uuid::Uuid::new_v4().as_bytes()[0] % 16);
    Duration::from_millis(spread + 3 * u64::from(tries))
}
