//! Connections for everything that is not the lease.

use std::{fmt, sync::Arc};

use deadpool_redis::{Manager, PoolError};
use kvcm_clock::{Clock, Moment, Timer};
use redis::{AsyncConnectionConfig, IntoConnectionInfo, RedisResult, aio::MultiplexedConnection};
use tracing::debug;

use crate::{
    Config, Failure, Repeat,
    attempt::{Lender, Lent, Limits, attempt},
};

/// A pool of connections, opened when they are needed.
#[derive(Clone)]
pub struct Pool {
    pool: deadpool_redis::Pool,
    size_min: usize,
    limits: Limits,
}

impl Pool {
    /// A pool without connections yet.
    ///
    /// # Errors
    /// [`Class::Fatal`](crate::Class::Fatal) when the driver refuses the address.
    pub fn new(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        let limits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.timeout))
            // Each call has its own.
            .set_response_timeout(None);
        let client = config.client()?;
        let refused = |error: &dyn fmt::Display| Failure::not_done(format!("{config}: {error}"));
        let info = client
            .get_connection_info()
            .clone()
            .into_connection_info()?;
        let manager = Manager::new_with_config(info, limits)?;
        let pool = deadpool_redis::Pool::builder(manager)
            .max_size(config.pool_size_max)
            .runtime(deadpool_redis::Runtime::Tokio1)
            .build()
            .map_err(|error| refused(&error))?;
        Ok(Self {
            pool,
            size_min: config.pool_size_min,
            limits: Limits {
                clock,
                retry_count: config.retry_count,
            },
        })
    }

    /// Opens `client_min_pool_size` connections, so that the first calls do not wait for them.
    /// Stops at the first failure: the calls will tell.
    pub async fn warm_up(&self) {
        let mut opened = Vec::with_capacity(self.size_min);
        while opened.len() < self.size_min {
            match self.pool.get().await {
                Ok(connection) => opened.push(connection),
                Err(error) => {
                    debug!(%error, opened = opened.len(), "the pool is not warm");
                    return;
                }
            }
        }
    }

    /// Makes a call with a connection of its own. Returns by `deadline`; the connection of a call
    /// that did not end is closed. `call` also gets the number of tries of the same call that
    /// may have happened before.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn run<T, F>(
        &self,
        repeat: Repeat,
        deadline: Moment,
        call: impl FnMut(MultiplexedConnection, u32) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>>,
    {
        attempt(self, &self.limits, repeat, deadline, call).await
    }
}

// === impl Lender ===

impl Lender for Pool {
    type Lent = Pooled;

    async fn lend(&self, deadline: Moment) -> Result<Pooled, Failure> {
        let timer = self.limits.timer();
        let lent = tokio::select! {
            biased;
            lent = self.pool.get() => lent,
            () = timer.sleep_until(deadline) => {
                return Err(Failure::not_done("no connection of the pool by the deadline"));
            }
        };
        match lent {
            Ok(connection) => Ok(Pooled(Some(connection))),
            Err(PoolError::Backend(error)) => Err(Failure::from(error).before_call()),
            Err(error) => Err(Failure::not_done(error.to_string())),
        }
    }
}

pub(crate) struct Pooled(Option<deadpool_redis::Connection>);

impl Lent for Pooled {
    type Handle = MultiplexedConnection;

    fn handle(&self) -> MultiplexedConnection {
        match &self.0 {
            Some(connection) => MultiplexedConnection::clone(connection),
            None => unreachable!("taken only by keep and drop, which end its life"),
        }
    }

    fn keep(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(deadpool_redis::Connection::take(connection));
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({:?})", self.pool.status())
    }
}
