//! What waits for its deletion.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kvcm_clock::Moment;
use kvcm_index::Location;
use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

use crate::home::Home;

/// Locations of one home in one storage whose bytes go together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) home: Arc<Home>,
    pub(crate) storage: u16,
    pub(crate) locations: Vec<(i64, Location)>,
    /// How often it was tried in vain.
    pub(crate) tries: u32,
}

/// Batches by the moment that they are due, in a lane of its own for each storage, so that one that
/// hangs holds up only itself. Counts what waits and what was taken out and is not settled yet.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
    /// Some home has locations that are marked and not queued.
    missed: AtomicBool,
    /// Locations that it takes of each storage.
    capacity: usize,
}

#[derive(Debug, Default)]
struct Inner {
    lanes: HashMap<u16, Lane>,
    /// Storages whose last deletion failed.
    failing: HashSet<u16>,
    /// Tells batches apart that are due at one moment.
    number: u64,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: BTreeMap<(Moment, u64), Batch>,
    /// Batches that are being worked on.
    busy: usize,
    /// Locations that wait or are being worked on.
    held: usize,
}

/// What may be taken.
pub(crate) struct Take<'a> {
    /// What is due until then.
    pub(crate) now: Moment,
    /// Locations at most, so far as they are not one batch.
    pub(crate) locations: usize,
    /// Batches of one storage at one time.
    pub(crate) per_storage: usize,
    /// Whether a storage can be deleted from now.
    pub(crate) is_ready: &'a dyn Fn(u16) -> bool,
}

impl Queue {
    /// A queue that takes so many locations of each storage, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            inner: Mutex::default(),
            changed: Notify::new(),
            // What a recovery has found.
            missed: AtomicBool::new(true),
            capacity: capacity.max(1),
        }
    }

    /// Locations that it takes of each storage.
    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Queues a batch until `due`. When there is no room its home notes that a scan has to find it
    /// again.
    pub(crate) fn push(&self, batch: Batch, due: Moment) {
        let (storage, count) = (batch.storage, batch.locations.len());
        let mut inner = self.inner.lock();
        let held = &mut inner.lanes.entry(storage).or_default().held;
        let is_room = *held + count <= self.capacity;
        if batch.home.backlog.add(storage, count, is_room) {
            *held += count;
            self.insert(&mut inner, batch, due);
        } else {
            self.missed.store(true, Ordering::SeqCst);
        }
    }

    /// Puts a batch back that was taken, or a part of it, until `due`.
    pub(crate) fn put_back(&self, batch: Batch, due: Moment) {
        self.insert(&mut self.inner.lock(), batch, due);
    }

    fn insert(&self, inner: &mut Inner, batch: Batch, due: Moment) {
        inner.number += 1;
        let number = inner.number;
        let waiting = &mut inner.lanes.entry(batch.storage).or_default().waiting;
        let is_first = waiting.first_key_value().is_none_or(|(at, _)| due < at.0);
        waiting.insert((due, number), batch);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Takes what is due for longest, with its neighbours of the same home. Say
    /// [`idle`](Self::idle) and [`settle`](Self::settle) later.
    pub(crate) fn take(&self, take: &Take<'_>) -> Option<Batch> {
        let mut inner = self.inner.lock();
        let lanes = inner.lanes.iter_mut();
        let (_, _, lane) = lanes
            .filter_map(|(storage, lane)| {
                let (due, _) = *lane.waiting.first_key_value()?.0;
                let is_free = lane.busy < take.per_storage;
                (due <= take.now && is_free && (take.is_ready)(*storage))
                    .then_some((due, *storage, lane))
            })
            .min_by_key(|(due, storage, _)| (*due, *storage))?;
        let (_, mut batch) = lane.waiting.pop_first()?;
        lane.busy += 1;
        while let Some(next) = lane.waiting.first_entry()
            && next.key().0 <= take.now
            && Arc::ptr_eq(&next.get().home, &batch.home)
            && next.get().tries == batch.tries
            && next.get().locations.len() + batch.locations.len() <= take.locations
        {
            batch.locations.append(&mut next.remove().locations);
        }
        Some(batch)
    }

    /// A batch of this storage is no longer worked on.
    pub(crate) fn idle(&self, storage: u16) {
        let mut inner = self.inner.lock();
        if let Some(lane) = inner.lanes.get_mut(&storage) {
            lane.busy = lane.busy.saturating_sub(1);
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// So many locations of a home in a storage are done with.
    pub(crate) fn settle(&self, home: &Home, storage: u16, count: usize) {
        let mut inner = self.inner.lock();
        if let Some(lane) = inner.lanes.get_mut(&storage) {
            lane.held = lane.held.saturating_sub(count);
        }
        if home.backlog.remove(storage, count) {
            self.changed.notify_one();
        }
    }

    /// When to try to take again, if nothing changes before; never when it is empty. A storage that
    /// is not ready is looked at again after `look`; one whose workers are all busy is a change when
    /// one of them is done.
    pub(crate) fn next_due(&self, take: &Take<'_>, look: Duration) -> Moment {
        let inner = self.inner.lock();
        let free = inner.lanes.iter();
        let free = free.filter(|(_, lane)| lane.busy < take.per_storage);
        let due = free.filter_map(|(storage, lane)| {
            let (due, _) = *lane.waiting.first_key_value()?.0;
            let is_ready = (take.is_ready)(*storage);
            Some(due.max(if is_ready { take.now } else { take.now + look }))
        });
        due.min().unwrap_or(Moment::NEVER)
    }

    /// Returns when something changed that [`take`](Self::take) may be interested in. Create it,
    /// then take, then wait.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Whether some home may have locations that are marked and not queued. Whoever asks looks, and
    /// says so when some are left.
    pub(crate) fn take_missed(&self) -> bool {
        self.missed.swap(false, Ordering::SeqCst)
    }

    /// Some home still has locations that are marked and not queued.
    pub(crate) fn still_missed(&self) {
        self.missed.store(true, Ordering::SeqCst);
    }

    /// Whether there is room for many more locations of a storage: looking for them is not for
    /// free.
    pub(crate) fn is_room(&self, storage: u16) -> bool {
        let inner = self.inner.lock();
        let held = inner.lanes.get(&storage).map_or(0, |lane| lane.held);
        held <= self.capacity / 2
    }

    /// Has whoever waits for a change look again.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Notes how a deletion in this storage went. True when that is news.
    pub(crate) fn note(&self, storage: u16, failed: bool) -> bool {
        let mut inner = self.inner.lock();
        if failed {
            inner.failing.insert(storage)
        } else {
            inner.failing.remove(&storage)
        }
    }
}
