//! One connection that writes: its statements, and whether the server warned about anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hapax_core::{Error, ledger::Write};
use tokio::task::JoinHandle;
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client};

use super::fault;
use super::notes::NOTE;
use super::session::{self, Session, Taken};
use super::speech::{Ask, Speech};
use super::target::{Target, Wire};

const SET_TENANT: &str = include_str!("../../sql/postgres/set_tenant.sql");
const STORED: &str = include_str!("../../sql/postgres/stored.sql");
const NOTIFY: &str = include_str!("../../sql/postgres/notify.sql");
const CLOCK: &str = include_str!("../../sql/postgres/clock.sql");

/// The statement for a kind of move.
pub(super) const fn sql(write: Write) -> &'static str {
    match write {
        Write::Insert => include_str!("../../sql/postgres/insert.sql"),
        Write::Renew => include_str!("../../sql/postgres/renew.sql"),
        Write::Settle => include_str!("../../sql/postgres/settle.sql"),
        Write::Replace => include_str!("../../sql/postgres/replace.sql"),
    }
}

/// A connection that writes. Dropping it closes the socket at once and cancels nothing on the server.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) session: Session,
    pub(super) speech: Speech,
    warned: Arc<AtomicBool>,
    driver: JoinHandle<()>,
    pub(super) set_tenant: Ask,
    pub(super) stored: Ask,
    pub(super) clock: Ask,
    pub(super) note: Ask,
    pub(super) notify: Ask,
    renew: Ask,
    settle: Ask,
    replace: Ask,
    insert: Ask,
}

impl Link {
    /// Connects, drops to the restricted role and prepares the statements.
    pub(super) async fn open(target: &Target) -> Result<Self, Error> {
        let (client, wire) = target.connect().await?;
        let warned = Arc::new(AtomicBool::new(false));
        // Owned by the link: the guard ends it if anything below fails.
        let driver = Driver(Some(tokio::spawn(drive(wire, warned.clone()))));
        let setup = async {
            let speech = &target.speech;
            let session = session::take(&client, speech, Taken::App).await?;
            let statement = async |sql| {
                speech
                    .ask(&client, sql, Taken::App)
                    .await
                    .map_err(session::Refusal::Server)
            };
            Ok::<_, session::Refusal>((
                session,
                statement(SET_TENANT).await?,
                statement(STORED).await?,
                statement(CLOCK).await?,
                statement(NOTE).await?,
                statement(NOTIFY).await?,
                statement(sql(Write::Renew)).await?,
                statement(sql(Write::Settle)).await?,
                statement(sql(Write::Replace)).await?,
                statement(sql(Write::Insert)).await?,
            ))
        };
        let prepared = tokio::time::timeout(target.connect_timeout, setup).await;
        let prepared = prepared.map_err(|_| {
            fault::timed_out(
                "opening a session",
                hapax_core::Kind::Unavailable,
                target.connect_timeout,
            )
        })?;
        let (session, set_tenant, stored, clock, note, notify, renew, settle, replace, insert) =
            prepared?;
        let driver = driver.release();
        Ok(Self {
            client,
            session,
            speech: target.speech.clone(),
            warned,
            driver,
            set_tenant,
            stored,
            clock,
            note,
            notify,
            renew,
            settle,
            replace,
            insert,
        })
    }

    pub(super) fn statement(&self, write: Write) -> &Ask {
        match write {
            Write::Insert => &self.insert,
            Write::Renew => &self.renew,
            Write::Settle => &self.settle,
            Write::Replace => &self.replace,
        }
    }

    /// Whether the server warned about anything since this was asked last.
    pub(super) fn take_warning(&self) -> bool {
        self.warned.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

struct Driver(Option<JoinHandle<()>>);

impl Driver {
    fn release(mut self) -> JoinHandle<()> {
        self.0.take().expect("a driver is released once")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abort();
        }
    }
}

/// Moves bytes until the connection ends. A notice is noted before the answer that follows it is passed on.
pub(super) async fn drive(mut wire: Wire, warned: Arc<AtomicBool>) {
    loop {
        match std::future::poll_fn(|context| wire.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                // A cancelled wait for a synchronous standby looks like success but for this.
                if !matches!(
                    notice.parsed_severity(),
                    Some(Severity::Notice | Severity::Info | Severity::Log | Severity::Debug)
                ) {
                    warned.store(true, Ordering::SeqCst);
                    tracing::warn!(
                        code = notice.code().code(),
                        "PostgreSQL warned: {}",
                        notice.message()
                    );
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(
                    "the connection to PostgreSQL ended: {}",
                    fault::text(&error)
                );
                return;
            }
            None => return,
        }
    }
}
