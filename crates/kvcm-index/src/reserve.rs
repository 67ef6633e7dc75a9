//! The first phase of a write: who gets which key.

use std::ops::Range;

use crate::{BlockIndex, Full, Grant, Location, ReserveError, State, slots::Batch, table::Table};

/// What the caller decides while keys are reserved. Called under the index's write lock.
pub trait ReservePolicy {
    /// Why [`place`](Self::place) refuses.
    type Error;

    /// Whether key number `at` of the request has all it needs in `locations` (at least one, in
    /// any state) and gets no new location.
    fn is_satisfied(&self, at: usize, locations: &[Location]) -> bool;

    /// The caller's number of the set of specs that key number `at` is written with.
    fn specs(&self, at: usize) -> u16;

    /// Chooses the storage for the new keys, given by their numbers in the request; called once,
    /// not for an empty list.
    ///
    /// # Errors
    /// When there is no place for them: the whole reservation is undone.
    fn place(&mut self, new: &[u32]) -> Result<u16, Self::Error>;
}

impl BlockIndex {
    /// Gives each key that needs one a location in state [`State::Reserved`] under `grant`, and
    /// returns the numbers of those keys in the request, rising. Position `n` of the grant is the
    /// n-th of them. A key that comes twice gets one location, at its first place.
    ///
    /// `grant` must never have been used before. At most `capacity` keys may be held afterwards.
    ///
    /// # Errors
    /// [`ReserveError`]; the index is then as it was.
    pub fn reserve<P: ReservePolicy>(
        &self,
        keys: &[i64],
        grant: Grant,
        capacity: usize,
        now_s: u32,
        policy: &mut P,
    ) -> Result<Vec<u32>, ReserveError<P::Error>> {
        let capacity = capacity.min(Table::MAX_KEYS);
        // The places of new keys lie anywhere in the map, mostly out of the processor's caches. They
        // are all asked for at once here, beside readers, and not one by one while all others wait.
        let absent = self.table.read().absent(keys);
        let mut table = self.table.write();
        let table = &mut *table;
        let used = table.len();
        let mut batch = table.begin(absent);
        let mut reserved = Reserved::default();
        for (at, key) in keys.iter().enumerate() {
            reserved.key(table, &mut batch, *key, at, grant, now_s, policy);
        }
        table.finish(&batch);

        let added = table.len() - used;
        let verdict = if added > 0 && table.len() > capacity {
            Err(ReserveError::Full(Full {
                used,
                requested: added,
                capacity,
            }))
        } else if reserved.new.is_empty() {
            Ok(None)
        } else {
            let placed = policy.place(&reserved.new);
            placed.map(Some).map_err(ReserveError::Policy)
        };
        match verdict {
            Ok(storage) => {
                if let Some(storage) = storage {
                    reserved.settle(table, grant, storage);
                }
                Ok(reserved.new)
            }
            Err(error) => {
                reserved.undo(table, grant);
                Err(error)
            }
        }
    }
}

/// What one reservation has done so far.
#[derive(Default)]
struct Reserved {
    /// Numbers of the keys in the request.
    new: Vec<u32>,
    /// Their slots.
    slots: Vec<Range<usize>>,
    hint: usize,
}

impl Reserved {
    #[expect(
        clippy::too_many_arguments,
        reason = "the state of one loop, apart so that it has a name"
    )]
    fn key<P: ReservePolicy>(
        &mut self,
        table: &mut Table,
        batch: &mut Batch,
        key: i64,
        at: usize,
        grant: Grant,
        now_s: u32,
        policy: &P,
    ) {
        // The storage is not known before all new keys are: filled in by `settle`.
        let position = self.new.len() as u32;
        let location = || Location::new(grant, position, 0, policy.specs(at), State::Reserved);
        let (slot, inserted) = table.find_or_insert(batch, key, self.hint, now_s, location);
        self.hint = slot + 1;
        if !inserted {
            let repeated = table.has(slot, grant);
            if repeated || policy.is_satisfied(at, &table.locations(slot)) {
                return;
            }
            table.push(slot, location());
        }
        self.new.push(at as u32);
        match self.slots.last_mut() {
            Some(slots) if slots.end == slot => slots.end += 1,
            _ => self.slots.push(slot..slot + 1),
        }
    }

    fn settle(&self, table: &mut Table, grant: Grant, storage: u16) {
        self.each_run(table, |table, slots| {
            table.change(slots, grant, |location| {
                Some(location.with_storage(storage))
            });
        });
    }

    fn undo(&self, table: &mut Table, grant: Grant) {
        self.each_run(table, |table, slots| table.take(slots, grant, |_, _| {}));
    }

    fn each_run(&self, table: &mut Table, act: impl Fn(&mut Table, Range<usize>)) {
        for slots in &self.slots {
            let mut rest = slots.clone();
            while !rest.is_empty() {
                let end = rest.start + table.alike(rest.clone());
                act(table, rest.start..end);
                rest.start = end;
            }
        }
    }
}
