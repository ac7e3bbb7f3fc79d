//! Access tokens: stored hashed, found by id, revoked for good.

use std::any::Any;
use std::sync::Arc;

use hapax_core::{Tenant, Time};
use uuid::Uuid;

use crate::token::{Role, SessionId, Token, TokenId, Tokens};

type Opened = (Arc<dyn Tokens>, Box<dyn Any + Send>);

fn token(number: u128) -> Token {
    Token {
        id: TokenId(Uuid::from_u128(number)),
        tenant: Tenant::from_uuid(Uuid::from_u128(number % 2)),
        role: Role::Writer,
        secret_sha256: [7; 32],
        created_at: Time::from_ms(1_760_000_000_000 + i64::try_from(number).unwrap_or(0)),
        revoked_at: None,
        name: None,
    }
}

async fn put(tokens: &Arc<dyn Tokens>, token: &Token) {
    tokens
        .put_token(token.clone())
        .await
        .expect("the store answers");
}

async fn find(tokens: &Arc<dyn Tokens>, id: TokenId) -> Option<Token> {
    tokens.find_token(id).await.expect("the store answers")
}

/// A stored token comes back whole.
pub async fn a_stored_token_is_found_by_its_id((tokens, _keep): &Opened) {
    put(tokens, &token(1)).await;
    let named = Token {
        name: Some("deploy bot".into()),
        ..token(2)
    };
    put(tokens, &named).await;
    assert_eq!(find(tokens, token(1).id).await, Some(token(1)));
    assert_eq!(find(tokens, token(2).id).await, Some(named));
}

/// An id that was never stored finds nothing.
pub async fn an_unknown_token_is_not_found((tokens, _keep): &Opened) {
    assert_eq!(find(tokens, TokenId(Uuid::from_u128(99))).await, None);
    assert!(
        !tokens
            .revoke_token(TokenId(Uuid::from_u128(99)))
            .await
            .expect("the store answers")
    );
}

/// A revoked token stays found, and says since when; revoking again changes nothing.
pub async fn a_revoked_token_says_when((tokens, _keep): &Opened) {
    put(tokens, &token(1)).await;
    assert!(
        tokens
            .revoke_token(token(1).id)
            .await
            .expect("the store answers")
    );
    let revoked = find(tokens, token(1).id).await.expect("it is still there");
    assert!(revoked.revoked_at.is_some());
    assert!(
        tokens
            .revoke_token(token(1).id)
            .await
            .expect("the store answers")
    );
    assert_eq!(find(tokens, token(1).id).await, Some(revoked));
}

/// Putting a token again replaces its secret, tenant, role and name and lifts a revocation.
pub async fn putting_a_token_again_replaces_it((tokens, _keep): &Opened) {
    put(tokens, &token(1)).await;
    tokens
        .revoke_token(token(1).id)
        .await
        .expect("the store answers");
    let renewed = Token {
        role: Role::Owner,
        name: Some("renewed".into()),
        secret_sha256: [8; 32],
        tenant: Tenant::DEFAULT,
        ..token(1)
    };
    put(tokens, &renewed).await;
    assert_eq!(find(tokens, renewed.id).await, Some(renewed));
}

/// All tokens of all tenants are listed, oldest first.
pub async fn tokens_are_listed_oldest_first((tokens, _keep): &Opened) {
    for number in [3, 1, 2] {
        put(tokens, &token(number)).await;
    }
    let listed = tokens.list_tokens().await.expect("the store answers");
    assert_eq!(listed, [token(1), token(2), token(3)]);
}

/// A session that was ended stays ended until its time, whoever else is ended meanwhile; others are not.
pub async fn an_ended_session_stays_ended_until_its_time((tokens, _keep): &Opened) {
    let id = |number| SessionId(Uuid::from_u128(number));
    let ended = |number| {
        let answer = tokens.has_ended(id(number));
        async { answer.await.expect("the store answers") }
    };
    let end = |number, at: Time| {
        let answer = tokens.end_session(id(number), at);
        async { answer.await.expect("the store answers") }
    };
    // A time that no clock of a store has reached, and one that every clock has passed.
    let (later, long_ago) = (Time::from_ms(32_000_000_000_000), Time::from_ms(1000));
    assert!(!ended(1).await);
    end(1, later).await;
    end(1, later).await;
    end(2, long_ago).await;
    assert!(ended(1).await && ended(2).await && !ended(3).await);
    end(3, later).await;
    assert!(ended(1).await && ended(3).await);
    assert!(!ended(2).await, "what is over is forgotten");
}
