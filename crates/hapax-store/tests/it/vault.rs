//! Encryption at rest: what every store promises with a vault, told once and run on each of them.

// Helpers of tests, which clippy does not know as such.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{
    Claim, Error, Fingerprint, Key, Kind, Ledger, Move, Outcome, Owner, Record, Request, Scope,
    Swap, Tenant, Version,
};
use hapax_store::vault::{MasterKey, TenantKeys, Vault};

/// Nobody may find this in a stolen database.
const SECRET: &str = "planted-c0ffee-secret";
const CONTENT_HASH: &str = "5ec2e7c0ffee5ec2";

/// A database that a test opens and looks into behind the ledger's back.
pub(crate) trait Place {
    type Store: Ledger + TenantKeys;
    /// Opens the ledger.
    async fn open(&self, vault: Option<Arc<Vault>>) -> Result<Self::Store, Error>;
    /// Everything that is stored, as a thief has it.
    async fn stolen(&self) -> Vec<u8>;
    /// Runs a statement as nobody should.
    async fn execute(&self, sql: &str);
    /// These bytes in a statement, from their hex digits.
    fn bytes(&self, hex: &str) -> String;
    /// A tenant's id in a statement.
    fn tenant(&self, tenant: u128) -> String;
    /// What a statement that counts answers.
    async fn count(&self, sql: &str) -> i64;
}

/// Makes a test of every promise, on the place that `$place` makes.
macro_rules! vault_promises {
    ($place:path: $($case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::vault::$case(&$place().await).await;
            }
        )+
    };
}
pub(crate) use vault_promises;

/// A vault whose current key is the first; with the others it can only read.
#[expect(clippy::unnecessary_wraps, reason = "as the options take it")]
pub(crate) fn vault(keys: &[u8]) -> Option<Arc<Vault>> {
    let mut keys = keys.iter().map(|first| {
        let text = format!("{first:02x}{}", "5a".repeat(31));
        MasterKey::parse(&text).unwrap()
    });
    let current = keys.next().unwrap();
    Some(Arc::new(Vault::new(current, keys.collect())))
}

pub(crate) fn claim(tenant: u128, key: &str) -> Claim {
    let tenant = Tenant::from_uuid(uuid::Uuid::from_u128(tenant));
    let mut claim = Claim::new(
        Scope::new(tenant, "POST:test").unwrap(),
        Key::new(key).unwrap(),
        Fingerprint::of(SECRET.as_bytes()),
        Owner::from_u128(1),
    );
    claim.request = std::sync::Arc::new(Request {
        method: "POST".to_owned(),
        path: format!("/customers?email={SECRET}"),
        content_type: "application/json".to_owned(),
        content_hash: CONTENT_HASH.to_owned(),
        body: Some(Bytes::from(format!("{{\"card\":\"{SECRET}\"}}"))),
        masks: vec!["card".parse().unwrap()],
    });
    claim
}

fn outcome() -> Outcome {
    let mut outcome = Outcome::text(201, &format!("made {SECRET}"));
    let location = Bytes::from(format!("/customers/{SECRET}"));
    outcome.headers.push(("location".to_owned(), location));
    outcome
}

async fn written(ledger: &dyn Ledger, step: Move) -> Record {
    let next = Record::clone(&step.next);
    assert_eq!(ledger.swap(vec![step]).await.unwrap(), [Swap::Written]);
    next
}

pub(crate) async fn held(ledger: &dyn Ledger, tenant: u128, key: &str) -> Record {
    let now = ledger.now();
    let record = Record::granted(&claim(tenant, key), Version::seeded(now), now);
    written(ledger, Move::inserting(record)).await
}

pub(crate) async fn settled(ledger: &dyn Ledger, tenant: u128, key: &str) -> Record {
    let held = held(ledger, tenant, key).await;
    let next = held.settled(outcome(), ledger.now());
    written(ledger, Move::replacing(&held, next)).await
}

async fn found(ledger: &dyn Ledger, record: &Record) -> Result<Option<Record>, Error> {
    ledger.find(record.scope.tenant, record.id).await
}

fn holds(stolen: &[u8], part: &[u8]) -> bool {
    let hex = data_encoding::HEXLOWER.encode(part);
    [part, hex.as_bytes()]
        .iter()
        .any(|part| stolen.windows(part.len()).any(|window| window == *part))
}

