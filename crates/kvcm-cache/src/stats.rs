//! What a manager has done since it was opened.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a manager has done since it was opened; every number only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Blocks that were written and serve since.
    pub added: u64,
    /// Locations that callers removed: single blocks, all of an instance, an instance.
    pub removed: u64,
    /// Locations that a write session ended without having written.
    pub unwritten: u64,
    /// Blocks evicted because their group had reached its mark of bytes.
    pub evicted_bytes: u64,
    /// Blocks evicted because their group had reached the mark of a kind of storage.
    pub evicted_type: u64,
    /// Blocks evicted because their instance had reached its mark of keys.
    pub evicted_keys: u64,
    /// Write sessions that began.
    pub sessions_started: u64,
    /// Write sessions that their writer finished.
    pub sessions_finished: u64,
    /// Write sessions whose time was up.
    pub sessions_expired: u64,
    /// Write sessions that ended with a mask that did not fit.
    pub sessions_rejected: u64,
    /// Locations whose bytes were deleted.
    pub deleted: u64,
    /// Locations whose bytes could not be deleted; each try counts.
    pub delete_failures: u64,
    /// Locations that were forgotten with their bytes, for their storage is not registered any
    /// more.
    pub forgotten: u64,
}

impl std::ops::Add for Activity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            added: self.added + other.added,
            removed: self.removed + other.removed,
            unwritten: self.unwritten + other.unwritten,
            evicted_bytes: self.evicted_bytes + other.evicted_bytes,
            evicted_type: self.evicted_type + other.evicted_type,
            evicted_keys: self.evicted_keys + other.evicted_keys,
            sessions_started: self.sessions_started + other.sessions_started,
            sessions_finished: self.sessions_finished + other.sessions_finished,
            sessions_expired: self.sessions_expired + other.sessions_expired,
            sessions_rejected: self.sessions_rejected + other.sessions_rejected,
            deleted: self.deleted + other.deleted,
            delete_failures: self.delete_failures + other.delete_failures,
            forgotten: self.forgotten + other.forgotten,
        }
    }
}

/// Counts it.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) added: Count,
    pub(crate) removed: Count,
    pub(crate) unwritten: Count,
    pub(crate) evicted_bytes: Count,
    pub(crate) evicted_type: Count,
    pub(crate) evicted_keys: Count,
    pub(crate) sessions_started: Count,
    pub(crate) sessions_finished: Count,
    pub(crate) sessions_expired: Count,
    pub(crate) sessions_rejected: Count,
    pub(crate) deleted: Count,
    pub(crate) delete_failures: Count,
    pub(crate) forgotten: Count,
}

/// One number.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// So many more.
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Stats {
    pub(crate) fn now(&self) -> Activity {
        Activity {
            added: self.added.get(),
            removed: self.removed.get(),
            unwritten: self.unwritten.get(),
            evicted_bytes: self.evicted_bytes.get(),
            evicted_type: self.evicted_type.get(),
            evicted_keys: self.evicted_keys.get(),
            sessions_started: self.sessions_started.get(),
            sessions_finished: self.sessions_finished.get(),
            sessions_expired: self.sessions_expired.get(),
            sessions_rejected: self.sessions_rejected.get(),
            deleted: self.deleted.get(),
            delete_failures: self.delete_failures.get(),
            forgotten: self.forgotten.get(),
        }
    }
}
