//! What clones of a client share.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use kvcm_clock::{Backoff, Random};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, watch},
    task::AbortHandle,
    time::Instant,
};

use crate::{
    address::Address,
    breaker::Breakers,
    budget::RetryBudget,
    leader::{Leader, LeaderTable},
    policy::RetryPolicy,
    pushes,
    search::Searches,
    seeds::Seeds,
    settings::Settings,
    stats::Counters,
    transport::Transport,
};

/// Where jitter and ids come from.
struct Generator(Box<dyn Random>);

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Generator")
    }
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) policy: Arc<dyn RetryPolicy>,
    pub(crate) seeds: Seeds,
    /// Receivers are woken by every change, which is how calls notice a newer leader.
    pub(crate) table: watch::Sender<LeaderTable>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) breakers: Mutex<Breakers>,
    pub(crate) counters: Counters,
    pub(crate) budget: RetryBudget,
    pub(crate) searches: Searches,
    /// The node that pushes changes of leader now.
    pub(crate) pushed_by: Mutex<Option<Address>>,
    /// One permit per call; closed with the client.
    pub(crate) in_flight: Semaphore,
    pub(crate) is_closing: AtomicBool,
    random: Mutex<Generator>,
    id: u64,
    calls_made: AtomicU64,
    used: AtomicBool,
    background: OnceLock<[AbortHandle; 2]>,
}

impl Core {
    pub(crate) fn new(
        settings: Settings,
        policy: Arc<dyn RetryPolicy>,
        seeds: Seeds,
        transport: Arc<dyn Transport>,
        mut random: Box<dyn Random>,
    ) -> Self {
        Self {
            in_flight: Semaphore::new(settings.in_flight_max),
            settings,
            policy,
            seeds,
            table: watch::Sender::new(LeaderTable::default()),
            transport,
            breakers: Mutex::default(),
            counters: Counters::default(),
            budget: RetryBudget::new(Instant::now()),
            searches: Searches::default(),
            pushed_by: Mutex::default(),
            is_closing: AtomicBool::new(false),
            id: random.next_u64(),
            random: Mutex::new(Generator(random)),
            calls_made: AtomicU64::new(0),
            used: AtomicBool::new(false),
            background: OnceLock::new(),
        }
    }

    /// The leader, unless it is unknown or in doubt.
    pub(crate) fn route(&self) -> Option<Arc<Leader>> {
        self.table.borrow().route().cloned()
    }

    /// An id that no other call of any client has.
    pub(crate) fn next_request_id(&self) -> String {
        let count = self.calls_made.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{count:x}", self.id)
    }

    pub(crate) fn next_wait(&self, backoff: &mut Backoff) -> Duration {
        self.with_random(|random| backoff.next(random))
    }

    /// Below `limit`; 0 for a limit of 0.
    pub(crate) fn random_below(&self, limit: usize) -> usize {
        let share = self.with_random(|random| random.next_f64());
        (share * limit as f64) as usize
    }

    pub(crate) fn with_random<T>(&self, work: impl FnOnce(&mut dyn Random) -> T) -> T {
        work(&mut *self.random.lock().0)
    }

    /// Waits, but only until there is [`news`](Self::news); true when there was.
    pub(crate) async fn wait_for_news(&self, wait: Duration) -> bool {
        !wait.is_zero() && tokio::time::timeout(wait, self.news()).await.is_ok()
    }

    /// Returns when a leader becomes known that is newer than the one known now, or the one in
    /// doubt now is confirmed.
    pub(crate) async fn news(&self) {
        let mut changes = self.table.subscribe();
        let (before, in_doubt) = {
            let table = changes.borrow_and_update();
            (table.leader().cloned(), table.route().is_none())
        };
        loop {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
            let table = changes.borrow_and_update();
            let is_newer = table.route().is_some_and(|leader| {
                in_doubt
                    || before.as_ref().is_none_or(|before| {
                        leader.epoch > before.epoch || leader.cluster != before.cluster
                    })
            });
            if is_newer {
                return;
            }
        }
    }

    /// Returns when a newer leader at another address than `from` is known.
    pub(crate) async fn superseded(&self, from: &Leader) {
        let mut changes = self.table.subscribe();
        loop {
            if changes.borrow_and_update().moved_from(from) {
                return;
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Notes that the client is in use, and sees to it that its knowledge stays young.
    pub(crate) fn touch(self: &Arc<Self>) {
        self.used.store(true, Ordering::Relaxed);
        self.background.get_or_init(|| {
            let interval = self.settings.refresh_interval;
            let refresher = tokio::spawn(refresh(Arc::downgrade(self), interval));
            let pushes = self.settings.pushes;
            let core = Arc::downgrade(self);
            let follower = tokio::spawn(async move {
                if pushes {
                    pushes::follow(core).await;
                }
            });
            [refresher.abort_handle(), follower.abort_handle()]
        });
    }

    /// Ends what goes on in the background, and all connections.
    pub(crate) fn end(&self) {
        self.in_flight.close();
        self.stop_background();
        self.pushed_by.lock().take();
        self.transport.close_all();
    }

    fn stop_background(&self) {
        for task in self.background.get().into_iter().flatten() {
            task.abort();
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.stop_background();
    }
}

/// Asks who leads once per interval in which the client was used and nobody pushes it, so that
/// most calls after a quiet change of leader go to the right node at once; and connects to the
/// standbys.
async fn refresh(core: Weak<Core>, interval: Duration) {
    // After the first leader was found, and not when all clients of a site start.
    let mut pause = Duration::from_secs(2).min(interval);
    loop {
        let spread = 0.5 + {
            let Some(core) = core.upgrade() else {
                return;
            };
            core.with_random(|random| random.next_f64())
        };
        tokio::time::sleep(pause.mul_f64(spread)).await;
        pause = interval;
        let Some(core) = core.upgrade() else {
            return;
        };
        if core.used.swap(false, Ordering::Relaxed) {
            if !core.is_pushed() {
                core.search_now(false).await;
            }
            core.warm_up().await;
        }
    }
}
