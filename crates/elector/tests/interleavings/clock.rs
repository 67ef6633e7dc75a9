//! A clock whose reading is a step of its own.

use kvcm_clock::{Clock, Moment};
use shuttle::sync::{Arc, atomic::AtomicU64};
use std::sync::atomic::Ordering::SeqCst;

/// Stands still until it is set; clones share one time.
#[derive(Clone, Debug)]
pub(crate) struct StepClock(Arc<AtomicU64>);

impl StepClock {
    pub(crate) fn new(now: u64) -> Self {
        Self(Arc::new(AtomicU64::new(now)))
    }

    pub(crate) fn set(&self, now: u64) {
        self.0.store(now, SeqCst);
    }
}

impl Clock for StepClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.load(SeqCst))
    }
}
