//! The mark of what hapax wrote to Redis: a MAC under a key that Redis does not have, so that whoever writes there plants no
//! answer. It sends nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use hapax_core::{Body, Error, Kind, Record, State, Tenant};

use super::fields::Field;
use crate::vault::{Keys, TenantKeys};

/// The field that holds it.
pub(super) const FIELD: &str = "mac";
const DERIVED: &[u8] = b"hapax mark in redis 1";
/// How often what is wrong is said.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// The keys of marks: a tenant's own where its texts are sealed, else the secret that nodes share in the database.
pub(super) struct Marks {
    keys: Option<Arc<dyn TenantKeys>>,
    secret: Option<hmac::Key>,
    /// Where the marked things are: a mark of one place is none in another.
    context: Vec<u8>,
    said_at: Mutex<Option<Instant>>,
}

impl Marks {
    /// Marks for the things of `context`. With neither tenants' keys nor a secret nothing is marked.
    pub(super) fn new(
        keys: Option<Arc<dyn TenantKeys>>,
        secret: Option<[u8; 32]>,
        context: Vec<u8>,
    ) -> Self {
        Self {
            keys,
            secret: secret.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, &secret)),
            context,
            said_at: Mutex::default(),
        }
    }

    /// The tenant's keys to seal and to mark with.
    pub(super) async fn writing(&self, tenant: Tenant) -> Result<Keys, Error> {
        match &self.keys {
            Some(keys) => keys.sealing_keys(tenant).await,
            None => Ok(Keys::default()),
        }
    }

    /// The tenant's keys to open and to judge with, these among them if there are such.
    pub(super) async fn reading(
        &self,
        tenant: Tenant,
        wanted: Vec<uuid::Uuid>,
    ) -> Result<Keys, Error> {
        match &self.keys {
            Some(keys) => keys.opening_keys(tenant, wanted).await,
            None => Ok(Keys::default()),
        }
    }

    /// The mark of an entry whose fields are written together; none where nothing is marked.
    pub(super) fn of_fields(&self, keys: &Keys, id: &[u8], fields: &[Field]) -> Option<Vec<u8>> {
        let fields: Vec<(&str, &[u8])> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_slice()))
            .collect();
        self.sign(keys, &self.fields(id, fields))
    }

    /// Whether the entry has the mark of these fields.
    pub(super) fn knows_fields(
        &self,
        keys: &Keys,
        id: &[u8],
        found: &HashMap<String, Vec<u8>>,
    ) -> bool {
        let fields = found
            .iter()
            .filter(|(name, _)| *name != FIELD)
            .map(|(name, value)| (name.as_str(), value.as_slice()))
            .collect();
        self.knows(keys, &self.fields(id, fields), found.get(FIELD))
    }

    /// The mark of a record, if there is an outcome in it that may be replayed, and if anything is marked.
    pub(super) fn of_record(&self, keys: &Keys, record: &Record) -> Option<Vec<u8>> {
        self.sign(keys, &self.record(record)?)
    }

    /// Refuses an outcome without its mark: nobody can tell what happened.
    pub(super) fn check_record(
        &self,
        keys: &Keys,
        record: &Record,
        mark: Option<&Vec<u8>>,
    ) -> Result<(), Error> {
        match self.record(record) {
            Some(said) if !self.knows(keys, &said, mark) => {
                self.refused("ledger");
                Err(Error::new(Kind::Corrupt, "reading a record from Redis").because(
                    "mark_invalid: hapax did not write this outcome, or it was changed or moved since",
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Counts a refusal, and says so once in a while.
    pub(super) fn refused(&self, form: &'static str) {
        metrics::counter!("hapax_redis_refused_total", "form" => form).increment(1);
        let mut said_at = self.said_at.lock().unwrap_or_else(PoisonError::into_inner);
        if said_at.is_none_or(|at| at.elapsed() >= SAID_EVERY) {
            *said_at = Some(Instant::now());
            tracing::warn!(
                form,
                "Redis holds an outcome that hapax did not write, or an older hapax did; it is not used"
            );
        }
    }

    fn sign(&self, keys: &Keys, said: &[u8]) -> Option<Vec<u8>> {
        let of_tenant = keys.derived(DERIVED);
        let key = of_tenant.as_ref().or(self.secret.as_ref())?;
        Some(hmac::sign(key, said).as_ref().to_vec())
    }

    fn knows(&self, keys: &Keys, said: &[u8], mark: Option<&Vec<u8>>) -> bool {
        let of_tenant = keys.derived(DERIVED);
        // Marked before there were keys for the tenant: as long as something may be stored plain, that counts.
        let of_all = self.secret.as_ref().filter(|_| !keys.is_sealed());
        if of_tenant.is_none() && of_all.is_none() {
            return !keys.is_sealed();
        }
        let mark = mark.map_or(&[][..], Vec::as_slice);
        let fits = |key: &hmac::Key| hmac::verify(key, said, mark).is_ok();
        of_tenant.as_ref().is_some_and(fits) || of_all.is_some_and(fits)
    }

    fn fields(&self, id: &[u8], mut fields: Vec<(&str, &[u8])>) -> Vec<u8> {
        fields.sort_unstable();
        let mut said = Said::of(b"fields", &self.context);
        said.part(id);
        for (name, value) in fields {
            said.part(name.as_bytes());
            said.part(value);
        }
        said.0
    }

    /// What a settled record says, none of any other.
    fn record(&self, record: &Record) -> Option<Vec<u8>> {
        let State::Settled { outcome, at } = &record.state else {
            return None;
        };
        let (scope, request) = (&record.scope, &record.request);
        let mut said = Said::of(b"record", &self.context);
        said.part(scope.tenant.as_uuid().as_bytes());
        said.part(record.id.as_uuid().as_bytes());
        said.part(scope.space.as_str().as_bytes());
        said.part(record.key.as_str().as_bytes());
        said.number(record.version.0);
        said.part(record.fingerprint.as_bytes());
        said.maybe(record.principal.as_ref().map(|one| &one.as_bytes()[..]));
        said.maybe(record.subject.as_ref().map(|one| &one.as_bytes()[..]));
        for text in [
            &request.method,
            &request.path,
            &request.content_type,
            &request.content_hash,
        ] {
            said.part(text.as_bytes());
        }
        said.maybe(request.body.as_deref());
        for time in [record.created_at, record.expires_at, *at] {
            said.number(time.as_ms());
        }
        said.number(i64::from(outcome.status));
        for (name, value) in &outcome.headers {
            said.part(name.as_bytes());
            said.part(value);
        }
        match &outcome.body {
            Body::Whole(body) => said.maybe(Some(body)),
            Body::Omitted => said.maybe(None),
        }
        // Last, and only where there are some: what was marked before there were any stays marked.
        for path in &request.masks {
            said.part(path.to_string().as_bytes());
        }
        Some(said.0)
    }
}

/// Bytes that can be read in one way only: each part follows its length.
struct Said(Vec<u8>);

impl Said {
    fn of(what: &[u8], context: &[u8]) -> Self {
        let mut said = Self(Vec::with_capacity(512));
        said.part(what);
        said.part(context);
        said
    }

    fn part(&mut self, bytes: &[u8]) {
        self.0
            .extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn maybe(&mut self, bytes: Option<&[u8]>) {
        self.part(&[u8::from(bytes.is_some())]);
        self.part(bytes.unwrap_or_default());
    }

    fn number(&mut self, number: i64) {
        self.part(&number.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{Claim, Fingerprint, Key, Outcome, Owner, Principal, Scope, Time, Version};

    use super::*;

    const NOW: Time = Time::from_ms(1_760_000_000_000);

    fn settled(tenant: u128, key: &str, body: &str) -> Record {
        let tenant = Tenant::from_uuid(uuid::Uuid::from_u128(tenant));
        let claim = Claim::new(
            Scope::new(tenant, "POST:test").unwrap(),
            Key::new(key).unwrap(),
            Fingerprint::of(b"asked"),
            Owner::from_u128(1),
        );
        let outcome = Outcome::text(201, body).with_header("etag", "1");
        Record::granted(&claim, Version(7), NOW).settled(outcome, NOW)
    }

    fn marks(secret: u8, context: &[u8]) -> Marks {
        Marks::new(None, Some([secret; 32]), context.to_vec())
    }

    #[test]
    fn the_mark_of_a_record_covers_whose_it_is_what_was_asked_and_what_was_answered() {
        let (marks, keys) = (marks(1, b"here"), Keys::default());
        let record = settled(1, "k", "paid");
        let mark = marks.of_record(&keys, &record).unwrap();
        assert!(marks.check_record(&keys, &record, Some(&mark)).is_ok());

        let mut wrong = vec![
            settled(2, "k", "paid"),
            settled(1, "l", "paid"),
            settled(1, "k", "other"),
        ];
        let changes: [fn(&mut Record); 8] = [
            |record| record.fingerprint = Fingerprint::of(b"other"),
            |record| record.principal = Some(Principal::from_bytes([1; 32])),
            |record| record.version = Version(9),
            |record| record.expires_at = record.expires_at.plus(Duration::from_secs(1)),
            |record| Arc::make_mut(&mut record.request).path = "/other".to_owned(),
            |record| Arc::make_mut(&mut record.request).masks = vec!["card".parse().unwrap()],
            |record| {
                record.state = State::Settled {
                    outcome: Arc::new(Outcome::text(200, "paid").with_header("etag", "1")),
                    at: NOW,
                };
            },
            |record| {
                record.state = State::Settled {
                    outcome: Arc::new(Outcome::not_kept(201).with_header("etag", "1")),
                    at: NOW,
                };
            },
        ];
        for change in changes {
            let mut record = record.clone();
            change(&mut record);
            wrong.push(record);
        }
        for record in wrong {
            let error = marks.check_record(&keys, &record, Some(&mark)).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{record:?}");
        }
        for other in [self::marks(2, b"here"), self::marks(1, b"there")] {
            assert!(other.check_record(&keys, &record, Some(&mark)).is_err());
        }
        assert!(marks.check_record(&keys, &record, None).is_err());
        assert!(
            marks
                .check_record(&keys, &record, Some(&Vec::new()))
                .is_err()
        );
    }

    #[test]
    fn a_record_without_an_outcome_needs_no_mark() {
        let (marks, keys) = (marks(1, b"here"), Keys::default());
        let free = settled(1, "k", "paid").freed(NOW);
        assert_eq!(marks.of_record(&keys, &free), None);
        assert!(marks.check_record(&keys, &free, None).is_ok());
    }

    #[test]
    fn the_mark_of_an_entry_covers_its_name_and_every_field() {
        let (marks, keys) = (marks(1, b"here"), Keys::default());
        let fields: Vec<Field> = vec![("b", b"2".to_vec()), ("a", b"1".to_vec())];
        let mark = marks.of_fields(&keys, b"name", &fields).unwrap();
        let found = |pairs: &[(&str, &[u8])]| -> HashMap<String, Vec<u8>> {
            let pairs = pairs.iter();
            let pairs = pairs.map(|(name, value)| ((*name).to_owned(), value.to_vec()));
            pairs.collect()
        };
        let whole = found(&[("a", b"1"), ("b", b"2"), (FIELD, &mark)]);
        assert!(marks.knows_fields(&keys, b"name", &whole));
        assert!(!marks.knows_fields(&keys, b"other", &whole));
        for wrong in [
            found(&[("a", b"1"), ("b", b"2")]),
            found(&[("a", b"1"), (FIELD, &mark)]),
            found(&[("a", b"12"), ("b", b""), (FIELD, &mark)]),
            found(&[("a", b"2"), ("b", b"1"), (FIELD, &mark)]),
            found(&[("a", b"1"), ("b", b"2"), ("c", b""), (FIELD, &mark)]),
        ] {
            assert!(!marks.knows_fields(&keys, b"name", &wrong), "{wrong:?}");
        }
    }
}