pub(crate) async fn a_stolen_database_tells_neither_bodies_nor_paths_nor_hashes(
    place: &impl Place,
) {
    let fingerprint = Fingerprint::of(SECRET.as_bytes());
    let planted: [&[u8]; 3] = [
        SECRET.as_bytes(),
        CONTENT_HASH.as_bytes(),
        fingerprint.as_bytes(),
    ];
    let ledger = place.open(vault(&[1])).await.unwrap();
    let record = settled(&ledger, 1, "sealed").await;
    let mut large = claim(1, "large");
    std::sync::Arc::make_mut(&mut large.request).body = Some(Bytes::from(SECRET.repeat(2000)));
    let now = ledger.now();
    let large = Record::granted(&large, Version::seeded(now), now);
    let large = written(&ledger, Move::inserting(large)).await;

    let stolen = place.stolen().await;
    for part in planted {
        assert!(!holds(&stolen, part), "{:?}", String::from_utf8_lossy(part));
    }
    assert!(
        holds(&stolen, b"POST:test"),
        "the search finds what is there"
    );
    assert_eq!(found(&ledger, &record).await.unwrap(), Some(record));
    assert_eq!(found(&ledger, &large).await.unwrap(), Some(large));
}

pub(crate) async fn without_a_vault_the_same_search_finds_what_is_planted(place: &impl Place) {
    let ledger = place.open(None).await.unwrap();
    settled(&ledger, 1, "plain").await;
    let stolen = place.stolen().await;
    assert!(holds(&stolen, SECRET.as_bytes()));
    assert!(holds(
        &stolen,
        Fingerprint::of(SECRET.as_bytes()).as_bytes()
    ));
}

pub(crate) async fn a_value_moved_to_another_row_column_or_tenant_is_refused(place: &impl Place) {
    let ledger = place.open(vault(&[1])).await.unwrap();
    for (number, (column, from, tenant)) in [
        ("request_body", "request_body", 1),
        ("response_body", "response_body", 1),
        ("response_body", "response_body", 2),
        ("response_body", "request_body", 1),
        ("response_headers", "response_headers", 1),
        ("request_path", "request_path", 1),
        ("content_hash", "content_hash", 1),
        ("fingerprint", "fingerprint", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let (theirs, ours) = (format!("a{number}"), format!("b{number}"));
        settled(&ledger, tenant, &theirs).await;
        let victim = settled(&ledger, 1, &ours).await;
        place
            .execute(&format!(
                "UPDATE idempotency_keys SET {column} = \
                 (SELECT {from} FROM idempotency_keys WHERE idempotency_key = '{theirs}') \
                 WHERE idempotency_key = '{ours}'"
            ))
            .await;

        let error = found(&ledger, &victim).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{from} as {column}");
        assert!(error.to_string().contains("ciphertext_invalid"), "{error}");
        let error = ledger.swap(vec![Move::inserting(victim)]).await;
        assert_eq!(error.unwrap_err().kind(), Kind::Corrupt, "no claim gets it");
    }
}

pub(crate) async fn a_new_master_key_takes_over_from_the_old_one(place: &impl Place) {
    let ledger = place.open(vault(&[1])).await.unwrap();
    let mut records = Vec::new();
    for tenant in 1..=3 {
        records.push(settled(&ledger, tenant, "k").await);
    }

    let rotating = place.open(vault(&[2, 1])).await.unwrap();
    let unrotated = rotating.find(records[0].scope.tenant, records[0].id).await;
    assert_eq!(unrotated.unwrap().as_ref(), Some(&records[0]));
    assert_eq!(rotating.rotate().await.unwrap(), 3);
    assert_eq!(rotating.rotate().await.unwrap(), 0, "nothing is left to do");
    // A server that still has the old key alone goes on with what it knows.
    held(&ledger, 1, "meanwhile").await;

    let after = place.open(vault(&[2])).await.unwrap();
    for record in &records {
        assert_eq!(found(&after, record).await.unwrap().as_ref(), Some(record));
    }
    let refused = place.open(vault(&[1])).await.err().unwrap();
    assert_eq!(refused.kind(), Kind::Unsafe);
    assert!(
        refused.to_string().contains("HAPAX_KEK_PREVIOUS"),
        "{refused}"
    );
}

pub(crate) async fn an_encrypted_database_is_not_opened_without_its_key(place: &impl Place) {
    let ledger = place.open(vault(&[1])).await.unwrap();
    settled(&ledger, 1, "k").await;
    for keys in [None, vault(&[2])] {
        let refused = place.open(keys).await.err().unwrap();
        assert_eq!(refused.kind(), Kind::Unsafe);
        assert!(refused.to_string().contains("HAPAX_KEK"), "{refused}");
        let id = vault(&[1]).unwrap().master_id().to_owned();
        assert!(refused.to_string().contains(&id), "{refused}");
    }
}

pub(crate) async fn what_was_written_before_it_was_turned_on_stays_readable(place: &impl Place) {
    let before = place.open(None).await.unwrap();
    let old = settled(&before, 1, "old").await;
    let half = held(&before, 1, "half").await;

    let ledger = place.open(vault(&[1])).await.unwrap();
    assert_eq!(found(&ledger, &old).await.unwrap(), Some(old));
    let next = half.settled(outcome(), ledger.now());
    let half = written(&ledger, Move::replacing(&half, next)).await;
    assert_eq!(found(&ledger, &half).await.unwrap(), Some(half.clone()));
    let new = settled(&ledger, 1, "new").await;
    assert_eq!(found(&ledger, &new).await.unwrap(), Some(new.clone()));

    // A process that runs without the key says so, and gives nothing it cannot read.
    let error = found(&before, &new).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(
        error.to_string().contains("HAPAX_KEK is not set"),
        "{error}"
    );
}

pub(crate) async fn a_renewed_data_key_seals_what_is_new_and_the_old_stays_readable(
    place: &impl Place,
) {
    let tenant = Tenant::from_uuid(uuid::Uuid::from_u128(1));
    let ledger = place.open(vault(&[1])).await.unwrap();
    let other = place.open(vault(&[1])).await.unwrap();
    let old = settled(&ledger, 1, "old").await;
    assert_eq!(found(&other, &old).await.unwrap(), Some(old.clone()));

    let id = ledger.renew_key(tenant).await.unwrap();
    let new = settled(&ledger, 1, "new").await;

    for record in [&old, &new] {
        // The other node has read the keys before there was a new one.
        assert_eq!(found(&other, record).await.unwrap().as_ref(), Some(record));
        assert_eq!(found(&ledger, record).await.unwrap().as_ref(), Some(record));
    }
    place
        .execute("DELETE FROM tenant_key WHERE number = 2")
        .await;
    let after = place.open(vault(&[1])).await.unwrap();
    assert_eq!(found(&after, &old).await.unwrap(), Some(old));
    let error = found(&after, &new).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains(&id.to_string()), "{error}");
}

