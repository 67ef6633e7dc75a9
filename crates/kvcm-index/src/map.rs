//! From keys to slots.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

/// A hash table moves all it holds when it grows, and the index is locked meanwhile: half a second
/// for ten million keys. Many small ones grow one at a time.
pub(crate) const PARTS: usize = 256;

/// The slot of each key. The keys themselves stand in the slots.
#[derive(Debug)]
pub(crate) struct Map {
    hasher: DefaultHashBuilder,
    parts: Box<[HashTable<u32>]>,
    len: usize,
}

impl Default for Map {
    fn default() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            parts: (0..PARTS).map(|_| HashTable::new()).collect(),
            len: 0,
        }
    }
}

impl Map {
    /// Keys held.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The slot of a key.
    #[inline]
    pub(crate) fn find(&self, key: i64, keys: &[i64]) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        let part = &self.parts[part(hash)];
        part.find(hash, |slot| keys[*slot as usize] == key).copied()
    }

    /// The slot of a key; an absent one comes into the slot that is given then. True when it did.
    pub(crate) fn find_or_insert(
        &mut self,
        key: i64,
        keys: &[i64],
        slot: impl FnOnce() -> u32,
    ) -> (u32, bool) {
        let hash = self.hasher.hash_one(key);
        let entry = self.parts[part(hash)].entry(
            hash,
            |slot| keys[*slot as usize] == key,
            |slot| self.hasher.hash_one(keys[*slot as usize]),
        );
        match entry {
            Entry::Occupied(entry) => (*entry.get(), false),
            Entry::Vacant(entry) => {
                self.len += 1;
                (*entry.insert(slot()).get(), true)
            }
        }
    }

    /// The number of the part that a key goes to.
    #[inline]
    pub(crate) fn part_of(&self, key: i64) -> usize {
        part(self.hasher.hash_one(key))
    }

    /// Makes room in a part for so many more keys.
    pub(crate) fn reserve(&mut self, part: usize, more: usize, keys: &[i64]) {
        self.parts[part].reserve(more, |slot| self.hasher.hash_one(keys[*slot as usize]));
    }

    /// Takes away a key that is in that slot.
    pub(crate) fn remove(&mut self, key: i64, slot: u32) {
        let hash = self.hasher.hash_one(key);
        if let Ok(entry) = self.parts[part(hash)].find_entry(hash, |held| *held == slot) {
            entry.remove();
            self.len -= 1;
        }
    }
}

/// By bits that a table of some ten thousand entries does not look at.
#[inline]
const fn part(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}
