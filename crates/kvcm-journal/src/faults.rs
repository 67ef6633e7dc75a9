//! Making a memory journal fail on purpose.

use std::sync::Arc;

use kvcm_fence::Fence;

use crate::memory_state::{FaultPlan, Shared};

/// Makes a [`MemoryJournal`](crate::MemoryJournal) fail on purpose, for tests of those who use it.
/// Each switch stays until it is turned back or [`Faults::heal`] is called.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

impl Faults {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Claims fail as unavailable; nothing is claimed.
    pub fn refuse_claims(&self, on: bool) {
        self.change(|plan| plan.refuse_claims = on);
    }

    /// Loads fail as unavailable.
    pub fn refuse_loads(&self, on: bool) {
        self.change(|plan| plan.refuse_loads = on);
    }

    /// Batches get no place: unavailable, not done.
    pub fn refuse_submits(&self, on: bool) {
        self.change(|plan| plan.refuse_submits = on);
    }

    /// Snapshots fail as unavailable, not done.
    pub fn refuse_snapshots(&self, on: bool) {
        self.change(|plan| plan.refuse_snapshots = on);
    }

    /// Batches get a place but no acknowledgement, so their outcome is unknown. They arrive when
    /// the hold ends, and never when another claim comes first.
    pub fn hold(&self, on: bool) {
        let mut state = self.0.lock();
        state.faults.hold = on;
        if !on {
            state.committed = state.last;
        }
        drop(state);
        self.0.wake();
    }

    /// The store has lost the last `batches` that it had acknowledged. Nothing more is committed
    /// before a snapshot of all of them.
    pub fn go_back(&self, batches: u64) {
        let mut state = self.0.lock();
        state.faults.went_back = Some(state.committed.saturating_sub(batches));
        let left = state.committed.saturating_sub(batches);
        state.records.retain(|record| record.seq <= left);
        drop(state);
        self.0.wake();
    }

    /// The fence is gone, as after somebody flushed the store: every write is refused.
    pub fn lose_fence(&self) {
        self.0.lock().fence = Fence::default();
        self.0.wake();
    }

    /// Turns every switch back and lets held batches arrive.
    pub fn heal(&self) {
        self.hold(false);
        self.change(|plan| *plan = FaultPlan::default());
    }

    fn change(&self, change: impl FnOnce(&mut FaultPlan)) {
        change(&mut self.0.lock().faults);
    }
}
