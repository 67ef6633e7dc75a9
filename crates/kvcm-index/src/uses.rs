//! When each slot was used last.

use std::{
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::grow;

/// Slots that have one time in common when they are used together.
const BLOCK: usize = 16;

/// The second in which each slot was used last; readers write it.
///
/// A lookup mostly uses long runs, so whole blocks of slots share one time, and only the rims of a
/// run note theirs slot by slot. The later of the two counts, which is exact as long as the clock
/// does not go back.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    slots: Vec<AtomicU32>,
    blocks: Vec<AtomicU32>,
}

impl Uses {
    /// The second in which a slot was used last.
    #[inline]
    pub(crate) fn last(&self, slot: usize) -> u32 {
        let own = self.slots[slot].load(Ordering::Relaxed);
        own.max(self.blocks[slot / BLOCK].load(Ordering::Relaxed))
    }

    /// A second before which none of the slots from this one to that end was used last.
    #[inline]
    pub(crate) fn since(&self, slot: usize) -> (u32, usize) {
        let block = slot / BLOCK;
        let since = self.blocks[block].load(Ordering::Relaxed);
        (since, (block + 1) * BLOCK)
    }

    /// Notes that a run of slots was used.
    #[inline]
    pub(crate) fn note(&self, slots: Range<usize>, now_s: u32) {
        let first = slots.start.next_multiple_of(BLOCK).min(slots.end);
        let end = (slots.end / BLOCK * BLOCK).max(first);
        note(&self.slots[slots.start..first], now_s);
        note(&self.blocks[first / BLOCK..end / BLOCK], now_s);
        note(&self.slots[end..slots.end], now_s);
    }

    /// Makes room for so many more slots.
    pub(crate) fn reserve(&mut self, slots: usize) {
        self.slots.reserve_exact(slots);
        self.blocks.reserve_exact(slots / BLOCK + 1);
    }

    /// A slot is given a key; slots come into being one after the other.
    pub(crate) fn begin(&mut self, slot: usize, now_s: u32) {
        if slot == self.slots.len() {
            if slot.is_multiple_of(BLOCK) {
                grow::push(&mut self.blocks, AtomicU32::new(0));
            }
            grow::push(&mut self.slots, AtomicU32::new(now_s));
        } else {
            *self.slots[slot].get_mut() = now_s;
        }
    }
}

#[inline]
fn note(times: &[AtomicU32], now_s: u32) {
    for time in times {
        // A store would take the cache line away from the other readers, so only when it changes.
        if time.load(Ordering::Relaxed) != now_s {
            time.store(now_s, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_use_counts_for_just_its_slots(
            runs in prop::collection::vec((0usize..100, 0usize..70), 0..20)
        ) {
            let mut uses = Uses::default();
            (0..100).for_each(|slot| uses.begin(slot, 1));
            let mut model = [1; 100];
            for (second, (start, length)) in (2u32..).zip(runs) {
                let slots = start..(start + length).min(100);
                uses.note(slots.clone(), second);
                model[slots].fill(second);
                // A slot that is given another key.
                let anew = second as usize * 31 % 100;
                uses.begin(anew, second);
                model[anew] = second;
            }
            let last: Vec<_> = (0..100).map(|slot| uses.last(slot)).collect();
            prop_assert_eq!(last, model);
        }
    }
}
