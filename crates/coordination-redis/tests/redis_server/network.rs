//! Networks that lose, hold up and break.

use std::time::Duration;

use coordination_core::{
    Backend, Expect, Hint, LEADER_KEY, LockOutcome, Outcome, RenewOutcome, SetOutcome,
    UnlockOutcome,
};
use futures_util::StreamExt;
use kvcm_clock::{BootClock, Clock};
use kvcm_testkit::{
    Direction::{ToClient, ToServer},
    RedisServer, Rule,
};

use crate::common::{
    LONG, acquire, open, outcome, owner, patiently, proxied, renew, request, teach_scripts,
    until_answered, within,
};

#[tokio::test]
async fn a_black_hole_costs_each_call_its_deadline_and_leaves_nothing_behind() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&uri);
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    backend.get_value("v", patiently()).await.unwrap();
    for hole in [ToServer, ToClient] {
        proxy.set(hole, Rule::BlackHole);
        let sent = renew(&backend, &a, epoch, within(100)).await.unwrap_err();
        assert_eq!(outcome(&sent), Some(Outcome::Unknown), "{sent}");
        let not_sent = renew(&backend, &a, epoch, within(100)).await.unwrap_err();
        assert_eq!(outcome(&not_sent), Some(Outcome::NotDone), "{not_sent}");
        let value = backend.get_value("v", within(100)).await.unwrap_err();
        assert!(value.is_retryable(), "{value}");
        proxy.set(hole, Rule::Pass);
        let renewed = until_answered(async || renew(&backend, &a, epoch, within(1000)).await);
        assert_eq!(renewed.await, RenewOutcome::Renewed);
        let get = async || backend.get_value("v", within(1000)).await;
        assert_eq!(until_answered(get).await, None);
    }
}

#[tokio::test]
async fn half_open_connections_are_given_up_and_not_used_again() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&format!("{uri}?timeout_ms=300"));
    let a = owner("a", 1);
    let mut hints = backend.watch(LEADER_KEY);
    assert_eq!(hints.next().await, Some(Hint::Changed));
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    assert_eq!(hints.next().await, Some(Hint::Changed));
    backend.get_value("v", patiently()).await.unwrap();
    let accepted = proxy.accepted();
    proxy.forget_all();
    let (renewed, value) = tokio::join!(
        renew(&backend, &a, epoch, within(100)),
        backend.get_value("v", within(100)),
    );
    assert!(renewed.is_err() && value.is_err());
    let renewed = until_answered(async || renew(&backend, &a, epoch, within(1000)).await).await;
    assert_eq!(renewed, RenewOutcome::Renewed);
    until_answered(async || backend.get_value("v", within(1000)).await).await;
    // The subscriber asks a silent connection whether it lives; on a new one it looks.
    assert_eq!(hints.next().await, Some(Hint::Changed));
    assert!(proxy.accepted() >= accepted + 3);
}

#[tokio::test]
async fn a_renewal_whose_answer_was_lost_is_repeated() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&uri);
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    renew(&backend, &a, epoch, patiently()).await.unwrap();
    let accepted = proxy.accepted();
    proxy.set(ToClient, Rule::hold_containing("renewed"));
    let cut = async {
        proxy.until_held().await;
        proxy.cut_all();
    };
    let (renewed, ()) = tokio::join!(renew(&backend, &a, epoch, patiently()), cut);
    assert_eq!(renewed.unwrap(), RenewOutcome::Renewed);
    assert_eq!(proxy.accepted(), accepted + 1);
}

#[tokio::test]
async fn a_connection_that_the_server_ends_is_replaced_within_the_call() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&uri);
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    server
        .command(&["CLIENT", "KILL", "TYPE", "normal"])
        .unwrap();
    proxy.until_connections(0).await;
    let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
    assert_eq!(renewed, RenewOutcome::Renewed);
    // The end comes, but what we send goes nowhere.
    proxy.set(ToClient, Rule::HalfClose);
    let error = renew(&backend, &a, epoch, within(200)).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    proxy.set(ToClient, Rule::Pass);
    let renewed = until_answered(async || renew(&backend, &a, epoch, within(1000)).await).await;
    assert_eq!(renewed, RenewOutcome::Renewed);
}

#[tokio::test]
async fn an_unlock_whose_answer_was_lost_is_known_to_have_happened() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&uri);
    teach_scripts(&backend).await;
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    proxy.set(ToClient, Rule::hold());
    let unlock = backend.unlock(LEADER_KEY, &a, epoch, None, patiently());
    let cut = async {
        // The answer is on its way: it has happened.
        proxy.until_held().await;
        proxy.cut_all();
    };
    let (unlocked, ()) = tokio::join!(unlock, cut);
    assert_eq!(unlocked.unwrap(), UnlockOutcome::Unlocked);
}

