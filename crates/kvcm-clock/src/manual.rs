//! A clock that a test moves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{Clock, Moment};

/// A clock that stands still until [`advance`](Self::advance) is called. Clones share one time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Moment) -> Self {
        Self(Arc::new(AtomicU64::new(start.as_nanos())))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let to = (self.now() + by).as_nanos();
        self.0.fetch_max(to, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new(Moment::from_nanos(1_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.load(Ordering::SeqCst))
    }
}
