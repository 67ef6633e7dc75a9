//! What the gate is made of.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub(super) use std::sync::atomic::AtomicU64;
pub(super) use tokio::sync::Notify;

/// Counters side by side, so that threads that serve at the same time seldom share one.
pub(super) const STRIPES: usize = 16;

/// The counter of this thread: the same each time.
#[inline]
pub(super) fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
        }
        mine.get()
    })
}
