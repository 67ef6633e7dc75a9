//! How much is how old, and up to which age it goes.

use std::collections::BTreeMap;

/// How much was last used in which second, over one index or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ages {
    amounts: BTreeMap<u32, u64>,
    total: u64,
}

/// Which keys go: all that were last used before a second, and of that second so many.
///
/// It counts down while victims are found ([`BlockIndex::oldest`](crate::BlockIndex::oldest)), so
/// one cutoff serves all the indexes of a group in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutoff {
    /// The last second of use of a key that goes.
    pub last_used: u32,
    /// How much goes of the keys that were last used in just that second; all of the older ones.
    pub rest: u64,
}

impl Ages {
    /// Counts an amount that was last used in that second.
    pub(crate) fn add(&mut self, last_used: u32, amount: u64) {
        if amount > 0 {
            *self.amounts.entry(last_used).or_default() += amount;
            self.total += amount;
        }
    }

    /// The whole amount.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// How much was last used in just that second.
    pub(crate) fn of(&self, last_used: u32) -> u64 {
        self.amounts.get(&last_used).copied().unwrap_or(0)
    }

    /// The cutoff that lets go of the oldest `amount`, or of everything when there is less; none
    /// when there is nothing to let go of.
    pub(crate) fn cutoff(&self, amount: u64) -> Option<Cutoff> {
        let mut rest = amount;
        let mut cutoff = None;
        for (last_used, there) in &self.amounts {
            if rest == 0 {
                break;
            }
            cutoff = Some(Cutoff {
                last_used: *last_used,
                rest: rest.min(*there),
            });
            rest = rest.saturating_sub(*there);
        }
        cutoff
    }
}

impl Cutoff {
    /// Whether a key goes that was last used then and counts so much.
    pub(crate) fn takes(&mut self, last_used: u32, amount: u64) -> bool {
        if amount == 0 || !self.may_take(last_used) {
            return false;
        }
        if last_used == self.last_used {
            self.rest = self.rest.saturating_sub(amount);
        }
        true
    }

    /// Whether a key can go that was last used then, or later.
    #[inline]
    pub(crate) const fn may_take(&self, last_used: u32) -> bool {
        last_used < self.last_used || last_used == self.last_used && self.rest > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ages(amounts: &[(u32, u64)]) -> Ages {
        let mut ages = Ages::default();
        for (last_used, amount) in amounts {
            ages.add(*last_used, *amount);
        }
        ages
    }

    #[test]
    fn the_cutoff_lets_go_of_just_the_amount() {
        let ages = ages(&[(9, 4), (3, 2), (5, 1), (3, 1), (7, 0)]);
        assert_eq!(ages.total(), 8);
        assert_eq!((ages.of(3), ages.of(7)), (3, 0));
        let cutoff = |amount| ages.cutoff(amount).map(|c| (c.last_used, c.rest));
        assert_eq!(cutoff(0), None);
        assert_eq!(cutoff(1), Some((3, 1)));
        assert_eq!(cutoff(3), Some((3, 3)));
        assert_eq!(cutoff(4), Some((5, 1)));
        assert_eq!(cutoff(6), Some((9, 2)));
        assert_eq!(cutoff(100), Some((9, 4)));
        assert_eq!(Ages::default().cutoff(5), None);
    }

    #[test]
    fn a_cutoff_takes_all_of_the_older_ones_and_the_rest_of_its_second() {
        let mut cutoff = Cutoff {
            last_used: 5,
            rest: 3,
        };
        assert!(cutoff.takes(4, 100) && cutoff.takes(5, 2) && cutoff.takes(5, 2));
        assert!(!cutoff.takes(5, 1) && !cutoff.takes(6, 1) && !cutoff.takes(4, 0));
        assert!(cutoff.takes(0, 1));
    }
}
