//! Records of another boot, host or container.

use std::{path::Path, sync::Arc, time::Duration};

use coordination_core::{
    Acquired, Backend, Error, Expect, LockOutcome, Owner, ReignEnd, RenewOutcome, Reservation,
    TryLock,
};
use futures_util::StreamExt;
use kvcm_clock::{Clock, ManualClock, Moment};
use kvcm_fence::{Epoch, Incarnation};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{FileBackend, Options};

const TTL: Duration = Duration::from_secs(10);

/// A process on the clock `name`, which has run for `uptime`.
fn open(dir: &Path, name: &str, uptime: Duration) -> (FileBackend, ManualClock) {
    let clock = ManualClock::new(Moment::ZERO + uptime);
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let backend = FileBackend::open_on(dir, Options::default(), shared, name.to_owned());
    (backend.unwrap(), clock)
}

fn owner(node: &str, incarnation: u128) -> Owner {
    Owner {
        node: node.parse().unwrap(),
        incarnation: Incarnation::from_bits(incarnation),
    }
}

async fn try_lock(backend: &FileBackend, owner: &Owner) -> Result<LockOutcome, Error> {
    presume(backend, owner, None).await
}

async fn presume(
    backend: &FileBackend,
    owner: &Owner,
    presumed_dead: Option<(Incarnation, Epoch)>,
) -> Result<LockOutcome, Error> {
    let request = TryLock {
        key: "k",
        owner,
        ttl: TTL,
        floor: Epoch::ZERO,
        info: "",
        presumed_dead,
    };
    backend.try_lock(request, Moment::NEVER).await
}

async fn acquire(backend: &FileBackend, owner: &Owner) -> Acquired {
    match try_lock(backend, owner).await.unwrap() {
        LockOutcome::Acquired(acquired) => acquired,
        other => panic!("{other:?}"),
    }
}

async fn renew(backend: &FileBackend, owner: &Owner, epoch: Epoch) -> RenewOutcome {
    let renewed = backend.renew_lock("k", owner, epoch, TTL, "", Moment::NEVER);
    renewed.await.unwrap()
}

#[tokio::test]
pub(crate) async fn a_lease_of_another_boot_is_waited_for_once_and_its_end_is_unknown() {
    let dir = TempDir::new().unwrap();
    let (before, _) = open(dir.path(), "boot-1", Duration::from_secs(1_000_000));
    let (a, b) = (owner("a", 1), owner("b", 2));
    let first = acquire(&before, &a).await;
    drop(before);
    let (after, clock) = open(dir.path(), "boot-2", Duration::from_secs(5));
    let outcome = try_lock(&after, &b).await.unwrap();
    assert!(matches!(outcome, LockOutcome::Held(holder) if holder.remaining == TTL));
    clock.advance(TTL - Duration::from_nanos(1));
    let outcome = try_lock(&after, &b).await.unwrap();
    assert!(matches!(outcome, LockOutcome::Held(holder) if holder.owner == a));
    clock.advance(Duration::from_nanos(1));
    let second = acquire(&after, &b).await;
    assert!(second.epoch > first.epoch);
    let previous = second.previous.unwrap();
    assert_eq!((previous.owner, previous.epoch), (a, first.epoch));
    assert_eq!(previous.end, ReignEnd::Unknown);
    assert_eq!(previous.lease_left, Duration::ZERO);
}

