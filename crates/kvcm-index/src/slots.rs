//! Which slots are free, as runs.

use std::{collections::BTreeMap, ops::Range};

/// Hands out slot numbers in rising order, so that keys written together lie together.
///
/// Freed slots are kept as runs that grow together again. A batch gets one run when one is long
/// enough; else the slots after the last one; and only when a large part of all slots lies idle,
/// several short runs. So the memory stays within a small factor of the keys, and the neighbours
/// stay neighbours.
#[derive(Debug, Default)]
pub(crate) struct FreeSlots {
    /// First slot of a run and how many it has; never touching.
    runs: BTreeMap<u32, u32>,
    free: usize,
    /// First slot that was never handed out.
    end: u32,
    /// Where the last batch stopped: the next search begins here.
    cursor: u32,
}

/// The slots of one batch, not yet all taken.
#[derive(Debug)]
pub(crate) struct Batch {
    next: u32,
    stop: u32,
    split: bool,
}

/// How many runs are looked at for one batch.
const RUNS_TRIED: usize = 16;

impl FreeSlots {
    /// Begins a batch of at most `count` slots. Give back what is left with [`Self::finish`].
    pub(crate) fn begin(&mut self, count: u32) -> Batch {
        let wanted = count.max(1);
        let split = self.free >= wanted as usize && self.free * 8 >= self.end as usize;
        let fitting = self
            .runs
            .range(self.cursor..)
            .chain(self.runs.range(..self.cursor))
            .take(RUNS_TRIED)
            .find(|(_, length)| **length >= wanted)
            .map(|(first, length)| (*first, *length));
        match fitting {
            Some(run) => self.open(run, true),
            None => Batch {
                next: 0,
                stop: 0,
                split,
            },
        }
    }

    /// The next slot of the batch.
    pub(crate) fn take(&mut self, batch: &mut Batch) -> u32 {
        if batch.next == batch.stop {
            *batch = self.refill(batch.split);
        }
        let slot = batch.next;
        batch.next += 1;
        slot
    }

    /// Ends a batch; what was not taken is free again.
    pub(crate) fn finish(&mut self, batch: &Batch) {
        self.cursor = batch.next;
        if batch.next < batch.stop {
            self.add(batch.next, batch.stop - batch.next);
        }
    }

    /// Slots are free again.
    pub(crate) fn release(&mut self, slots: Range<usize>) {
        self.add(slots.start as u32, (slots.end - slots.start) as u32);
    }

    fn refill(&mut self, split: bool) -> Batch {
        let run = split
            .then(|| {
                let after = self.runs.range(self.cursor..).next();
                after
                    .or_else(|| self.runs.iter().next())
                    .map(|(first, length)| (*first, *length))
            })
            .flatten();
        if let Some(run) = run {
            return self.open(run, split);
        }
        let next = self.end;
        self.end += 1;
        Batch {
            next,
            stop: self.end,
            split,
        }
    }

    fn open(&mut self, (first, length): (u32, u32), split: bool) -> Batch {
        self.runs.remove(&first);
        self.free -= length as usize;
        Batch {
            next: first,
            stop: first + length,
            split,
        }
    }

    fn add(&mut self, mut first: u32, mut length: u32) {
        self.free += length as usize;
        if let Some((&before, &size)) = self.runs.range(..first).next_back()
            && before + size == first
        {
            self.runs.remove(&before);
            first = before;
            length += size;
        }
        if let Some(size) = self.runs.remove(&(first + length)) {
            length += size;
        }
        self.runs.insert(first, length);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(slots: &mut FreeSlots, planned: u32, taken: usize) -> Vec<u32> {
        let mut batch = slots.begin(planned);
        let out = (0..taken).map(|_| slots.take(&mut batch)).collect();
        slots.finish(&batch);
        out
    }

    #[test]
    fn a_batch_lies_in_one_piece_and_freed_pieces_are_used_again() {
        let mut slots = FreeSlots::default();
        assert_eq!(batch(&mut slots, 4, 4), [0, 1, 2, 3]);
        assert_eq!(batch(&mut slots, 4, 4), [4, 5, 6, 7]);
        for slot in [6, 4, 5] {
            slots.release(slot..slot + 1);
        }
        assert_eq!(batch(&mut slots, 3, 3), [4, 5, 6]);
    }

    #[test]
    fn a_long_batch_does_not_crumble_into_a_few_holes() {
        let mut slots = FreeSlots::default();
        batch(&mut slots, 100, 100);
        slots.release(10..11);
        slots.release(50..51);
        assert_eq!(batch(&mut slots, 2, 2), [100, 101]);
    }

    #[test]
    fn many_holes_are_filled_before_the_slots_grow() {
        let mut slots = FreeSlots::default();
        batch(&mut slots, 100, 100);
        (0..100)
            .step_by(2)
            .for_each(|slot| slots.release(slot..slot + 1));
        let taken = batch(&mut slots, 50, 50);
        assert!(taken.iter().all(|slot| *slot < 100), "{taken:?}");
    }

    proptest! {
        /// No slot is handed out twice, and the slots stay within a small factor of the use.
        #[test]
        fn no_slot_is_handed_out_twice(
            steps in prop::collection::vec((any::<bool>(), 1u32..20, 0usize..20), 1..60)
        ) {
            let mut slots = FreeSlots::default();
            let mut held: Vec<u32> = Vec::new();
            for (take, planned, index) in steps {
                if take {
                    let count = (planned as usize).min(index + 1);
                    for slot in batch(&mut slots, planned, count) {
                        prop_assert!(!held.contains(&slot));
                        held.push(slot);
                    }
                } else if !held.is_empty() {
                    let slot = held.swap_remove(index % held.len());
                    slots.release(slot as usize..slot as usize + 1);
                }
                prop_assert_eq!(slots.free + held.len(), slots.end as usize);
            }
        }
    }
}
