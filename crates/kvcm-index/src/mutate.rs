//! Changes to locations that were handed out: each names key and grant.

use crate::{BlockIndex, Grant, Location, State};

impl BlockIndex {
    /// [`State::Reserved`] becomes [`State::Writing`]: the journal has acknowledged the start.
    pub fn confirm(&self, keys: &[i64], grant: Grant) {
        let mut table = self.table.write();
        let mut hint = 0;
        for key in keys {
            let Some(slot) = table.find(*key, hint) else {
                continue;
            };
            hint = slot + 1;
            if let Some(location) = table.granted(slot, grant)
                && location.state() == State::Reserved
            {
                *location = location.with_state(State::Writing);
            }
        }
    }

    /// Ends a write: where `written(n)` says so, key number `n` goes from [`State::Writing`] to
    /// [`State::Serving`]; the others lose the location of that grant, which `dropped` is shown.
    /// A location that went meanwhile, or left that state, stays as it is. Returns how many serve
    /// now.
    pub fn commit(
        &self,
        keys: &[i64],
        grant: Grant,
        now_s: u32,
        written: impl Fn(usize) -> bool,
        mut dropped: impl FnMut(i64, &Location),
    ) -> usize {
        let mut table = self.table.write();
        let mut hint = 0;
        let mut serving = 0;
        for (at, key) in keys.iter().enumerate() {
            let Some(slot) = table.find(*key, hint) else {
                continue;
            };
            hint = slot + 1;
            if written(at) {
                table.touch(slot, now_s);
                if let Some(location) = table.granted(slot, grant)
                    && location.state() == State::Writing
                {
                    *location = location.with_state(State::Serving);
                    serving += 1;
                }
            } else if let Some(location) = table.take(slot, grant) {
                dropped(*key, &location);
            }
        }
        serving
    }

    /// Takes away the locations of that grant from the keys, whatever their state, and shows each
    /// to `dropped`. A key goes with its last location.
    pub fn release(&self, keys: &[i64], grant: Grant, mut dropped: impl FnMut(i64, &Location)) {
        let mut table = self.table.write();
        let mut hint = 0;
        for key in keys {
            let Some(slot) = table.find(*key, hint) else {
                continue;
            };
            hint = slot + 1;
            if let Some(location) = table.take(slot, grant) {
                dropped(*key, &location);
            }
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
    /// (same key and grant) is left alone. Returns how many were new. No limit is checked.
    pub fn restore(&self, locations: &[(i64, Location)], now_s: u32) -> usize {
        let mut table = self.table.write();
        let mut batch = table.begin(locations.len());
        let mut hint = 0;
        let mut new = 0;
        for (key, location) in locations {
            let slot = match table.find(*key, hint) {
                Some(slot) => {
                    hint = slot + 1;
                    if table.granted(slot, location.grant()).is_some() {
                        continue;
                    }
                    table.push(slot, *location);
                    slot
                }
                None => table.insert(&mut batch, *key, *location, now_s),
            };
            hint = slot + 1;
            new += 1;
        }
        table.finish(&batch);
        new
    }
}
