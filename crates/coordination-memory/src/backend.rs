//! The backend.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use coordination_core::{
    Backend, DeleteOutcome, Error, Expect, Hint, HintStream, Holder, LockOutcome, Owner,
    RenewOutcome, Reservation, SetOutcome, TryLock, UnlockOutcome, Value, validate,
};
use kvcm_clock::{Clock, Moment};
use kvcm_fence::Epoch;
use parking_lot::Mutex;

use crate::{hints::Hints, store::Store};

/// Locks and values in this process. Cheap to clone; clones share everything.
///
/// No operation waits, so a future that was polled has done its work, and one that was dropped
/// before has done nothing.
#[derive(Clone)]
pub struct MemoryBackend {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wall_clock_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    pub(crate) store: Mutex<Store>,
    pub(crate) hints: Hints,
}

impl MemoryBackend {
    /// An empty backend whose times to live run on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_wall_clock(clock, kvcm_clock::wall_clock_ms)
    }

    /// The same with another source for the start of a missing epoch counter, so that a
    /// simulation can be replayed. `wall_clock_ms` is called under the backend's mutex.
    pub fn with_wall_clock(
        clock: Arc<dyn Clock>,
        wall_clock_ms: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock,
                wall_clock_ms: Box::new(wall_clock_ms),
                store: Mutex::default(),
                hints: Hints::new(),
            }),
        }
    }

    /// The present moment, unless `deadline` has passed.
    fn now(&self, deadline: Moment) -> Result<Moment, Error> {
        let now = self.shared.clock.now();
        if now > deadline {
            return Err(Error::not_done("the deadline has passed"));
        }
        Ok(now)
    }
}

// === impl Backend ===

#[async_trait]
impl Backend for MemoryBackend {
    fn describe(&self) -> String {
        "memory://".to_owned()
    }

    async fn try_lock(&self, request: TryLock<'_>, deadline: Moment) -> Result<LockOutcome, Error> {
        validate::try_lock(&request)?;
        let now = self.now(deadline)?;
        let mut store = self.shared.store.lock();
        let lock = store.lock(request.key);
        let outcome = lock.try_lock(&request, now, &self.shared.wall_clock_ms)?;
        // Under the mutex, as everywhere here, so that hints come in the order of the changes.
        if matches!(outcome, LockOutcome::Acquired(_)) {
            self.shared.hints.send(request.key, Hint::Changed);
        }
        Ok(outcome)
    }

    async fn renew_lock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        ttl: Duration,
        info: &str,
        deadline: Moment,
    ) -> Result<RenewOutcome, Error> {
        validate::key(key)?;
        validate::ttl(ttl)?;
        let now = self.now(deadline)?;
        let mut store = self.shared.store.lock();
        let lock = store.lock(key);
        let changed = lock.reign.as_ref().is_some_and(|reign| reign.info != info);
        let outcome = lock.renew_lock(owner, epoch, ttl, info, now);
        if changed && outcome == RenewOutcome::Renewed {
            self.shared.hints.send(key, Hint::Changed);
        }
        Ok(outcome)
    }

    async fn unlock(
        &self,
        key: &str,
        owner: &Owner,
        epoch: Epoch,
        reserve_for: Option<&Reservation>,
        deadline: Moment,
    ) -> Result<UnlockOutcome, Error> {
        validate::key(key)?;
        let now = self.now(deadline)?;
        let mut store = self.shared.store.lock();
        let outcome = store.lock(key).unlock(owner, epoch, reserve_for, now);
        if outcome == UnlockOutcome::Unlocked {
            self.shared.hints.send(key, Hint::Changed);
        }
        Ok(outcome)
    }

    async fn lock_holder(&self, key: &str, deadline: Moment) -> Result<Option<Holder>, Error> {
        validate::key(key)?;
        let now = self.now(deadline)?;
        let store = self.shared.store.lock();
        Ok(store.locks.get(key).and_then(|lock| lock.lock_holder(now)))
    }

    async fn set_value(
        &self,
        key: &str,
        text: &str,
        ttl: Option<Duration>,
        expect: Expect,
        deadline: Moment,
    ) -> Result<SetOutcome, Error> {
        validate::key(key)?;
        ttl.map_or(Ok(()), validate::ttl)?;
        let now = self.now(deadline)?;
        let expires = ttl.map(|ttl| now + ttl);
        let mut store = self.shared.store.lock();
        Ok(store.set(key, text, expires, expect, now))
    }

    async fn get_value(&self, key: &str, deadline: Moment) -> Result<Option<Value>, Error> {
        validate::key(key)?;
        let now = self.now(deadline)?;
        Ok(self.shared.store.lock().get(key, now))
    }

    async fn delete_value(
        &self,
        key: &str,
        expect: Expect,
        deadline: Moment,
    ) -> Result<DeleteOutcome, Error> {
        validate::key(key)?;
        let now = self.now(deadline)?;
        Ok(self.shared.store.lock().delete(key, expect, now))
    }

    async fn list_values(
        &self,
        prefix: &str,
        deadline: Moment,
    ) -> Result<Vec<(String, Value)>, Error> {
        validate::prefix(prefix)?;
        let now = self.now(deadline)?;
        Ok(self.shared.store.lock().list(prefix, now))
    }

    fn watch(&self, key: &str) -> HintStream {
        self.shared.hints.watch(key)
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryBackend")
    }
}
