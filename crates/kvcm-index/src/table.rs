//! Slots, and the map from keys to them.

use std::{iter, ops::Range};

use crate::{
    Grant, Location,
    bounds::Bounds,
    bulk::Pending,
    grow,
    locations::Locations,
    many::ManyTable,
    map::Map,
    runs::Runs,
    slots::{Batch, FreeSlots},
    uses::Uses,
};

/// The index without its lock.
///
/// The map holds slot numbers only; the key of a slot stands in `keys`, and in `held` the number of
/// its run or of its list of locations. A vacant slot keeps the key that it had.
#[derive(Debug, Default)]
pub(crate) struct Table {
    map: Map,
    keys: Vec<i64>,
    held: Vec<Held>,
    uses: Uses,
    bounds: Bounds,
    runs: Runs,
    many: ManyTable,
    slots: FreeSlots,
    /// Keys that are not in the map yet.
    pending: Option<Pending>,
}

/// What a slot holds: nothing, a location of a run, or with the highest bit set several locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held(u32);

const SEVERAL: u32 = 1 << 31;

impl Held {
    const NOTHING: Self = Self(u32::MAX);

    const fn several(number: u32) -> Self {
        Self(SEVERAL | number)
    }

    /// The number of the run.
    #[inline]
    const fn run(self) -> Option<u32> {
        if self.0 & SEVERAL == 0 {
            Some(self.0)
        } else {
            None
        }
    }

    /// The number of the list.
    const fn list(self) -> Option<usize> {
        if self.0 & SEVERAL != 0 && self.0 != Self::NOTHING.0 {
            Some((self.0 & !SEVERAL) as usize)
        } else {
            None
        }
    }
}

impl Table {
    /// The most keys that slot numbers and their runs can tell apart.
    pub(crate) const MAX_KEYS: usize = SEVERAL as usize - 1;

    /// Keys held.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// One past the highest slot.
    pub(crate) fn end(&self) -> usize {
        self.keys.len()
    }

    /// The slot of `key`, tried at `hint` first.
    #[inline]
    pub(crate) fn find(&self, key: i64, hint: usize) -> Option<usize> {
        if self.is_at(key, hint) {
            return Some(hint);
        }
        self.map.find(key, &self.keys).map(|slot| slot as usize)
    }

    /// How many of these keys are not there; one that comes twice counts twice.
    pub(crate) fn absent(&self, keys: &[i64]) -> usize {
        let mut hint = 0;
        let absent = |key: &&i64| match self.find(**key, hint) {
            Some(slot) => {
                hint = slot + 1;
                false
            }
            None => true,
        };
        keys.iter().filter(absent).count()
    }

    #[inline]
    fn is_at(&self, key: i64, slot: usize) -> bool {
        self.keys.get(slot) == Some(&key) && self.held[slot] != Held::NOTHING
    }

    /// How many of the keys lie in the slots from `slot` on and have locations that differ in
    /// their position only. The first lies there, and several locations are alone.
    #[inline]
    pub(crate) fn run(&self, keys: &[i64], slot: usize) -> usize {
        let end = self.keys.len().min(slot + keys.len());
        let alike = self.alike(slot..end);
        common_prefix(keys, &self.keys[slot..slot + alike])
    }

    /// How many slots from the first on have locations that differ in their position only.
    #[inline]
    pub(crate) fn alike(&self, slots: Range<usize>) -> usize {
        let held = self.held[slots.start];
        let Some(number) = held.run() else {
            return 1;
        };
        match self.runs.get(number).whole_until() {
            Some(end) => end.min(slots.end) - slots.start,
            None => self.held[slots].iter().take_while(|h| **h == held).count(),
        }
    }

    /// Whether two neighbouring slots have locations that differ in their position only.
    #[inline]
    pub(crate) fn is_alike(&self, slot: usize, next: usize) -> bool {
        self.held[slot] == self.held[next] && self.held[slot].run().is_some()
    }

    /// The key of an occupied slot.
    pub(crate) fn key(&self, slot: usize) -> Option<i64> {
        (self.held[slot] != Held::NOTHING).then(|| self.keys[slot])
    }

