//! What makes each granted place unique.

use std::sync::atomic::{AtomicU64, Ordering};

/// One grant of places. An epoch has one leader and a leader counts, so no grant comes twice; a
/// grant may cover many keys, because the key (or its file and block) is in the path as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Grant {
    /// The epoch of the reign that granted.
    pub epoch: u64,
    /// Its number within the epoch.
    pub counter: u64,
}

/// Counts the grants of one reign.
#[derive(Debug)]
pub struct Grants {
    epoch: u64,
    next: AtomicU64,
}

impl Grants {
    /// Begins to count in `epoch`, which must be an epoch that only this process leads, and one
    /// that has not counted before.
    pub const fn new(epoch: u64) -> Self {
        Self {
            epoch,
            next: AtomicU64::new(0),
        }
    }

    /// The next grant.
    pub fn next(&self) -> Grant {
        Grant {
            epoch: self.epoch,
            counter: self.next.fetch_add(1, Ordering::Relaxed),
        }
    }
}
