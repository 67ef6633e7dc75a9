//! The connection that a lease is kept with.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kvcm_clock::{Backoff, BackoffPolicy, Clock, Moment, Timer};
use redis::RedisResult;
use tokio::{sync::watch, task::JoinHandle};
use tracing::{info, warn};

use crate::{
    Config, Failure, Link, Locator, Repeat, Route, Server,
    attempt::{Lender, Lent, Limits, attempt},
    connect::connect,
    link::Place,
};

/// No attempt to connect is given up earlier.
const ATTEMPT_MIN: Duration = Duration::from_millis(100);

/// One multiplexed connection with its own reconnect, so that neither a full pool nor the reads
/// of clients can cost a lease.
///
/// A task connects, again after every loss, at most 100 ms between tries: it is started by the
/// first call, on that call's runtime, and ends when this is dropped. Each time it asks anew where
/// the primary is, or the node that serves the slot.
pub struct Lease {
    shared: Arc<Shared>,
    connector: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    locator: Arc<Locator>,
    route: Route,
    limits: Limits,
    slot: watch::Sender<Slot>,
    /// How long the last caller was ready to wait, in nanoseconds.
    patience: AtomicU64,
}

#[derive(Debug, Default)]
struct Slot {
    link: Option<Link>,
    /// Of the link.
    generation: u64,
    /// Where a server has sent us; none to ask.
    place: Option<Place>,
    /// Tries to connect that failed, ever.
    failures: u64,
    /// Why the last one failed; none since a try succeeded.
    last: Option<Failure>,
}

impl Lease {
    /// A holder without a connection yet.
    pub fn new(locator: Arc<Locator>, route: Route, clock: Arc<dyn Clock>) -> Self {
        let retry_count = locator.config().retry_count;
        Self {
            shared: Arc::new(Shared {
                locator,
                route,
                limits: Limits { clock, retry_count },
                slot: watch::Sender::default(),
                patience: AtomicU64::new(0),
            }),
            connector: Mutex::new(None),
        }
    }

    /// Makes a call. Returns by `deadline`, and at once when a try to connect fails that began
    /// after the call and no retry is left. The connection of a call that did not end is closed,
    /// also when the future is dropped. `call` also gets the number of tries of the same call
    /// that may have happened before.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn run<T, F>(
        &self,
        repeat: Repeat,
        deadline: Moment,
        call: impl FnMut(Link, u32) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>>,
    {
        self.keep_connecting();
        attempt(self, &self.shared.limits, repeat, deadline, call).await
    }

    /// The server, while there is a connection.
    pub fn server(&self) -> Option<Arc<Server>> {
        let slot = self.shared.slot.borrow();
        slot.link.as_ref().map(|link| link.server.clone())
    }

    /// Starts the connector, also when the runtime of an earlier one has ended.
    fn keep_connecting(&self) {
        let mut connector = self
            .connector
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if connector.as_ref().is_none_or(JoinHandle::is_finished) {
            *connector = Some(tokio::spawn(self.shared.clone().connect_always()));
        }
    }
}

impl Shared {
    fn config(&self) -> &Config {
        self.locator.config()
    }

    async fn connect_always(self: Arc<Self>) {
        let mut random = fastrand::Rng::new();
        let mut slot = self.slot.subscribe();
        // Ends only with the sender, which we hold.
        while slot.wait_for(|slot| slot.link.is_none()).await.is_ok() {
            let mut backoff = Backoff::new(BackoffPolicy::LEASE);
            loop {
                match self.connect_once().await {
                    Ok(link) => {
                        let Server {
                            version, run_id, ..
                        } = &*link.server;
                        info!(server = %link.address(), version, run_id, "connected to redis");
                        self.slot.send_modify(|slot| {
                            slot.generation += 1;
                            slot.link = Some(link);
                            slot.last = None;
                        });
                        break;
                    }
                    Err(failure) => self.note(failure),
                }
                tokio::time::sleep(backoff.next(&mut random)).await;
            }
        }
    }

    async fn connect_once(&self) -> Result<Link, Failure> {
        // A try that hangs (a lost SYN, a stopped server) must not outlast the trouble by much:
        // the patience of a caller is a quarter of its lease at most.
        let patience = Duration::from_nanos(self.patience.load(Ordering::Relaxed));
        let limit = (patience * 4).max(ATTEMPT_MIN).min(self.config().timeout);
        let timer = self.limits.timer();
        let connect = async {
            let mut place = None;
            self.slot.send_if_modified(|slot| {
                place = slot.place.take();
                false
            });
            let place = match place {
                Some(place) => place,
                None => self.locator.locate(&self.route).await?.into(),
            };
            connect(self.config(), place, self.limits.clock.clone()).await
        };
        tokio::select! {
            biased;
            connected = connect => connected,
            () = timer.sleep_until(self.limits.clock.now() + limit) => {
                Err(Failure::not_done(format!("{} does not answer", self.config())))
            }
        }
    }

    /// Tells the waiting callers, and people once for each new reason.
    fn note(&self, failure: Failure) {
        self.slot.send_modify(|slot| {
            if slot.last.as_ref() != Some(&failure) {
                warn!(server = %self.config(), error = %failure, "cannot connect to redis");
            }
            slot.failures += 1;
            slot.last = Some(failure);
        });
    }

    /// Closes the connection of this generation; the next one leads to `place`.
    fn disconnect(&self, generation: u64, place: Option<Place>) {
        self.slot.send_if_modified(|slot| {
            let is_it = slot.link.is_some() && slot.generation == generation;
            if is_it {
                slot.link = None;
                slot.place = place;
            }
            is_it
        });
    }
}

// === impl Lender ===

impl Lender for Lease {
    type Lent = LentLink;

    async fn lend(&self, deadline: Moment) -> Result<LentLink, Failure> {
        let shared = &self.shared;
        let patience = shared.limits.clock.now().until(deadline);
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        shared.patience.store(patience, Ordering::Relaxed);
        let mut slot = shared.slot.subscribe();
        let before = slot.borrow().failures;
        let settled = |slot: &Slot| slot.link.is_some() || slot.failures > before;
        let timer = shared.limits.timer();
        tokio::select! {
            biased;
            _ = slot.wait_for(settled) => {}
            () = timer.sleep_until(deadline) => {}
        }
        let slot = slot.borrow();
        match (&slot.link, &slot.last) {
            (Some(link), _) => Ok(LentLink {
                link: link.clone(),
                generation: slot.generation,
                shared: Some(shared.clone()),
            }),
            (None, Some(last)) if slot.failures > before => Err(last.clone()),
            (None, last) => {
                let why = last
                    .as_ref()
                    .map_or("it does not answer", |last| &last.reason);
                let server = shared.config();
                Err(Failure::not_done(format!(
                    "{server} is not connected by the deadline: {why}"
                )))
            }
        }
    }
}

pub(crate) struct LentLink {
    link: Link,
    generation: u64,
    shared: Option<Arc<Shared>>,
}

impl Lent for LentLink {
    fn link(&self) -> &Link {
        &self.link
    }

    fn keep(mut self) {
        self.shared = None;
    }

    fn redirect(mut self, place: Place) {
        if let Some(shared) = self.shared.take() {
            shared.disconnect(self.generation, Some(place));
        }
    }
}

impl Drop for LentLink {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.disconnect(self.generation, None);
        }
    }
}

// === impl Drop, Debug ===

impl Drop for Lease {
    fn drop(&mut self) {
        let connector = self
            .connector
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(connector) = connector.take() {
            connector.abort();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({:?})", self.shared.config())
    }
}
