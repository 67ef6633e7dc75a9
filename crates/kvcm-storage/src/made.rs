//! Which directories are there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Grant, create::Known};

/// Directories that are made ahead at most, when one is missing.
const AHEAD_MAX: u64 = 16;

/// The directories of one spec of one instance that are known to be there, so that most writes
/// need not ask the file system for them.
#[derive(Debug)]
pub struct MadeDirectories {
    /// One bit each.
    bits: [AtomicU64; 64],
    /// The storage's count of losses that they are as of: with each loss all are forgotten.
    losses: AtomicU64,
    /// All that there are have been looked for.
    has_looked: AtomicBool,
    /// How many were made ahead the last time.
    ahead: AtomicU64,
    /// The counter of the first grant for which none was made ahead.
    reach: AtomicU64,
}

impl Default for MadeDirectories {
    fn default() -> Self {
        Self {
            bits: [const { AtomicU64::new(0) }; 64],
            losses: AtomicU64::new(0),
            has_looked: AtomicBool::new(false),
            ahead: AtomicU64::new(0),
            reach: AtomicU64::new(0),
        }
    }
}

impl MadeDirectories {
    /// Whether the directory of this grant is there, after so many losses.
    pub(crate) fn contains(&self, grant: Grant, losses: u64) -> bool {
        self.is_of(losses) && self.has(grant.directory_number())
    }

    /// Whether somebody has looked for all that there are, after so many losses.
    pub(crate) fn has_looked(&self, losses: u64) -> bool {
        self.is_of(losses) && self.has_looked.load(Ordering::Relaxed)
    }

    /// These are there, after so many losses.
    pub(crate) fn learn(&self, known: &Known, losses: u64) {
        if !self.is_of(losses) {
            return;
        }
        for number in &known.numbers {
            if let Some(word) = self.bits.get(number / 64) {
                word.fetch_or(1 << (number % 64), Ordering::Relaxed);
            }
        }
        if known.has_looked {
            self.has_looked.store(true, Ordering::Relaxed);
        }
    }

    /// The numbers of the directories that the next grants will need, to be made with that of this
    /// one: whoever needs one will soon need others, and a trip to the file system costs more than
    /// what is done there. At first none, then more and more, so that an instance with few writes
    /// gets few directories. Callers at the same time get those of different grants.
    pub(crate) fn take_ahead(&self, grant: Grant) -> Vec<usize> {
        let next = grant.counter.saturating_add(1);
        let ahead = self.ahead.load(Ordering::Relaxed);
        self.ahead
            .store((2 * ahead).clamp(1, AHEAD_MAX), Ordering::Relaxed);
        // What is far away is of another epoch.
        let reach = self.reach.load(Ordering::Relaxed);
        let from = reach.clamp(next, next.saturating_add(4 * AHEAD_MAX));
        let end = from.saturating_add(ahead);
        self.reach.store(end, Ordering::Relaxed);
        let numbers = (from..end).map(|counter| {
            let grant = Grant { counter, ..grant };
            grant.directory_number()
        });
        numbers.filter(|number| !self.has(*number)).collect()
    }

    fn has(&self, number: usize) -> bool {
        let word = self.bits.get(number / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (number % 64)) != 0)
    }

    /// Forgets everything after a new loss. False for a caller who does not know of it yet.
    fn is_of(&self, losses: u64) -> bool {
        let known = self.losses.load(Ordering::Acquire);
        if known < losses {
            let forget = |bits: &AtomicU64| bits.store(0, Ordering::Relaxed);
            self.bits.iter().for_each(forget);
            self.has_looked.store(false, Ordering::Relaxed);
            self.losses.store(losses, Ordering::Release);
        }
        known <= losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(made: &MadeDirectories, grant: Grant, losses: u64) {
        let known = Known {
            numbers: vec![grant.directory_number()],
            has_looked: true,
        };
        made.learn(&known, losses);
    }

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
        insert(&made, first, 0);
        for grant in grants.clone() {
            assert_eq!(made.contains(grant, 0), same(grant, first));
        }
        grants.clone().for_each(|grant| insert(&made, grant, 0));
        assert!(grants.clone().all(|grant| made.contains(grant, 0)));
        assert!(made.has_looked(0) && !made.has_looked(1));
        assert!(!made.contains(first, 1));
        // One that was begun before the loss.
        insert(&made, first, 0);
        assert!({ grants }.all(|grant| !made.contains(grant, 1)));
    }

    #[test]
    fn what_is_made_ahead_grows_and_nobody_makes_what_another_does() {
        let made = MadeDirectories::default();
        let grant = |counter| Grant { epoch: 1, counter };
        let numbers = |counters: std::ops::Range<u64>| -> Vec<usize> {
            counters.map(|at| grant(at).directory_number()).collect()
        };
        assert_eq!(made.take_ahead(grant(0)), []);
        assert_eq!(made.take_ahead(grant(1)), numbers(2..3));
        assert_eq!(made.take_ahead(grant(3)), numbers(4..6));
        // One that was under way at the same time.
        assert_eq!(made.take_ahead(grant(3)), numbers(6..10));
        // Others have had the grants in between.
        assert_eq!(made.take_ahead(grant(100)), numbers(101..109));
        insert(&made, grant(111), 0);
        let mut next = numbers(109..125);
        next.remove(2);
        assert_eq!(made.take_ahead(grant(100)), next);
        assert_eq!(made.take_ahead(grant(200)).len(), AHEAD_MAX as usize);
        // The counters of a new epoch begin anew.
        assert_eq!(made.take_ahead(grant(0)).len(), AHEAD_MAX as usize);
    }
}
