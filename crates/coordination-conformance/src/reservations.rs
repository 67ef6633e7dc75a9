//! A lock that its last holder left to one node.

use std::time::Duration;

use coordination_core::{LockOutcome, ReignEnd, Reservation, UnlockOutcome};

use crate::{
    Subject,
    handle::{Handle, LONG, SHORT, owner, request},
};

/// Others are told for whom the lock is kept, in which epoch it was left and for how long; any
/// life of the named node gets it.
pub async fn only_the_named_node_acquires(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let (a, b) = (owner("n1", 1), owner("n2", 2));
    let epoch = one.acquire(&a, LONG).await.epoch;
    let wish = reservation("n2", LONG);
    let unlocked = one.unlock_for(&a, epoch, Some(&wish)).await;
    assert_eq!(unlocked, UnlockOutcome::Unlocked);
    assert_eq!(one.holder().await, None);
    for other in [&a, &owner("n20", 3), &owner("n1", 4)] {
        match one.try_lock(other, LONG).await {
            LockOutcome::Reserved(reserved) => {
                assert_eq!((&reserved.node, reserved.epoch), (&b.node, epoch));
                assert!(reserved.remaining <= LONG && reserved.remaining > Duration::ZERO);
            }
            outcome => panic!("{other}: {outcome:?}"),
        }
    }
    let taken = two.acquire(&b, LONG).await;
    assert!(taken.epoch > epoch);
    assert_eq!(taken.previous.unwrap().end, ReignEnd::Released);
}

/// A named node that never comes does not keep the lock.
pub async fn a_reservation_ends_in_time(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = one.acquire(&a, LONG).await.epoch;
    let wish = reservation("absent", SHORT);
    let unlocked = one.unlock_for(&a, epoch, Some(&wish)).await;
    assert_eq!(unlocked, UnlockOutcome::Unlocked);
    let taken = one.acquire_in_time(subject, request(&b, LONG)).await;
    assert!(taken.epoch > epoch);
    assert_eq!(taken.previous.unwrap().end, ReignEnd::Released);
}

/// The next release is a release for all.
pub async fn taking_a_reserved_lock_ends_the_reservation(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let (a, b, c) = (owner("a", 1), owner("b", 2), owner("c", 3));
    let first = one.acquire(&a, LONG).await.epoch;
    let wish = reservation("b", LONG);
    let unlocked = one.unlock_for(&a, first, Some(&wish)).await;
    assert_eq!(unlocked, UnlockOutcome::Unlocked);
    let second = one.acquire(&b, LONG).await.epoch;
    assert_eq!(one.unlock(&b, second).await, UnlockOutcome::Unlocked);
    assert!(one.acquire(&c, LONG).await.epoch > second);
}

fn reservation(node: &str, duration: Duration) -> Reservation {
    Reservation {
        node: node.parse().unwrap(),
        duration,
    }
}
