//! Epochs rise, whatever happens.

use std::time::Duration;

use coordination_core::{RenewOutcome, TryLock, UnlockOutcome};
use kvcm_fence::Epoch;

use crate::{
    Subject,
    handle::{Handle, LONG, SHORT, acquired, owner, request},
};

/// The counter survives the end of reigns.
pub async fn epochs_rise_across_release_and_expiry(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let mut last = Epoch::ZERO;
    for round in 0..10u128 {
        let (handle, a) = if round % 2 == 0 {
            (&one, owner("a", 1))
        } else {
            (&two, owner("b", 2))
        };
        let ttl = if round % 3 == 0 { SHORT } else { LONG };
        let acquired = handle.acquire_in_time(subject, request(&a, ttl)).await;
        assert!(acquired.epoch > last, "{} after {last}", acquired.epoch);
        last = acquired.epoch;
        if ttl == LONG {
            assert_eq!(handle.unlock(&a, last).await, UnlockOutcome::Unlocked);
        }
    }
}

/// What the caller has seen elsewhere counts, and stays counted.
pub async fn the_epoch_is_above_the_floor(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    let floor = Epoch::new((1 << 52) + 12_345).unwrap();
    let high = TryLock {
        floor,
        ..request(&a, LONG)
    };
    let first = acquired(one.ask(high).await.unwrap()).epoch;
    assert!(first > floor);
    assert_eq!(one.unlock(&a, first).await, UnlockOutcome::Unlocked);
    let second = one.acquire(&b, LONG).await.epoch;
    assert!(second > first);
    assert_eq!(one.holder().await.unwrap().epoch, second);
}

/// A store without its data mints higher: above the floor, and above the past because a lost
/// counter starts at the wall clock.
pub async fn epochs_rise_across_data_loss(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("a", 1);
    let first = one.acquire(&a, LONG).await.epoch;
    // Not synchronisation: the counter starts at the wall clock's milliseconds, which must move on.
    tokio::time::sleep(Duration::from_millis(20)).await;
    if !subject.lose_data().await {
        return;
    }
    assert_eq!(one.renew(&a, first, LONG, "").await, RenewOutcome::NotHeld);
    let second = one.acquire(&a, LONG).await;
    assert!(second.epoch > first && !second.repeated);
    assert!(subject.lose_data().await);
    let floor = Epoch::new(second.epoch.get() + 1_000_000_000).unwrap();
    let high = TryLock {
        floor,
        ..request(&a, LONG)
    };
    assert!(acquired(one.ask(high).await.unwrap()).epoch > floor);
}

/// A store that comes back with its data still knows the holder and the counter.
pub async fn epochs_rise_across_a_restart(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    let first = one.acquire(&a, LONG * 100).await.epoch;
    if !subject.restart().await {
        return;
    }
    let two = Handle::open(subject).await;
    let holder = two.holder().await.unwrap();
    assert_eq!((holder.owner, holder.epoch), (a.clone(), first));
    assert_eq!(two.unlock(&a, first).await, UnlockOutcome::Unlocked);
    assert!(two.acquire(&b, LONG).await.epoch > first);
}

/// Each lock has its own counter: a high floor of one does not use up the epochs of another.
pub async fn epochs_of_different_locks_are_apart(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("a", 1);
    let floor = Epoch::new(Epoch::MAX.get() - 10).unwrap();
    let high = TryLock {
        floor,
        key: "high",
        ..request(&a, LONG)
    };
    assert!(acquired(one.ask(high).await.unwrap()).epoch > floor);
    assert!(one.acquire(&a, LONG).await.epoch < floor);
}
