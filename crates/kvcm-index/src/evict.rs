//! Finding what was not used for longest, and letting go of it.
//!
//! The times of last use lie in one array, and bounds on them in another that is a 64th as long. So
//! the oldest keys are found exactly by reading through the few stretches of slots that can hold
//! them, and need no list pointers per key. Looking is no use: it makes no key younger.

use std::ops::Range;

use crate::{
    BlockIndex, Cutoff, Grant, Location, State,
    ages::Ages,
    bounds::{self, STRETCH},
    table::Table,
};

/// Slots that are looked at under one lock, so that lookups do not wait long. A stretch that is
/// passed over counts as one.
const SLOTS_PER_LOCK: usize = 1 << 13;

/// Stretches that are read through first; more when they do not hold enough.
const STRETCHES: usize = 16;
/// So many times more at most.
const MORE: u64 = 16;

impl Cutoff {
    /// The cutoff that lets go of the oldest `amount` in all these indexes together, or of everything
    /// when there is less; none when there is nothing to let go of.
    ///
    /// Only keys all of whose locations are [`State::Serving`] count, each with what `weigh` says of
    /// its locations and the number of its index in the list: 1 to count keys, its bytes to count
    /// bytes, 0 for a key that is to stay. It must not look at the position.
    ///
    /// Writers get in between; what they change meanwhile may be counted or not.
    pub fn of(
        indexes: &[&BlockIndex],
        amount: u64,
        mut weigh: impl FnMut(usize, &[Location]) -> u64,
    ) -> Option<Self> {
        if amount == 0 {
            return None;
        }
        let mut stretches = STRETCHES;
        loop {
            let (until, are_all) = until(indexes, stretches);
            let mut ages = Ages::default();
            for (number, index) in indexes.iter().enumerate() {
                index.ages(until, amount, |list| weigh(number, list), &mut ages);
            }
            if are_all || ages.total() >= amount {
                return ages.cutoff(amount);
            }
            let more = (amount / ages.total().max(1) + 1).min(MORE);
            stretches = stretches.saturating_mul(more as usize);
        }
    }
}

/// A second such that so many stretches may have keys that were last used then or before, and
/// whether those are all that have any.
fn until(indexes: &[&BlockIndex], stretches: usize) -> (u32, bool) {
    const NEVER: u32 = u32::MAX;
    let mut bounds = Vec::new();
    for index in indexes {
        bounds.extend(index.table.read().bounds().all());
    }
    let of_last = match stretches < bounds.len() {
        true => *bounds.select_nth_unstable(stretches).1,
        false => NEVER,
    };
    (of_last.min(NEVER - 1), of_last == NEVER)
}

impl BlockIndex {
    /// Adds up how much was last used when, up to that second; of that second itself `enough` is
    /// enough.
    fn ages(
        &self,
        until: u32,
        enough: u64,
        mut weigh: impl FnMut(&[Location]) -> u64,
        ages: &mut Ages,
    ) {
        let mut stretch = 0;
        loop {
            let table = self.table.read();
            let mut looked = 0;
            while looked < SLOTS_PER_LOCK {
                let slots = bounds::slots(stretch, table.end());
                if slots.is_empty() {
                    return;
                }
                let bound = table.bounds().of(stretch);
                looked += 1;
                if bound < until || bound == until && ages.of(until) < enough {
                    looked += slots.len();
                    let oldest = look(&table, slots, until, &mut weigh, ages);
                    table.bounds().set(stretch, oldest);
                }
                stretch += 1;
            }
        }
    }

    /// Shows at most `limit` keys that the cutoff takes, with their locations (all
    /// [`State::Serving`]) and the second of their last use, and counts the cutoff down. `weigh`
    /// is that of [`Cutoff::of`] for this index. `below` is [`usize::MAX`] at first and then what
    /// the call before returned; none at the end.
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
            below = below.min(table.end());
            let mut looked = 0;
            while looked < SLOTS_PER_LOCK {
                let last = below.checked_sub(1)?;
                let slots = last / STRETCH * STRETCH..below;
                below = slots.start;
                looked += 1;
                if !cutoff.may_take(table.bounds().of(last / STRETCH)) {
                    continue;
                }
                looked += slots.len();
                for slot in slots.rev() {
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
            }
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
        // Neighbours in rising order change as one.
        let mut run: Option<(Range<usize>, Grant)> = None;
        for (key, grant) in locations {
            let Some(slot) = table.find(key, hint) else {
                continue;
            };
            hint = slot + 1;
            match &mut run {
                Some((slots, of))
                    if slots.end == slot && *of == grant && table.is_alike(slot - 1, slot) =>
                {
                    slots.end = hint;
                }
                _ => {
                    let before = run.replace((slot..hint, grant));
                    retire_run(&mut table, before, &mut retired);
                }
            }
        }
        retire_run(&mut table, run, &mut retired);
    }
}

/// Retires neighbours that are alike.
fn retire_run(
    table: &mut Table,
    run: Option<(Range<usize>, Grant)>,
    retired: &mut impl FnMut(i64, &Location),
) {
    let Some((slots, grant)) = run else {
        return;
    };
    let to_deleting = |location: &Location| {
        let stays = matches!(location.state(), State::Writing | State::Serving);
        stays.then(|| location.with_state(State::Deleting))
    };
    if let Some(first) = table.change(slots.clone(), grant, to_deleting) {
        for (n, slot) in (0..).zip(slots) {
            if let Some(key) = table.key(slot) {
                retired(key, &first.nth(n));
            }
        }
    }
}

/// Adds up how much of a stretch was last used when, up to a second. Returns a second before which
/// none of its keys was last used, but for those that are on their way out.
fn look(
    table: &Table,
    slots: Range<usize>,
    until: u32,
    weigh: &mut impl FnMut(&[Location]) -> u64,
    ages: &mut Ages,
) -> u32 {
    let mut oldest = u32::MAX;
    let mut from = slots.start;
    while from < slots.end {
        let (since, end) = table.used_since(from);
        let end = end.min(slots.end);
        if since > until {
            oldest = oldest.min(since);
            from = end;
            continue;
        }
        let to = from + table.alike(from..end);
        let locations = table.locations(from);
        if stays(&locations) {
            let amount = evictable(&locations).map_or(0, &mut *weigh);
            // Neighbours were mostly used together: one step in the tree for all of them.
            let mut same = (until, 0);
            for slot in from..to {
                let last_used = table.last_used(slot);
                oldest = oldest.min(last_used);
                if last_used > until {
                    continue;
                }
                if last_used != same.0 {
                    ages.add(same.0, same.1);
                    same = (last_used, 0);
                }
                same.1 += amount;
            }
            ages.add(same.0, same.1);
        }
        from = to;
    }
    oldest
}

/// Whether there are locations, and none of them is on its way out. Whatever else a key waits for,
/// no bound is raised above its time of use.
#[inline]
fn stays(locations: &[Location]) -> bool {
    let is_leaving = |location: &Location| location.state() == State::Deleting;
    !locations.is_empty() && !locations.iter().any(is_leaving)
}

/// The locations of a key that may go: there are some, and all of them serve.
#[inline]
fn evictable(locations: &[Location]) -> Option<&[Location]> {
    let all = !locations.is_empty() && locations.iter().all(Location::is_serving);
    all.then_some(locations)
}
