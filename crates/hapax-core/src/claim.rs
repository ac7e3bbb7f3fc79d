//! A request to act under a key. It says what is asked and by which rules; it decides nothing.

use std::sync::Arc;

use bytes::Bytes;

use crate::canonical::{Path, Selection};
use crate::fingerprint::{Fingerprint, Principal, Subject};
use crate::key::Key;
use crate::lease::Owner;
use crate::policy::Policy;
use crate::record::RecordId;
use crate::scope::Scope;

/// What was asked, kept so that a conflict can show how the second request differs.
///
/// It never holds request headers, so no credential reaches the store through it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The method, or the verb of a door that is not HTTP.
    pub method: String,
    /// The concrete path and query.
    pub path: String,
    /// The media type of the body, empty if there was none.
    pub content_type: String,
    /// The first 16 hexadecimal digits of the content hash, for people.
    pub content_hash: String,
    /// The body as received, or `None` where the door does not keep it.
    pub body: Option<Bytes>,
    /// What of this body and of the answer's is masked for those who look at the record, beside telling names.
    pub masks: Vec<Path>,
}

impl Request {
    /// Its masks and `others`, each once.
    #[must_use]
    pub fn masks_with(&self, others: &[Path]) -> Vec<Path> {
        let more = others.iter().filter(|path| !self.masks.contains(path));
        self.masks.iter().chain(more).cloned().collect()
    }
}

/// A request to act under a key, once.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Whose key.
    pub scope: Scope,
    /// The key.
    pub key: Key,
    /// What is asked.
    pub fingerprint: Fingerprint,
    /// What an older version made of the same bytes, where that is another fingerprint: a record of it stands for the same
    /// request.
    pub former: Option<Fingerprint>,
    /// Who asks, where a replay may only go to the same principal.
    pub principal: Option<Principal>,
    /// Whom it is about, so that everything about them can be erased.
    pub subject: Option<Subject>,
    /// Which attempt asks. Unique per attempt, so that a claimant recognises its own write.
    pub owner: Owner,
    /// Whether whoever asks acts in this process and tells nobody of the grant before its outcome is recorded. Where a lost
    /// lease means to run again, such a grant need not outlive the machine: what it would say then is "run again".
    pub acts_here: bool,
    /// The rules.
    pub policy: Policy,
    /// What a conflict may show later. Shared with the record, which is copied at every step.
    pub request: Arc<Request>,
    /// Which parts of the body count, so that a note of a conflict names no other.
    pub selection: Selection,
}

impl Claim {
    /// A claim under the default policy, for any principal, that keeps nothing of the request.
    #[must_use]
    pub fn new(scope: Scope, key: Key, fingerprint: Fingerprint, owner: Owner) -> Self {
        Self {
            scope,
            key,
            fingerprint,
            former: None,
            principal: None,
            subject: None,
            owner,
            acts_here: false,
            policy: Policy::default(),
            request: Arc::default(),
            selection: Selection::default(),
        }
    }

    /// The same claim under `policy`.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The same claim of somebody who acts in this process: see [`Claim::acts_here`].
    #[must_use]
    pub fn acting_here(mut self) -> Self {
        self.acts_here = true;
        self
    }

    /// The same claim, about `subject`.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Self {
        self.subject = Some(subject);
        self
    }

    /// The id of the record this claim is about.
    #[must_use]
    pub fn id(&self) -> RecordId {
        RecordId::of(&self.scope, &self.key)
    }
}
