//! The shared cache: what it gives back, what it never does, and what it does when Redis is away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_core::{Ledger, Outcome, Record, Replays, Tenant, Time};
use hapax_store::SqliteLedger;
use hapax_store::redis::{RedisReplays, ReplayOptions, Target};
use hapax_store::sqlite::SqliteOptions;
use hapax_store::vault::{MasterKey, TenantKeys, Vault};
use uuid::Uuid;

use super::{cluster, server::Server, single};

const NOW: Time = Time::from_ms(1_760_000_000_000);

fn settled(key: &str, version: i64, body: &str) -> Record {
    let scope = hapax_core::Scope::new(Tenant::DEFAULT, "POST:test").unwrap();
    let key = hapax_core::Key::new(key).unwrap();
    let asked = hapax_core::Fingerprint::of(b"asked");
    let claim = hapax_core::Claim::new(scope, key, asked, hapax_core::Owner::from_u128(1));
    Record::granted(&claim, hapax_core::Version(version), NOW)
        .settled(Outcome::text(201, body).with_header("etag", "\"1\""), NOW)
}

fn options() -> ReplayOptions {
    ReplayOptions {
        // The machine may be busy; what is slow is tested apart.
        answer_timeout: Duration::from_secs(5),
        secret: Some([7; 32]),
        ..ReplayOptions::of(Uuid::new_v4())
    }
}

async fn get(cache: &RedisReplays, record: &Record, purges: u64) -> Option<Record> {
    cache.get(record.scope.tenant, record.id, purges).await
}

