//! What every session of ours does first: it drops to a restricted role, and checks that this binds it.

use hapax_core::{Error, Kind};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::pipeline::{Request, pipeline};
use super::speech::Speech;
use super::{fault, guards, migrate};

const PIN_SCHEMA: &str = include_str!("../../sql/postgres/pin_schema.sql");
const SYNC_COMMIT: &str = include_str!("../../sql/postgres/sync_commit.sql");
const SESSION: &str = include_str!("../../sql/postgres/session.sql");

/// The plans are made once, while the table may still be tiny. Allowed is only what stays right when it has grown:
/// lookups by a list of ids, joined by hashing, and walks along an index that has the wanted order.
/// To go down an index for every id is cheap, to walk one is not: a plan that is made while a table is empty is used for
/// long after it has grown.
/// Warnings must reach us, whatever the role's default; waits and abandoned transactions end.
/// The rows that say where jobs are we keep ourselves; for older programs the database does.
const SETTINGS: &str = "SET client_min_messages = warning; SET lock_timeout = '500ms'; \
    SET idle_in_transaction_session_timeout = '60s'; SET plan_cache_mode = force_generic_plan; SET jit = off; \
    SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_nestloop = off; SET enable_mergejoin = off; \
    SET enable_sort = off; SET random_page_cost = 0.01; SET seq_page_cost = 0.01; SET cpu_index_tuple_cost = 0.1; \
    SET hapax.keeps_queue = 'on'";

const OPERATION: &str = "opening a session";

/// The role a session takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// Serves requests: sees one tenant at a time.
    App,
    /// Sweeps and keeps tokens: sees no content.
    Janitor,
}

impl Taken {
    const fn name(self) -> &'static str {
        match self {
            Taken::App => "hapax_app",
            Taken::Janitor => "hapax_janitor",
        }
    }

    const fn command(self) -> &'static str {
        match self {
            Taken::App => "SET ROLE hapax_app",
            Taken::Janitor => "SET ROLE hapax_janitor",
        }
    }

    /// For the length of a transaction.
    pub(super) const fn local_command(self) -> &'static str {
        match self {
            Taken::App => "SET LOCAL ROLE hapax_app",
            Taken::Janitor => "SET LOCAL ROLE hapax_janitor",
        }
    }
}

/// What a session of the ledger is, as the database sees it. Shown by `hapax doctor`.
#[expect(
    clippy::struct_excessive_bools,
    reason = "a list of findings, each on its own"
)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Who logged in.
    pub login: String,
    /// The role in force.
    pub role: String,
    /// Whether that role is a superuser, for whom row level security does not hold.
    pub is_superuser: bool,
    /// Whether that role may pass by row level security.
    pub bypasses_rls: bool,
    /// Whether that role is, or may become, the owner of the tables.
    pub owns_tables: bool,
    /// Whether a table that this program needs is not there.
    pub lacks_tables: bool,
    /// The first table or view whose rows are not guarded as hapax guards them, and what to do about it.
    pub unguarded: Option<String>,
    /// Whether the server forces its writes to disk.
    pub syncs: bool,
}

impl Session {
    /// Whether row level security holds for this session.
    ///
    /// # Errors
    /// [`Kind::Unsafe`], with what is wrong and what to do.
    pub fn verify(&self) -> Result<(), Error> {
        let role = &self.role;
        let wrong = if self.lacks_tables {
            "its tables are missing from the schema; run `hapax migrate` with the owner's URL"
                .to_owned()
        } else if self.is_superuser {
            format!(
                "{role} is a superuser, whom row level security does not bind; set NOSUPERUSER on the role"
            )
        } else if self.bypasses_rls {
            format!("{role} may bypass row level security; set NOBYPASSRLS on the role")
        } else if self.owns_tables {
            format!(
                "{role} owns the tables or is a member of their owner; give them to another role"
            )
        } else if let Some(unguarded) = &self.unguarded {
            unguarded.clone()
        } else {
            return Ok(());
        };
        Err(Error::new(Kind::Unsafe, OPERATION).because(wrong))
    }
}

/// Why a session could not be used.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The server did not do it.
    Server(tokio_postgres::Error),
    /// It would not be safe.
    Unsafe(Error),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Server(error) => fault::unwritten(OPERATION, &error),
            Refusal::Unsafe(error) => error,
        }
    }
}