/// Writes past the ledger that the tenant's settled records were answered this, plain.
async fn plant(place: &impl Place, tenant: u128) {
    let body = place.bytes(&data_encoding::HEXLOWER.encode(b"\0planted"));
    let tenant = place.tenant(tenant);
    let settled = format!("tenant_id = {tenant} AND state = 'settled'");
    place
        .execute(&format!(
            "UPDATE idempotency_keys SET response_body = {body} WHERE {settled}"
        ))
        .await;
}

async fn is_refused(ledger: &dyn Ledger, record: &Record) {
    let error = found(ledger, record).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    let said = error.to_string();
    assert!(
        said.contains("ciphertext_invalid") && said.contains("hapax vault renew"),
        "{said}"
    );
    assert!(!said.contains("planted"), "{said}");
}

pub(crate) async fn once_everything_is_sealed_what_is_not_is_refused(place: &impl Place) {
    let tenant = Tenant::from_uuid(uuid::Uuid::from_u128(1));
    let before = place.open(None).await.unwrap();
    let old = settled(&before, 1, "old").await;
    let running = held(&before, 1, "running").await;
    let free = held(&before, 1, "free").await;
    let next = free.freed(before.now());
    let free = written(&before, Move::replacing(&free, next)).await;
    before.close().await.unwrap();
    let ledger = place.open(vault(&[1])).await.unwrap();
    assert_eq!(found(&ledger, &old).await.unwrap(), Some(old.clone()));

    ledger.renew_key(tenant).await.unwrap();
    assert_eq!(ledger.seal_all(tenant).await.unwrap(), 2);
    assert_eq!(ledger.seal_all(tenant).await.unwrap(), 0, "nothing is left");

    // What they say is as it was, for those who began before it as well.
    let sealed = found(&ledger, &old).await.unwrap().unwrap();
    assert_eq!((&sealed.state, &sealed.request), (&old.state, &old.request));
    assert_eq!(sealed.fingerprint, old.fingerprint);
    assert_eq!(found(&ledger, &free).await.unwrap(), Some(free));
    let now = found(&ledger, &running).await.unwrap().unwrap();
    assert_eq!(now.hold(), running.hold());
    let next = now.settled(outcome(), ledger.now());
    let running = written(&ledger, Move::replacing(&now, next)).await;
    assert_eq!(
        found(&ledger, &running).await.unwrap(),
        Some(running.clone())
    );

    plant(place, 1).await;
    let after = place.open(vault(&[1])).await.unwrap();
    for ledger in [&ledger, &after] {
        for record in [&old, &running] {
            is_refused(ledger, record).await;
        }
    }
}

