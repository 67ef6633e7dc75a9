//! Who holds a lock.

use std::time::Duration;

use coordination_core::{Holder, LockOutcome, Owner, RenewOutcome, TryLock, UnlockOutcome};
use kvcm_fence::Epoch;

use crate::{
    Subject,
    handle::{Handle, KEY, LONG, SHORT, acquired, eventually, held, owner, request},
};

/// The first owner gets the lock at once, in an epoch above zero, and is its holder.
pub async fn a_free_lock_is_acquired(subject: &dyn Subject) {
    let (one, a) = (Handle::open(subject).await, owner("a", 1));
    assert_eq!(one.holder().await, None);
    let first = one.acquire(&a, LONG).await;
    assert!(!first.epoch.is_zero());
    assert_eq!(first.previous, None);
    assert!(!first.repeated);
    assert_holder(&one.holder().await.unwrap(), &a, first.epoch, "");
}

/// A contender learns owner, epoch, info and what remains, in one step, in any process.
pub async fn a_held_lock_tells_its_holder(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let (a, b) = (owner("a", 1), owner("b", 2));
    let info = r#"{"endpoint":"10.0.0.1:6492","phase":"serving"}"#;
    let request = TryLock {
        info,
        ..request(&a, LONG)
    };
    let epoch = acquired(one.ask(request).await.unwrap()).epoch;
    assert_holder(&held(two.try_lock(&b, LONG).await), &a, epoch, info);
    assert_holder(&two.holder().await.unwrap(), &a, epoch, info);
    assert_holder(&one.holder().await.unwrap(), &a, epoch, info);
}

/// The answer to a repeated request is the answer to the first, and the lease starts anew.
pub async fn the_holder_acquires_again_in_the_same_epoch(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    let before = one.acquire(&b, LONG).await.epoch;
    assert_eq!(one.unlock(&b, before).await, UnlockOutcome::Unlocked);
    let first = one.acquire(&a, LONG / 2).await;
    let again = TryLock {
        info: "again",
        ..request(&a, LONG)
    };
    let second = acquired(one.ask(again).await.unwrap());
    assert!(second.repeated && !first.repeated);
    assert_eq!(second.epoch, first.epoch);
    assert!(first.previous.is_some());
    assert_eq!(second.previous, first.previous);
    assert_holder(&one.holder().await.unwrap(), &a, first.epoch, "again");
}

/// A restarted process does not own what its former life holds.
pub async fn another_life_of_the_node_is_another_owner(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let (former, present) = (owner("a", 1), owner("a", 2));
    let epoch = one.acquire(&former, LONG).await.epoch;
    assert_holder(
        &held(one.try_lock(&present, LONG).await),
        &former,
        epoch,
        "",
    );
    let renewed = one.renew(&present, epoch, LONG, "").await;
    assert!(matches!(renewed, RenewOutcome::HeldByOther(holder) if holder.owner == former));
    let unlocked = one.unlock(&present, epoch).await;
    assert!(matches!(unlocked, UnlockOutcome::HeldByOther(holder) if holder.owner == former));
}

/// Owners are compared whole, never by a prefix or without case.
pub async fn similar_node_ids_are_different_owners(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("n1", 1);
    let epoch = one.acquire(&a, LONG).await.epoch;
    for similar in ["n10", "n", "N1", "n1.", "xn1"] {
        let other = owner(similar, 1);
        assert_holder(&held(one.try_lock(&other, LONG).await), &a, epoch, "");
        let renewed = one.renew(&other, epoch, LONG, "").await;
        assert!(matches!(renewed, RenewOutcome::HeldByOther(_)), "{similar}");
    }
}

/// Every allowed key is a lock of its own.
pub async fn similar_keys_are_different_locks(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let long = "k".repeat(254);
    let longest = [format!("{long}1"), format!("{long}2"), "ü".repeat(127)];
    let keys = [
        "k", "K", "k/1", "k_1", "k\\1", "k%2F1", "k.1", "k 1", ".", "..", "/", "../k", "{k}", "*",
        "k*", "ключ", "k:1", "~",
    ];
    let keys: Vec<_> = keys
        .into_iter()
        .chain(longest.iter().map(String::as_str))
        .collect();
    for (number, key) in (1u128..).zip(&keys) {
        let a = owner("a", number);
        let request = TryLock {
            key,
            ..request(&a, LONG)
        };
        let outcome = one.ask(request).await.unwrap();
        assert!(
            matches!(outcome, LockOutcome::Acquired(_)),
            "{key}: {outcome:?}"
        );
    }
    for (number, key) in (1u128..).zip(&keys) {
        let holder = one.backend.lock_holder(key, one.deadline()).await.unwrap();
        assert_eq!(holder.unwrap().owner, owner("a", number), "{key}");
    }
}

/// A renewal replaces what others see, and the remaining time with it.
pub async fn renewal_starts_the_lease_anew_and_replaces_info(subject: &dyn Subject) {
    let (one, two) = (Handle::open(subject).await, Handle::open(subject).await);
    let a = owner("a", 1);
    let epoch = one.acquire(&a, LONG).await.epoch;
    let longer = LONG * 100;
    assert_eq!(
        one.renew(&a, epoch, longer, "serving").await,
        RenewOutcome::Renewed
    );
    let holder = two.holder().await.unwrap();
    assert_eq!((holder.owner, holder.epoch), (a.clone(), epoch));
    assert_eq!(holder.info, "serving");
    assert!(holder.remaining > LONG && holder.remaining <= longer);
    assert_eq!(one.renew(&a, epoch, LONG, "").await, RenewOutcome::Renewed);
    assert_holder(&two.holder().await.unwrap(), &a, epoch, "");
}

