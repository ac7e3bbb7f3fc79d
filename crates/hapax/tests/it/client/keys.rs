//! Where the key comes from, and that it is stored before it is used.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax::client::{Error, OnConflict};
use hapax::core::Key;
use serde_json::json;

use super::client;
use super::script::{Server, Step};

#[tokio::test]
async fn a_request_without_a_key_gets_a_new_one_each_time() {
    let server = Server::start([Step::say(200, ""), Step::say(200, "")]).await;
    for _ in 0..2 {
        let answer = client().delete(&server.url).send().await.unwrap();
        let uuid = uuid::Uuid::parse_str(answer.key.as_str()).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
    }
    let seen = server.seen();
    assert_ne!(seen[0].key(), seen[1].key());
    assert_eq!(seen[0].header("content-type"), None);
}

#[tokio::test]
async fn a_derived_key_is_the_same_for_the_same_request() {
    let server = Server::start(vec![Step::say(200, ""); 3]).await;
    for amount in [10, 10, 99] {
        let request = client().post(&server.url).json(&json!({"amount": amount}));
        request.derived_key().send().await.unwrap();
    }
    let seen = server.seen();
    assert_eq!(seen[0].key(), seen[1].key());
    assert_ne!(seen[0].key(), seen[2].key());
}

#[tokio::test]
async fn the_key_goes_by_its_own_method_only() {
    let server = Server::start([]).await;
    let request = client().post(&server.url).header("Idempotency-Key", "k");
    let error = request.send().await.unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn the_key_is_stored_before_a_connection_is_made() {
    let server = Server::start([Step::say(503, ""), Step::say(201, "")]).await;
    let stored = Arc::new(Mutex::new(Vec::new()));
    let (store, connections) = (stored.clone(), server.connections());
    let persist = move |key: &Key| -> Result<(), String> {
        store.lock().unwrap().push((key.clone(), connections()));
        Ok(())
    };
    let answer = client()
        .post(&server.url)
        .persist(persist)
        .send()
        .await
        .unwrap();
    assert_eq!(
        *stored.lock().unwrap(),
        [(answer.key, 0)],
        "once, and before the first of two tries"
    );
}

#[tokio::test]
async fn a_key_that_cannot_be_stored_is_not_sent() {
    let server = Server::start([]).await;
    let connections = server.connections();
    let full = |_: &Key| Err(std::io::Error::other("the disk is full"));
    let error = client()
        .post(&server.url)
        .persist(full)
        .send()
        .await
        .unwrap_err();
    let Error::NotPersisted {
        attempts: 0,
        source,
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert!(source.is::<std::io::Error>());
    assert!(error.to_string().ends_with("the disk is full"));

    let full = |_: Key| async { Err("the row is locked") };
    let error = client()
        .post(&server.url)
        .persist_async(full)
        .send()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotPersisted { .. }), "{error:?}");
    assert_eq!(connections(), 0);
}

#[tokio::test]
async fn a_store_that_hangs_is_ended_by_the_deadline_and_nothing_is_sent() {
    let server = Server::start([]).await;
    let hang = |_: Key| std::future::pending::<Result<(), String>>();
    let request = client().post(&server.url).persist_async(hang);
    let error = request
        .deadline(Duration::from_millis(50))
        .send()
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::NotPersisted { attempts: 0, .. }),
        "{error:?}"
    );
    assert_eq!(server.connections()(), 0);
}

#[tokio::test]
async fn a_new_key_after_a_conflict_is_stored_too() {
    let conflict = || Step::refuse(409, "IDEMPOTENCY_CONFLICT", &json!({}));
    let server = Server::start([conflict(), Step::say(201, "")]).await;
    let stored = Arc::new(Mutex::new(Vec::new()));
    let store = stored.clone();
    let request = client()
        .post(&server.url)
        .on_conflict(OnConflict::RetryWithNewKey);
    let request = request.persist(move |key| {
        store.lock().unwrap().push(key.as_str().to_owned());
        Ok::<(), String>(())
    });
    request.send().await.unwrap();
    let sent: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.key().to_owned())
        .collect();
    assert_eq!(*stored.lock().unwrap(), sent);
    assert_eq!(sent.len(), 2);

    // The second key cannot be stored: it is not sent.
    let server = Server::start([conflict(), Step::say(201, "")]).await;
    let mut calls = 0;
    let request = client()
        .post(&server.url)
        .on_conflict(OnConflict::RetryWithNewKey);
    let request = request.persist(move |_| {
        calls += 1;
        if calls == 1 {
            Ok(())
        } else {
            Err("the disk is full")
        }
    });
    let error = request.send().await.unwrap_err();
    assert!(
        matches!(error, Error::NotPersisted { attempts: 1, .. }),
        "{error:?}"
    );
    assert_eq!(server.seen().len(), 1);
}
