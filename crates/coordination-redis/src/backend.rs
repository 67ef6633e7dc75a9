//! The backend.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use coordination_core::{
    Backend, DeleteOutcome, Error, Expect, HintStream, Holder, LockOutcome, Owner, RenewOutcome,
    Reservation, SetOutcome, TryLock, UnlockOutcome, Value, validate,
};
use kvcm_clock::{Clock, Moment};
use kvcm_fence::Epoch;
use kvcm_redis::{Config, Locator, Pool};

use crate::{error::error, keys::Keys, locks::Locks, subscriber::Subscriber, values::Values};

/// Locks and values at a Redis server, at the primary that Sentinels watch, or in a Redis Cluster.
///
/// Locks have a connection of their own, values share a pool, and one more connection listens for
/// hints. All are opened by the first call that needs them, on the runtime of that call, and come
/// back after every loss.
pub struct RedisBackend {
    name: String,
    locks: Locks,
    values: Values,
    subscriber: Subscriber,
}

impl RedisBackend {
    /// A backend at the servers of `config`, whose deadlines are moments of `clock`. Does not wait
    /// for the server.
    ///
    /// # Errors
    /// [`Error::Fatal`] when the address cannot be used at all.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let keys = Keys::new(&config);
        let name = config.to_string();
        let locator = Arc::new(Locator::new(config));
        let pool = Pool::new(locator.clone(), clock.clone()).map_err(error)?;
        Ok(Self {
            name,
            values: Values::new(locator.clone(), pool, keys.clone()),
            subscriber: Subscriber::new(locator.clone(), keys.clone()),
            locks: Locks::new(locator, keys, clock),
        })
    }
}

// === impl Backend ===

#[async_trait]
impl Backend for RedisBackend {
    fn describe(&self) -> String {
        self.name.clone()
    }

    async fn try_lock(&self, request: TryLock<'_>, deadline: Moment) -> Result<LockOutcome, Error> {
        validate::try_lock(&request)?;
        self.locks.try_lock(request, deadline).await
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
        self.locks
            .renew_lock(key, owner, epoch, ttl, info, deadline)
            .await
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
        self.locks
            .unlock(key, owner, epoch, reserve_for, deadline)
            .await
    }

    async fn lock_holder(&self, key: &str, deadline: Moment) -> Result<Option<Holder>, Error> {
        validate::key(key)?;
        self.locks.lock_holder(key, deadline).await
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
        self.values.set(key, text, ttl, expect, deadline).await
    }

    async fn get_value(&self, key: &str, deadline: Moment) -> Result<Option<Value>, Error> {
        validate::key(key)?;
        self.values.get(key, deadline).await
    }

    async fn delete_value(
        &self,
        key: &str,
        expect: Expect,
        deadline: Moment,
    ) -> Result<DeleteOutcome, Error> {
        validate::key(key)?;
        self.values.delete(key, expect, deadline).await
    }

    async fn list_values(
        &self,
        prefix: &str,
        deadline: Moment,
    ) -> Result<Vec<(String, Value)>, Error> {
        validate::prefix(prefix)?;
        self.values.list(prefix, deadline).await
    }

    fn watch(&self, key: &str) -> HintStream {
        self.subscriber.watch(key)
    }
}

impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisBackend({})", self.name)
    }
}
