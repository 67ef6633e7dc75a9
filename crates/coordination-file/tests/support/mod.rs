//! What several tests of the file backend need.

#![allow(dead_code, reason = "not every test binary needs all of it")]

pub(crate) mod kid;

use std::{path::Path, sync::Arc, time::Duration};

use coordination_core::{Acquired, Backend, Error, LockOutcome, Outcome, Owner, TryLock};
use coordination_file::{FileBackend, Options};
use kvcm_clock::{BootClock, Clock, Moment};
use kvcm_fence::{Epoch, Incarnation};

pub(crate) const KEY: &str = coordination_core::LEADER_KEY;
pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) fn open(dir: &Path) -> FileBackend {
    FileBackend::open(dir, Options::default(), Arc::new(BootClock)).unwrap()
}

pub(crate) fn owner(node: &str) -> Owner {
    Owner {
        node: node.parse().unwrap(),
        incarnation: Incarnation::random(),
    }
}

pub(crate) fn request(owner: &Owner) -> TryLock<'_> {
    TryLock {
        key: KEY,
        owner,
        ttl: LONG,
        floor: Epoch::ZERO,
        info: "",
        presumed_dead: None,
    }
}

pub(crate) fn deadline() -> Moment {
    BootClock.now() + Duration::from_secs(20)
}

pub(crate) async fn try_lock(backend: &FileBackend, owner: &Owner) -> Result<LockOutcome, Error> {
    backend.try_lock(request(owner), deadline()).await
}

pub(crate) async fn acquire(backend: &FileBackend, owner: &Owner) -> Acquired {
    acquired(try_lock(backend, owner).await.unwrap())
}

pub(crate) fn acquired(outcome: LockOutcome) -> Acquired {
    match outcome {
        LockOutcome::Acquired(acquired) => acquired,
        other => panic!("expected to acquire the lock: {other:?}"),
    }
}

/// Waits until the backend does nothing more by itself: calls are served in order.
pub(crate) async fn settled(backend: &FileBackend) {
    backend.get_value("k", deadline()).await.unwrap();
}

/// A call that failed, and has changed nothing.
#[track_caller]
pub(crate) fn nothing_done<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    match outcome {
        Err(Error::Unavailable {
            outcome: Outcome::NotDone,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}

pub(crate) fn held_epoch(outcome: LockOutcome) -> Epoch {
    match outcome {
        LockOutcome::Held(holder) => holder.epoch,
        other => panic!("expected that the lock is held: {other:?}"),
    }
}
