//! How a pool opens and checks its connections.

use std::sync::Arc;

use deadpool::{
    Runtime,
    managed::{Manager, Metrics, Object, PoolError, RecycleError, RecycleResult},
};
use kvcm_clock::Clock;

use crate::{Address, Failure, Link, Locator, connect::connect, link::Place};

/// Connections to one server.
pub(crate) type Pool = deadpool::managed::Pool<Opener>;

/// One of them, lent.
pub(crate) type Opened = Object<Opener>;

#[derive(Debug)]
pub(crate) struct Opener {
    pub(crate) locator: Arc<Locator>,
    pub(crate) address: Address,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Opener {
    pub(crate) fn into_pool(self) -> Result<Pool, Failure> {
        let size_max = self.locator.config().pool_size_max;
        let built = Pool::builder(self)
            .max_size(size_max)
            .runtime(Runtime::Tokio1)
            .build();
        built.map_err(|error| Failure::not_done(error.to_string()))
    }
}

impl Manager for Opener {
    type Type = Link;
    type Error = Failure;

    async fn create(&self) -> Result<Link, Failure> {
        let config = self.locator.config();
        let place = Place::from(self.address.clone());
        let connect = connect(config, place, self.clock.clone());
        let connected = tokio::time::timeout(config.timeout, connect).await;
        let late = |_| Failure::not_done(format!("{} does not answer", self.address));
        connected.map_err(late)?
    }

    /// Also looks at the server's clock, which may not have been looked at for long.
    async fn recycle(&self, link: &mut Link, _: &Metrics) -> RecycleResult<Failure> {
        let look = redis::cmd("TIME");
        match look.query_async(&mut link.connection).await {
            Ok(time) => {
                link.saw_time(time);
                Ok(())
            }
            Err(error) => Err(RecycleError::Backend(Failure::from(error).before_call())),
        }
    }
}

/// Why there is no connection; nothing has happened.
pub(crate) fn failure(error: PoolError<Failure>) -> Failure {
    match error {
        PoolError::Backend(failure) => failure.before_call(),
        error => Failure::not_done(error.to_string()),
    }
}
