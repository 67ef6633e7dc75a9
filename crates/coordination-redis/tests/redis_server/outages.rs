//! What happens to servers.

use coordination_core::{
    Backend, LEADER_KEY, LockOutcome, Outcome, ReignEnd, RenewOutcome, TryLock, UnlockOutcome,
};
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::RedisServer;

use crate::common::{
    LONG, acquire, command, open, outcome, owner, patiently, renew, request, until_answered, within,
};

#[tokio::test]
async fn a_stopped_server_costs_each_call_its_deadline_and_is_used_again_when_it_goes_on() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    backend.get_value("v", patiently()).await.unwrap();
    server.stop().unwrap();
    let sent = renew(&backend, &a, epoch, within(100)).await.unwrap_err();
    assert_eq!(outcome(&sent), Some(Outcome::Unknown));
    let not_sent = renew(&backend, &a, epoch, within(100)).await.unwrap_err();
    assert_eq!(outcome(&not_sent), Some(Outcome::NotDone));
    let value = backend.get_value("v", within(100)).await.unwrap_err();
    assert!(value.is_retryable());
    let list = backend.list_values("", within(100)).await.unwrap_err();
    assert!(list.is_retryable());
    server.cont().unwrap();
    let renewed = until_answered(async || renew(&backend, &a, epoch, within(1000)).await).await;
    assert_eq!(renewed, RenewOutcome::Renewed);
    assert_eq!(backend.get_value("v", patiently()).await.unwrap(), None);
}

#[tokio::test]
async fn a_server_that_lost_its_data_mints_higher_and_knows_no_reign() {
    let mut server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let first = acquire(&backend, &a, LONG).await;
    server.restart().unwrap();
    let renewed = until_answered(async || renew(&backend, &a, first.epoch, within(1000)).await);
    assert_eq!(renewed.await, RenewOutcome::NotHeld);
    let second = acquire(&backend, &a, LONG).await;
    assert!(second.epoch > first.epoch);
    assert_eq!(second.previous, None);
}

#[tokio::test]
async fn a_flush_under_the_holder_is_a_loss() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    command::<()>(&server.uri(), &["FLUSHALL"]).await;
    let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
    assert_eq!(renewed, RenewOutcome::NotHeld);
    // Without a floor the lost counter starts at the milliseconds of the wall clock, and all this
    // may have taken less than one.
    let request = TryLock {
        floor: epoch,
        ..request(&a, LONG)
    };
    let LockOutcome::Acquired(acquired) = backend.try_lock(request, patiently()).await.unwrap()
    else {
        panic!("the lock is free");
    };
    assert!(acquired.epoch > epoch);
}

#[tokio::test]
async fn a_full_memory_keeps_the_leader() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    command::<()>(&server.uri(), &["CONFIG", "SET", "maxmemory", "1"]).await;
    let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
    assert_eq!(renewed, RenewOutcome::Renewed);
    assert!(acquire(&backend, &a, LONG).await.repeated);
    let unlocked = backend.unlock(LEADER_KEY, &a, epoch, None, patiently());
    assert_eq!(unlocked.await.unwrap(), UnlockOutcome::Unlocked);
    let error = backend.try_lock(request(&b, LONG), patiently()).await;
    assert_eq!(outcome(&error.unwrap_err()), Some(Outcome::NotDone));
    command::<()>(&server.uri(), &["CONFIG", "SET", "maxmemory", "0"]).await;
    let previous = acquire(&backend, &b, LONG).await.previous.unwrap();
    assert_eq!(previous.end, ReignEnd::Released);
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    for _ in 0..3 {
        command::<()>(&server.uri(), &["SCRIPT", "FLUSH"]).await;
        let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
        assert_eq!(renewed, RenewOutcome::Renewed);
    }
}

#[tokio::test]
async fn one_call_is_one_command_of_the_client() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    renew(&backend, &a, epoch, patiently()).await.unwrap();
    let calls = async || -> u64 {
        let stats: String = command(&server.uri(), &["INFO", "commandstats"]).await;
        let line = stats.lines().find(|line| line.contains("cmdstat_evalsha:"));
        let calls = line.and_then(|line| line.split(['=', ',']).nth(1));
        calls.unwrap().parse().unwrap()
    };
    let before = calls().await;
    acquire(&backend, &a, LONG).await;
    renew(&backend, &a, epoch, patiently()).await.unwrap();
    assert_eq!(calls().await, before + 2);
}

#[tokio::test]
async fn a_backend_whose_server_is_not_there_opens_and_finds_it_later() {
    let mut server = RedisServer::start(&[]).unwrap();
    server.kill().unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let deadline = patiently();
    let error = backend.try_lock(request(&a, LONG), deadline).await;
    assert_eq!(outcome(&error.unwrap_err()), Some(Outcome::NotDone));
    assert!(BootClock.now() < deadline);
    server.restart().unwrap();
    let lock = async || backend.try_lock(request(&a, LONG), within(1000)).await;
    let outcome = until_answered(lock).await;
    assert!(matches!(outcome, LockOutcome::Acquired(_)));
}
