//! Connections for everything that is not the lease.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kvcm_clock::{Clock, Moment, Timer};
use redis::RedisResult;
use tracing::debug;

use crate::{
    Address, Failure, Link, Locator, Repeat, Route,
    attempt::{Lender, Lent, Limits, attempt},
    config::Deployment,
    link::Place,
    opener::{self, Opened, Opener},
};

/// A connection that was silent for so long is asked whether it lives before it is used. Longer than
/// between two looks of those who look each second.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// A pool of connections to each server, opened when they are needed.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    locator: Arc<Locator>,
    limits: Limits,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Where calls have gone last.
    places: BTreeMap<Route, Place>,
    pools: BTreeMap<Address, opener::Pool>,
}

impl Pool {
    /// A pool without connections yet.
    ///
    /// # Errors
    /// [`Class::Fatal`](crate::Class::Fatal) when the driver refuses the address.
    pub fn new(locator: Arc<Locator>, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        let config = locator.config();
        config.check_addresses()?;
        let retry_count = config.retry_count;
        let shared = Shared {
            locator,
            limits: Limits { clock, retry_count },
            known: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Opens `client_min_pool_size` connections, so that the first calls do not wait for them; to
    /// none in a cluster, where it is not known which will be needed. Stops at the first failure:
    /// the calls will tell.
    pub async fn warm_up(&self) {
        let config = self.shared.locator.config();
        if config.deployment == Deployment::Cluster {
            return;
        }
        let mut opened = Vec::with_capacity(config.pool_size_min);
        while opened.len() < config.pool_size_min {
            let pool = match self.shared.place(&Route::Primary).await {
                Ok(place) => self.shared.pool(&place.address),
                Err(failure) => Err(failure),
            };
            let connection = match pool {
                Ok(pool) => pool.get().await.map_err(opener::failure),
                Err(failure) => Err(failure),
            };
            match connection {
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
        route: &Route,
        repeat: Repeat,
        deadline: Moment,
        call: impl FnMut(Link, u32) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let lender = Routed {
            shared: &self.shared,
            route,
            repeat,
        };
        attempt(&lender, &self.shared.limits, repeat, deadline, call).await
    }

    /// The servers that together have all keys.
    ///
    /// # Errors
    /// Nobody who knows has answered by the deadline.
    pub async fn primaries(&self, deadline: Moment) -> Result<Vec<Route>, Failure> {
        let shared = &self.shared;
        if shared.locator.config().deployment != Deployment::Cluster {
            return Ok(vec![Route::Primary]);
        }
        let timer = shared.limits.timer();
        tokio::select! {
            biased;
            primaries = shared.locator.primaries() => {
                Ok(primaries?.into_iter().map(Route::Node).collect())
            }
            () = timer.sleep_until(deadline) => {
                Err(Failure::not_done("no node of the cluster has answered by the deadline"))
            }
        }
    }
}

impl Shared {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where calls on `route` go.
    async fn place(&self, route: &Route) -> Result<Place, Failure> {
        if let Some(place) = self.known().places.get(route) {
            return Ok(place.clone());
        }
        let place = Place::from(self.locator.locate(route).await?);
        self.remember(route, place.clone());
        Ok(place)
    }

    fn remember(&self, route: &Route, place: Place) {
        let mut known = self.known();
        // Nodes are named by the call itself, and there is no end to their names.
        if !matches!(route, Route::Node(_)) {
            known.places.insert(route.clone(), place);
        }
    }

    /// A call has failed: who serves it may have changed.
    fn forget(&self, route: &Route) {
        if self.locator.config().deployment == Deployment::Standalone {
            return;
        }
        let mut known = self.known();
        known.places.remove(route);
        let Known { places, pools } = &mut *known;
        pools.retain(|address, _| places.values().any(|place| place.address == *address));
    }

    fn pool(&self, address: &Address) -> Result<opener::Pool, Failure> {
        let mut known = self.known();
        if let Some(pool) = known.pools.get(address) {
            return Ok(pool.clone());
        }
        let opener = Opener {
            locator: self.locator.clone(),
            address: address.clone(),
            clock: self.limits.clock.clone(),
        };
        let pool = opener.into_pool()?;
        known.pools.insert(address.clone(), pool.clone());
        Ok(pool)
    }
}

// === impl Lender ===

/// Lends connections for calls on one route.
struct Routed<'a> {
    shared: &'a Arc<Shared>,
    route: &'a Route,
    repeat: Repeat,
}

impl Lender for Routed<'_> {
    type Lent = Pooled;

    async fn lend(&self, deadline: Moment) -> Result<Pooled, Failure> {
        let timer = self.shared.limits.timer();
        let lend = async {
            // Ends: a connection that was just opened is not asked, and others are not kept.
            loop {
                let place = self.shared.place(self.route).await?;
                let pool = self.shared.pool(&place.address)?;
                let mut opened = pool.get().await.map_err(opener::failure)?;
                opened.place = place;
                let may_be_dead = self.may_be_dead(&opened);
                let mut lent = Pooled {
                    link: Link::clone(&opened),
                    opened: Some(opened),
                    shared: self.shared.clone(),
                    route: self.route.clone(),
                };
                if !may_be_dead || opener::is_well(&mut lent.link).await {
                    return Ok(lent);
                }
            }
        };
        let lent = tokio::select! {
            biased;
            lent = lend => lent,
            () = timer.sleep_until(deadline) => {
                Err(Failure::not_done("no connection of the pool by the deadline"))
            }
        };
        lent.inspect_err(|_| self.shared.forget(self.route))
    }
}

impl Routed<'_> {
    /// Whether a connection is worth a round trip before the call: the server may have closed it
    /// meanwhile. A call that can be repeated finds that out by itself, so it asks only after a
    /// while; one that cannot would not know what became of it.
    fn may_be_dead(&self, opened: &Opened) -> bool {
        let is_new = Opened::metrics(opened).recycle_count == 0;
        let idle = opened.idle();
        !is_new && (self.repeat == Repeat::Unsafe || idle >= IDLE_MAX)
    }
}

struct Pooled {
    link: Link,
    opened: Option<Opened>,
    shared: Arc<Shared>,
    route: Route,
}

impl Lent for Pooled {
    fn link(&self) -> &Link {
        &self.link
    }

    fn keep(mut self) {
        drop(self.opened.take());
    }

    fn redirect(mut self, place: Place) {
        // The connection is as good as before, for other slots.
        drop(self.opened.take());
        self.shared.remember(&self.route, place);
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            drop(Opened::take(opened));
            self.shared.forget(&self.route);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.shared.known();
        let mut map = f.debug_map();
        for (address, pool) in &known.pools {
            map.entry(&format_args!("{address}"), &pool.status());
        }
        map.finish()
    }
}
