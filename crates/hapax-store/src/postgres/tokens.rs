//! Access tokens in PostgreSQL: found one by one as the app, kept as the janitor.

use hapax_core::{Answer, Error, Kind, Ledger, Tenant, Time};
use std::time::SystemTime;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PgLedger;
use super::columns::{get, moment};
use crate::token::{SessionId, Token, TokenId, Tokens};

const SET_TOKEN: &str = include_str!("../../sql/postgres/set_token.sql");
const FIND: &str = include_str!("../../sql/postgres/token_find.sql");
const LIST: &str = include_str!("../../sql/postgres/token_list.sql");
const PUT: &str = include_str!("../../sql/postgres/token_put.sql");
const REVOKE: &str = include_str!("../../sql/postgres/token_revoke.sql");

const SET_SESSION: &str = include_str!("../../sql/postgres/set_session.sql");
const END_SESSION: &str = include_str!("../../sql/postgres/ended_session_put.sql");
const HAS_ENDED: &str = include_str!("../../sql/postgres/ended_session_find.sql");

const LIST_MAX: i64 = 10_000;

impl Tokens for PgLedger {
    fn put_token(&self, token: Token) -> Answer<'_, ()> {
        Box::pin(async move {
            let secret = token.secret_sha256.to_vec();
            let created_at = moment(token.created_at.as_ms());
            let revoked_at = token.revoked_at.map(|time| moment(time.as_ms()));
            let (id, tenant, role) = (token.id.0, token.tenant.as_uuid(), token.role.as_str());
            let name = token.name.as_deref();
            let params: [super::columns::Param<'_>; 7] = [
                &id,
                &tenant,
                &role,
                &secret,
                &created_at,
                &revoked_at,
                &name,
            ];
            self.reader
                .as_janitor("storing the token", PUT, &params)
                .await?;
            Ok(())
        })
    }

    fn find_token(&self, id: TokenId) -> Answer<'_, Option<Token>> {
        Box::pin(async move {
            let rows = self
                .reader
                .scoped("finding the token", SET_TOKEN, &id.0, FIND, &[&id.0])
                .await?;
            rows.first().map(token).transpose()
        })
    }

    fn list_tokens(&self) -> Answer<'_, Vec<Token>> {
        Box::pin(async move {
            let rows = self
                .reader
                .as_janitor("listing tokens", LIST, &[&LIST_MAX])
                .await?;
            rows.iter().map(token).collect()
        })
    }

    fn revoke_token(&self, id: TokenId) -> Answer<'_, bool> {
        Box::pin(async move {
            let now = moment(self.now().as_ms());
            let rows = self
                .reader
                .as_janitor("revoking the token", REVOKE, &[&id.0, &now])
                .await?;
            Ok(!rows.is_empty())
        })
    }

    fn end_session(&self, id: SessionId, expires_at: Time) -> Answer<'_, ()> {
        Box::pin(async move {
            let (expires_at, now) = (moment(expires_at.as_ms()), moment(self.now().as_ms()));
            self.reader
                .as_janitor("ending a session", END_SESSION, &[&id.0, &expires_at, &now])
                .await?;
            Ok(())
        })
    }

    fn has_ended(&self, id: SessionId) -> Answer<'_, bool> {
        Box::pin(async move {
            let rows = self
                .reader
                .scoped(
                    "finding the session",
                    SET_SESSION,
                    &id.0,
                    HAS_ENDED,
                    &[&id.0],
                )
                .await?;
            rows.first().map_or(Ok(false), |row| get(row, 0))
        })
    }
}

fn token(row: &Row) -> Result<Token, Error> {
    let damaged = |why: String| Error::new(Kind::Corrupt, "reading a token").because(why);
    let secret: Vec<u8> = get(row, 3)?;
    Ok(Token {
        id: TokenId(get(row, 0)?),
        tenant: Tenant::from_uuid(get::<Uuid>(row, 1)?),
        role: get::<&str>(row, 2)?.parse().map_err(damaged)?,
        secret_sha256: secret
            .try_into()
            .map_err(|_| damaged("its hash is not 32 bytes long".to_owned()))?,
        created_at: get::<SystemTime>(row, 4)?.into(),
        revoked_at: get::<Option<SystemTime>>(row, 5)?.map(Time::from),
        name: get::<Option<&str>>(row, 6)?.map(Into::into),
    })
}
