//! What of one home waits for its deletion, and whether all of it is queued.

use std::collections::HashMap;

use parking_lot::Mutex;

/// How much of a home is in the queue, and whether more of it is marked in the index only; for each
/// storage, so that one that is away holds up only itself.
#[derive(Debug, Default)]
pub(crate) struct Backlog(Mutex<HashMap<u16, Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// Locations in the queue, or being worked on.
    queued: usize,
    /// Some are marked in the index and not queued. Nothing is queued then until all that was
    /// queued is done, and a scan finds the others: so they do not wait for ever while new ones
    /// come, and none is queued twice.
    missed: bool,
}

impl Backlog {
    /// So many locations are to be queued. False when they are to wait for a scan.
    pub(crate) fn add(&self, storage: u16, count: usize, is_room: bool) -> bool {
        let mut storages = self.0.lock();
        let waiting = storages.entry(storage).or_default();
        waiting.missed |= !is_room;
        if waiting.missed {
            return false;
        }
        waiting.queued += count;
        true
    }

    /// So many of them are done. True when it is time for a scan.
    pub(crate) fn remove(&self, storage: u16, count: usize) -> bool {
        let mut storages = self.0.lock();
        let Some(waiting) = storages.get_mut(&storage) else {
            return false;
        };
        waiting.queued = waiting.queued.saturating_sub(count);
        let (queued, missed) = (waiting.queued, waiting.missed);
        if queued == 0 && !missed {
            storages.remove(&storage);
        }
        queued == 0 && missed
    }

    /// Some locations are marked in the index and not queued.
    pub(crate) fn miss(&self, storage: u16) {
        self.0.lock().entry(storage).or_default().missed = true;
    }

    /// The storages whose locations have to be looked for now, of those that there is room for. The
    /// caller looks. And whether others have to wait.
    pub(crate) fn take_missed(&self, is_room: impl Fn(u16) -> bool) -> (Vec<u16>, bool) {
        let mut storages = self.0.lock();
        let (mut due, mut others) = (Vec::new(), false);
        for (storage, waiting) in storages.iter_mut().filter(|(_, waiting)| waiting.missed) {
            if waiting.queued == 0 && is_room(*storage) {
                waiting.missed = false;
                due.push(*storage);
            } else {
                others = true;
            }
        }
        (due, others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_looked_for_when_the_rest_is_done_and_by_storage() {
        let backlog = Backlog::default();
        assert!(backlog.add(1, 5, true) && backlog.add(2, 1, true));
        assert!(!backlog.add(1, 3, false));
        assert!(!backlog.add(1, 1, true), "it waits for the scan as well");
        let take = || backlog.take_missed(|_| true);
        assert_eq!(take(), (vec![], true));
        assert!(!backlog.remove(1, 4));
        assert!(backlog.remove(1, 1));
        assert!(!backlog.remove(2, 1));
        assert_eq!(backlog.take_missed(|_| false), (vec![], true));
        assert_eq!(take(), (vec![1], false));
        assert_eq!(take(), (vec![], false));
        assert!(backlog.add(1, 1, true));
        assert!(!backlog.remove(1, 1));
        assert!(backlog.0.lock().is_empty());
        backlog.miss(7);
        assert_eq!(take(), (vec![7], false));
    }
}
