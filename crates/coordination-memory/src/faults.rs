//! What happens to real backends, for tests.

use coordination_core::{Hint, Phase, Reign};
use kvcm_clock::Moment;

use crate::MemoryBackend;

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
