//! The two restricted roles: made if missing and if the login may, and granted to it.
//! Roles belong to the whole cluster, so other databases may be doing the same at this moment.

use std::time::Duration;

use hapax_core::{Error, Kind};
use tokio_postgres::Client;

use super::fault;

const ROLES: &str = include_str!("../../sql/postgres/roles.sql");
const CREATE_APP: &str = include_str!("../../sql/postgres/create_app.sql");
const CREATE_JANITOR: &str = include_str!("../../sql/postgres/create_janitor.sql");
const TAKE_ROLES: &str = include_str!("../../sql/postgres/take_roles.sql");

const OPERATION: &str = "preparing the database roles";
/// Catalog updates of others make ours fail at random; a few tries are enough.
const TRIES: u32 = 20;

/// Makes sure that both roles exist and that this login may take them, as far as it can.
///
/// # Errors
/// [`Kind::Unsafe`] when a role is missing and this login may not make it.
pub(super) async fn ensure(client: &Client) -> Result<(), Error> {
    let mut last = None;
    for attempt in 0..TRIES {
        match once(client).await {
            Ok(done) => return done,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(u64::from(10 + attempt * 5))).await;
    }
    Err(last.map_or_else(
        || Error::new(Kind::Unavailable, OPERATION),
        |error| Error::new(Kind::Unavailable, OPERATION).because(fault::text(&error)),
    ))
}

async fn once(client: &Client) -> Result<Result<(), Error>, tokio_postgres::Error> {
    let row = client.query_one(ROLES, &[]).await?;
    let (present, may_create): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
    if present < 2 && !may_create {
        let why = "the roles hapax_app and hapax_janitor are missing and this login may not create them; \
                   run `hapax migrate` once with a superuser's URL";
        return Ok(Err(Error::new(Kind::Unsafe, OPERATION).because(why)));
    }
    if present < 2 {
        client.batch_execute(CREATE_APP).await?;
        client.batch_execute(CREATE_JANITOR).await?;
    }
    let may_take: bool = client.query_one(ROLES, &[]).await?.try_get(2)?;
    if !may_take
        && let Err(error) = client.batch_execute(TAKE_ROLES).await
        && fault::class(&error) != fault::Class::Forbidden
    {
        return Err(error);
    }
    // If it still may not take them, opening a session says so and what to do.
    Ok(Ok(()))
}