#[tokio::test]
async fn an_acquisition_whose_answer_was_lost_is_the_same_acquisition() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&uri);
    teach_scripts(&backend).await;
    let a = owner("a", 1);
    proxy.set(ToClient, Rule::hold());
    let cut = async {
        proxy.until_held().await;
        proxy.cut_all();
    };
    let (first, ()) = tokio::join!(acquire(&backend, &a, LONG), cut);
    assert!(first.repeated);
    assert_eq!(acquire(&backend, &a, LONG).await.epoch, first.epoch);
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_unknown_and_not_repeated() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&uri);
    teach_scripts(&backend).await;
    backend.get_value("v", patiently()).await.unwrap();
    // The first answer is that of the look at the connection.
    proxy.set(ToClient, Rule::hold_containing("stored"));
    let cut = async {
        proxy.until_held().await;
        proxy.cut_all();
    };
    let set = backend.set_value("v", "1", None, Expect::Absent, patiently());
    let (set, ()) = tokio::join!(set, cut);
    assert_eq!(outcome(&set.unwrap_err()), Some(Outcome::Unknown));
    let value = backend.get_value("v", patiently()).await.unwrap().unwrap();
    assert_eq!(value.text, "1");
    let again = backend.set_value("v", "1", None, Expect::Absent, patiently());
    let conflict = SetOutcome::Conflict(Some(value.version));
    assert_eq!(again.await.unwrap(), conflict);
}

#[tokio::test]
async fn half_an_answer_is_none() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&uri);
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    proxy.set(ToClient, Rule::DropAfter { bytes: 6 });
    let half = renew(&backend, &a, epoch, within(100)).await.unwrap_err();
    assert_eq!(outcome(&half), Some(Outcome::Unknown), "{half}");
    proxy.set(ToClient, Rule::Pass);
    let renewed = until_answered(async || renew(&backend, &a, epoch, within(1000)).await).await;
    assert_eq!(renewed, RenewOutcome::Renewed);
}

#[tokio::test]
async fn refused_connections_fail_long_before_the_deadline() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&uri);
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    proxy.refuse().unwrap();
    proxy.cut_all();
    let deadline = patiently();
    let error = renew(&backend, &a, epoch, deadline).await.unwrap_err();
    assert!(
        error.is_retryable() && BootClock.now() < deadline,
        "{error}"
    );
    proxy.accept().unwrap();
    let renewed = until_answered(async || renew(&backend, &a, epoch, within(1000)).await).await;
    assert_eq!(renewed, RenewOutcome::Renewed);
}

#[tokio::test]
async fn a_slow_and_unsteady_network_only_takes_time() {
    let server = RedisServer::start(&[]).unwrap();
    let (proxy, uri) = proxied(&server);
    let backend = open(&uri);
    let a = owner("a", 1);
    let least = Duration::from_millis(2);
    let jitter = Duration::from_millis(20);
    let seed = 1;
    proxy.set_both(Rule::Delay {
        least,
        jitter,
        seed,
    });
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    for _ in 0..10 {
        let renewed = renew(&backend, &a, epoch, patiently()).await.unwrap();
        assert_eq!(renewed, RenewOutcome::Renewed);
    }
    let bytes_per_second = 200_000;
    proxy.set_both(Rule::Throttle { bytes_per_second });
    let text = "x".repeat(20_000);
    let set = backend.set_value("v", &text, None, Expect::Any, patiently());
    set.await.unwrap();
    let value = backend.get_value("v", patiently()).await.unwrap();
    assert_eq!(value.unwrap().text, text);
}

#[tokio::test]
async fn a_campaign_tick_and_a_renewal_are_one_round_trip_each() {
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let server = RedisServer::start(&at_once).unwrap();
    let replica = RedisServer::start(&[]).unwrap();
    let port = server.address().port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    for query in ["", "?wait_replicas=1"] {
        let (proxy, uri) = proxied(&server);
        let backend = open(&format!("{uri}{query}"));
        let (a, b) = (owner("a", 1), owner("b", 2));
        let lock = async || backend.try_lock(request(&a, LONG), within(2000)).await;
        let LockOutcome::Acquired(first) = until_answered(lock).await else {
            panic!("it was free");
        };
        renew(&backend, &a, first.epoch, patiently()).await.unwrap();
        let before = proxy.round_trips();
        for _ in 0..10 {
            let renewed = renew(&backend, &a, first.epoch, patiently()).await;
            assert_eq!(renewed.unwrap(), RenewOutcome::Renewed);
            let held = backend.try_lock(request(&b, LONG), patiently()).await;
            assert!(matches!(held.unwrap(), LockOutcome::Held(_)));
        }
        assert_eq!(proxy.round_trips() - before, 20, "{query}");
        let unlock = backend.unlock(LEADER_KEY, &a, first.epoch, None, patiently());
        unlock.await.unwrap();
    }
}

#[tokio::test]
async fn a_primary_that_is_cut_off_from_its_replica_keeps_no_leader() {
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let primary = RedisServer::start(&at_once).unwrap();
    let replica = RedisServer::start(&[]).unwrap();
    let link = kvcm_testkit::Proxy::start(primary.address()).unwrap();
    let port = link.address().port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    let backend = open(&format!("{}?wait_replicas=1", primary.uri()));
    let a = owner("a", 1);
    let lock = async || backend.try_lock(request(&a, LONG), within(2000)).await;
    let LockOutcome::Acquired(first) = until_answered(lock).await else {
        panic!("it was free");
    };
    link.set_both(Rule::Stall);
    for _ in 0..3 {
        let error = renew(&backend, &a, first.epoch, within(1000)).await;
        let error = error.unwrap_err();
        assert_eq!(outcome(&error), Some(Outcome::Unknown), "{error}");
        assert!(error.to_string().contains("wait_replicas"), "{error}");
    }
    link.set_both(Rule::Pass);
    let renewed = until_answered(async || renew(&backend, &a, first.epoch, within(2000)).await);
    assert_eq!(renewed.await, RenewOutcome::Renewed);
}
