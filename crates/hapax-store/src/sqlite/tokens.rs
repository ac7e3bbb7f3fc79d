//! Access tokens in the same file. Their secrets arrive hashed.

use hapax_core::{Answer, Error, Kind, Tenant, Time};
use rusqlite::{OptionalExtension, params};
use uuid::Uuid;

use super::SqliteLedger;
use super::fault::Fault;
use super::queue::Effect;
use crate::token::{SessionId, Token, TokenId, Tokens};

const PUT: &str = include_str!("../../sql/sqlite/token_put.sql");
const FIND: &str = include_str!("../../sql/sqlite/token_find.sql");
const LIST: &str = include_str!("../../sql/sqlite/token_list.sql");
const REVOKE: &str = include_str!("../../sql/sqlite/token_revoke.sql");

const END_SESSION: &str = include_str!("../../sql/sqlite/ended_session_put.sql");
const SWEEP_SESSIONS: &str = include_str!("../../sql/sqlite/ended_session_sweep.sql");
const HAS_ENDED: &str = include_str!("../../sql/sqlite/ended_session_find.sql");

const LISTED_MAX: i64 = 10_000;

impl Tokens for SqliteLedger {
    fn put_token(&self, token: Token) -> Answer<'_, ()> {
        Box::pin(self.write(1, 0, move |connection| {
            connection.prepare_cached(PUT)?.execute(params![
                token.id.0.as_bytes(),
                token.tenant.as_uuid().as_bytes(),
                token.role.as_str(),
                token.secret_sha256,
                token.created_at.as_ms(),
                token.revoked_at.map(Time::as_ms),
                token.name.as_deref(),
            ])?;
            Ok((
                (),
                Effect {
                    wrote: true,
                    purged: 0,
                },
            ))
        }))
    }

    fn find_token(&self, id: TokenId) -> Answer<'_, Option<Token>> {
        Box::pin(self.read(move |connection| {
            let mut find = connection.prepare_cached(FIND)?;
            find.query_row([id.0.as_bytes()], |row| Ok(read(row)))
                .optional()?
                .transpose()
        }))
    }

    fn list_tokens(&self) -> Answer<'_, Vec<Token>> {
        Box::pin(self.read(move |connection| {
            let mut list = connection.prepare_cached(LIST)?;
            list.query_and_then([LISTED_MAX], read)?.collect()
        }))
    }

    fn revoke_token(&self, id: TokenId) -> Answer<'_, bool> {
        let now = self.clock.now();
        Box::pin(self.write(1, 0, move |connection| {
            let revoked = connection
                .prepare_cached(REVOKE)?
                .execute(params![id.0.as_bytes(), now.as_ms()])?
                > 0;
            Ok((
                revoked,
                Effect {
                    wrote: revoked,
                    purged: 0,
                },
            ))
        }))
    }

    fn end_session(&self, id: SessionId, expires_at: Time) -> Answer<'_, ()> {
        let now = self.clock.now();
        Box::pin(self.write(1, 0, move |connection| {
            connection
                .prepare_cached(SWEEP_SESSIONS)?
                .execute([now.as_ms()])?;
            connection
                .prepare_cached(END_SESSION)?
                .execute(params![id.0.as_bytes(), expires_at.as_ms()])?;
            Ok((
                (),
                Effect {
                    wrote: true,
                    purged: 0,
                },
            ))
        }))
    }

    fn has_ended(&self, id: SessionId) -> Answer<'_, bool> {
        Box::pin(self.read(move |connection| {
            let mut find = connection.prepare_cached(HAS_ENDED)?;
            Ok(find.query_row([id.0.as_bytes()], |row| row.get(0))?)
        }))
    }
}

fn read(row: &rusqlite::Row<'_>) -> Result<Token, Fault> {
    let role: String = row.get(2)?;
    let role = role
        .parse()
        .map_err(|why: String| Error::new(Kind::Corrupt, "reading a token").because(why))?;
    let revoked_at: Option<i64> = row.get(5)?;
    Ok(Token {
        id: TokenId(Uuid::from_bytes(row.get(0)?)),
        tenant: Tenant::from_uuid(Uuid::from_bytes(row.get(1)?)),
        role,
        secret_sha256: row.get(3)?,
        created_at: Time::from_ms(row.get(4)?),
        revoked_at: revoked_at.map(Time::from_ms),
        name: row.get::<_, Option<String>>(6)?.map(Into::into),
    })
}
