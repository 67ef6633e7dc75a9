//! What other hands do to locks and their records.

use coordination_core::{Backend, LEADER_KEY, LockOutcome, ReignEnd, RenewOutcome, TryLock};
use kvcm_fence::{Epoch, Incarnation};
use kvcm_testkit::RedisServer;

use crate::common::{LOCK, LONG, STATE, acquire, command, open, owner, patiently, renew, request};

#[tokio::test]
async fn a_lock_deleted_by_hand_ends_its_reign_in_an_unknown_way() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    command::<()>(&server.uri(), &["DEL", LOCK]).await;
    let next = acquire(&backend, &b, LONG).await;
    assert_eq!(next.epoch, epoch.next().unwrap());
    let previous = next.previous.unwrap();
    assert_eq!(previous.end, ReignEnd::Unknown);
    assert!(previous.lease_left > LONG / 2 && previous.lease_left <= LONG);
    // The same answer again for the same reign.
    let again = acquire(&backend, &b, LONG).await;
    assert!(again.repeated);
    assert_eq!(again.previous, Some(previous));
}

#[tokio::test]
async fn a_lock_deleted_without_a_time_to_live_leaves_its_lease_at_most() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    acquire(&backend, &owner("a", 1), LONG).await;
    command::<()>(&server.uri(), &["PERSIST", LOCK]).await;
    command::<()>(&server.uri(), &["DEL", LOCK]).await;
    let next = acquire(&backend, &owner("b", 2), LONG).await;
    let previous = next.previous.unwrap();
    assert_eq!(previous.end, ReignEnd::Unknown);
    assert!(previous.lease_left <= LONG, "{:?}", previous.lease_left);
}

#[tokio::test]
async fn a_lock_set_by_other_hands_is_held_and_gets_a_time_to_live() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    command::<()>(&server.uri(), &["SET", LOCK, "a"]).await;
    let outcome = backend.try_lock(request(&a, LONG), patiently()).await;
    let LockOutcome::Held(holder) = outcome.unwrap() else {
        panic!("the same node id is not the same owner");
    };
    assert_eq!(holder.owner, owner("a", 0));
    assert_eq!((holder.epoch, holder.remaining), (Epoch::ZERO, LONG));
    let left: i64 = command(&server.uri(), &["PTTL", LOCK]).await;
    assert!(left > 0, "{left}");
    let renewed = renew(&backend, &a, Epoch::new(1).unwrap(), patiently()).await;
    let RenewOutcome::HeldByOther(holder) = renewed.unwrap() else {
        panic!("the record of the caller's reign is not there");
    };
    assert_eq!(holder.owner, owner("a", 0));
}

#[tokio::test]
async fn a_lease_longer_than_anybody_asked_for_is_cut() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let (a, b) = (owner("a", 1), owner("b", 2));
    acquire(&backend, &a, LONG).await;
    // What a clock that is set back does to all times to live.
    command::<()>(&server.uri(), &["PEXPIRE", LOCK, "900000000"]).await;
    let outcome = backend.try_lock(request(&b, LONG), patiently()).await;
    let LockOutcome::Held(holder) = outcome.unwrap() else {
        panic!("it is held");
    };
    assert_eq!((holder.owner, holder.remaining), (a, LONG));
}

#[tokio::test]
async fn a_damaged_record_gives_the_lock_to_nobody() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    command::<()>(&server.uri(), &["DEL", LOCK]).await;
    for (field, value) in [("counter", "x"), ("ends", ""), ("phase", "?")] {
        let before: String = command(&server.uri(), &["HGET", STATE, field]).await;
        command::<()>(&server.uri(), &["HSET", STATE, field, value]).await;
        let outcome = backend.try_lock(request(&a, LONG), patiently()).await;
        let error = outcome.unwrap_err();
        assert!(
            error.is_retryable() && error.to_string().contains(STATE),
            "{error}"
        );
        command::<()>(&server.uri(), &["HSET", STATE, field, &before]).await;
    }
    command::<()>(&server.uri(), &["RENAME", STATE, "kept"]).await;
    command::<()>(&server.uri(), &["SET", STATE, "a string"]).await;
    let outcome = backend.try_lock(request(&a, LONG), patiently()).await;
    assert!(outcome.unwrap_err().is_retryable());
    command::<()>(&server.uri(), &["RENAME", "kept", STATE]).await;
    assert_eq!(
        acquire(&backend, &a, LONG).await.epoch,
        epoch.next().unwrap()
    );
}

#[tokio::test]
async fn an_exhausted_counter_is_fatal() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let a = owner("a", 1);
    let last = Epoch::new(Epoch::MAX.get() - 1).unwrap();
    let high = TryLock {
        floor: last,
        ..request(&a, LONG)
    };
    let LockOutcome::Acquired(acquired) = backend.try_lock(high, patiently()).await.unwrap() else {
        panic!("the lock was free");
    };
    assert_eq!(acquired.epoch, Epoch::MAX);
    let unlocked = backend.unlock(LEADER_KEY, &a, Epoch::MAX, None, patiently());
    unlocked.await.unwrap();
    let error = backend.try_lock(request(&a, LONG), patiently()).await;
    assert!(!error.unwrap_err().is_retryable());
}

#[tokio::test]
async fn a_dead_life_is_taken_over_by_its_incarnation_and_epoch() {
    let server = RedisServer::start(&[]).unwrap();
    let backend = open(&server.uri());
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = acquire(&backend, &a, LONG).await.epoch;
    let request = TryLock {
        presumed_dead: Some((Incarnation::from_bits(1), epoch)),
        ..request(&b, LONG)
    };
    let LockOutcome::Acquired(taken) = backend.try_lock(request, patiently()).await.unwrap() else {
        panic!("its holder is dead");
    };
    assert_eq!(taken.previous.unwrap().end, ReignEnd::Dead);
    let node: String = command(&server.uri(), &["GET", LOCK]).await;
    assert_eq!(node, "b");
}
