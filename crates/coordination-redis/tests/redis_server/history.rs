//! Servers whose data may have gone back in time.

use coordination_core::{
    Backend, LEADER_KEY, LockOutcome, Outcome, ReignEnd, RenewOutcome, UnlockOutcome,
};
use kvcm_testkit::RedisServer;

use crate::common::{
    LOCK, LONG, acquire, command, open, outcome, owner, patiently, renew, request, until_answered,
    within,
};

#[tokio::test]
async fn another_run_of_the_server_cannot_vouch_for_how_a_reign_ended() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = RedisServer::start(&durable).unwrap();
    let (a, b) = (owner("a", 1), owner("b", 2));
    let backend = open(&server.uri());
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    let unlocked = backend.unlock(LEADER_KEY, &a, epoch, None, patiently());
    assert_eq!(unlocked.await.unwrap(), UnlockOutcome::Unlocked);
    server.restart().unwrap();
    // Another process: it has not seen the server before.
    let previous = acquire(&open(&server.uri()), &b, LONG)
        .await
        .previous
        .unwrap();
    assert_eq!((previous.owner, previous.epoch), (a, epoch));
    assert_eq!(
        (previous.end, previous.lease_left),
        (ReignEnd::Unknown, LONG)
    );
}

#[tokio::test]
async fn a_renewal_vouches_for_the_reign_on_another_run_of_the_server() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = RedisServer::start(&durable).unwrap();
    let (a, b) = (owner("a", 1), owner("b", 2));
    let backend = open(&server.uri());
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    server.restart().unwrap();
    until_answered(async || renew(&backend, &a, epoch, within(1000)).await).await;
    let unlocked = backend.unlock(LEADER_KEY, &a, epoch, None, patiently());
    assert_eq!(unlocked.await.unwrap(), UnlockOutcome::Unlocked);
    let previous = acquire(&backend, &b, LONG).await.previous.unwrap();
    assert_eq!(previous.end, ReignEnd::Released);
}

#[tokio::test]
async fn a_promoted_replica_cannot_vouch_for_how_a_reign_ended() {
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let mut primary = RedisServer::start(&at_once).unwrap();
    let replica = RedisServer::start(&[]).unwrap();
    let port = primary.address().port().to_string();
    command::<()>(&replica.uri(), &["REPLICAOF", "127.0.0.1", &port]).await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    // WAIT for the replica makes the test exact; a real failover may lose the reign as well.
    let backend = open(&format!("{}?wait_replicas=1", primary.uri()));
    let lock = async || backend.try_lock(request(&a, LONG), within(2000)).await;
    let LockOutcome::Acquired(first) = until_answered(lock).await else {
        panic!("the lock was free");
    };
    primary.kill().unwrap();
    let promoted = open(&replica.uri());
    let refused = promoted.lock_holder(LEADER_KEY, within(2000)).await;
    assert!(refused.unwrap_err().is_retryable());
    command::<()>(&replica.uri(), &["REPLICAOF", "NO", "ONE"]).await;
    let holder = until_answered(async || promoted.lock_holder(LEADER_KEY, within(1000)).await);
    assert_eq!(holder.await.unwrap().owner, a);
    command::<()>(&replica.uri(), &["DEL", LOCK]).await;
    let second = acquire(&promoted, &b, LONG).await;
    assert!(second.epoch > first.epoch);
    let previous = second.previous.unwrap();
    assert_eq!((previous.owner, previous.end), (a, ReignEnd::Unknown));
    assert_eq!(previous.lease_left, LONG);
}

#[tokio::test]
async fn a_primary_that_became_a_replica_is_given_up() {
    let other = RedisServer::start(&[]).unwrap();
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    backend.get_value("v", patiently()).await.unwrap();
    let port = other.address().port().to_string();
    command::<()>(&server.uri(), &["REPLICAOF", "127.0.0.1", &port]).await;
    // Reads too: what a replica knows may be old.
    for _ in 0..2 {
        let holder = backend.lock_holder(LEADER_KEY, within(1000)).await;
        assert_eq!(outcome(&holder.unwrap_err()), Some(Outcome::NotDone));
    }
    let value = backend.get_value("v", within(1000)).await;
    assert_eq!(outcome(&value.unwrap_err()), Some(Outcome::NotDone));
    let error = renew(&backend, &a, epoch, within(1000)).await.unwrap_err();
    assert_eq!(outcome(&error), Some(Outcome::NotDone));
    command::<()>(&server.uri(), &["REPLICAOF", "NO", "ONE"]).await;
    until_answered(async || backend.lock_holder(LEADER_KEY, within(1000)).await).await;
}

#[tokio::test]
async fn a_lease_without_its_replicas_does_not_count() {
    let server = RedisServer::start(&[]).unwrap();
    let alone = open(&server.uri());
    let backend = open(&format!("{}?wait_replicas=1", server.uri()));
    let a = owner("a", 1);
    let error = backend.try_lock(request(&a, LONG), within(200)).await;
    let error = error.unwrap_err();
    assert_eq!(outcome(&error), Some(Outcome::Unknown), "{error}");
    let epoch = acquire(&alone, &a, LONG).await.epoch;
    let error = renew(&backend, &a, epoch, within(200)).await.unwrap_err();
    assert_eq!(outcome(&error), Some(Outcome::Unknown), "{error}");
    // To lose a lock no replica is needed.
    let b = owner("b", 2);
    let lost = until_answered(async || renew(&backend, &b, epoch, within(1000)).await).await;
    assert!(matches!(lost, RenewOutcome::HeldByOther(_)));
}