pub(crate) async fn a_tenant_met_with_a_vault_is_sealed_from_the_beginning(place: &impl Place) {
    let ledger = place.open(vault(&[1])).await.unwrap();
    let one = settled(&ledger, 1, "k").await;
    let other = settled(&ledger, 2, "k").await;
    plant(place, 1).await;
    is_refused(&ledger, &one).await;
    assert_eq!(found(&ledger, &other).await.unwrap(), Some(other.clone()));

    // Without its keys nothing of a tenant is readable: least of all what is plain.
    let tenant = place.tenant(1);
    let without = format!("DELETE FROM tenant_key WHERE tenant_id = {tenant}");
    place.execute(&without).await;
    let (hash, tenant) = ("ab".repeat(32), place.tenant(1));
    let planted = format!(
        "UPDATE idempotency_keys SET content_hash = 'abcd', request_path = '/', response_headers = '[]', request_body = NULL, \
         fingerprint = {} WHERE tenant_id = {tenant}",
        place.bytes(&hash)
    );
    place.execute(&planted).await;
    let after = place.open(vault(&[1])).await.unwrap();
    is_refused(&after, &one).await;
    assert_eq!(found(&after, &other).await.unwrap(), Some(other));
}

pub(crate) async fn that_everything_is_sealed_survives_a_new_master_key_and_an_older_row(
    place: &impl Place,
) {
    let tenant = Tenant::from_uuid(uuid::Uuid::from_u128(1));
    let before = place.open(None).await.unwrap();
    let old = settled(&before, 1, "old").await;
    before.close().await.unwrap();
    let ledger = place.open(vault(&[1])).await.unwrap();
    place
        .execute("CREATE TABLE earlier AS SELECT kek_id, wrapped FROM tenant_key")
        .await;
    ledger.renew_key(tenant).await.unwrap();
    ledger.seal_all(tenant).await.unwrap();
    let rotating = place.open(vault(&[2, 1])).await.unwrap();
    assert_eq!(rotating.rotate().await.unwrap(), 2);
    plant(place, 1).await;
    let after = place.open(vault(&[2])).await.unwrap();
    is_refused(&after, &old).await;

    // An older form of one key does not bring the time before back while a newer key says otherwise.
    place
        .execute(
            "UPDATE tenant_key SET wrapped = (SELECT wrapped FROM earlier), kek_id = (SELECT kek_id FROM earlier) \
             WHERE number = 1",
        )
        .await;
    let after = place.open(vault(&[2, 1])).await.unwrap();
    is_refused(&after, &old).await;
}

pub(crate) async fn a_shredded_tenant_is_unreadable_and_the_others_are_not(place: &impl Place) {
    let ledger = place.open(vault(&[1])).await.unwrap();
    let gone = settled(&ledger, 1, "gone").await;
    let kept = settled(&ledger, 2, "kept").await;
    let erased = held(&ledger, 1, "erased").await;
    let next = erased.erased(ledger.now());
    let erased = written(&ledger, Move::replacing(&erased, next)).await;

    assert_eq!(ledger.shred(gone.scope.tenant).await.unwrap(), 1);
    assert_eq!(ledger.shred(gone.scope.tenant).await.unwrap(), 0);

    let error = found(&ledger, &gone).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("is missing"), "{error}");
    let error = ledger.swap(vec![Move::inserting(gone)]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "it does not run a second time");
    assert_eq!(found(&ledger, &kept).await.unwrap(), Some(kept));
    assert_eq!(found(&ledger, &erased).await.unwrap(), Some(erased));
    let fresh = settled(&ledger, 1, "fresh").await;
    assert_eq!(found(&ledger, &fresh).await.unwrap(), Some(fresh));
}

pub(crate) async fn nodes_that_meet_a_new_tenant_at_once_agree_on_one_key(place: &impl Place) {
    let mut nodes = Vec::new();
    for _ in 0..6 {
        nodes.push(Arc::new(place.open(vault(&[1])).await.unwrap()));
    }
    let mut writes = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().enumerate() {
        let (node, key) = (node.clone(), format!("k{number}"));
        writes.spawn(async move { settled(&*node, 7, &key).await });
    }
    let records = writes.join_all().await;

    let keys = "SELECT count(*) FROM tenant_key";
    assert_eq!(place.count(keys).await, 1);
    for node in &nodes {
        for record in &records {
            let seen = found(&**node, record).await.unwrap();
            assert_eq!(seen.as_ref(), Some(record));
        }
    }
}
