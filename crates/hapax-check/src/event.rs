//! The words of a history: what was asked, what was told, and what that breaks.

use std::fmt;

/// The bytes of an outcome. Every run of an effect makes its own, so that bytes say which run they are of.
pub type Body = Vec<u8>;

/// What a client does to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Asks for the right to act; `asked` stands for the request, so another number is another request.
    Claim {
        /// Which request.
        asked: u64,
    },
    /// Extends the lease under this fence.
    Renew {
        /// The fence.
        fence: i64,
    },
    /// Records this outcome under this fence.
    Settle {
        /// The fence.
        fence: i64,
        /// The outcome.
        body: Body,
    },
    /// Gives the key back under this fence.
    Release {
        /// The fence.
        fence: i64,
    },
    /// Says under this fence that nobody knows what happened.
    Doubt {
        /// The fence.
        fence: i64,
    },
    /// Ends the key's life by a person's word: deleted, or released where it was in doubt.
    End,
    /// Records an outcome by a person's word.
    Rule {
        /// The outcome.
        body: Body,
    },
    /// Removes what is stored and leaves a mark.
    Erase,
}

/// Why a claim was granted, as the client was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// As new: nobody had the key in this life.
    New,
    /// The last holder's lease ran out, and the policy runs it again.
    Taken,
    /// The attempt found that its own earlier write had arrived.
    Mine,
}

/// What a client was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// It may act.
    Granted {
        /// The fence of the lease.
        fence: i64,
        /// Why.
        cause: Cause,
        /// Until when the record answers, where that is known.
        expires_at: Option<i64>,
    },
    /// It happened, and this came of it.
    Replay(Body),
    /// Somebody acts.
    Busy,
    /// The key stands for another request.
    Conflict,
    /// It may have happened.
    InDoubt,
    /// What was stored is erased.
    Erased,
    /// The outcome is recorded.
    Recorded {
        /// The outcome.
        body: Body,
        /// Until when the record answers, where that is known.
        expires_at: Option<i64>,
    },
    /// The lease is extended, the key given back, the doubt noted, the life ended, the mark left.
    Done,
    /// Nothing was written: the lease is lost, or there is nothing to act on.
    Refused,
}

/// A promise that a history breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Whose key.
    pub tenant: String,
    /// The key.
    pub key: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: {}", self.key, self.tenant, self.what)
    }
}