/// Where the kernel of another host has the lock, ours finds it free.
#[tokio::test]
pub(crate) async fn a_lifetime_lock_proves_a_death_on_its_own_boot_only() {
    for (name, is_proof) in [("boot-1 time:2", true), ("boot-2 time:1", false)] {
        let dir = TempDir::new().unwrap();
        let (there, _) = open(dir.path(), "boot-1 time:1", Duration::from_secs(1_000_000));
        let (a, b) = (owner("a", 1), owner("b", 2));
        let first = acquire(&there, &a).await;
        drop(there);
        let (here, _) = open(dir.path(), name, Duration::from_secs(5));
        let presumed = Some((a.incarnation, first.epoch));
        let patience = Duration::from_millis(if is_proof { 20_000 } else { 200 });
        let told = timeout(patience, here.watch("k").next()).await;
        assert_eq!(told.is_ok(), is_proof, "{told:?}");
        match presume(&here, &b, presumed).await.unwrap() {
            LockOutcome::Acquired(second) => {
                assert!(is_proof && second.epoch > first.epoch);
                assert_eq!(second.previous.unwrap().end, ReignEnd::Dead);
            }
            LockOutcome::Held(holder) => assert!(!is_proof && holder.remaining == TTL),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_lease_that_ends_far_too_late_is_of_another_clock() {
    let dir = TempDir::new().unwrap();
    let (ahead, _) = open(dir.path(), "boot", Duration::from_secs(100_000));
    acquire(&ahead, &owner("a", 1)).await;
    drop(ahead);
    let (behind, clock) = open(dir.path(), "boot", Duration::from_secs(5));
    let outcome = try_lock(&behind, &owner("b", 2)).await.unwrap();
    assert!(matches!(outcome, LockOutcome::Held(holder) if holder.remaining == TTL));
    clock.advance(TTL);
    let taken = acquire(&behind, &owner("b", 2)).await;
    assert_eq!(taken.previous.unwrap().end, ReignEnd::Unknown);
}

#[tokio::test]
async fn a_record_that_another_clock_goes_on_changing_is_fatal() {
    let dir = TempDir::new().unwrap();
    let (here, clock) = open(dir.path(), "host-1", Duration::from_secs(5));
    let (there, clock_there) = open(dir.path(), "host-2", Duration::from_secs(77));
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = acquire(&there, &a).await.epoch;
    let outcome = try_lock(&here, &b).await.unwrap();
    assert!(matches!(outcome, LockOutcome::Held(_)));
    clock_there.advance(TTL / 3);
    assert_eq!(renew(&there, &a, epoch).await, RenewOutcome::Renewed);
    let error = try_lock(&here, &b).await.unwrap_err();
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("another host"), "{error}");
    // And the wait has started anew.
    clock.advance(TTL / 2);
    let outcome = try_lock(&here, &b).await.unwrap();
    assert!(matches!(outcome, LockOutcome::Held(holder) if holder.remaining == TTL / 2));
}

#[tokio::test]
async fn a_record_that_another_clock_wrote_over_ours_is_fatal() {
    let dir = TempDir::new().unwrap();
    let (here, _) = open(dir.path(), "host-1", Duration::from_secs(5));
    let (there, clock_there) = open(dir.path(), "host-2", Duration::from_secs(77));
    let (a, b) = (owner("a", 1), owner("b", 2));
    let epoch = acquire(&here, &a).await.epoch;
    assert!(matches!(
        try_lock(&there, &b).await.unwrap(),
        LockOutcome::Held(_)
    ));
    clock_there.advance(TTL);
    acquire(&there, &b).await;
    let renewed = here.renew_lock("k", &a, epoch, TTL, "", Moment::NEVER);
    assert!(!renewed.await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn a_lock_that_was_released_on_another_boot_is_free_for_all() {
    let dir = TempDir::new().unwrap();
    let (before, _) = open(dir.path(), "boot-1", Duration::from_secs(1_000_000));
    let a = owner("a", 1);
    let epoch = acquire(&before, &a).await.epoch;
    let wish = Reservation {
        node: "absent".parse().unwrap(),
        duration: TTL,
    };
    let unlocked = before.unlock("k", &a, epoch, Some(&wish), Moment::NEVER);
    unlocked.await.unwrap();
    let (after, _) = open(dir.path(), "boot-2", Duration::from_secs(5));
    let taken = acquire(&after, &owner("b", 2)).await;
    assert!(taken.epoch > epoch);
    assert_eq!(taken.previous.unwrap().end, ReignEnd::Released);
}

#[tokio::test]
async fn values_that_would_expire_do_not_outlive_their_boot() {
    let dir = TempDir::new().unwrap();
    let (before, _) = open(dir.path(), "boot-1", Duration::from_secs(1));
    let end = Moment::NEVER;
    for (key, ttl) in [("node", Some(TTL)), ("setting", None)] {
        before
            .set_value(key, "x", ttl, Expect::Any, end)
            .await
            .unwrap();
    }
    let (after, _) = open(dir.path(), "boot-2", Duration::from_secs(5));
    assert_eq!(after.get_value("node", end).await.unwrap(), None);
    assert!(after.get_value("setting", end).await.unwrap().is_some());
}
