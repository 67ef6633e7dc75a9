//! Lookups: prefix, batch, window, single state.

use crate::{BlockIndex, Location, LocationSink, table::Table};

impl BlockIndex {
    /// Hands the locations of `keys` to the sink up to the first key that cannot be read, and
    /// returns how many there were.
    pub fn match_prefix(
        &self,
        keys: &[i64],
        now_s: u32,
        mut select: impl FnMut(&[Location]) -> Option<usize>,
        sink: &mut impl LocationSink,
    ) -> usize {
        let table = self.table.read();
        let mut hits = 0;
        let mut hint = 0;
        while let Some(run) = readable(&table, &keys[hits..], hint, &mut select) {
            run.hand_over(&table, &keys[hits..], now_s, sink);
            hits += run.length;
            hint = run.slot + run.length;
        }
        hits
    }

    /// Hands one answer for each key to the sink: its location or a placeholder. Returns the
    /// number of locations.
    pub fn get_batch(
        &self,
        keys: &[i64],
        now_s: u32,
        mut select: impl FnMut(&[Location]) -> Option<usize>,
        sink: &mut impl LocationSink,
    ) -> usize {
        let table = self.table.read();
        let (mut at, mut hint, mut hits) = (0, 0, 0);
        while at < keys.len() {
            match readable(&table, &keys[at..], hint, &mut select) {
                Some(run) => {
                    run.hand_over(&table, &keys[at..], now_s, sink);
                    hint = run.slot + run.length;
                    hits += run.length;
                    at += run.length;
                }
                None => {
                    sink.placeholder();
                    at += 1;
                }
            }
        }
        hits
    }

    /// Finds the right-most `window` neighbouring keys that can all be read. Hands one answer for
    /// each key to the sink: locations inside that window, placeholders elsewhere. Returns
    /// `window`, or 0 when there is none or `window` is 0.
    pub fn match_window(
        &self,
        keys: &[i64],
        window: usize,
        now_s: u32,
        mut select: impl FnMut(&[Location]) -> Option<usize>,
        sink: &mut impl LocationSink,
    ) -> usize {
        let table = self.table.read();
        let Some(start) = rightmost(&table, keys, window, &mut select) else {
            keys.iter().for_each(|_| sink.placeholder());
            return 0;
        };
        (0..start).for_each(|_| sink.placeholder());
        let (mut at, mut hint) = (start, 0);
        let end = start + window;
        while at < end {
            // The lock is held since the window was found, so each of them can still be read.
            match readable(&table, &keys[at..end], hint, &mut select) {
                Some(run) => {
                    run.hand_over(&table, &keys[at..end], now_s, sink);
                    hint = run.slot + run.length;
                    at += run.length;
                }
                None => {
                    sink.placeholder();
                    at += 1;
                }
            }
        }
        (end..keys.len()).for_each(|_| sink.placeholder());
        window
    }

    /// Shows the locations of each key, in any state, to `show`; an empty list for an absent one.
    /// Not a use: it does not count for the order of eviction.
    pub fn inspect(
        &self,
        keys: impl IntoIterator<Item = i64>,
        mut show: impl FnMut(i64, &[Location]),
    ) {
        let table = self.table.read();
        let mut hint = 0;
        for key in keys {
            match table.find(key, hint) {
                Some(slot) => {
                    show(key, &table.locations(slot));
                    hint = slot + 1;
                }
                None => show(key, &[]),
            }
        }
    }

    /// Shows up to `limit` keys with their locations and the time of their last use, from `cursor`
    /// (0 at first) on. Returns the next cursor, or none at the end.
    ///
    /// The order is that of the slots, which do not move: a key that stays through a whole scan is
    /// shown exactly once, whatever else comes and goes meanwhile.
    pub fn scan(
        &self,
        cursor: usize,
        limit: usize,
        mut show: impl FnMut(i64, &[Location], u32),
    ) -> Option<usize> {
        let table = self.table.read();
        let mut shown = 0;
        for slot in cursor..table.end() {
            if shown == limit {
                return Some(slot);
            }
            if let Some(key) = table.key(slot) {
                show(key, &table.locations(slot), table.last_used(slot));
                shown += 1;
            }
        }
        None
    }
}

/// Neighbouring slots that hold the first keys of a request, and where the first may be read.
struct Run {
    slot: usize,
    length: usize,
    first: Location,
}

impl Run {
    /// Notes the use, and tells the sink.
    #[inline]
    fn hand_over(&self, table: &Table, keys: &[i64], now_s: u32, sink: &mut impl LocationSink) {
        table.touch(self.slot..self.slot + self.length, now_s);
        sink.run(&keys[..self.length], &self.first);
    }
}

/// The run that the keys begin with; none when the first cannot be read.
#[inline]
fn readable(
    table: &Table,
    keys: &[i64],
    hint: usize,
    select: &mut impl FnMut(&[Location]) -> Option<usize>,
) -> Option<Run> {
    let slot = table.find(*keys.first()?, hint)?;
    let locations = table.locations(slot);
    let first = *locations.get(select(&locations)?)?;
    Some(Run {
        slot,
        // What may be read does not depend on the position, so the neighbours need no asking.
        length: table.run(keys, slot),
        first,
    })
}

/// Start of the right-most window, found from the right end.
fn rightmost(
    table: &Table,
    keys: &[i64],
    window: usize,
    select: &mut impl FnMut(&[Location]) -> Option<usize>,
) -> Option<usize> {
    if window == 0 || window > keys.len() {
        return None;
    }
    let mut hint = usize::MAX;
    let mut run = 0;
    for at in (0..keys.len()).rev() {
        match readable(table, &keys[at..=at], hint, select) {
            Some(found) => {
                run += 1;
                if run == window {
                    return Some(at);
                }
                hint = found.slot.wrapping_sub(1);
            }
            None => run = 0,
        }
        // What is left cannot fill a window any more.
        if at + run < window {
            return None;
        }
    }
    None
}
