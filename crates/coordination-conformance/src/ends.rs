//! How the reign before ended.

use std::time::Duration;

use coordination_core::{Previous, ReignEnd, TryLock, UnlockOutcome};
use kvcm_fence::Incarnation;

use crate::{
    Subject,
    handle::{Handle, KEY, LONG, SHORT, held, owner, request},
};

/// After a release there is nothing to wait for.
pub async fn release_is_told_to_the_next_reign(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = one.acquire(&a, LONG).await.epoch;
    assert_eq!(one.unlock(&a, epoch).await, UnlockOutcome::Unlocked);
    let previous = Previous {
        owner: a,
        epoch,
        end: ReignEnd::Released,
        lease_left: Duration::ZERO,
    };
    assert_eq!(two.acquire(&b, LONG).await.previous, Some(previous));
}

/// A lease that ran out by the backend's own record is a proven end.
pub async fn expiry_is_told_to_the_next_reign(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = one.acquire(&a, SHORT).await.epoch;
    let taken = two.acquire_in_time(subject, request(&b, LONG)).await;
    let previous = Previous {
        owner: a,
        epoch,
        end: ReignEnd::Expired,
        lease_left: Duration::ZERO,
    };
    assert_eq!(taken.previous, Some(previous));
}

/// Whoever proves that the holder's life has ended need not wait for its lease.
pub async fn a_dead_life_is_taken_over_at_once(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = one.acquire(&a, LONG * 100).await.epoch;
    assert_eq!(held(two.try_lock(&b, LONG).await).owner, a);
    drop(one);
    let request = TryLock {
        presumed_dead: Some((a.incarnation, epoch)),
        ..request(&b, LONG)
    };
    let taken = two.acquire_in_time(subject, request).await;
    assert!(taken.epoch > epoch && !taken.repeated);
    let previous = taken.previous.unwrap();
    assert_eq!((previous.owner, previous.epoch), (a, epoch));
    assert_eq!(previous.end, ReignEnd::Dead);
    assert!(previous.lease_left > LONG && previous.lease_left <= LONG * 100);
}

/// A lock that somebody's hand left without end makes the next holder wait for no longer than the
/// lease that its former one believed in.
pub async fn a_life_without_ttl_leaves_its_lease_at_most(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = one.acquire(&a, LONG).await.epoch;
    if !subject.remove_ttl(KEY).await {
        return;
    }
    let request = TryLock {
        presumed_dead: Some((a.incarnation, epoch)),
        ..request(&b, LONG)
    };
    let taken = two.acquire_in_time(subject, request).await;
    let previous = taken.previous.unwrap();
    assert_eq!((previous.owner, previous.epoch), (a, epoch));
    assert!(previous.lease_left <= LONG, "{:?}", previous.lease_left);
}

/// The proof is for one life in one epoch: for any other it is worth nothing.
pub async fn a_wrong_presumption_takes_nothing(subject: &dyn Subject) {
    let two = Handle::open(subject).await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = {
        // Dead, so that a backend that looks itself finds no other reason to refuse.
        let one = Handle::open(subject).await;
        one.acquire(&a, LONG).await.epoch
    };
    for presumed_dead in [
        (Incarnation::from_bits(77), epoch),
        (a.incarnation, epoch.next().unwrap()),
        (a.incarnation, kvcm_fence::Epoch::ZERO),
        (b.incarnation, epoch),
    ] {
        let request = TryLock {
            presumed_dead: Some(presumed_dead),
            ..request(&b, LONG)
        };
        let holder = held(two.ask(request).await.unwrap());
        assert_eq!((holder.owner, holder.epoch), (a.clone(), epoch));
    }
}

/// Whose lease has ended has lost the lock, even if nobody else took it.
pub async fn an_own_expired_lock_is_a_new_reign(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("a", 1);
    let first = one.acquire(&a, SHORT).await;
    subject.elapse(SHORT * 2).await;
    let second = one.acquire(&a, LONG).await;
    assert!(!second.repeated && second.epoch > first.epoch);
    let previous = second.previous.unwrap();
    assert_eq!((previous.owner, previous.epoch), (a, first.epoch));
    assert_eq!(previous.end, ReignEnd::Expired);
}
