//! An exact LRU of keys, the yardstick of the index's.

use std::collections::VecDeque;

use hashbrown::HashMap;

/// The keys that were used last, at most `capacity` of them.
pub(super) struct Lru {
    capacity: usize,
    /// When a key was used last.
    used: HashMap<i64, u64>,
    /// Uses in order; one that a later use of its key made void is skipped.
    order: VecDeque<(u64, i64)>,
    now: u64,
}

impl Lru {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            used: HashMap::new(),
            order: VecDeque::new(),
            now: 0,
        }
    }

    /// Looks up the keys up to the first that is not there, then writes all others. Returns how
    /// many were found. Of one request the first keys count as used last: without its head the
    /// rest of a chain is worth nothing.
    pub(super) fn request(&mut self, keys: &[i64]) -> usize {
        let hits = keys.iter().take_while(|key| self.used.contains_key(*key));
        let hits = hits.count();
        for key in keys.iter().rev() {
            self.now += 1;
            self.used.insert(*key, self.now);
            self.order.push_back((self.now, *key));
        }
        while self.used.len() > self.capacity {
            let Some((time, key)) = self.order.pop_front() else {
                break;
            };
            if self.used.get(&key) == Some(&time) {
                self.used.remove(&key);
            }
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_that_were_not_used_for_longest_go_and_tails_before_heads() {
        let mut lru = Lru::new(4);
        assert_eq!(lru.request(&[1, 2, 3]), 0);
        assert_eq!(lru.request(&[7]), 0);
        assert_eq!(lru.request(&[1, 2, 3]), 3);
        // 7 goes, then the tail of the chain.
        assert_eq!(lru.request(&[8, 9]), 0);
        assert_eq!(lru.request(&[1, 2, 3]), 2);
    }
}
