//! What happens to real backends, for tests.

use coordination_core::{Hint, LockState, Phase, Reign};
use kvcm_clock::Moment;

use crate::MemoryBackend;

/// A lock as it was at some moment: what a backup keeps.
#[derive(Clone, Debug)]
pub struct Backup(LockState);

impl MemoryBackend {
    /// Loses all locks, counters and values, as a backend does that restarts without its data.
    /// Watchers are not told.
    pub fn flush(&self) {
        let mut store = self.shared.store.lock();
        store.locks.clear();
        store.values.clear();
    }

    /// Frees the lock `key` behind its holder's back, as somebody's `DEL` does: the counter stays,
    /// and the next reign learns that the end of this one is unknown. Watchers are told.
    /// Returns whether it was held.
    pub fn forget_holder(&self, key: &str) -> bool {
        let held = self.change_reign(key, |reign| reign.phase = Phase::Vanished);
        if held {
            self.shared.hints.send(key, Hint::Changed);
        }
        held
    }

    /// Takes the time to live from the lock `key`, as somebody's `PERSIST` does. Returns whether
    /// it was held.
    pub fn remove_ttl(&self, key: &str) -> bool {
        self.change_reign(key, |reign| reign.ends = Moment::NEVER)
    }

    /// What a backup of the lock `key` would keep now.
    pub fn back_up(&self, key: &str) -> Backup {
        Backup(self.shared.store.lock().lock(key).clone())
    }

    /// Puts a lock back as it was, as a server does that starts from a backup. Such a server knows
    /// that what it has may be old: a lock that was held is free, the end of the last reign is
    /// unknown, and a lease may have begun just before. Watchers are not told.
    pub fn restore(&self, key: &str, Backup(mut lock): Backup) {
        let now = self.shared.clock.now();
        if let Some(reign) = &mut lock.reign {
            reign.phase = Phase::Vanished;
            reign.ends = now + reign.ttl;
        }
        *self.shared.store.lock().lock(key) = lock;
    }

    /// Loses the epoch counter of the lock `key`; who holds it stays known.
    pub fn lose_counter(&self, key: &str) {
        self.shared.store.lock().lock(key).counter = None;
    }

    /// Tells the watchers of `key` something, true or not: that a process has died, for instance,
    /// which this backend cannot find out.
    pub fn send_hint(&self, key: &str, hint: Hint) {
        self.shared.hints.send(key, hint);
    }

    fn change_reign(&self, key: &str, change: impl FnOnce(&mut Reign)) -> bool {
        let now = self.shared.clock.now();
        let mut store = self.shared.store.lock();
        let reign = store.lock(key).reign.as_mut();
        let held = reign.filter(|reign| reign.is_held(now));
        held.map(change).is_some()
    }
}
