//! Deletes what is due, for ever.

use std::{fmt, sync::Arc, time::Duration};

use kvcm_clock::{Moment, Timer};
use kvcm_index::{Location, State};
use tokio::task::JoinSet;

use super::{Batch, queue::Take, worker::Worker};
use crate::{CacheManager, Error, Result, home::Home, manager::Shared};

/// Locations that a worker takes at one time.
const STEP: usize = 512;
/// Between two looks whether a storage is there again.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks whether bytes may be deleted.
const ASK: Duration = Duration::from_millis(100);
/// Keys that are looked at under one lock.
const SCAN: usize = 4096;

/// Whether this node may delete stored bytes now: asked right before each deletion, on any thread.
pub type Permit = Arc<dyn Fn() -> bool + Send + Sync>;

impl Shared {
    /// How long bytes of this home stay after their block has ended.
    pub(crate) fn delay(&self, home: &Home) -> Duration {
        let group = self.registry.group(&home.instance.group);
        let reclaim = group.map_or_else(Default::default, |group| {
            group.cache_config.reclaim_strategy.clone()
        });
        Duration::from_millis(u64::try_from(reclaim.delay_before_delete_ms).unwrap_or(0))
    }

    /// Queues the deletion of the bytes of these locations, which are marked in the index.
    pub(crate) fn queue_deletion(&self, home: &Arc<Home>, locations: Vec<(i64, Location)>) {
        if locations.is_empty() {
            return;
        }
        let due = self.clock.now() + self.delay(home);
        // A batch larger than the whole queue would never fit.
        let most = STEP.min(self.deletions.capacity());
        // Most often all are in one storage.
        let mut rest = &locations[..];
        while let Some((_, first)) = rest.first() {
            let storage = first.storage();
            let same = |(_, location): &&(i64, Location)| location.storage() == storage;
            let count = rest.iter().take(most).take_while(same).count();
            let (batch, others) = rest.split_at(count);
            let batch = Batch {
                home: Arc::clone(home),
                storage,
                locations: batch.to_vec(),
                tries: 0,
            };
            self.deletions.push(batch, due);
            rest = others;
        }
    }

    /// Queues what is marked in the index only, as far as there is room.
    fn find_missed(&self) {
        if !self.deletions.take_missed() {
            return;
        }
        for home in self.all_homes() {
            let is_room = |storage| self.deletions.is_room(storage);
            let (storages, others) = home.backlog.take_missed(is_room);
            if others {
                self.deletions.still_missed();
            }
            if storages.is_empty() {
                continue;
            }
            let mut cursor = Some(0);
            while let Some(from) = cursor {
                let mut found = Vec::new();
                cursor = home.index.scan(from, SCAN, |key, list, _| {
                    let is_missed = |location: &&Location| {
                        location.state() == State::Deleting
                            && storages.contains(&location.storage())
                    };
                    let missed = list.iter().filter(is_missed);
                    found.extend(missed.map(|location| (key, *location)));
                });
                self.queue_deletion(&home, found);
            }
        }
    }
}

impl CacheManager {
    /// Deletes the bytes of all locations that are due now, and forgets them.
    ///
    /// # Errors
    /// Those of the journal: what is left is tried again.
    pub async fn delete_due(&self, permit: &Permit) -> Result<()> {
        self.empty_retired().await?;
        self.shared.find_missed();
        let worker = self.worker(permit);
        while permit()
            && let Some(batch) = self.take(self.shared.clock.now())
        {
            worker.delete(batch).await?;
        }
        Ok(())
    }

    /// Deletes the bytes of blocks that have ended, when they are due, for ever. `permit` is asked
    /// right before each effect, so that a node that has lost its lead deletes nothing. Returns
    /// only when the journal says that this node has been superseded.
    ///
    /// Cancel-safe: what was under way is done again by the next call.
    pub async fn run_deletion(&self, timer: &dyn Timer, permit: &Permit) -> Error {
        let worker = self.worker(permit);
        let mut workers: JoinSet<Result<()>> = JoinSet::new();
        loop {
            let changed = self.shared.deletions.changed();
            let now = self.shared.clock.now();
            let retired = match self.empty_retired().await {
                Ok(more) => more,
                Err(error) if error.is_fenced() => return error,
                Err(error) => {
                    tracing::warn!(%error, "blocks of instances that are gone are still there");
                    true
                }
            };
            let next = if permit() {
                self.shared.find_missed();
                while workers.len() < self.config.deletion_workers
                    && let Some(batch) = self.take(now)
                {
                    let worker = worker.clone();
                    workers.spawn(async move { worker.delete(batch).await });
                }
                self.next_look(now, workers.len())
            } else {
                now + ASK
            };
            let next = if retired { next.min(now + LOOK) } else { next };
            tokio::select! {
                () = timer.sleep_until(next) => {}
                () = changed => {}
                Some(done) = workers.join_next() => match done {
                    Ok(Err(error)) if error.is_fenced() => return error,
                    Ok(Err(error)) => tracing::warn!(%error, "deletions are not recorded"),
                    Ok(Ok(())) => {}
                    Err(error) => tracing::error!(%error, "a deletion worker failed"),
                }
            }
        }
    }

    fn worker(&self, permit: &Permit) -> Worker {
        Worker {
            shared: Arc::clone(&self.shared),
            log: self.log.clone(),
            permit: Arc::clone(permit),
        }
    }

    fn take(&self, now: Moment) -> Option<Batch> {
        self.with_take(now, |take| self.shared.deletions.take(take))
    }

    fn with_take<R>(&self, now: Moment, work: impl FnOnce(&Take<'_>) -> R) -> R {
        work(&Take {
            now,
            locations: STEP,
            per_storage: self.per_storage(),
            is_ready: &|storage| self.is_ready(storage),
        })
    }

    /// So that one storage that hangs leaves a worker to the others.
    fn per_storage(&self) -> usize {
        self.config.deletion_workers.saturating_sub(1).max(1)
    }

    /// Whether bytes can be deleted from this storage now: one that is full is. From one that is disabled nothing is
    /// deleted: its operator wants it left alone.
    fn is_ready(&self, storage: u16) -> bool {
        let storages = self.shared.storages.list();
        let Some(known) = storages.get(storage) else {
            return false;
        };
        match self.registry.storage(&known.storage.name) {
            Some(storage) => storage.is_available && known.data.is_readable(),
            // Its blocks are forgotten.
            None => true,
        }
    }

    fn next_look(&self, now: Moment, busy: usize) -> Moment {
        if busy >= self.config.deletion_workers {
            return Moment::NEVER;
        }
        self.with_take(now, |take| self.shared.deletions.next_due(take, LOOK))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}
