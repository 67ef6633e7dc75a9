//! What the index is measured beside: maps that find a number for each key.

use std::hint::black_box;

use hashbrown::HashMap;

/// Finds the keys up to the first that is not there.
pub(super) trait Prefix: Sync {
    /// How many there are. What is found is written to `found`.
    fn prefix(&self, keys: &[i64], found: &mut Vec<u32>) -> usize;
}

/// `hashbrown` with its own hasher.
pub(super) struct Bare(pub(super) HashMap<i64, u32>);

impl Prefix for Bare {
    fn prefix(&self, keys: &[i64], found: &mut Vec<u32>) -> usize {
        found.clear();
        found.extend(keys.iter().map_while(|key| self.0.get(key)));
        black_box(found).len()
    }
}

/// Open addressing with linear probing, at most half full, one multiplication as hash.
pub(super) struct Open {
    /// A key and its number; number 0 is nothing.
    entries: Box<[(i64, u32)]>,
    shift: u32,
}

impl Open {
    pub(super) fn new(keys: impl ExactSizeIterator<Item = i64>) -> Self {
        let size = (keys.len() * 2).next_power_of_two().max(2);
        let mut map = Self {
            entries: vec![(0, 0); size].into(),
            shift: u64::BITS - size.trailing_zeros(),
        };
        for (number, key) in (1u32..).zip(keys) {
            let mut at = map.place(key);
            while map.entries[at].1 != 0 {
                at = (at + 1) & (size - 1);
            }
            map.entries[at] = (key, number);
        }
        map
    }

    fn place(&self, key: i64) -> usize {
        (key.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn get(&self, key: i64) -> Option<u32> {
        let mut at = self.place(key);
        loop {
            match self.entries[at] {
                (_, 0) => return None,
                (there, number) if there == key => return Some(number),
                _ => at = (at + 1) & (self.entries.len() - 1),
            }
        }
    }
}

impl Prefix for Open {
    fn prefix(&self, keys: &[i64], found: &mut Vec<u32>) -> usize {
        found.clear();
        found.extend(keys.iter().map_while(|key| self.get(*key)));
        black_box(found).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maps_find_what_was_put_in() {
        let keys = || (0..100).map(|key: i64| key * 77 - 3);
        let maps: [&dyn Prefix; 2] = [
            &Bare(keys().zip(1..).collect()),
            &Open::new(keys().collect::<Vec<_>>().into_iter()),
        ];
        for map in maps {
            let mut found = Vec::new();
            let asked: Vec<_> = keys().take(40).chain([5000]).chain(keys()).collect();
            assert_eq!(map.prefix(&asked, &mut found), 40);
            assert_eq!(found, (1..=40).collect::<Vec<_>>());
        }
    }
}
