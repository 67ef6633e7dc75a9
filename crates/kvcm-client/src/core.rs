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
use tokio::{sync::watch, task::AbortHandle, time::Instant};

use crate::{
    address::Address,
    budget::RetryBudget,
    channels::Channels,
    leader::{Leader, LeaderTable},
    search::Searches,
    settings::Settings,
    stats::Counters,
};

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) seeds: Vec<Address>,
    /// Receivers are woken by every change, which is how calls notice a newer leader.
    pub(crate) table: watch::Sender<LeaderTable>,
    pub(crate) channels: Channels,
    pub(crate) counters: Counters,
    pub(crate) budget: RetryBudget,
    pub(crate) searches: Searches,
    random: Mutex<fastrand::Rng>,
    id: u64,
    calls_made: AtomicU64,
    used: AtomicBool,
    refresher: OnceLock<AbortHandle>,
}

impl Core {
    pub(crate) fn new(settings: Settings, seeds: Vec<Address>) -> Self {
        let mut random = fastrand::Rng::new();
        Self {
            channels: Channels::new(settings.clone()),
            settings,
            seeds,
            table: watch::Sender::new(LeaderTable::default()),
            counters: Counters::default(),
            budget: RetryBudget::new(Instant::now()),
            searches: Searches::default(),
            id: random.u64(..),
            random: Mutex::new(random),
            calls_made: AtomicU64::new(0),
            used: AtomicBool::new(false),
            refresher: OnceLock::new(),
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
        backoff.next(&mut *self.random.lock())
    }

    /// Waits, but only until a leader becomes known that is newer than the one known now.
    pub(crate) async fn wait_for_news(&self, wait: Duration) {
        if wait.is_zero() {
            return;
        }
        let mut changes = self.table.subscribe();
        let before = changes.borrow_and_update().leader().cloned();
        let newer = async {
            loop {
                if changes.changed().await.is_err() {
                    return std::future::pending().await;
                }
                let table = changes.borrow_and_update();
                let is_newer = table.route().is_some_and(|leader| {
                    before.as_ref().is_none_or(|before| {
                        leader.epoch > before.epoch || leader.cluster != before.cluster
                    })
                });
                if is_newer {
                    return;
                }
            }
        };
        // Running out of time and news are both fine.
        let _ = tokio::time::timeout(wait, newer).await;
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
        self.refresher.get_or_init(|| {
            let interval = self.settings.refresh_interval;
            tokio::spawn(refresh(Arc::downgrade(self), interval)).abort_handle()
        });
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(refresher) = self.refresher.get() {
            refresher.abort();
        }
    }
}

/// Asks who leads once per interval in which the client was used, so that most calls after a
/// quiet change of leader go to the right node at once.
async fn refresh(core: Weak<Core>, interval: Duration) {
    loop {
        let spread = 0.5 + fastrand::Rng::new().next_f64();
        tokio::time::sleep(interval.mul_f64(spread)).await;
        let Some(core) = core.upgrade() else {
            return;
        };
        if core.used.swap(false, Ordering::Relaxed) {
            core.search(Instant::now(), false).await;
        }
    }
}
