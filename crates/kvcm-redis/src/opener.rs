//! How a pool opens and checks its connections.

use std::sync::Arc;

use deadpool::{
    Runtime,
    managed::{Manager, Metrics, Object, PoolError, RecycleResult},
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

    /// Nothing: whether a connection is worth a look depends on the call, see
    /// [`is_well`].
    async fn recycle(&self, _: &mut Link, _: &Metrics) -> RecycleResult<Failure> {
        Ok(())
    }
}

/// Whether a connection answers, which costs a round trip. Also looks at the server's clock, which
/// may not have been looked at for long.
pub(crate) async fn is_well(link: &mut Link) -> bool {
    let time = redis::cmd("TIME").query_async(&mut link.connection).await;
    time.map(|time| link.saw_time(time)).is_ok()
}

/// Why there is no connection; nothing has happened.
pub(crate) fn failure(error: PoolError<Failure>) -> Failure {
    match error {
        PoolError::Backend(failure) => failure.before_call(),
        error => Failure::not_done(error.to_string()),
    }
}
