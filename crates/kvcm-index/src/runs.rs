//! What neighbouring slots have in common.

use std::ops::Range;

use crate::Location;

/// Slots whose locations differ in nothing but their position, and that by the distance of the
/// slots: neighbours that one grant wrote and that have had the same fate since.
#[derive(Debug)]
pub(crate) struct Run {
    /// The location that slot 0 would have; its position may have wrapped around.
    origin: Location,
    /// All slots of the run lie from here ...
    first: u32,
    /// ... to here.
    last: u32,
    /// How many there are. Where one of the middle left, there are fewer than from first to last.
    count: u32,
}

impl Run {
    /// The location of one of its slots.
    #[inline]
    pub(crate) const fn location(&self, slot: usize) -> Location {
        self.origin.nth(slot as u32)
    }

    /// The end of the run, when it has every slot from its first to its last.
    #[inline]
    pub(crate) const fn whole_until(&self) -> Option<usize> {
        if self.last - self.first + 1 == self.count {
            Some(self.last as usize + 1)
        } else {
            None
        }
    }

    /// Whether it has just these slots.
    const fn is_just(&self, slots: &Range<usize>) -> bool {
        self.first as usize == slots.start
            && self.count as usize == slots.end - slots.start
            && self.last as usize + 1 == slots.end
    }
}

/// All runs, by number.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    free: Vec<u32>,
}

impl Runs {
    /// The run of that number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> &Run {
        &self.runs[number as usize]
    }

    /// Whether a slot with that location belongs to the run.
    pub(crate) fn suits(&self, number: u32, slot: usize, location: &Location) -> bool {
        self.get(number).location(slot) == *location
    }

    /// A new run of slots, of which the first has that location.
    pub(crate) fn insert(&mut self, slots: Range<usize>, first: &Location) -> u32 {
        let run = Run {
            origin: origin(&slots, first),
            first: slots.start as u32,
            last: slots.end as u32 - 1,
            count: (slots.end - slots.start) as u32,
        };
        match self.free.pop() {
            Some(number) => {
                self.runs[number as usize] = run;
                number
            }
            None => {
                self.runs.push(run);
                // At most as many as slots, whose numbers are u32.
                (self.runs.len() - 1) as u32
            }
        }
    }

    /// Slots that suit a run come to it.
    pub(crate) fn join(&mut self, number: u32, slots: &Range<usize>) {
        let run = &mut self.runs[number as usize];
        run.first = run.first.min(slots.start as u32);
        run.last = run.last.max(slots.end as u32 - 1);
        run.count += (slots.end - slots.start) as u32;
    }

    /// Neighbouring slots of a run leave it. An empty run goes.
    pub(crate) fn leave(&mut self, number: u32, slots: &Range<usize>) {
        let run = &mut self.runs[number as usize];
        run.count -= (slots.end - slots.start) as u32;
        if run.count == 0 {
            self.free.push(number);
        } else if slots.start == run.first as usize {
            run.first = slots.end as u32;
        } else if slots.end == run.last as usize + 1 {
            run.last = slots.start as u32 - 1;
        }
    }

    /// Changes what all slots of a run have in common, so that the first of them gets that
    /// location. False, and no change, when the run has others than these slots.
    pub(crate) fn change_all(
        &mut self,
        number: u32,
        slots: &Range<usize>,
        first: &Location,
    ) -> bool {
        let run = &mut self.runs[number as usize];
        let just = run.is_just(slots);
        if just {
            run.origin = origin(slots, first);
        }
        just
    }
}

/// The location that slot 0 would have.
fn origin(slots: &Range<usize>, first: &Location) -> Location {
    first.nth((slots.start as u32).wrapping_neg())
}
