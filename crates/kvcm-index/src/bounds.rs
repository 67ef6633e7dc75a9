//! How long whole stretches of slots have been left alone at least.

use std::{
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::grow;

/// Slots that have one bound in common.
pub(crate) const STRETCH: usize = 64;

/// For each stretch of slots a second before which none of its keys was used last.
///
/// Uses do not look at it: they only make keys younger, so a bound stays true and becomes too low.
/// Whoever reads through a stretch raises it to what is true then. So the oldest keys are found
/// by reading through few of the slots, for a sixteenth of a byte a key.
#[derive(Debug, Default)]
pub(crate) struct Bounds(Vec<AtomicU32>);

impl Bounds {
    /// That of a stretch; that of stretches that do not exist is never.
    #[inline]
    pub(crate) fn of(&self, stretch: usize) -> u32 {
        let bound = self.0.get(stretch);
        bound.map_or(u32::MAX, |bound| bound.load(Ordering::Relaxed))
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|bound| bound.load(Ordering::Relaxed))
    }

    /// A slot has a key that was last used then, and that a look may have passed over. Slots come
    /// into being one after the other.
    pub(crate) fn lower(&mut self, slot: usize, last_used: u32) {
        let stretch = slot / STRETCH;
        if stretch == self.0.len() {
            grow::push(&mut self.0, AtomicU32::new(last_used));
        } else {
            let bound = self.0[stretch].get_mut();
            *bound = last_used.min(*bound);
        }
    }

    /// A look under the lock has found that no key of a stretch was last used before.
    pub(crate) fn set(&self, stretch: usize, bound: u32) {
        if self.of(stretch) != bound {
            self.0[stretch].store(bound, Ordering::Relaxed);
        }
    }
}

/// The slots of a stretch, below `end`.
pub(crate) fn slots(stretch: usize, end: usize) -> Range<usize> {
    let first = stretch * STRETCH;
    first..end.min(first + STRETCH)
}
