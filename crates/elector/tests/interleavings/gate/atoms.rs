//! In place of `src/gate/atoms.rs`.

use std::sync::atomic::Ordering::SeqCst;

pub(super) use shuttle::sync::atomic::AtomicU64;
use tokio::sync::futures::Notified;

/// Enough for threads to meet in one counter and in different ones.
pub(super) const STRIPES: usize = 2;

/// The counter of this thread.
pub(super) fn stripe() -> usize {
    usize::from(shuttle::thread::current().id()) % STRIPES
}

/// Tokio's, with a step before each call.
#[derive(Debug)]
pub(crate) struct Notify {
    inner: tokio::sync::Notify,
    step: AtomicU64,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self {
            inner: tokio::sync::Notify::new(),
            step: AtomicU64::new(0),
        }
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        self.step.load(SeqCst);
        self.inner.notified()
    }

    pub(crate) fn notify_waiters(&self) {
        self.step.load(SeqCst);
        self.inner.notify_waiters();
    }
}
