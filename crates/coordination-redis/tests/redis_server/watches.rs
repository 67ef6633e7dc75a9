//! Hints.

use std::time::Duration;

use coordination_core::{Backend, Hint, LEADER_KEY, TryLock};
use futures_util::StreamExt;
use kvcm_testkit::RedisServer;

use crate::common::{LONG, acquire, open, owner, patiently, request};

#[tokio::test]
async fn a_watch_survives_a_restart_of_the_server() {
    let mut server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let mut hints = backend.watch(LEADER_KEY);
    assert_eq!(hints.next().await, Some(Hint::Changed));
    server.restart().unwrap();
    // Whatever happened in between: look.
    assert_eq!(hints.next().await, Some(Hint::Changed));
    acquire(&backend, &owner("a", 1), LONG).await;
    assert_eq!(hints.next().await, Some(Hint::Changed));
    drop(backend);
    assert_eq!(hints.next().await, None);
}

#[tokio::test]
async fn a_watch_hears_of_its_lock_only() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let mut hints = backend.watch(LEADER_KEY);
    let mut other = backend.watch("other");
    assert_eq!(hints.next().await, Some(Hint::Changed));
    assert_eq!(other.next().await, Some(Hint::Changed));
    let request = TryLock {
        key: "other",
        ..request(&a, LONG)
    };
    backend.try_lock(request, patiently()).await.unwrap();
    assert_eq!(other.next().await, Some(Hint::Changed));
    let quiet = tokio::time::timeout(Duration::from_millis(100), hints.next());
    assert!(quiet.await.is_err());
}
