//! How many streams a node serves.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The streams of a node: how many there are, may be, and were refused.
#[derive(Debug)]
pub(crate) struct Streams {
    free: Arc<Semaphore>,
    most: usize,
    refused: AtomicU64,
}

impl Streams {
    /// None yet, and never more than `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            most,
            refused: AtomicU64::new(0),
        }
    }

    /// A place for one more, which is free again when it is dropped.
    pub(crate) fn open(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.free.clone().try_acquire_owned().ok();
        if permit.is_none() {
            self.refused.fetch_add(1, Relaxed);
        }
        permit
    }

    /// How many there may be.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.most.saturating_sub(self.free.available_permits())
    }

    /// How many were refused so far.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_limit_is_refused_and_counted_until_a_place_is_free() {
        let streams = Streams::new(1);
        let first = streams.open();
        assert!(first.is_some() && streams.open().is_none());
        assert_eq!((streams.count(), streams.refused()), (1, 1));
        drop(first);
        assert_eq!(streams.count(), 0);
        assert!(streams.open().is_some());
    }
}
