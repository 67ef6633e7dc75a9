//! What a scenario asks of a gate, so that it runs on broken ones as well.

use std::sync::Arc;

use kvcm_clock::{Clock, Moment};
use kvcm_fence::Epoch;

use crate::gate::{Admission, Gate};

/// A gate, right or broken. One that was let in leaves when it is dropped.
pub(crate) trait Door: Send + Sync + 'static {
    type Inside<'a>: Inside + Send + Sync;

    fn new(clock: Arc<dyn Clock>) -> Self;
    fn open(&self, epoch: u64, until: u64);
    fn extend(&self, epoch: u64, until: u64) -> bool;
    fn admit(&self) -> Option<Self::Inside<'_>>;
    fn shut_admit(&self, epoch: u64);
    fn reopen(&self, epoch: u64) -> bool;
    fn shut(&self, epoch: u64);
    fn shut_if_expired(&self) -> Option<u64>;
    fn drained(&self) -> impl Future<Output = ()> + Send;
}

/// Work that was let in.
pub(crate) trait Inside {
    fn epoch(&self) -> u64;
    fn confirm(&self) -> bool;
}

/// A reign that only another one ends.
pub(crate) const FOREVER: u64 = u64::MAX;

fn epoch(value: u64) -> Epoch {
    Epoch::new(value).unwrap()
}

impl Door for Gate {
    type Inside<'a> = Admission<'a>;

    fn new(clock: Arc<dyn Clock>) -> Self {
        Self::new(clock)
    }
    fn open(&self, value: u64, until: u64) {
        self.open(epoch(value), Moment::from_nanos(until));
    }
    fn extend(&self, value: u64, until: u64) -> bool {
        self.extend(epoch(value), Moment::from_nanos(until))
    }
    fn admit(&self) -> Option<Admission<'_>> {
        self.admit().ok()
    }
    fn shut_admit(&self, value: u64) {
        self.shut_admit(epoch(value));
    }
    fn reopen(&self, value: u64) -> bool {
        self.reopen(epoch(value))
    }
    fn shut(&self, value: u64) {
        self.shut(epoch(value));
    }
    fn shut_if_expired(&self) -> Option<u64> {
        self.shut_if_expired().map(|(epoch, _)| epoch.get())
    }
    async fn drained(&self) {
        self.drained().await;
    }
}

impl Inside for Admission<'_> {
    fn epoch(&self) -> u64 {
        self.epoch().get()
    }
    fn confirm(&self) -> bool {
        self.confirm().is_ok()
    }
}
