//! How many connections a listener has and had.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many connections a listener has and had.
#[derive(Debug, Default)]
pub struct ConnectionCounters {
    accepted: AtomicU64,
    refused: AtomicU64,
    ended: AtomicU64,
}

impl ConnectionCounters {
    pub(super) fn count_accepted(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn count_ended(&self) {
        self.ended.fetch_add(1, Relaxed);
    }

    /// Connections that were served, or still are.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Connections that were closed at once, because there were too many.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        // In this order: one that ends in between must not make it negative.
        let ended = self.ended.load(Relaxed);
        self.accepted().saturating_sub(ended)
    }
}
