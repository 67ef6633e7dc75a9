//! Servers that stand still for a while.

use std::sync::Arc;

use coordination_core::{Backend, LEADER_KEY, Outcome, Owner, RenewOutcome};
use coordination_redis::RedisBackend;
use kvcm_clock::{BootClock, Clock};
use kvcm_fence::Epoch;
use kvcm_testkit::RedisServer;

use crate::common::{
    LONG, acquire, open, outcome, owner, patiently, renew, until_answered, within,
};

/// Renews until there is no answer.
async fn until_it_fails(backend: &RedisBackend, owner: &Owner, epoch: Epoch) {
    let end = patiently();
    loop {
        match renew(backend, owner, epoch, within(100)).await {
            Ok(_) => assert!(BootClock.now() < end, "it always answers"),
            Err(error) => return assert!(error.is_retryable(), "{error}"),
        }
    }
}

#[tokio::test]
async fn paused_clients_get_their_answers_by_the_deadline_or_not_at_all() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    // Nobody can end the first kind early.
    for (ms, kind) in [("2000", "ALL"), ("60000", "WRITE")] {
        server.command(&["CLIENT", "PAUSE", ms, kind]).unwrap();
        let error = renew(&backend, &a, epoch, within(100)).await.unwrap_err();
        assert_eq!(outcome(&error), Some(Outcome::Unknown), "{error}");
        let value = backend.get_value("v", within(100)).await;
        assert!(value.is_err());
        server.command(&["CLIENT", "UNPAUSE"]).unwrap();
        let renewed = until_answered(async || renew(&backend, &a, epoch, within(1000)).await);
        assert_eq!(renewed.await, RenewOutcome::Renewed);
        until_answered(async || backend.get_value("v", within(1000)).await).await;
    }
}

#[tokio::test]
async fn a_server_that_sleeps_costs_each_call_its_deadline() {
    let server = Arc::new(RedisServer::start(&["--enable-debug-command", "yes"]).unwrap());
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    let sleeper = server.clone();
    let asleep = tokio::task::spawn_blocking(move || sleeper.command(&["DEBUG", "SLEEP", "3"]));
    until_it_fails(&backend, &a, epoch).await;
    let renewed = until_answered(async || renew(&backend, &a, epoch, within(1000)).await).await;
    assert_eq!(renewed, RenewOutcome::Renewed);
    asleep.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_script_that_never_ends_is_waited_for_no_longer_than_the_deadline() {
    let server = RedisServer::start(&["--busy-reply-threshold", "50"]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    let client = redis::Client::open(server.uri()).unwrap();
    let mut busy = client.get_multiplexed_async_connection().await.unwrap();
    let endless = tokio::spawn(async move {
        let mut script = redis::cmd("EVAL");
        script.arg("while true do end").arg(0);
        script.exec_async(&mut busy).await
    });
    until_it_fails(&backend, &a, epoch).await;
    server.command(&["SCRIPT", "KILL"]).unwrap();
    assert!(endless.await.unwrap().is_err());
    let renewed = until_answered(async || renew(&backend, &a, epoch, within(1000)).await).await;
    assert_eq!(renewed, RenewOutcome::Renewed);
    let holder = backend.lock_holder(LEADER_KEY, patiently()).await.unwrap();
    assert_eq!(holder.unwrap().owner, a);
}
