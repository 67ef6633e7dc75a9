//! Changes to locations that were handed out: each names key and grant.

use std::ops::Range;

use crate::{BlockIndex, Grant, Location, State, table::Table};

/// What [`BlockIndex::restore`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// How many locations were new. In bulk all count.
    pub new: usize,
    /// The slot of the first key, for [`BlockIndex::commit_at`]. It may change its key at any time.
    pub slot: usize,
}

impl BlockIndex {
    /// [`State::Reserved`] becomes [`State::Writing`]: the journal has acknowledged the start.
    pub fn confirm(&self, keys: &[i64], grant: Grant) {
        let mut table = self.table.write();
        let mut runs = RunsOf::new(keys);
        while let Some((_, slots)) = runs.next(&table) {
            table.change(slots, grant, advance(State::Reserved, State::Writing));
        }
    }

    /// Ends a write: key number `n` goes from [`State::Writing`] to [`State::Serving`] where
    /// `written(n)` says so. The others go to [`State::Deleting`], for bytes may have been written
    /// in part, and `retired` is shown them. A location that went meanwhile, or left that state,
    /// stays as it is. Returns how many serve now.
    pub fn commit(
        &self,
        keys: &[i64],
        grant: Grant,
        now_s: u32,
        written: impl Fn(usize) -> bool,
        retired: impl FnMut(i64, &Location),
    ) -> usize {
        self.commit_at(0, keys, grant, now_s, written, retired)
    }

    /// The same, quicker when the first key is in that slot.
    pub fn commit_at(
        &self,
        slot: usize,
        keys: &[i64],
        grant: Grant,
        now_s: u32,
        written: impl Fn(usize) -> bool,
        mut retired: impl FnMut(i64, &Location),
    ) -> usize {
        let mut table = self.table.write();
        if table.is_bulk() && !table.holds(keys, slot) {
            table.end_bulk();
        }
        let mut runs = RunsOf::new(keys);
        runs.hint = slot;
        let mut serving = 0;
        while let Some((at, mut slots)) = runs.next(&table) {
            let is_written = written(at);
            // Up to the first whose fate is another; that one is the next.
            let length = slots.len();
            let same = (1..length).take_while(|n| written(at + n) == is_written);
            let same = 1 + same.count();
            runs.give_back(length - same);
            slots.end = slots.start + same;
            if is_written {
                table.touch(slots.clone(), now_s);
                let to_serving = advance(State::Writing, State::Serving);
                if table.change(slots, grant, to_serving).is_some() {
                    serving += same;
                }
            } else {
                let to_deleting = advance(State::Writing, State::Deleting);
                if let Some(first) = table.change(slots, grant, to_deleting) {
                    for (n, key) in (0u32..).zip(&keys[at..at + same]) {
                        retired(*key, &first.nth(n));
                    }
                }
            }
        }
        serving
    }

    /// Takes away the locations of that grant from the keys, whatever their state, and shows each
    /// to `dropped`. A key goes with its last location.
    pub fn release(&self, keys: &[i64], grant: Grant, mut dropped: impl FnMut(i64, &Location)) {
        let mut table = self.table.write();
        let mut runs = RunsOf::new(keys);
        while let Some((_, slots)) = runs.next(&table) {
            table.take(slots, grant, &mut dropped);
        }
    }

    /// Takes away all locations and shows each to `dropped`.
    pub fn clear(&self, mut dropped: impl FnMut(i64, &Location)) {
        let old = std::mem::take(&mut *self.table.write());
        for slot in 0..old.end() {
            if let Some(key) = old.key(slot) {
                old.locations(slot).iter().for_each(|l| dropped(key, l));
            }
        }
    }

    /// Puts locations back as a journal tells them, in the order given; one that is there already
    /// (same key and grant) is left alone. No limit is checked. Quickest when the locations of a
    /// grant come in the order of their positions.
    pub fn restore<I>(&self, locations: I, now_s: u32) -> Restored
    where
        I: IntoIterator<Item = (i64, Location), IntoIter: ExactSizeIterator>,
    {
        let locations = locations.into_iter();
        let mut table = self.table.write();
        let table = &mut *table;
        let mut batch = table.begin(locations.len());
        // Slots that have their keys already, and the location of the first.
        let mut run = 0..0;
        let mut first: Option<Location> = None;
        let mut restored = Restored::default();
        let mut is_first = true;
        for (key, location) in locations {
            let hint = run.end;
            let (slot, inserted) = table.find_or_claim(&mut batch, key, hint);
            if is_first {
                (restored.slot, is_first) = (slot, false);
            }
            if inserted {
                let follows = |first: Location| {
                    slot == run.end && location == first.nth((slot - run.start) as u32)
                };
                if !first.is_some_and(follows) {
                    table.settle(run, first.replace(location), now_s);
                    run = slot..slot;
                }
                run.end = slot + 1;
                restored.new += 1;
                continue;
            }
            // It may be one of the run.
            table.settle(run, first.take(), now_s);
            run = slot + 1..slot + 1;
            if !table.has(slot, location.grant()) {
                table.push(slot, location);
                restored.new += 1;
            }
        }
        table.settle(run, first, now_s);
        table.finish(&batch);
        restored
    }
}

/// The change of what is in one state into another.
fn advance(from: State, to: State) -> impl Fn(&Location) -> Option<Location> {
    move |location| (location.state() == from).then(|| location.with_state(to))
}

/// Walks the slots of keys, by runs that are alike. The table may change in between.
struct RunsOf<'a> {
    keys: &'a [i64],
    at: usize,
    hint: usize,
}

impl<'a> RunsOf<'a> {
    const fn new(keys: &'a [i64]) -> Self {
        Self {
            keys,
            at: 0,
            hint: 0,
        }
    }

    /// The number of the next key that is there, and the slots that hold it and those after it.
    fn next(&mut self, table: &Table) -> Option<(usize, Range<usize>)> {
        loop {
            let rest = &self.keys[self.at..];
            let Some(slot) = table.find(*rest.first()?, self.hint) else {
                self.at += 1;
                continue;
            };
            let (at, length) = (self.at, table.run(rest, slot));
            self.at += length;
            self.hint = slot + length;
            return Some((at, slot..slot + length));
        }
    }

    /// The last keys of the former answer come again.
    const fn give_back(&mut self, count: usize) {
        self.at -= count;
        self.hint -= count;
    }
}
