//! Filling an index with all that a snapshot holds.

use crate::{BlockIndex, map};

/// Slots whose keys are not in the map yet, by the parts of the map.
///
/// A key that goes into the map by itself waits for memory: its neighbours in the request are
/// elsewhere in the map. All keys of one part come to a table that the processor's cache holds.
#[derive(Debug)]
pub(crate) struct Pending(Vec<Vec<u32>>);

impl Pending {
    pub(crate) fn new(keys: usize) -> Self {
        let each = || Vec::with_capacity(keys / map::PARTS);
        Self((0..map::PARTS).map(|_| each()).collect())
    }

    /// The slots of each part, in the order in which they came.
    pub(crate) fn parts(self) -> impl Iterator<Item = (usize, Vec<u32>)> {
        self.0.into_iter().enumerate()
    }

    #[inline]
    pub(crate) fn push(&mut self, part: usize, slot: u32) {
        self.0[part].push(slot);
    }
}

impl BlockIndex {
    /// About so many keys, or more, are going to come by [`restore`](Self::restore), and nothing
    /// else is done until [`end_bulk`](Self::end_bulk) but [`commit_at`](Self::commit_at): no key
    /// is found meanwhile. Several times as quick as without. False when it has begun already.
    pub fn begin_bulk(&self, keys: usize) -> bool {
        self.table.write().begin_bulk(keys)
    }

    /// What was restored since [`begin_bulk`](Self::begin_bulk) is found from now on.
    pub fn end_bulk(&self) {
        self.table.write().end_bulk();
    }
}
