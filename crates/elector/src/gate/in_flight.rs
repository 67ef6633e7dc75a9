//! How many are inside, and when the last one is out.

use std::sync::atomic::Ordering::SeqCst;

use super::atoms::{AtomicU64, Notify, STRIPES, stripe};

/// Counts who is inside. Each one counts itself in and out of the same stripe, so a stripe that
/// was read as zero had nobody in it.
///
/// All orderings are `SeqCst`: two sides that each write and then look at the other need it, and
/// the hot path pays nothing for it (its loads are plain on x86-64, its increments locked anyway).
#[derive(Debug)]
pub(super) struct InFlight {
    stripes: [Stripe; STRIPES],
    /// How many wait for the last one to leave. Nobody who leaves need wake anybody while it is
    /// zero, which is nearly always.
    waiting: AtomicU64,
    left: Notify,
}

/// A counter with cache lines of its own; two, because processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe(AtomicU64);

impl InFlight {
    pub(super) fn new() -> Self {
        Self {
            stripes: std::array::from_fn(|_| Stripe(AtomicU64::new(0))),
            waiting: AtomicU64::new(0),
            left: Notify::new(),
        }
    }

    /// Counts one in; the answer is for [`leave`](Self::leave).
    #[inline]
    pub(super) fn enter(&self) -> usize {
        let stripe = stripe();
        self.stripes[stripe].0.fetch_add(1, SeqCst);
        stripe
    }

    /// Counts one out, perhaps on another thread than it came in.
    #[inline]
    pub(super) fn leave(&self, stripe: usize) {
        let before = self.stripes[stripe].0.fetch_sub(1, SeqCst);
        // Looked at after the count was changed, as the one who waits says so before it reads the
        // count: one of the two sees what the other did.
        if before == 1 && self.waiting.load(SeqCst) != 0 {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        self.left.notify_waiters();
    }

    pub(super) fn count(&self) -> u64 {
        let counts = self.stripes.iter().map(|stripe| stripe.0.load(SeqCst));
        counts.sum()
    }

    /// Waits until each stripe has been seen empty: nobody is inside who came before the gate was
    /// shut. Forgotten when it is dropped.
    pub(super) async fn none(&self) {
        let _waiting = Waiting::new(&self.waiting);
        let mut stripes = self.stripes.iter().peekable();
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            // Registered before the count is read, so that the last one out cannot be missed.
            left.as_mut().enable();
            // Those that were seen empty need not be looked at again.
            while stripes
                .next_if(|stripe| stripe.0.load(SeqCst) == 0)
                .is_some()
            {}
            if stripes.peek().is_none() {
                return;
            }
            left.await;
        }
    }
}

/// One who waits.
struct Waiting<'a>(&'a AtomicU64);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicU64) -> Self {
        waiting.fetch_add(1, SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
