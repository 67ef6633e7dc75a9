//! What the clones, writers and faults of a memory journal share.

use bytes::Bytes;
use kvcm_fence::{Epoch, Fence};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::{LogSize, Record};

/// Whether records are kept at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Content,
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Notify,
    pub(crate) keep: Keep,
    pub(crate) batch_bytes_max: usize,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) fence: Fence,
    pub(crate) snapshot: Option<Kept>,
    /// Records after the snapshot. Those after `committed` are on their way and do not count yet.
    pub(crate) records: Vec<Record>,
    /// The content begins after this number: what was before has been dropped.
    pub(crate) base: u64,
    pub(crate) last: u64,
    pub(crate) committed: u64,
    pub(crate) log: LogSize,
    pub(crate) dropped: bool,
    pub(crate) faults: FaultPlan,
}

/// A snapshot as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) through: u64,
    pub(crate) version: u16,
    pub(crate) chunks: Vec<Bytes>,
}

/// What the test wants to go wrong.
#[derive(Debug, Default)]
pub(crate) struct FaultPlan {
    pub(crate) refuse_claims: bool,
    pub(crate) refuse_submits: bool,
    pub(crate) refuse_loads: bool,
    pub(crate) refuse_snapshots: bool,
    pub(crate) hold: bool,
    /// The last batch that is left, as the test wants it believed.
    pub(crate) went_back: Option<u64>,
}

// === impl Shared ===

impl Shared {
    pub(crate) fn new(keep: Keep, batch_bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            keep,
            batch_bytes_max,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Lets everybody who waits look again.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    pub(crate) const fn changed(&self) -> &Notify {
        &self.changed
    }
}

// === impl State ===

impl State {
    /// What a new claim does to the content: records that had not arrived never will, and content
    /// that may be out of date goes.
    pub(crate) fn begin_reign(&mut self, former: Option<Epoch>, epoch: Epoch) {
        let committed = self.committed;
        self.records.retain(|record| record.seq <= committed);
        self.last = committed;
        let successor = former.and_then(Epoch::next) == Some(epoch);
        let any = self.snapshot.is_some() || self.committed > self.base;
        self.dropped = any && !(successor && self.is_complete());
        if self.dropped {
            self.snapshot = None;
            self.records.clear();
            self.base = self.committed;
        }
        self.log = LogSize {
            records: self.records.len() as u64,
            bytes: self.records.iter().map(|r| r.batch.size() as u64).sum(),
        };
    }

    /// Whether snapshot and records lead without a gap to `committed`.
    fn is_complete(&self) -> bool {
        let snapshot = self.snapshot.as_ref().map_or(self.base, |s| s.through);
        let first = self.records.first().map_or(self.committed + 1, |r| r.seq);
        snapshot + 1 >= first
    }
}