    /// The locations of a slot; none when it is vacant.
    #[inline]
    pub(crate) fn locations(&self, slot: usize) -> Locations<'_> {
        let held = self.held[slot];
        match (held.run(), held.list()) {
            (Some(number), _) => Locations::One(self.runs.get(number).location(slot)),
            (_, Some(number)) => Locations::List(self.many.get(number)),
            _ => Locations::List(&[]),
        }
    }

    /// Notes that slots were used.
    #[inline]
    pub(crate) fn touch(&self, slots: Range<usize>, now_s: u32) {
        self.uses.note(slots, now_s);
    }

    /// When a slot was used last.
    #[inline]
    pub(crate) fn last_used(&self, slot: usize) -> u32 {
        self.uses.last(slot)
    }

    /// A second before which none of the slots from this one to that end was used last.
    #[inline]
    pub(crate) fn used_since(&self, slot: usize) -> (u32, usize) {
        self.uses.since(slot)
    }

    /// How long stretches of slots have been left alone at least.
    pub(crate) const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Begins a batch of at most `count` new keys.
    pub(crate) fn begin(&mut self, count: usize) -> Batch {
        self.slots.begin(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Ends a batch.
    pub(crate) fn finish(&mut self, batch: &Batch) {
        self.slots.finish(batch);
    }

    /// The slot of `key`, tried at `hint` first; an absent key gets the batch's next slot and the
    /// location there. True when it did.
    pub(crate) fn find_or_insert(
        &mut self,
        batch: &mut Batch,
        key: i64,
        hint: usize,
        now_s: u32,
        location: impl FnOnce() -> Location,
    ) -> (usize, bool) {
        let (slot, inserted) = self.find_or_claim(batch, key, hint);
        if inserted {
            self.settle(slot..slot + 1, Some(location()), now_s);
        }
        (slot, inserted)
    }

    /// The same, but the slot of an absent key still waits for its location and its time: give
    /// them with [`settle`](Self::settle).
    pub(crate) fn find_or_claim(
        &mut self,
        batch: &mut Batch,
        key: i64,
        hint: usize,
    ) -> (usize, bool) {
        if self.is_at(key, hint) {
            return (hint, false);
        }
        let (number, inserted) = match &mut self.pending {
            None => {
                let next = || self.slots.take(batch);
                self.map.find_or_insert(key, &self.keys, next)
            }
            Some(pending) => {
                let number = self.slots.take(batch);
                pending.push(self.map.part_of(key), number);
                (number, true)
            }
        };
        let slot = number as usize;
        if !inserted {
            return (slot, false);
        }
        if slot == self.keys.len() {
            grow::push(&mut self.keys, key);
            grow::push(&mut self.held, Held::NOTHING);
        } else {
            self.keys[slot] = key;
        }
        (slot, true)
    }

    /// Gives neighbouring slots that have their keys the locations from the first one on, and the
    /// time of their last use. Without a location there are no slots.
    pub(crate) fn settle(&mut self, slots: Range<usize>, first: Option<Location>, now_s: u32) {
        if let Some(first) = first {
            for slot in slots.clone() {
                self.uses.begin(slot, now_s);
                self.bounds.lower(slot, now_s);
            }
            self.assign(slots, &first);
        }
    }

    /// Keys that come from now on wait for [`end_bulk`](Self::end_bulk) and are not found before;
    /// about so many are going to come. False when it was so already.
    pub(crate) fn begin_bulk(&mut self, keys: usize) -> bool {
        if self.pending.is_some() {
            return false;
        }
        self.keys.reserve_exact(keys);
        self.held.reserve_exact(keys);
        self.uses.reserve(keys);
        self.pending = Some(Pending::new(keys));
        true
    }

    /// Puts the keys that wait into the map. Of the slots of one key the first is left, with the
    /// locations of all of them.
    pub(crate) fn end_bulk(&mut self) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        for (part, slots) in pending.parts() {
            self.map.reserve(part, slots.len(), &self.keys);
            for slot in slots {
                let key = self.keys[slot as usize];
                let (found, inserted) = self.map.find_or_insert(key, &self.keys, || slot);
                if !inserted {
                    self.merge(slot as usize, found as usize);
                }
            }
        }
    }

    /// Whether keys wait for [`end_bulk`](Self::end_bulk).
    pub(crate) const fn is_bulk(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether the slots from that one on hold just these keys.
    pub(crate) fn holds(&self, keys: &[i64], slot: usize) -> bool {
        let slots = slot..slot.saturating_add(keys.len());
        self.keys.get(slots.clone()) == Some(keys)
            && self.held[slots].iter().all(|held| *held != Held::NOTHING)
    }

    /// Gives the locations of a slot that is not in the map to another one of the same key.
    fn merge(&mut self, slot: usize, other: usize) {
        for location in self.locations(slot).to_vec() {
            if !self.has(other, location.grant()) {
                self.push(other, location);
            }
        }
        let slots = slot..slot + 1;
        if let Some(number) = self.held[slot].list() {
            self.many.remove(number);
        } else if let Some(number) = self.held[slot].run() {
            self.runs.leave(number, &slots);
        }
        self.held[slot] = Held::NOTHING;
        self.slots.release(slots);
    }

    /// Adds a location to a key that has some.
    pub(crate) fn push(&mut self, slot: usize, location: Location) {
        if let Some(number) = self.held[slot].list() {
            self.many.get_mut(number).push(location);
        } else if let Some(number) = self.held[slot].run() {
            let first = self.runs.get(number).location(slot);
            self.runs.leave(number, &(slot..slot + 1));
            self.held[slot] = Held::several(self.many.insert(vec![first, location]));
        }
    }

    /// Whether a slot has a location that was handed out under `grant`.
    pub(crate) fn has(&self, slot: usize, grant: Grant) -> bool {
        self.locations(slot).iter().any(|l| l.grant() == grant)
    }

    /// Changes the locations that were handed out under `grant`, of slots that are
    /// [`alike`](Self::alike), where `change` gives another; it must not look at or change the
    /// position. Returns the first of them as it is now, when it changed.
    pub(crate) fn change(
        &mut self,
        slots: Range<usize>,
        grant: Grant,
        change: impl Fn(&Location) -> Option<Location>,
    ) -> Option<Location> {
        let held = self.held[slots.start];
        if let Some(number) = held.list() {
            let mut list = self.many.get_mut(number).iter_mut();
            let location = list.find(|location| location.grant() == grant)?;
            *location = change(location)?;
            return Some(*location);
        }
        let number = held.run()?;
        let old = self.runs.get(number).location(slots.start);
        if old.grant() != grant {
            return None;
        }
        let new = change(&old)?;
        if !self.runs.change_all(number, &slots, &new) {
            self.runs.leave(number, &slots);
            self.assign(slots, &new);
        }
        Some(new)
    }

    /// Takes away the locations that were handed out under `grant`, of slots that are
    /// [`alike`](Self::alike), and shows each to `taken`. A key goes with its last one.
    pub(crate) fn take(
        &mut self,
        slots: Range<usize>,
        grant: Grant,
        mut taken: impl FnMut(i64, &Location),
    ) {
        let held = self.held[slots.start];
        if let Some(number) = held.list() {
            let list = self.many.get_mut(number);
            if let Some(at) = list.iter().position(|location| location.grant() == grant) {
                taken(self.keys[slots.start], &list.remove(at));
                // What is left may count again for the order of eviction.
                self.bounds.lower(slots.start, self.uses.last(slots.start));
                if let [last] = list[..] {
                    self.many.remove(number);
                    self.assign(slots, &last);
                }
            }
        } else if let Some(number) = held.run() {
            let first = self.runs.get(number).location(slots.start);
            if first.grant() == grant {
                for (n, slot) in (0u32..).zip(slots.clone()) {
                    taken(self.keys[slot], &first.nth(n));
                }
                self.runs.leave(number, &slots);
                self.vacate(slots);
            }
        }
    }

    /// Gives slots that belong to no run their locations, of which that of the first is told.
    fn assign(&mut self, slots: Range<usize>, first: &Location) {
        let before = slots.start.checked_sub(1);
        let neighbours = before.into_iter().chain(iter::once(slots.end));
        let runs = neighbours.filter_map(|slot| self.held.get(slot)?.run());
        let mut suiting = runs.filter(|run| self.runs.suits(*run, slots.start, first));
        let number = match suiting.next() {
            Some(number) => {
                self.runs.join(number, &slots);
                number
            }
            None => self.runs.insert(slots.clone(), first),
        };
        self.held[slots].fill(Held(number));
    }

    fn vacate(&mut self, slots: Range<usize>) {
        for slot in slots.clone() {
            self.map.remove(self.keys[slot], slot as u32);
        }
        self.held[slots.clone()].fill(Held::NOTHING);
        self.slots.release(slots);
    }
}

/// How many leading numbers two lists have in common.
#[inline]
fn common_prefix(a: &[i64], b: &[i64]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    // Eight at a time, which the compiler turns into vector instructions.
    let chunks = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let whole = 8 * chunks.take_while(|(a, b)| a == b).count();
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}
