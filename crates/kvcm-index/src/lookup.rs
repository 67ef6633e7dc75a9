//! Lookups: prefix, batch, window, single state.

use std::slice;

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
        while let Some((key, rest)) = keys[hits..].split_first() {
            let Some((slot, location)) = readable(&table, *key, hint, &mut select) else {
                break;
            };
            sink.location(*key, location);
            // The neighbours of a hit, as one piece: a few nanoseconds for each key that is asked
            // alone, less than one for each that is not.
            let neighbours = table.neighbours(rest, slot + 1, |only| {
                select(slice::from_ref(only)).is_some()
            });
            sink.run(&rest[..neighbours.len()], neighbours);
            let found = 1 + neighbours.len();
            table.touch_run(slot..slot + found, now_s);
            hits += found;
            hint = slot + found;
        }
        hits
    }

    /// Hands one answer for each key to the sink: its location or a placeholder. Returns the
    /// number of locations.
    pub fn get_batch(
        &self,
        keys: impl IntoIterator<Item = i64>,
        now_s: u32,
        mut select: impl FnMut(&[Location]) -> Option<usize>,
        sink: &mut impl LocationSink,
    ) -> usize {
        let table = self.table.read();
        let mut hint = 0;
        let mut hits = 0;
        for key in keys {
            match readable(&table, key, hint, &mut select) {
                Some((slot, location)) => {
                    table.touch(slot, now_s);
                    sink.location(key, location);
                    hint = slot + 1;
                    hits += 1;
                }
                None => sink.placeholder(),
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
        let mut hint = 0;
        for key in &keys[start..start + window] {
            // The lock is held since the window was found, so each of them can still be read.
            match readable(&table, *key, hint, &mut select) {
                Some((slot, location)) => {
                    table.touch(slot, now_s);
                    sink.location(*key, location);
                    hint = slot + 1;
                }
                None => sink.placeholder(),
            }
        }
        (start + window..keys.len()).for_each(|_| sink.placeholder());
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
                    show(key, table.locations(slot));
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
                show(key, table.locations(slot), table.last_used(slot));
                shown += 1;
            }
        }
        None
    }
}

#[inline]
fn readable<'a>(
    table: &'a Table,
    key: i64,
    hint: usize,
    select: &mut impl FnMut(&[Location]) -> Option<usize>,
) -> Option<(usize, &'a Location)> {
    let slot = table.find(key, hint)?;
    let locations = table.locations(slot);
    let location = locations.get(select(locations)?)?;
    Some((slot, location))
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
    for (at, key) in keys.iter().enumerate().rev() {
        match readable(table, *key, hint, select) {
            Some((slot, _)) => {
                run += 1;
                if run == window {
                    return Some(at);
                }
                hint = slot.wrapping_sub(1);
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
