//! All that is left to chance, from one seed.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::world::nanos;

/// A source of chance that its clones share.
#[derive(Clone)]
pub(crate) struct Dice(Arc<Mutex<fastrand::Rng>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// A generator of its own.
    pub(crate) fn fork(&self) -> fastrand::Rng {
        self.0.lock().fork()
    }

    /// True in this share of all cases. Costs no number when it never is, so that faults which a
    /// run does not have leave its chances as they are.
    pub(crate) fn chance(&self, share: f64) -> bool {
        share > 0.0 && self.0.lock().f64() < share
    }

    /// Uniform, both ends included.
    pub(crate) fn between(&self, least: u64, most: u64) -> u64 {
        self.0.lock().u64(least..=most.max(least))
    }

    /// One of so many, from 0.
    pub(crate) fn below(&self, count: usize) -> usize {
        self.0.lock().usize(..count)
    }

    /// Uniform, both ends included.
    pub(crate) fn time(&self, least: Duration, most: Duration) -> Duration {
        Duration::from_nanos(self.between(nanos(least), nanos(most)))
    }
}