/// A late renewal never brings a lease back.
pub async fn renewal_after_the_end_is_not_held(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("a", 1);
    assert_eq!(
        one.renew(&a, Epoch::ZERO, LONG, "").await,
        RenewOutcome::NotHeld
    );
    let epoch = one.acquire(&a, SHORT).await.epoch;
    expire(subject, &one).await;
    assert_eq!(one.renew(&a, epoch, LONG, "").await, RenewOutcome::NotHeld);
    assert_eq!(one.holder().await, None);
    assert_eq!(one.unlock(&a, epoch).await, UnlockOutcome::NotHeld);
}

/// Owner, incarnation and epoch all have to fit.
pub async fn renewal_by_another_changes_nothing(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("a", 1);
    let epoch = one.acquire(&a, LONG).await.epoch;
    for (owner, epoch_of_other) in strangers(&a, epoch) {
        match one.renew(&owner, epoch_of_other, LONG * 100, "other").await {
            RenewOutcome::HeldByOther(holder) => assert_holder(&holder, &a, epoch, ""),
            outcome => panic!("{owner} in epoch {epoch_of_other}: {outcome:?}"),
        }
    }
    assert_holder(&one.holder().await.unwrap(), &a, epoch, "");
}

/// Owner, incarnation and epoch all have to fit.
pub async fn unlock_by_another_changes_nothing(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("a", 1);
    let epoch = one.acquire(&a, LONG).await.epoch;
    for (owner, epoch_of_other) in strangers(&a, epoch) {
        match one.unlock(&owner, epoch_of_other).await {
            UnlockOutcome::HeldByOther(holder) => assert_holder(&holder, &a, epoch, ""),
            outcome => panic!("{owner} in epoch {epoch_of_other}: {outcome:?}"),
        }
    }
    assert_holder(&one.holder().await.unwrap(), &a, epoch, "");
    assert_eq!(one.renew(&a, epoch, LONG, "").await, RenewOutcome::Renewed);
}

/// Unlocking what is not locked is an answer, before the first reign and after the last.
pub async fn unlock_of_a_free_lock_is_not_held(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let a = owner("a", 1);
    assert_eq!(one.unlock(&a, Epoch::ZERO).await, UnlockOutcome::NotHeld);
    let epoch = one.acquire(&a, LONG).await.epoch;
    assert_eq!(one.unlock(&a, epoch).await, UnlockOutcome::Unlocked);
    assert_eq!(one.unlock(&a, epoch).await, UnlockOutcome::NotHeld);
    assert_eq!(one.holder().await, None);
}

/// The end is that of the last renewal, not of the acquisition.
pub async fn a_renewed_lock_outlives_its_first_lease(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    // Between acquisition and renewal the process may be held up for longer than the first lease.
    let epoch = eventually(subject, "a renewal comes in time", || async {
        let epoch = one.acquire(&a, SHORT).await.epoch;
        let renewed = one.renew(&a, epoch, LONG, "").await;
        (renewed == RenewOutcome::Renewed).then_some(epoch)
    })
    .await;
    subject.elapse(SHORT * 2).await;
    assert_holder(&held(one.try_lock(&b, LONG).await), &a, epoch, "");
}

/// A lock that somebody's hand left without end still becomes free.
pub async fn a_lock_without_ttl_gets_one(subject: &dyn Subject) {
    let one = Handle::open(subject).await;
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = one.acquire(&a, LONG).await.epoch;
    if !subject.remove_ttl(KEY).await {
        return;
    }
    assert_eq!(one.holder().await.unwrap().owner, a);
    let holder = held(one.try_lock(&b, SHORT).await);
    assert_eq!((holder.owner, holder.epoch), (a, epoch));
    assert!(holder.remaining <= SHORT);
    let taken = one.acquire_in_time(subject, request(&b, LONG)).await;
    assert!(taken.epoch > epoch);
}

/// Waits until nobody holds the lock.
async fn expire(subject: &dyn Subject, handle: &Handle) {
    eventually(subject, "the lease ends", || async {
        handle.holder().await.is_none().then_some(())
    })
    .await;
}

/// Owners and epochs that differ from the holder's in one thing.
fn strangers(holder: &Owner, epoch: Epoch) -> [(Owner, Epoch); 4] {
    let other_life = Owner {
        incarnation: owner("x", 77).incarnation,
        ..holder.clone()
    };
    let other_node = Owner {
        node: owner("other", 0).node,
        ..holder.clone()
    };
    [
        (other_life, epoch),
        (other_node, epoch),
        (holder.clone(), Epoch::new(epoch.get() - 1).unwrap()),
        (holder.clone(), epoch.next().unwrap()),
    ]
}

/// That the holder is this one, with most of a lease of [`LONG`] left.
fn assert_holder(holder: &Holder, owner: &Owner, epoch: Epoch, info: &str) {
    assert_eq!((&holder.owner, holder.epoch), (owner, epoch));
    assert_eq!(holder.info, info);
    assert!(holder.remaining <= LONG, "{:?} remain", holder.remaining);
    assert!(holder.remaining > Duration::ZERO);
}
