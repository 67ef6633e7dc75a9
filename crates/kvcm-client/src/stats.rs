//! Counters of one client.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a client did since it was built; clones of a client share their counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that the application made.
    pub calls: u64,
    /// Calls that ended in an error for the application.
    pub errors: u64,
    /// Tries that were made again after a wait.
    pub retries: u64,
    /// Moves to a newer leader without a wait.
    pub redirects: u64,
    /// Searches for the leader; searches that calls share count once.
    pub discoveries: u64,
    /// Instances registered again on a leader that did not know them.
    pub reregistrations: u64,
    /// Connections given up.
    pub evictions: u64,
    /// Replies discarded because a newer epoch had been seen.
    pub stale_replies: u64,
    /// Hints ignored because they were not newer than what was known.
    pub stale_hints: u64,
    /// Retries delayed or refused because the retry budget was spent.
    pub budget_empty: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) redirects: AtomicU64,
    pub(crate) discoveries: AtomicU64,
    pub(crate) reregistrations: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) stale_replies: AtomicU64,
    pub(crate) stale_hints: AtomicU64,
    pub(crate) budget_empty: AtomicU64,
}

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Stats {
        Stats {
            calls: self.calls.load(Relaxed),
            errors: self.errors.load(Relaxed),
            retries: self.retries.load(Relaxed),
            redirects: self.redirects.load(Relaxed),
            discoveries: self.discoveries.load(Relaxed),
            reregistrations: self.reregistrations.load(Relaxed),
            evictions: self.evictions.load(Relaxed),
            stale_replies: self.stale_replies.load(Relaxed),
            stale_hints: self.stale_hints.load(Relaxed),
            budget_empty: self.budget_empty.load(Relaxed),
        }
    }
}
