//! Which directories are there.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Grant;

/// The directories of one spec of one instance that are known to be there, so that most writes
/// need not ask the file system for them.
#[derive(Debug)]
pub struct MadeDirectories {
    /// One bit each.
    bits: [AtomicU64; 64],
    /// The storage's count of losses that they are as of: with each loss all are forgotten.
    losses: AtomicU64,
}

impl Default for MadeDirectories {
    fn default() -> Self {
        Self {
            bits: [const { AtomicU64::new(0) }; 64],
            losses: AtomicU64::new(0),
        }
    }
}

impl MadeDirectories {
    /// Whether the directory of this grant is there, after so many losses.
    pub(crate) fn contains(&self, grant: Grant, losses: u64) -> bool {
        let (word, bit) = place(grant);
        self.is_of(losses) && self.bits[word].load(Ordering::Relaxed) & bit != 0
    }

    /// The directory of this grant has been made, after so many losses.
    pub(crate) fn insert(&self, grant: Grant, losses: u64) {
        if self.is_of(losses) {
            let (word, bit) = place(grant);
            self.bits[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Forgets everything after a new loss. False for a caller who does not know of it yet.
    fn is_of(&self, losses: u64) -> bool {
        let known = self.losses.load(Ordering::Acquire);
        if known < losses {
            let forget = |bits: &AtomicU64| bits.store(0, Ordering::Relaxed);
            self.bits.iter().for_each(forget);
            self.losses.store(losses, Ordering::Release);
        }
        known <= losses
    }
}

fn place(grant: Grant) -> (usize, u64) {
    let number = grant.directory_number();
    (number / 64, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_known_until_something_is_lost() {
        let made = MadeDirectories::default();
        let grants = (0..10_000).map(|counter| Grant { epoch: 1, counter });
        let same = |a: Grant, b: Grant| a.directory() == b.directory();
        let first = Grant {
            epoch: 1,
            counter: 0,
        };
        assert!(!made.contains(first, 0));
        made.insert(first, 0);
        for grant in grants.clone() {
            assert_eq!(made.contains(grant, 0), same(grant, first));
        }
        grants.clone().for_each(|grant| made.insert(grant, 0));
        assert!(grants.clone().all(|grant| made.contains(grant, 0)));
        assert!(!made.contains(first, 1));
        // One that was begun before the loss.
        made.insert(first, 0);
        assert!({ grants }.all(|grant| !made.contains(grant, 1)));
    }
}