/// Takes the role, and checks that row level security holds for it. On a session that is borrowed the role is taken
/// with every transaction, and only the check is made here.
pub(super) async fn take(
    client: &Client,
    speech: &Speech,
    taken: Taken,
) -> Result<Session, Refusal> {
    let session = if speech.is_own() {
        settle_in(client, taken).await?;
        examine(client).await.map_err(Refusal::Server)?
    } else {
        look(client, speech, taken)
            .await
            .map_err(|error| refusal(error, taken))?
    };
    session.verify().map_err(Refusal::Unsafe)?;
    Ok(session)
}

/// What the session is in a transaction that takes the role.
pub(super) async fn look(
    client: &Client,
    speech: &Speech,
    taken: Taken,
) -> Result<Session, tokio_postgres::Error> {
    if speech.is_own() {
        return examine(client).await;
    }
    client.batch_execute(&speech.begin_look(taken)).await?;
    let session = examine(client).await;
    client.batch_execute("ROLLBACK").await?;
    session
}

/// Takes the role and the settings for as long as the session lasts. One flight.
async fn settle_in(client: &Client, taken: Taken) -> Result<(), Refusal> {
    let requests: Vec<Request<'_, Result<(), tokio_postgres::Error>>> = vec![
        Box::pin(client.batch_execute(PIN_SCHEMA)),
        Box::pin(client.batch_execute(SYNC_COMMIT)),
        Box::pin(client.batch_execute(SETTINGS)),
        Box::pin(client.batch_execute(taken.command())),
    ];
    for answer in pipeline(requests).await {
        answer.map_err(|error| refusal(error, taken))?;
    }
    Ok(())
}

/// What this session is.
pub(super) async fn examine(client: &Client) -> Result<Session, tokio_postgres::Error> {
    let row = client.query_one(SESSION, &[]).await?;
    let relations = guards::read(client).await?;
    let mut unguarded = guards::unguarded(&relations, false);
    // Most databases need no second look.
    if unguarded.is_some() && migrate::is_newer(client).await? {
        unguarded = guards::unguarded(&relations, true);
    }
    Ok(Session {
        login: row.try_get(0)?,
        role: row.try_get(1)?,
        is_superuser: row.try_get(2)?,
        bypasses_rls: row.try_get(3)?,
        owns_tables: guards::owns(&relations),
        lacks_tables: guards::is_incomplete(&relations),
        unguarded,
        syncs: row.try_get(4)?,
    })
}

fn refusal(error: tokio_postgres::Error, taken: Taken) -> Refusal {
    let role = taken.name();
    let absent = error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE);
    if absent || error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        let why = format!(
            "this login cannot take the role {role} ({}); run `hapax migrate` once with a \
             superuser's URL, or let a superuser make the roles hapax_app and hapax_janitor and grant both to this login",
            fault::text(&error)
        );
        return Refusal::Unsafe(Error::new(Kind::Unsafe, OPERATION).because(why));
    }
    Refusal::Server(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_that_row_level_security_binds_is_used() {
        let safe = Session {
            login: "postgres".to_owned(),
            role: "hapax_app".to_owned(),
            is_superuser: false,
            bypasses_rls: false,
            owns_tables: false,
            lacks_tables: false,
            unguarded: None,
            syncs: true,
        };
        assert!(safe.verify().is_ok());
        for (wrong, word) in [
            (
                Session {
                    is_superuser: true,
                    ..safe.clone()
                },
                "superuser",
            ),
            (
                Session {
                    bypasses_rls: true,
                    ..safe.clone()
                },
                "NOBYPASSRLS",
            ),
            (
                Session {
                    owns_tables: true,
                    ..safe.clone()
                },
                "owns",
            ),
            (
                Session {
                    unguarded: Some("op: FORCE row level security".to_owned()),
                    ..safe.clone()
                },
                "FORCE",
            ),
            (
                Session {
                    lacks_tables: true,
                    ..safe
                },
                "hapax migrate",
            ),
        ] {
            let error = wrong.verify().unwrap_err();
            assert_eq!(error.kind(), Kind::Unsafe);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
