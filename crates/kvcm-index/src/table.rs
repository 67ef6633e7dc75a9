//! Slots, and the map from keys to them.

use std::{
    hash::BuildHasher,
    ops::Range,
    slice,
    sync::atomic::{AtomicU32, Ordering},
};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{
    Grant, Location,
    location::Tag,
    many::ManyTable,
    slots::{Batch, FreeSlots},
};

/// The index without its lock.
///
/// The map holds slot numbers only; the key of a slot stands in `keys`. A vacant slot keeps the
/// key that it had, and is told by its location.
#[derive(Debug, Default)]
pub(crate) struct Table {
    hasher: DefaultHashBuilder,
    map: HashTable<u32>,
    keys: Vec<i64>,
    locations: Vec<Location>,
    /// When a slot was read last, in seconds; readers write it.
    used: Vec<AtomicU32>,
    many: ManyTable,
    slots: FreeSlots,
}

impl Table {
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
        if self.keys.get(hint) == Some(&key) && self.locations[hint].tag() != Tag::Vacant {
            return Some(hint);
        }
        self.map
            .find(self.hash(key), |slot| self.keys[*slot as usize] == key)
            .map(|slot| *slot as usize)
    }

    /// How many of the keys lie in the slots from `slot` on, each with exactly one location: the
    /// first at `first`, the others at the next positions.
    #[inline]
    pub(crate) fn run(&self, keys: &[i64], slot: usize, first: &Location) -> usize {
        let same = common_prefix(keys, &self.keys[slot..]);
        let locations = self.locations[slot..][..same].iter();
        let expected = (0u32..).map(|n| first.nth(n));
        locations.zip(expected).take_while(|(a, b)| *a == b).count()
    }

    /// Notes that a run of slots was read.
    #[inline]
    pub(crate) fn touch_run(&self, slots: Range<usize>, now_s: u32) {
        for used in &self.used[slots] {
            touch(used, now_s);
        }
    }

    /// The key of an occupied slot.
    pub(crate) fn key(&self, slot: usize) -> Option<i64> {
        (self.locations[slot].tag() != Tag::Vacant).then(|| self.keys[slot])
    }

    /// The locations of a slot; none when it is vacant.
    #[inline]
    pub(crate) fn locations(&self, slot: usize) -> &[Location] {
        let first = &self.locations[slot];
        match first.tag() {
            Tag::One => slice::from_ref(first),
            Tag::Many => self.many.get(first.number()),
            Tag::Vacant => &[],
        }
    }

    /// Notes that a slot was read.
    #[inline]
    pub(crate) fn touch(&self, slot: usize, now_s: u32) {
        touch(&self.used[slot], now_s);
    }

    /// When a slot was read last.
    pub(crate) fn last_used(&self, slot: usize) -> u32 {
        self.used[slot].load(Ordering::Relaxed)
    }

    /// Begins a batch of at most `count` new keys.
    pub(crate) fn begin(&mut self, count: usize) -> Batch {
        self.slots.begin(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Ends a batch.
    pub(crate) fn finish(&mut self, batch: &Batch) {
        self.slots.finish(batch);
    }

    /// Puts a key that is not there into the batch's next slot.
    pub(crate) fn insert(
        &mut self,
        batch: &mut Batch,
        key: i64,
        location: Location,
        now_s: u32,
    ) -> usize {
        let slot = self.slots.take(batch);
        let at = slot as usize;
        if at == self.keys.len() {
            self.keys.push(key);
            self.locations.push(location);
            self.used.push(AtomicU32::new(now_s));
        } else {
            self.keys[at] = key;
            self.locations[at] = location;
            *self.used[at].get_mut() = now_s;
        }
        let (keys, hasher) = (&self.keys, &self.hasher);
        self.map.insert_unique(hasher.hash_one(key), slot, |slot| {
            hasher.hash_one(keys[*slot as usize])
        });
        at
    }

    /// Adds a location to a key that has some.
    pub(crate) fn push(&mut self, slot: usize, location: Location) {
        let first = self.locations[slot];
        match first.tag() {
            Tag::Many => self.many.get_mut(first.number()).push(location),
            _ => {
                let number = self.many.insert(vec![first, location]);
                self.locations[slot] = Location::many(number);
            }
        }
    }

    /// The location of a slot that was handed out under `grant`.
    pub(crate) fn granted(&mut self, slot: usize, grant: Grant) -> Option<&mut Location> {
        let first = self.locations[slot];
        match first.tag() {
            Tag::One if first.grant() == grant => Some(&mut self.locations[slot]),
            Tag::Many => {
                let list = self.many.get_mut(first.number());
                list.iter_mut().find(|location| location.grant() == grant)
            }
            _ => None,
        }
    }

    /// Takes away the location that was handed out under `grant`, and the key with its last one.
    pub(crate) fn take(&mut self, slot: usize, grant: Grant) -> Option<Location> {
        let first = self.locations[slot];
        match first.tag() {
            Tag::One if first.grant() == grant => {
                self.vacate(slot);
                Some(first)
            }
            Tag::Many => {
                let list = self.many.get_mut(first.number());
                let at = list.iter().position(|location| location.grant() == grant)?;
                let taken = list.remove(at);
                if let [last] = list[..] {
                    self.many.remove(first.number());
                    self.locations[slot] = last;
                }
                Some(taken)
            }
            _ => None,
        }
    }

    fn vacate(&mut self, slot: usize) {
        let hash = self.hash(self.keys[slot]);
        if let Ok(entry) = self.map.find_entry(hash, |held| *held as usize == slot) {
            entry.remove();
        }
        self.locations[slot] = Location::VACANT;
        self.slots.release(slot as u32);
    }

    #[inline]
    fn hash(&self, key: i64) -> u64 {
        self.hasher.hash_one(key)
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

#[inline]
fn touch(used: &AtomicU32, now_s: u32) {
    // A store would take the cache line away from the other readers, so only when it changes.
    if used.load(Ordering::Relaxed) != now_s {
        used.store(now_s, Ordering::Relaxed);
    }
}
