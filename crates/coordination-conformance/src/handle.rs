//! A backend with its usual arguments filled in.

use std::{future::Future, sync::Arc, time::Duration};

use coordination_core::{
    Acquired, Backend, DeleteOutcome, Error, Expect, Holder, LockOutcome, Owner, RenewOutcome,
    Reservation, SetOutcome, TryLock, UnlockOutcome, Value,
};
use kvcm_clock::{Clock, Moment};
use kvcm_fence::{Epoch, Incarnation};

use crate::Subject;

/// The lock of most checks.
pub(crate) const KEY: &str = coordination_core::LEADER_KEY;
/// Of a lease that must not end during a check.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// Of a lease that is waited for.
pub(crate) const SHORT: Duration = Duration::from_millis(80);
/// How long a check waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// One process with the backend.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) backend: Arc<dyn Backend>,
    clock: Arc<dyn Clock>,
}

impl Handle {
    pub(crate) async fn open(subject: &dyn Subject) -> Self {
        Self {
            backend: subject.backend().await,
            clock: subject.clock(),
        }
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.clock.now() + PATIENCE
    }

    pub(crate) async fn ask(&self, request: TryLock<'_>) -> Result<LockOutcome, Error> {
        self.backend.try_lock(request, self.deadline()).await
    }

    pub(crate) async fn try_lock(&self, owner: &Owner, ttl: Duration) -> LockOutcome {
        self.ask(request(owner, ttl)).await.unwrap()
    }

    /// A try that must succeed.
    pub(crate) async fn acquire(&self, owner: &Owner, ttl: Duration) -> Acquired {
        acquired(self.try_lock(owner, ttl).await)
    }

    /// Tries again until it succeeds.
    pub(crate) async fn acquire_in_time(
        &self,
        subject: &dyn Subject,
        request: TryLock<'_>,
    ) -> Acquired {
        eventually(subject, "the lock becomes free", || async {
            match self.ask(request.clone()).await.unwrap() {
                LockOutcome::Acquired(acquired) => Some(acquired),
                _ => None,
            }
        })
        .await
    }

    pub(crate) async fn renew(
        &self,
        owner: &Owner,
        epoch: Epoch,
        ttl: Duration,
        info: &str,
    ) -> RenewOutcome {
        let renewal = self
            .backend
            .renew_lock(KEY, owner, epoch, ttl, info, self.deadline());
        renewal.await.unwrap()
    }

    pub(crate) async fn unlock(&self, owner: &Owner, epoch: Epoch) -> UnlockOutcome {
        self.unlock_for(owner, epoch, None).await
    }

    pub(crate) async fn unlock_for(
        &self,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
    ) -> UnlockOutcome {
        let unlock = self
            .backend
            .unlock(KEY, owner, epoch, reserve_for, self.deadline());
        unlock.await.unwrap()
    }

    pub(crate) async fn holder(&self) -> Option<Holder> {
        let holder = self.backend.lock_holder(KEY, self.deadline());
        holder.await.unwrap()
    }

    pub(crate) async fn set(
        &self,
        key: &str,
        text: &str,
        ttl: Option<Duration>,
        expect: Expect,
    ) -> SetOutcome {
        let set = self
            .backend
            .set_value(key, text, ttl, expect, self.deadline());
        set.await.unwrap()
    }

    /// Sets a value that stays, whatever is there; returns its version.
    pub(crate) async fn store(&self, key: &str, text: &str) -> u64 {
        match self.set(key, text, None, Expect::Any).await {
            SetOutcome::Stored(version) => version,
            other => panic!("setting {key} whatever is there: {other:?}"),
        }
    }

    pub(crate) async fn get(&self, key: &str) -> Option<Value> {
        self.backend.get_value(key, self.deadline()).await.unwrap()
    }

    pub(crate) async fn delete(&self, key: &str, expect: Expect) -> DeleteOutcome {
        let delete = self.backend.delete_value(key, expect, self.deadline());
        delete.await.unwrap()
    }

    pub(crate) async fn list(&self, prefix: &str) -> Vec<(String, Value)> {
        let list = self.backend.list_values(prefix, self.deadline());
        list.await.unwrap()
    }
}

/// A life of a node.
pub(crate) fn owner(node: &str, incarnation: u128) -> Owner {
    Owner {
        node: node.parse().unwrap(),
        incarnation: Incarnation::from_bits(incarnation),
    }
}

/// An ordinary request for [`KEY`].
pub(crate) fn request(owner: &Owner, ttl: Duration) -> TryLock<'_> {
    TryLock {
        key: KEY,
        owner,
        ttl,
        floor: Epoch::ZERO,
        info: "",
        presumed_dead: None,
    }
}

pub(crate) fn acquired(outcome: LockOutcome) -> Acquired {
    match outcome {
        LockOutcome::Acquired(acquired) => acquired,
        other => panic!("expected to acquire the lock: {other:?}"),
    }
}

pub(crate) fn held(outcome: LockOutcome) -> Holder {
    match outcome {
        LockOutcome::Held(holder) => holder,
        other => panic!("expected that another holds the lock: {other:?}"),
    }
}

/// Lets time pass until `look` sees something.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    subject: &dyn Subject,
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let clock = subject.clock();
    let end = clock.now() + PATIENCE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(
            clock.now() < end,
            "waited {PATIENCE:?} in vain until {what}"
        );
        subject.elapse(SHORT / 8).await;
    }
}