/// Entries are kept in the background: asks until there is the answer that is waited for.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(20);
    while !is_so().await {
        assert!(Instant::now() < patience, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn kept(cache: &RedisReplays, record: &Record, purges: u64) {
    cache.put(record, purges, NOW);
    eventually("the entry", async || {
        get(cache, record, purges).await.as_ref() == Some(record)
    })
    .await;
}

#[tokio::test]
async fn what_one_node_keeps_another_gets_whole_on_one_server_and_on_a_cluster() {
    for target in [single(), cluster()] {
        let options = options();
        let one = RedisReplays::start(target.clone(), options.clone());
        let other = RedisReplays::start(target, options);
        let record = settled("k", 7, "done");
        kept(&one, &record, 3).await;
        eventually("the other node's answer", async || {
            get(&other, &record, 3).await == Some(record.clone())
        })
        .await;
    }
}

#[tokio::test]
async fn an_entry_from_before_an_outcome_was_taken_back_is_never_given() {
    let cache = RedisReplays::start(single(), options());
    let record = settled("k", 7, "done");
    kept(&cache, &record, 3).await;
    assert_eq!(get(&cache, &record, 4).await, None);
    assert_eq!(get(&cache, &record, 2).await, None);
    // Read again at the new count it is given again.
    kept(&cache, &record, 4).await;
}

#[tokio::test]
async fn entries_of_another_ledger_are_never_seen() {
    let cache = RedisReplays::start(single(), options());
    let another = RedisReplays::start(single(), options());
    let record = settled("k", 7, "done");
    kept(&cache, &record, 0).await;
    kept(&another, &settled("other", 7, "x"), 0).await;
    assert_eq!(get(&another, &record, 0).await, None);
    let elsewhere = Tenant::from_uuid(Uuid::from_u128(7));
    assert_eq!(cache.get(elsewhere, record.id, 0).await, None);
}

#[tokio::test]
async fn a_late_writer_does_not_put_an_older_outcome_over_a_newer_one() {
    let cache = RedisReplays::start(single(), options());
    let (old, new) = (settled("k", 7, "old"), settled("k", 9, "new"));
    kept(&cache, &new, 1).await;
    cache.put(&old, 2, NOW);
    kept(&cache, &settled("fence", 1, ""), 1).await;
    assert_eq!(get(&cache, &new, 1).await, Some(new.clone()));
    assert_eq!(get(&cache, &new, 2).await, None);
}

#[tokio::test]
async fn an_entry_stays_no_longer_than_its_record_answers() {
    let (target, options) = (single(), options());
    let cache = RedisReplays::start(target, options.clone());
    let mut record = settled("k", 7, "done");
    record.expires_at = NOW.plus(Duration::from_secs(90));
    kept(&cache, &record, 0).await;
    let client = redis::Client::open(super::url("HAPAX_TEST_REDIS")).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    let name = format!(
        "hapax:replay:{}:{}:{}",
        options.ledger.simple(),
        Tenant::DEFAULT.simple(),
        record.id.as_uuid().simple()
    );
    let left: i64 = redis::cmd("PTTL")
        .arg(&name)
        .query_async(&mut raw)
        .await
        .unwrap();
    assert!((1..=90_000).contains(&left), "{left} ms");
    // What is over, what cannot be replayed and what is large is not kept at all.
    record.expires_at = NOW;
    cache.put(&settled("large", 7, &"x".repeat(300 << 10)), 0, NOW);
    cache.put(
        &Record {
            version: hapax_core::Version(8),
            ..record.clone()
        },
        0,
        NOW,
    );
    kept(&cache, &settled("fence", 1, ""), 0).await;
    assert_eq!(get(&cache, &settled("large", 7, ""), 0).await, None);
    cache.forget(record.scope.tenant, record.id);
    eventually("forgetting", async || {
        get(&cache, &record, 0).await.is_none()
    })
    .await;
}

/// The entry of this record in Redis.
fn name(options: &ReplayOptions, record: &Record) -> String {
    format!(
        "hapax:replay:{}:{}:{}",
        options.ledger.simple(),
        Tenant::DEFAULT.simple(),
        record.id.as_uuid().simple()
    )
}

#[tokio::test]
async fn an_entry_that_something_else_wrote_or_moved_is_a_miss() {
    let options = options();
    let cache = RedisReplays::start(single(), options.clone());
    let (record, other) = (settled("k", 7, "done"), settled("other", 7, "done"));
    kept(&cache, &record, 3).await;
    kept(&cache, &other, 3).await;
    let client = redis::Client::open(super::url("HAPAX_TEST_REDIS")).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    let (here, there) = (name(&options, &record), name(&options, &other));
    for (field, planted) in [
        ("response_body", &b"\0planted"[..]),
        ("response_status_code", b"200"),
        ("purges", b"4"),
        ("mac", b""),
        ("idempotency_key", b"other"),
    ] {
        let purges = if field == "purges" { 4 } else { 3 };
        let mut set = redis::cmd("HSET");
        set.arg(&here).arg(field).arg(planted);
        set.exec_async(&mut raw).await.unwrap();
        assert_eq!(get(&cache, &record, purges).await, None, "{field}");
        cache.forget(record.scope.tenant, record.id);
        eventually("forgetting", async || {
            let count: i64 = redis::cmd("EXISTS")
                .arg(&here)
                .query_async(&mut raw)
                .await
                .unwrap();
            count == 0
        })
        .await;
        kept(&cache, &record, 3).await;
    }
    // A whole entry under the name of another key, and one that a node with another secret wrote.
    let mut copy = redis::cmd("COPY");
    copy.arg(&there).arg(&here).arg("REPLACE");
    copy.exec_async(&mut raw).await.unwrap();
    assert_eq!(get(&cache, &record, 3).await, None);
    assert_eq!(get(&cache, &other, 3).await, Some(other.clone()));
    let stranger = ReplayOptions {
        secret: Some([8; 32]),
        ..options
    };
    let stranger = RedisReplays::start(single(), stranger);
    eventually("Redis", async || {
        stranger.put(&settled("x", 1, ""), 3, NOW);
        get(&stranger, &settled("x", 1, ""), 3).await.is_some()
    })
    .await;
    assert_eq!(get(&stranger, &other, 3).await, None);
}

#[tokio::test]
async fn what_is_sealed_in_the_database_is_sealed_in_redis() {
    let folder = tempfile::tempdir().unwrap();
    let key = MasterKey::parse(&"0123456789abcdef".repeat(4)).unwrap();
    let sqlite = SqliteOptions {
        vault: Some(Arc::new(Vault::new(key, Vec::new()))),
        ..SqliteOptions::default()
    };
    let ledger = SqliteLedger::open(&folder.path().join("l.db"), sqlite).unwrap();
    let ledger = Arc::new(ledger);
    let id = ledger
        .identity()
        .await
        .unwrap()
        .expect("a ledger has a name");
    let options = ReplayOptions {
        keys: Some(ledger.clone() as Arc<dyn TenantKeys>),
        ..ReplayOptions {
            ledger: id,
            ..options()
        }
    };
    let cache = RedisReplays::start(single(), options);
    let mut record = settled("k", 7, "a very secret answer");
    Arc::make_mut(&mut record.request).body =
        Some(bytes::Bytes::from_static(b"a very secret question"));
    kept(&cache, &record, 0).await;

    let client = redis::Client::open(super::url("HAPAX_TEST_REDIS")).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    let name = format!(
        "hapax:replay:{}:{}:{}",
        id.simple(),
        Tenant::DEFAULT.simple(),
        record.id.as_uuid().simple()
    );
    let dump: Vec<Vec<u8>> = redis::cmd("HVALS")
        .arg(&name)
        .query_async(&mut raw)
        .await
        .unwrap();
    let dump: Vec<u8> = dump.concat();
    assert!(dump.len() > 100);
    let shows = |needle: &[u8]| dump.windows(needle.len()).any(|part| part == needle);
    assert!(!shows(b"secret") && !shows(record.fingerprint.as_bytes()));
    // The refusal: without the tenant's keys nobody can read it, the cache included.
    ledger.shred(Tenant::DEFAULT).await.unwrap();
    assert_eq!(get(&cache, &record, 0).await, None);
    ledger.close().await.unwrap();
}

#[tokio::test]
async fn a_redis_that_is_not_there_knows_nothing_and_holds_nobody_up() {
    let nobody = Target::parse("redis://127.0.0.1:1").unwrap();
    let cache = RedisReplays::start(nobody, options());
    let record = settled("k", 7, "done");
    for _ in 0..1000 {
        cache.put(&record, 0, NOW);
        assert_eq!(get(&cache, &record, 0).await, None);
    }
    cache.close().await;
}

#[tokio::test]
async fn a_redis_that_stops_answering_is_passed_by_and_found_again() {
    let server = Server::start(&[]);
    let options = ReplayOptions {
        answer_timeout: Duration::from_millis(50),
        ..options()
    };
    let cache = RedisReplays::start(Target::parse(&server.url()).unwrap(), options);
    let record = settled("k", 7, "done");
    kept(&cache, &record, 0).await;
    server.freeze();
    let frozen = Instant::now();
    for _ in 0..200 {
        assert_eq!(get(&cache, &record, 0).await, None);
    }
    // Ten seconds if every one of them had waited.
    assert!(
        frozen.elapsed() < Duration::from_secs(5),
        "{:?}",
        frozen.elapsed()
    );
    server.thaw();
    eventually("the entry again", async || {
        get(&cache, &record, 0).await == Some(record.clone())
    })
    .await;
}
