//! Access tokens as they are stored: hashed, each with a tenant and a role.
//! Making, showing and checking a token's secret is the server's business.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hapax_core::{Answer, Tenant, Time};
use uuid::Uuid;

/// What the bearer of a token may do. Each role may do what the ones after it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Everything, settling and deleting included.
    Owner,
    /// Reads and writes.
    Writer,
    /// Reads.
    Viewer,
}

impl Role {
    /// The word used in the API, the command line and storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Owner => "owner",
            Role::Writer => "writer",
            Role::Viewer => "viewer",
        }
    }

    /// Whether this role may do what `needed` may.
    #[must_use]
    pub const fn allows(self, needed: Role) -> bool {
        self.rank() >= needed.rank()
    }

    const fn rank(self) -> u8 {
        match self {
            Role::Owner => 3,
            Role::Writer => 2,
            Role::Viewer => 1,
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "owner" => Ok(Role::Owner),
            "writer" => Ok(Role::Writer),
            "viewer" => Ok(Role::Viewer),
            other => Err(format!(
                "'{other}' is not a role; use owner, writer or viewer"
            )),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The public half of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TokenId(pub Uuid);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl FromStr for TokenId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        Uuid::parse_str(text).map(TokenId)
    }
}

/// The name of one session of a browser.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionId(pub Uuid);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl FromStr for SessionId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        Uuid::parse_str(text).map(SessionId)
    }
}

/// A stored token. The secret itself is never stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// The public half.
    pub id: TokenId,
    /// Whose token.
    pub tenant: Tenant,
    /// What it allows.
    pub role: Role,
    /// The sha256 of the secret half.
    pub secret_sha256: [u8; 32],
    /// When it was made.
    pub created_at: Time,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Time>,
    /// What people call it.
    pub name: Option<Arc<str>>,
}

/// The seam for access tokens, and for the sessions that were ended before them.
pub trait Tokens: Send + Sync + 'static {
    /// Stores a token. Storing one whose id exists replaces its secret, tenant, role and name and lifts a
    /// revocation: that is how a token set by configuration is kept current.
    fn put_token(&self, token: Token) -> Answer<'_, ()>;

    /// The token with this id, revoked ones included.
    fn find_token(&self, id: TokenId) -> Answer<'_, Option<Token>>;

    /// All tokens of all tenants, oldest first, at most 10 000.
    fn list_tokens(&self) -> Answer<'_, Vec<Token>>;

    /// Revokes the token; false if there is none. Revoking twice keeps the first time.
    fn revoke_token(&self, id: TokenId) -> Answer<'_, bool>;

    /// Ends a session that would have lasted until `expires_at`, for all nodes. Those that would have ended by now are
    /// forgotten, so that no more are kept than were ended within the life of one.
    fn end_session(&self, id: SessionId, expires_at: Time) -> Answer<'_, ()>;

    /// Whether a session was ended before its time. One that is over is nobody's question any more.
    fn has_ended(&self, id: SessionId) -> Answer<'_, bool>;
}
