//! Finding what was not used for longest, and letting go of it.
//!
//! The times of last use lie in one array, so the oldest keys are found exactly by reading
//! through it, a nanosecond or so a key, and need no list pointers per key. Looking is no use: it
//! makes no key younger.

use crate::{BlockIndex, Cutoff, Grant, Location, State, ages::Ages};

/// Slots that are looked at under one lock.
const SLOTS_PER_LOCK: usize = 1 << 16;

impl BlockIndex {
    /// Adds up how much was last used when. Only keys all of whose locations are
    /// [`State::Serving`] count, each with what `weigh` says of its locations: 1 to count keys,
    /// its bytes to count bytes, 0 for a key that is to stay. It must not look at the position.
    ///
    /// Writers get in between; what they change meanwhile may be counted or not.
    pub fn ages(&self, mut weigh: impl FnMut(&[Location]) -> u64, ages: &mut Ages) {
        let mut from = 0;
        loop {
            let table = self.table.read();
            let to = table.end().min(from + SLOTS_PER_LOCK);
            let mut slot = from;
            while slot < to {
                let end = slot + table.alike(slot..to);
                let amount = evictable(&table.locations(slot)).map_or(0, &mut weigh);
                if amount > 0 {
                    // Neighbours were mostly used together: one step in the tree for all of them.
                    let mut same = (table.last_used(slot), 0);
                    for slot in slot..end {
                        let last_used = table.last_used(slot);
                        if last_used != same.0 {
                            ages.add(same.0, same.1);
                            same = (last_used, 0);
                        }
                        same.1 += amount;
                    }
                    ages.add(same.0, same.1);
                }
                slot = end;
            }
            if to == table.end() {
                return;
            }
            from = to;
        }
    }

    /// Shows at most `limit` keys that the cutoff takes, with their locations (all
    /// [`State::Serving`]) and the second of their last use, and counts the cutoff down. `weigh`
    /// is that of [`ages`](Self::ages). `below` is [`usize::MAX`] at first and then what the call
    /// before returned; none at the end.
    ///
    /// Goes from the highest slot down, so that of a chain that was last used within one second
    /// the later blocks go first: without its head a chain is worth nothing. A key that stays
    /// evictable through all the calls is shown at most once. Writers get in between.
    pub fn oldest(
        &self,
        cutoff: &mut Cutoff,
        below: usize,
        limit: usize,
        mut weigh: impl FnMut(&[Location]) -> u64,
        mut show: impl FnMut(i64, &[Location], u32),
    ) -> Option<usize> {
        let mut below = below;
        let mut shown = 0;
        loop {
            let table = self.table.read();
            let top = below.min(table.end());
            let bottom = top.saturating_sub(SLOTS_PER_LOCK);
            for slot in (bottom..top).rev() {
                if shown == limit {
                    return Some(slot + 1);
                }
                let last_used = table.last_used(slot);
                if !cutoff.may_take(last_used) {
                    continue;
                }
                let locations = table.locations(slot);
                if let Some(locations) = evictable(&locations)
                    && cutoff.takes(last_used, weigh(locations))
                    && let Some(key) = table.key(slot)
                {
                    show(key, locations, last_used);
                    shown += 1;
                }
            }
            if bottom == 0 {
                return None;
            }
            below = bottom;
        }
    }

    /// Sets each of these locations that is [`State::Writing`] or [`State::Serving`] to
    /// [`State::Deleting`], and shows those that changed to `retired`, as they are now. One that
    /// went meanwhile, is on its way out already, or is not acknowledged yet stays as it is.
    pub fn retire(
        &self,
        locations: impl IntoIterator<Item = (i64, Grant)>,
        mut retired: impl FnMut(i64, &Location),
    ) {
        let mut table = self.table.write();
        let mut hint = 0;
        let mut before = usize::MAX;
        for (key, grant) in locations {
            let Some(slot) = table.find(key, hint) else {
                continue;
            };
            // Up or down, whichever way the keys came so far.
            hint = slot.wrapping_add(slot.wrapping_sub(before));
            before = slot;
            let to_deleting = |location: &Location| {
                let stays = matches!(location.state(), State::Writing | State::Serving);
                stays.then(|| location.with_state(State::Deleting))
            };
            if let Some(location) = table.change(slot..slot + 1, grant, to_deleting) {
                retired(key, &location);
            }
        }
    }
}

/// The locations of a key that may go: there are some, and all of them serve.
#[inline]
fn evictable(locations: &[Location]) -> Option<&[Location]> {
    let all = !locations.is_empty() && locations.iter().all(Location::is_serving);
    all.then_some(locations)
}
