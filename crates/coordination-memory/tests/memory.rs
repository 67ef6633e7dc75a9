//! What only this backend promises.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

use std::{sync::Arc, time::Duration};

use coordination_core::{
    Acquired, Backend, Hint, LockOutcome, Owner, ReignEnd, RenewOutcome, TryLock,
};
use coordination_memory::MemoryBackend;
use futures_util::{FutureExt, StreamExt};
use kvcm_clock::{Clock, ManualClock, Moment};
use kvcm_fence::{Epoch, Incarnation};

const TTL: Duration = Duration::from_secs(10);

fn owner(node: &str, incarnation: u128) -> Owner {
    Owner {
        node: node.parse().unwrap(),
        incarnation: Incarnation::from_bits(incarnation),
    }
}

fn backend() -> (MemoryBackend, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let shared: Arc<dyn Clock> = clock.clone();
    (MemoryBackend::with_wall_clock(shared, || 1_000), clock)
}

async fn acquire(backend: &MemoryBackend, owner: &Owner) -> Acquired {
    let request = TryLock {
        key: "k",
        owner,
        ttl: TTL,
        floor: Epoch::ZERO,
        info: "",
        presumed_dead: None,
    };
    match backend.try_lock(request, Moment::NEVER).await.unwrap() {
        LockOutcome::Acquired(acquired) => acquired,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_first_epoch_follows_the_injected_wall_clock() {
    let (backend, _) = backend();
    let acquired = acquire(&backend, &owner("a", 1)).await;
    assert_eq!((acquired.epoch.get(), acquired.previous), (1_001, None));
}

#[tokio::test]
async fn a_flushed_backend_has_no_record_and_no_counter() {
    let (backend, _) = backend();
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a).await.epoch;
    backend.flush();
    let renewed = backend.renew_lock("k", &a, epoch, TTL, "", Moment::NEVER);
    assert_eq!(renewed.await.unwrap(), RenewOutcome::NotHeld);
    let acquired = acquire(&backend, &owner("b", 2)).await;
    assert_eq!((acquired.epoch.get(), acquired.previous), (1_001, None));
}

#[tokio::test]
async fn a_forgotten_holder_ends_unknown_with_its_lease_left() {
    let (backend, clock) = backend();
    let first = acquire(&backend, &owner("a", 1)).await;
    clock.advance(TTL / 4);
    assert!(backend.forget_holder("k"));
    assert!(!backend.forget_holder("k"));
    let second = acquire(&backend, &owner("b", 2)).await;
    assert!(second.epoch > first.epoch);
    let previous = second.previous.unwrap();
    assert_eq!(previous.owner, owner("a", 1));
    assert_eq!(previous.end, ReignEnd::Unknown);
    assert_eq!(previous.lease_left, TTL - TTL / 4);
}

#[tokio::test]
async fn a_watcher_that_fell_behind_is_told_that_something_changed() {
    let (backend, _) = backend();
    let mut hints = backend.watch("k");
    let death = Hint::HolderDied {
        incarnation: Incarnation::from_bits(1),
        epoch: Epoch::ZERO,
    };
    for _ in 0..1000 {
        backend.send_hint("k", death);
    }
    assert_eq!(hints.next().await, Some(Hint::Changed));
    assert_eq!(hints.next().await, Some(death));
}

#[tokio::test]
async fn a_watch_ends_when_the_backend_is_dropped_and_hears_of_no_other_key() {
    let (backend, _) = backend();
    let mut hints = backend.watch("k");
    backend.send_hint("k2", Hint::Changed);
    assert_eq!(hints.next().now_or_never(), None);
    let clone = backend.clone();
    drop(backend);
    assert_eq!(hints.next().now_or_never(), None);
    drop(clone);
    assert_eq!(hints.next().await, None);
}

#[tokio::test]
async fn a_restored_backup_frees_the_lock_and_can_vouch_for_nobody() {
    let (backend, clock) = backend();
    let first = acquire(&backend, &owner("a", 1)).await;
    let backup = backend.back_up("k");
    clock.advance(2 * TTL);
    let second = acquire(&backend, &owner("b", 2)).await;
    backend.restore("k", backup);
    let third = acquire(&backend, &owner("c", 3)).await;
    assert_eq!(third.epoch, second.epoch, "minted twice");
    let previous = third.previous.unwrap();
    assert_eq!(
        (previous.epoch, previous.end),
        (first.epoch, ReignEnd::Unknown)
    );
    assert_eq!(previous.lease_left, TTL);
}

#[tokio::test]
async fn a_lost_counter_starts_at_the_wall_clock_and_its_holder_stays() {
    let (backend, clock) = backend();
    let a = owner("a", 1);
    let epoch = acquire(&backend, &a).await.epoch;
    backend.lose_counter("k");
    let renewed = backend.renew_lock("k", &a, epoch, TTL, "", Moment::NEVER);
    assert_eq!(renewed.await.unwrap(), RenewOutcome::Renewed);
    clock.advance(2 * TTL);
    assert_eq!(acquire(&backend, &owner("b", 2)).await.epoch.get(), 1_001);
}

#[tokio::test]
async fn a_forgotten_holder_without_a_time_to_live_is_waited_for_no_longer_than_its_lease() {
    let (backend, _) = backend();
    acquire(&backend, &owner("a", 1)).await;
    assert!(backend.remove_ttl("k"));
    assert!(backend.forget_holder("k"));
    let previous = acquire(&backend, &owner("b", 2)).await.previous.unwrap();
    assert_eq!(
        (previous.end, previous.lease_left),
        (ReignEnd::Unknown, TTL)
    );
}
